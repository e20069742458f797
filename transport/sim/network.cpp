#include <godwit/transport/sim/network.hpp>

#include "fabric/postings.hpp"

#include <algorithm>
#include <cstring>
#include <deque>
#include <map>
#include <set>
#include <stdexcept>
#include <utility>
#include <vector>

namespace godwit::transport::sim {

namespace {

/// Both lists have the same bytes in all.
void copy(const std::vector<protocols::memory_region>& from, const std::vector<protocols::memory_region>& into) {
  std::size_t f = 0, t = 0, at_f = 0, at_t = 0;
  while (f < from.size() && t < into.size()) {
    const auto bytes = std::min(from[f].bytes - at_f, into[t].bytes - at_t);
    if (bytes > 0) std::memcpy(into[t].address + at_t, from[f].address + at_f, bytes);
    at_f += bytes;
    at_t += bytes;
    if (at_f == from[f].bytes) {
      ++f;
      at_f = 0;
    }
    if (at_t == into[t].bytes) {
      ++t;
      at_t = 0;
    }
  }
}

} // namespace

struct network::core : std::enable_shared_from_this<network::core> {
  /// One send, until its `done` has been called.
  struct job {
    std::string from, to;
    transfer_key key;
    piece_cutter cutter;
    std::shared_ptr<void> keep;
    std::function<void(std::string)> done;
    std::uint32_t unacknowledged = 0;
    runtime::async::timer_source::timer_id deadline = 0;
    bool over = false;
  };
  using job_ptr = std::shared_ptr<job>;
  struct endpoint {
    postings table;
    fabric::counters counted;
    std::deque<job_ptr> urgent, bulk;
    std::set<job_ptr> open;
    bool sending = false;
    bool frozen = false;
    bool deaf = false; ///< acknowledgements get lost
    std::uint32_t failing = 0;
    std::vector<std::function<void()>> held; ///< what happened while it was frozen
  };

  core(runtime::async::timer_source& source, link_settings how) : timers(source), settings(how) {
    limits.bytes_max = settings.bytes_per_piece;
  }

  void later(std::chrono::nanoseconds delay, std::function<void()> what) {
    timers.call_after(delay, [self = weak_from_this(), what = std::move(what)] {
      if (const auto alive = self.lock()) what();
    });
  }
  void soon(std::vector<postings::callback> calls) {
    for (auto& call : calls) timers.call_after(std::chrono::nanoseconds{1}, std::move(call));
  }
  endpoint* find(const std::string& name) {
    const auto found = endpoints.find(name);
    return found == endpoints.end() ? nullptr : found->second.get();
  }
  [[nodiscard]] bool is_cut(const std::string& a, const std::string& b) const {
    return cuts.contains(a < b ? std::pair{a, b} : std::pair{b, a});
  }
  /// Runs now, or when the process goes on.
  void at(const std::string& name, std::function<void()> what) {
    auto* where = find(name);
    if (where == nullptr) return;
    if (where->frozen)
      where->held.push_back(std::move(what));
    else
      what();
  }

  void finish(const job_ptr& j, std::string error) {
    if (std::exchange(j->over, true)) return;
    if (j->deadline != 0) timers.cancel(j->deadline);
    if (auto* from = find(j->from)) {
      from->open.erase(j);
      if (!error.empty())
        ++from->counted.failed;
      else
        from->counted.bytes_sent += j->cutter.bytes_total();
    }
    j->keep.reset();
    timers.call_after(std::chrono::nanoseconds{1},
                      [done = std::move(j->done), error = std::move(error)] { done(error); });
  }

  void pump(const std::string& name) {
    auto* from = find(name);
    if (from == nullptr || from->sending) return;
    for (;;) {
      auto& queue = from->urgent.empty() ? from->bulk : from->urgent;
      if (queue.empty()) return;
      const auto j = queue.front();
      if (j->over || j->cutter.ended()) {
        queue.pop_front();
        continue;
      }
      std::vector<protocols::memory_region> memory;
      auto what = j->cutter.next(limits, memory);
      from->sending = true;
      ++from->counted.messages_sent;
      ++j->unacknowledged;
      transmit(j, std::move(what), std::move(memory));
      return;
    }
  }

  void transmit(const job_ptr& j, piece what, std::vector<protocols::memory_region> memory) {
    auto* from = find(j->from);
    auto* to = find(j->to);
    const auto wire = std::chrono::nanoseconds(
        static_cast<std::int64_t>(static_cast<double>(what.bytes) / settings.bytes_per_second * 1e9));
    // The next piece follows when this one has left.
    later(wire + std::chrono::nanoseconds{1}, [this, name = j->from] {
      at(name, [this, name] {
        if (auto* me = find(name)) me->sending = false;
        pump(name);
      });
    });
    if (from->failing > 0) {
      --from->failing;
      return finish(j, "the link lost a piece");
    }
    if (to == nullptr) return finish(j, "no fabric is called '" + j->to + "'");
    if (is_cut(j->from, j->to)) return; // until it times out
    later(settings.latency, [this, j, wire, what = std::move(what), memory = std::move(memory)] {
      at(j->to, [this, j, wire, what, memory] { arrive(j, wire, what, memory); });
    });
  }

  void arrive(const job_ptr& j, std::chrono::nanoseconds wire, const piece& what,
              const std::vector<protocols::memory_region>& memory) {
    auto* to = find(j->to);
    if (to == nullptr || is_cut(j->from, j->to)) return;
    auto admitted = to->table.admit(j->key, what);
    if (!admitted.error.empty()) return acknowledge(j, admitted.error);
    later(wire, [this, j, memory, bytes = what.bytes, write = admitted.write, into = std::move(admitted.into)] {
      at(j->to, [this, j, memory, bytes, write, into] { land(j, memory, bytes, write, into); });
    });
  }

  void land(const job_ptr& j, const std::vector<protocols::memory_region>& memory, std::uint64_t bytes,
            std::uint64_t write, const std::vector<protocols::memory_region>& into) {
    auto* to = find(j->to);
    if (to == nullptr) return;
    // A send that is over has let go of its memory.
    if (j->over || is_cut(j->from, j->to)) return soon(to->table.failed(write, "the sender vanished"));
    copy(memory, into);
    ++to->counted.messages_landed;
    to->counted.bytes_landed += bytes;
    soon(to->table.landed(write));
    acknowledge(j, {});
  }

  void acknowledge(const job_ptr& j, std::string error) {
    later(settings.latency, [this, j, error = std::move(error)] {
      at(j->from, [this, j, error] {
        const auto* from = find(j->from);
        if (from == nullptr || from->deaf || is_cut(j->from, j->to)) return;
        --j->unacknowledged;
        if (!error.empty()) return finish(j, error);
        if (j->unacknowledged == 0 && j->cutter.ended()) finish(j, {});
      });
    });
  }

  runtime::async::timer_source& timers;
  const link_settings settings;
  piece_limits limits;
  std::map<std::string, std::shared_ptr<endpoint>> endpoints;
  std::set<std::pair<std::string, std::string>> cuts;
};

class network::sim_fabric final : public fabric {
public:
  sim_fabric(std::shared_ptr<core> shared, std::string name)
      : core_(std::move(shared)), name_(std::move(name)), self_(std::make_shared<core::endpoint>()) {
    if (!core_->endpoints.emplace(name_, self_).second) throw std::invalid_argument("two fabrics of one name");
  }
  ~sim_fabric() override {
    auto open = self_->open;
    core_->endpoints.erase(name_);
    for (const auto& j : open) {
      if (std::exchange(j->over, true)) continue;
      if (j->deadline != 0) core_->timers.cancel(j->deadline);
      j->done("the fabric is gone");
    }
    // Nothing is copied into a fabric that is not there any more.
    for (auto& call : self_->table.close_all()) call();
  }

  [[nodiscard]] std::string address() const override { return name_; }

  void post(transfer_key key, std::vector<protocols::memory_region> regions, std::shared_ptr<void> keep,
            std::function<void(landing)> on_landed) override {
    auto error = self_->table.open(key, std::move(regions), std::move(keep), on_landed);
    if (error.empty()) return;
    core_->timers.call_after(std::chrono::nanoseconds{1}, [on_landed = std::move(on_landed), error = std::move(error)] {
      on_landed(landing{0, error});
    });
  }

  void withdraw(transfer_key key, std::function<void()> done) override {
    core_->soon(self_->table.close(key, std::move(done)));
  }

  void send(const std::string& peer, transfer_key key, std::uint32_t first_region,
            std::vector<protocols::memory_region> regions, transfer_priority priority, std::chrono::nanoseconds timeout,
            std::shared_ptr<void> keep, std::function<void(std::string)> done) override {
    auto j = std::make_shared<core::job>(
        core::job{name_, peer, key, piece_cutter(first_region, std::move(regions)), std::move(keep), std::move(done)});
    self_->open.insert(j);
    j->deadline = core_->timers.call_after(timeout, [weak = std::weak_ptr(core_), j = std::weak_ptr(j)] {
      const auto shared = weak.lock();
      const auto late = j.lock();
      if (!shared || !late) return;
      late->deadline = 0;
      shared->finish(late, "timed out");
    });
    (priority == transfer_priority::urgent ? self_->urgent : self_->bulk).push_back(std::move(j));
    core_->pump(name_);
  }

  [[nodiscard]] counters figures() const override {
    auto out = self_->counted;
    out.postings_open = self_->table.open_count();
    out.refused = self_->table.refused_count();
    out.sends_open = self_->open.size();
    return out;
  }

private:
  std::shared_ptr<core> core_;
  std::string name_;
  std::shared_ptr<core::endpoint> self_;
};

network::network(runtime::async::timer_source& timers, link_settings settings)
    : core_(std::make_shared<core>(timers, settings)) {}
network::~network() = default;

std::shared_ptr<fabric> network::make_fabric(const std::string& name) {
  return std::make_shared<sim_fabric>(core_, name);
}

void network::cut(const std::string& a, const std::string& b) {
  core_->cuts.insert(a < b ? std::pair{a, b} : std::pair{b, a});
}
void network::heal(const std::string& a, const std::string& b) {
  core_->cuts.erase(a < b ? std::pair{a, b} : std::pair{b, a});
}
void network::freeze(const std::string& name) {
  if (auto* who = core_->find(name)) who->frozen = true;
}
void network::thaw(const std::string& name) {
  auto* who = core_->find(name);
  if (who == nullptr) return;
  who->frozen = false;
  for (auto& what : std::exchange(who->held, {})) core_->later(std::chrono::nanoseconds{1}, std::move(what));
}
void network::fail_pieces(const std::string& name, std::uint32_t count) {
  if (auto* who = core_->find(name)) who->failing = count;
}
void network::drop_acks(const std::string& name, bool dropped) {
  if (auto* who = core_->find(name)) who->deaf = dropped;
}

} // namespace godwit::transport::sim
