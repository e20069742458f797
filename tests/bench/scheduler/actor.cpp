#include "scheduler/actor.hpp"

#include "scheduler/cluster.hpp"

#include <godwit/actors/global_scheduler.hpp>
#include <godwit/runtime/actor.hpp>
#include <godwit/runtime/actor_system.hpp>

#include <chrono>
#include <cstdlib>
#include <utility>

namespace godwit::bench {

namespace {

using namespace std::chrono_literals;
using actors::dispatch_decision;
using actors::dispatch_query;

constexpr int asks_per_run = 20'000;

struct go {
  int count = 0;
  go() = default;
  explicit go(int n) : count(n) {}
  auto fields() { return std::tie(count); }
};
struct finished {
  std::uint64_t found = 0;
  finished() = default;
  explicit finished(std::uint64_t n) : found(n) {}
  auto fields() { return std::tie(found); }
};

using decider_interface = runtime::interface<dispatch_decision(dispatch_query)>;
using asker_interface = runtime::interface<finished(go)>;

class at_once final : public runtime::actor<decider_interface> {
public:
  using actor::actor;
  runtime::behavior_of<decider_interface> make_behavior() override {
    return {[](dispatch_query&) { return dispatch_decision{protocols::instance_id{1}, 1}; }};
  }
};

class asker final : public runtime::actor<asker_interface> {
public:
  asker(runtime::actor_context context, runtime::handle<decider_interface> whom)
      : actor(context), whom_(std::move(whom)) {}
  runtime::behavior_of<asker_interface> make_behavior() override {
    return {[this](go g) { return respond(run(g.count)); }};
  }

private:
  runtime::async::task<finished> run(int count) {
    std::uint64_t found = 0;
    for (int i = 0; i < count; ++i) {
      auto decision = co_await ask(whom_, 5s, dispatch_query{100, 100, 0});
      if (decision && decision->found) ++found;
    }
    co_return finished{found};
  }
  runtime::handle<decider_interface> whom_;
};

double ask_us(runtime::actor_system& system, const runtime::handle<asker_interface>& driver) {
  const auto begin = std::chrono::steady_clock::now();
  const auto done = system.ask(driver, 60s, go{asks_per_run});
  const std::chrono::duration<double, std::micro> elapsed = std::chrono::steady_clock::now() - begin;
  if (!done || done->found != asks_per_run) std::abort(); // it would measure something else
  return elapsed.count() / asks_per_run;
}

} // namespace

void measure_asks(session& out) {
  if (!out.wants("scheduler/ask")) return;
  runtime::actor_system_settings settings;
  settings.worker_threads = 1; // waking a second worker would be measured otherwise
  runtime::actor_system system{settings};

  const reported_cluster cluster{10};
  actors::topology news;
  news.version = 1;
  for (const auto& load : cluster.loads()) news.instances.edit().emplace_back(load.instance, 1, true, nullptr);
  actors::scheduler_options options;
  options.stale_after = 1h; // nobody reports again
  auto scheduler = system.spawn<actors::global_scheduler>(std::move(options));
  system.tell(scheduler, news);
  for (auto load : cluster.loads()) {
    load.waiting_max = 0; // however many are dispatched here
    system.tell(scheduler, load);
  }
  auto driver = system.spawn<asker>(scheduler);
  auto reference = system.spawn<asker>(system.spawn<at_once>());
  const auto c = interleave(
      out.repetitions(), [&] { return ask_us(system, driver); }, [&] { return ask_us(system, reference); });
  out.add(told("scheduler/ask", c, "us"));
}

} // namespace godwit::bench
