#include "actor/engine.hpp"
#include "actor/outside_asker.hpp"
#include "sim/scheduler.hpp"

#include <godwit/runtime/sim/world.hpp>

#include <caf/thread_hook.hpp>

#include <cstdio>
#include <cstdlib>

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

std::unique_ptr<runtime::detail::engine> make_engine(world& w, const system_settings& settings) {
  auto configure = [&](caf::actor_system_config& config) {
    config.add_thread_hook<no_threads>();
    config.module_factories.push_back([&w](caf::actor_system& s) -> caf::actor_system::module* {
      return new detail::scheduler(s, w.state()); // CAF owns its modules
    });
  };
  auto engine = std::make_unique<runtime::detail::engine>(configure, nullptr, &w.clock(), settings.report);
  engine->exact_alarms = true;
  engine->log = w.state().log;
  w.state().log_changed = [e = engine.get()](event_log* log) { e->log = log; };
  return engine;
}

} // namespace

system::system(world& w, system_settings settings) : actor_host(make_engine(w, settings)), world_(w) {}

system::~system() {
  shutdown();
  world_.state().log_changed = nullptr;
}

bool system::shutdown(std::uint64_t steps_max) {
  engine_->stop_all(stop_reason::shutdown);
  return world_.run_until([&] { return engine_->alive() == 0; }, steps_max);
}

void system::ask_and_wait(const actor_ref& to, std::chrono::nanoseconds timeout, runtime::detail::draft message,
                          const std::function<void(runtime::detail::answer&)>& take) {
  runtime::detail::ask_from_outside(
      *engine_, to, std::move(message),
      [&](runtime::detail::outside_asker& asker) {
        bool late = false;
        const auto timer = world_.timers().call_after(timeout, [&late] { late = true; });
        world_.run_until([&] { return late || asker.answered(); });
        world_.timers().cancel(timer);
      },
      take);
}

} // namespace godwit::runtime::sim
