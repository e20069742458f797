#include <godwit/gpu/sim/sim_adapters.hpp>

#include <godwit/protocols/adapters/adapter_shelf.hpp>

#include <deque>
#include <map>
#include <utility>

namespace godwit::gpu::sim {

struct sim_adapters::state : std::enable_shared_from_this<state> {
  struct order {
    protocols::adapter_ref which;
    std::function<void(adapter_outcome)> done;
  };

  state(runtime::async::timer_source& clock, sim_adapters_settings how)
      : timers(clock), settings(std::move(how)), shelf(settings.slots) {}

  [[nodiscard]] adapter_outcome hold(std::uint64_t id) {
    shelf.use(id);
    ++users[id];
    auto let_go = [self = shared_from_this(), id](const void*) {
      self->shelf.release(id);
      if (--self->users[id] == 0) self->users.erase(id);
      self->begin(); // somebody may wait for its room
    };
    return {std::shared_ptr<const void>(this, std::move(let_go)), {}};
  }

  // One load at a time, as in a real process.
  void begin() {
    while (!ended && timer == 0 && !waiting.empty()) {
      auto& next = waiting.front();
      if (shelf.has(next.which.id)) {
        finish(hold(next.which.id));
        continue;
      }
      auto why = settings.fails ? settings.fails(next.which) : std::string();
      if (!why.empty()) {
        ++totals.failures_total;
        finish({nullptr, std::move(why)});
        continue;
      }
      const auto gone = shelf.make_room(1);
      if (!gone) return note("waits");
      if (!gone->empty()) note("evicted");
      totals.evictions_total += gone->size();
      timer = timers.call_after(settings.load_time, [this] {
        timer = 0;
        const auto id = waiting.front().which.id;
        shelf.put(id, 1);
        ++totals.loads_total;
        note("loaded");
        finish(hold(id));
        begin();
      });
    }
  }
  void note(const char* what) const {
    if (settings.hit) settings.hit(what);
  }
  void finish(adapter_outcome outcome) {
    const auto done = std::move(waiting.front().done);
    waiting.pop_front();
    done(std::move(outcome));
  }

  runtime::async::timer_source& timers;
  const sim_adapters_settings settings;
  protocols::adapter_shelf shelf;
  std::map<std::uint64_t, std::uint64_t> users;
  std::deque<order> waiting;
  runtime::async::timer_source::timer_id timer = 0; ///< of the load under way, which is the first that waits
  adapter_counts totals;
  bool ended = false;
};

sim_adapters::sim_adapters(runtime::async::timer_source& timers, sim_adapters_settings settings)
    : state_(std::make_shared<state>(timers, std::move(settings))) {}

sim_adapters::~sim_adapters() {
  state_->ended = true;
  if (state_->timer != 0) state_->timers.cancel(state_->timer);
}

void sim_adapters::load(const protocols::adapter_ref& which, std::function<void(adapter_outcome)> done) {
  if (state_->shelf.has(which.id)) return done(state_->hold(which.id));
  state_->waiting.push_back({which, std::move(done)});
  state_->begin();
}

adapter_counts sim_adapters::counts() const {
  auto out = state_->totals;
  out.adapters = out.bytes = state_->shelf.count();
  out.bytes_max = state_->settings.slots;
  return out;
}

std::uint64_t sim_adapters::holders() const {
  std::uint64_t sum = 0;
  for (const auto& [id, count] : state_->users) sum += count;
  return sum;
}

bool sim_adapters::held(std::uint64_t id) const { return state_->users.contains(id); }

} // namespace godwit::gpu::sim
