#include "actor/engine.hpp"
#include "actor/interface_check.hpp"
#include "actor/outside_asker.hpp"
#include "actor/protocol.hpp"
#include "actor/references.hpp"
#include "sim/scheduler.hpp"

#include <godwit/runtime/sim/world.hpp>

#include <caf/actor_registry.hpp>
#include <caf/thread_hook.hpp>

#include <cstdio>
#include <cstdlib>
#include <utility>

namespace godwit::runtime::sim {

namespace {

/// Any thread that CAF starts (a detached or blocking actor) would make runs differ.
class no_threads final : public caf::thread_hook {
public:
  void init(caf::actor_system&) override {}
  void thread_started() override {
    std::fputs("godwit: a simulated system started a thread\n", stderr);
    std::abort();
  }
  void thread_terminates() override {}
};

std::unique_ptr<runtime::detail::engine> make_engine(world& w, detail::node& n, report_function report) {
  auto& state = w.state();
  auto configure = [&](caf::actor_system_config& config) {
    config.add_thread_hook<no_threads>();
    config.module_factories.push_back([&state, &n](caf::actor_system& s) -> caf::actor_system::module* {
      return new detail::scheduler(s, state, n); // CAF owns its modules
    });
  };
  auto engine = std::make_unique<runtime::detail::engine>(configure, nullptr, &n.timers, std::move(report));
  engine->exact_alarms = true;
  engine->place = {&state.timers, n.number,
                   [&network = state.network](const caf::node_id& id) {
                     const auto* found = network.find(id);
                     return found ? found->number : ~std::uint32_t{0};
                   },
                   state.events};
  if (state.recorder) engine->record(state.recorder->core(), n.name);
  n.engine = engine.get();
  return engine;
}

} // namespace

system::system(world& w, system_settings settings)
    : system(w, w.state().add_node(std::move(settings.name)), std::move(settings.report)) {}

system::system(world& w, detail::node& n, report_function report)
    : actor_host(make_engine(w, n, std::move(report))), world_(w), node_(n) {}

system::~system() {
  if (node_.running())
    shutdown();
  else
    take_down();
  world_.state().leave(node_);
  node_.engine = nullptr;
}

bool system::shutdown(std::uint64_t steps_max) {
  engine_->stop_all(stop_reason::shutdown);
  return world_.run_until([&] { return engine_->alive() == 0; }, steps_max);
}

void system::take_down() {
  world_.state().crash(node_, crash_kind::reset);
  constexpr int rounds_max = 100; // the last words of an actor may start another one
  for (int i = 0; i < rounds_max && engine_->alive() > 0; ++i) {
    engine_->stop_all(stop_reason::killed);
    world_.state().drain(node_);
  }
}

const std::string& system::name() const noexcept { return node_.name; }
std::uint32_t system::number() const noexcept { return node_.number; }
system::state_type system::state() const noexcept {
  switch (node_.state) {
  case detail::node::state_type::running:
    return state_type::running;
  case detail::node::state_type::frozen:
    return state_type::frozen;
  case detail::node::state_type::crashed:
  case detail::node::state_type::gone:
    break;
  }
  return state_type::crashed;
}
timer_source& system::timers() noexcept { return node_.timers; }

void system::crash(crash_kind kind) { world_.state().crash(node_, kind); }
void system::freeze() { world_.state().freeze(node_); }
void system::thaw() { world_.state().thaw(node_); }
void system::jump_clock(std::chrono::nanoseconds forward) {
  if (forward.count() <= 0) return;
  node_.timers.jump(forward);
  world_.state().log(event::kind_type::clock_jumped, node_.number, node_.number);
}

async::expected<std::uint16_t> system::publish_actor(const actor_ref& whom, const std::string& host,
                                                     std::uint16_t port) {
  using async::error_code;
  constexpr std::uint16_t first_free = 49152;
  if (!whom || engine_->elsewhere(whom)) return async::error{error_code::down, "no such actor"};
  const auto refuse = [&](const char* why) {
    return async::error{error_code::refused, "cannot listen on " + host + ":" + std::to_string(port) + ": " + why};
  };
  if (host != node_.name) return refuse("it is another machine's");
  if (port == 0) {
    port = first_free;
    while (node_.published.count(port) != 0 && port != 0) ++port;
  }
  if (port == 0 || !node_.published.emplace(port, whom.id()).second) return refuse("the port is taken");
  engine_->system().registry().put(whom.id(), runtime::detail::strong(whom));
  return port;
}

namespace {

/// One search for an actor; over at its first result.
struct search {
  std::function<void(async::expected<actor_ref>)> done;
  timer_source::timer_id deadline = 0;
};

/// On the node's own time and never at once: whoever gets the result may begin another search.
void settle(detail::node& n, const std::shared_ptr<search>& s, async::expected<actor_ref> result) {
  if (!s->done) return;
  if (s->deadline != 0) n.timers.cancel(s->deadline);
  const auto done = std::exchange(s->done, nullptr);
  n.timers.call_after(std::chrono::nanoseconds{0}, [done, result = std::move(result)] { done(result); });
}

} // namespace

void system::find_actor(const std::string& host, std::uint16_t port, std::chrono::nanoseconds timeout,
                        std::vector<const message_type*> types, std::size_t messages,
                        std::function<void(async::expected<actor_ref>)> done) {
  using async::error_code;
  engine_->register_types(types);
  const auto place = host + ":" + std::to_string(port);
  const auto deadline = node_.timers.now() + async::bounded_wait(timeout);
  const auto s = std::make_shared<search>();
  s->done = std::move(done);
  auto& n = node_;
  const auto connected = [&n, s, place, deadline, types = std::move(types),
                          messages](async::expected<std::pair<detail::node*, std::uint64_t>> found) {
    if (!n.engine) return;
    if (!found)
      return settle(n, s, async::error{error_code::down, "no actor at " + place + ": " + found.error().message});
    const auto [peer, id] = *found;
    auto ptr = peer == &n ? n.engine->system().registry().get(id) : n.endpoint->proxies().get_or_put(peer->id, id);
    if (!ptr) return settle(n, s, async::error{error_code::down, "no actor at " + place + ": it is gone"});
    const auto ref = runtime::detail::reference(std::move(ptr));
    s->deadline = n.timers.call_after(deadline - n.timers.now(), [&n, s] {
      s->deadline = 0;
      settle(n, s, async::error{error_code::timeout, "no answer in time"});
    });
    runtime::detail::ask_and_go_on(*n.engine, ref, runtime::detail::draft::of(runtime::detail::interface_query{}),
                                   [&n, s, ref, place, types, messages](runtime::detail::answer& a) {
                                     const auto known =
                                         runtime::detail::unpack<runtime::detail::interface_description>(a);
                                     if (auto why = runtime::detail::check_interface(known, types, messages, place))
                                       return settle(n, s, std::move(*why));
                                     settle(n, s, ref);
                                   });
  };
  world_.state().network.connect(n, host, port, timeout, connected);
}

void system::run_until(const std::function<bool()>& condition, std::chrono::nanoseconds timeout) {
  // shared: the timer may be left when the condition holds
  const auto late = std::make_shared<bool>(false);
  const auto timer = world_.timers().call_after(timeout, [late] { *late = true; });
  world_.run_until([&] { return *late || condition(); });
  world_.timers().cancel(timer);
}

void system::ask_and_wait(const actor_ref& to, std::chrono::nanoseconds timeout, runtime::detail::draft message,
                          const std::function<void(runtime::detail::answer&)>& take) {
  runtime::detail::ask_from_outside(
      *engine_, to, std::move(message),
      [&](runtime::detail::outside_asker& asker) { run_until([&] { return asker.answered(); }, timeout); }, take);
}

} // namespace godwit::runtime::sim
