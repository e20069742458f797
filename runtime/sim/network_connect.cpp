#include "sim/network_state.hpp"
#include "sim/world_state.hpp"

#include <utility>

// How a node gets a connection.
namespace godwit::runtime::sim::detail {

using async::error;
using async::error_code;
using std::chrono::nanoseconds;

namespace {
/// When a first packet that was lost is sent again. TCP waits a second and then longer; a search for faults has no use
/// for that.
constexpr nanoseconds knock_again = std::chrono::milliseconds{200};
constexpr std::size_t knock_bytes = 64;
} // namespace

struct network_state::attempt {
  std::uint64_t id = 0;
  node* from = nullptr;
  std::uint32_t to = 0; ///< machine
  std::uint16_t port = 0;
  connected_function done;
  timer_source::timer_id deadline = 0;
};

void network_state::connect(node& from, const std::string& host, std::uint16_t port, nanoseconds timeout,
                            connected_function done) {
  const auto a = std::make_shared<attempt>();
  a->id = ++last_attempt_;
  a->from = &from;
  a->port = port;
  a->done = std::move(done);
  attempts_.emplace(a->id, a);
  const auto later = [&](error why) { from.timers.call_after(nanoseconds{0}, [this, a, why] { settle(*a, why); }); };
  const auto found = machine_numbers_.find(host);
  if (found == machine_numbers_.end() || !machines_[found->second].current)
    return later(error{error_code::down, "there is no such machine"});
  a->to = found->second;
  a->deadline = from.timers.call_after(timeout, [this, a] {
    settle(*a, error{error_code::down, "no connection in time"});
  });
  knock(a);
}

void network_state::settle(attempt& a, async::expected<std::pair<node*, std::uint64_t>> result) {
  if (attempts_.erase(a.id) == 0) return;
  if (a.deadline != 0) a.from->timers.cancel(a.deadline);
  if (a.from->dead()) return;
  const auto done = std::move(a.done);
  done(std::move(result));
}

void network_state::knock(const std::shared_ptr<attempt>& a) {
  if (attempts_.count(a->id) == 0) return;
  if (a->from->dead()) {
    attempts_.erase(a->id);
    return;
  }
  auto& w = wire_between(a->from->machine, a->to);
  const auto& there = *machines_[a->to].current;
  const bool hears = !w.cut && a->from->running() && !(there.dead() && there.silent);
  const auto delay = hears ? arrival(w, knock_bytes) - world_.timers.now() : knock_again;
  world_.timers.call_after(delay, [this, a, hears] {
    if (hears)
      come_in(a);
    else
      knock(a);
  });
}

void network_state::come_in(const std::shared_ptr<attempt>& a) {
  if (attempts_.count(a->id) == 0) return;
  auto& from = *a->from;
  auto& there = *machines_[a->to].current;
  auto& back = wire_between(a->to, from.machine);
  if (from.dead() || wire_between(from.machine, a->to).cut || back.cut || (there.dead() && there.silent)) {
    world_.timers.call_after(knock_again, [this, a] { knock(a); });
    return;
  }
  // its machine takes the connection for it, and there it stays
  if (there.state == node::state_type::frozen) return there.knocking.push_back([this, a] { come_in(a); });
  const auto published = there.published.find(a->port);
  if (there.dead() || published == there.published.end()) {
    world_.timers.call_after(arrival(back, knock_bytes) - world_.timers.now(), [this, a] {
      a->from->timers.call_after(nanoseconds{0}, [this, a] { settle(*a, error{error_code::down, "refused"}); });
    });
    return;
  }
  if (&there == &from) {
    from.timers.call_after(nanoseconds{0}, [this, a, id = published->second] { settle(*a, std::pair{a->from, id}); });
    return;
  }
  const auto c = establish(from, there);
  packet answer;
  answer.kind = packet::kind_type::accept;
  answer.actor = published->second;
  answer.attempt = a->id;
  put(c, c->side_of(there), std::move(answer));
}

} // namespace godwit::runtime::sim::detail
