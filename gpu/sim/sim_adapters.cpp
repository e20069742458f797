#include <godwit/gpu/sim/sim_adapters.hpp>

#include <godwit/protocols/adapters/adapter_orders.hpp>

#include <map>
#include <utility>
#include <vector>

namespace godwit::gpu::sim {

struct sim_adapters::state : std::enable_shared_from_this<state> {
  using orders = protocols::adapter_orders;
  struct asker {
    std::weak_ptr<const void> alive;
    std::function<void(adapter_outcome)> done;
  };

  state(runtime::async::timer_source& clock, sim_adapters_settings how)
      : timers(clock), settings(std::move(how)), books(settings.slots, settings.askers_max) {}

  /// Of one that the books count as a user.
  [[nodiscard]] adapter_outcome held(std::uint64_t id) {
    ++users[id];
    auto let_go = [self = shared_from_this(), id](const void*) {
      self->books.release(id);
      if (--self->users[id] == 0) self->users.erase(id);
      self->advance(); // somebody may wait for its room
    };
    return {std::shared_ptr<const void>(this, std::move(let_go)), {}, false};
  }

  // One load at a time, as in a real process.
  void advance() {
    while (!ended && timer == 0 && !advancing) {
      for (auto one = askers.begin(); one != askers.end();) {
        const auto here = one++;
        if (!here->second.alive.expired()) continue;
        books.leave(here->first);
        askers.erase(here);
      }
      auto next = books.next();
      if (next.kind == orders::work::what::none) {
        if (books.waiting() > 0) note("waits");
        return;
      }
      advancing = true; // who is told may let go at once
      if (next.kind == orders::work::what::measure)
        measure(next.which);
      else
        bring(next);
      advancing = false;
    }
  }

  void measure(const protocols::adapter_ref& which) {
    const auto why = settings.fails ? settings.fails(which) : std::string();
    if (!why.empty()) return tell(books.failed(), why);
    tell(books.measured(settings.size ? settings.size(which) : 1), "there is not so much room");
  }

  void bring(orders::work& next) {
    if (!next.evicted.empty()) note("evicted");
    evictions += next.evicted.size();
    timer = timers.call_after(settings.load_time, [this, id = next.which.id] {
      timer = 0;
      ++loads;
      note("loaded");
      for (const auto who : books.brought()) {
        auto hold = held(id); // who has gone lets go at once
        if (auto done = take(who)) done(std::move(hold));
      }
      advance();
    });
  }

  [[nodiscard]] std::function<void(adapter_outcome)> take(orders::ticket who) {
    const auto found = askers.find(who);
    if (found == askers.end()) return {};
    auto one = std::move(found->second);
    askers.erase(found);
    return one.alive.expired() ? nullptr : std::move(one.done);
  }
  void tell(const std::vector<orders::ticket>& whom, const std::string& why) {
    failures += whom.empty() ? 0 : 1;
    for (const auto who : whom)
      if (auto done = take(who)) done({nullptr, why, false});
  }
  void note(const char* what) const {
    if (settings.hit) settings.hit(what);
  }

  runtime::async::timer_source& timers;
  const sim_adapters_settings settings;
  orders books;
  std::map<orders::ticket, asker> askers; ///< those who wait
  std::map<std::uint64_t, std::uint64_t> users;
  runtime::async::timer_source::timer_id timer = 0; ///< of the load under way
  orders::ticket last = 0;
  std::uint64_t loads = 0, failures = 0, evictions = 0;
  bool advancing = false;
  bool ended = false;
};

sim_adapters::sim_adapters(runtime::async::timer_source& timers, sim_adapters_settings settings)
    : state_(std::make_shared<state>(timers, std::move(settings))) {}

sim_adapters::~sim_adapters() {
  state_->ended = true;
  if (state_->timer != 0) state_->timers.cancel(state_->timer);
  state_->askers.clear();
}

void sim_adapters::load(const protocols::adapter_ref& which, std::weak_ptr<const void> asker,
                        std::function<void(adapter_outcome)> done) {
  using asking = protocols::adapter_orders::asking;
  const auto number = ++state_->last;
  const auto answer = state_->books.ask(which, number);
  if (answer == asking::there) return done(state_->held(which.id));
  if (answer == asking::too_many) return done({nullptr, "too many requests wait for adapters", true});
  state_->askers.emplace(number, state::asker{std::move(asker), std::move(done)});
  state_->advance();
}

adapter_counts sim_adapters::counts() const {
  adapter_counts out;
  out.bytes = state_->books.shelf().bytes();
  out.bytes_max = state_->settings.slots;
  out.adapters = state_->books.shelf().count();
  out.loads_total = state_->loads;
  out.failures_total = state_->failures;
  out.evictions_total = state_->evictions;
  return out;
}

std::uint64_t sim_adapters::holders() const {
  std::uint64_t sum = 0;
  for (const auto& [id, count] : state_->users) sum += count;
  return sum;
}

bool sim_adapters::held(std::uint64_t id) const { return state_->users.contains(id); }

} // namespace godwit::gpu::sim
