// A dispatch policy of one's own, tried out in a simulated world, where it can be looked at without a device.
// It fills one instance before it touches the next, so that idle ones could be given back.
#include <godwit/actors/cluster.hpp>
#include <godwit/gpu/sim/sim_executor.hpp>
#include <godwit/protocols/policy/dispatch.hpp>
#include <godwit/runtime/sim/world.hpp>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace {

using namespace godwit;
using namespace std::chrono_literals;

// Only rates: who is ready, who has a full queue and what is still on its way are the base class's books.
class fullest_first final : public protocols::dispatcher {
public:
  [[nodiscard]] std::string_view name() const noexcept override { return "fullest_first"; }

private:
  [[nodiscard]] double rate(const protocols::load_report& report, const picked_load& picked) const noexcept override {
    const auto blocks = report.blocks_used + report.queued_blocks + picked.blocks;
    if (blocks * 10 > std::uint64_t{report.blocks_total} * 8) return -1; // the last fifth is for answers that grow
    return static_cast<double>(report.running + report.waiting + picked.requests);
  }
  [[nodiscard]] double score(double rating) const noexcept override { return rating; }
};

class counting_sink final : public actors::answer_sink {
public:
  [[nodiscard]] bool on_tokens(std::span<const protocols::sampled_token> tokens, bool) override {
    count += tokens.size();
    return true;
  }
  void on_finished(protocols::finish_reason, const actors::answer_usage&) override { ended = true; }
  void on_failed(const actors::answer_failure& failure) override {
    std::fprintf(stderr, "%s\n", failure.message.c_str());
    ended = true;
  }
  std::size_t count = 0;
  bool ended = false;
};

using sinks = std::vector<std::shared_ptr<counting_sink>>;

void submit(actors::cluster& cluster, int requests, sinks& all) {
  for (int i = 0; i < requests; ++i) {
    auto what = std::make_shared<actors::submission>();
    what->request.prompt.assign(20, static_cast<protocols::token_id>(all.size() + 1));
    what->request.stop.max_tokens = 100;
    what->sink = all.emplace_back(std::make_shared<counting_sink>());
    (void)cluster.gate()->submit({what}); // a sink whose request nobody takes hears of it
  }
}

// Requests on each instance, by id.
std::vector<std::uint32_t> spread(actors::cluster& cluster, const char* policy) {
  std::vector<std::uint32_t> out;
  if (const auto status = cluster.status())
    for (const auto& one : status->instances) out.push_back(one.load.running + one.load.waiting);
  std::printf("%-14s", policy);
  for (const auto requests : out) std::printf(" %2u", requests);
  std::puts("");
  return out;
}

} // namespace

int main() {
  runtime::sim::world world{1};
  runtime::sim::system system{world};
  actors::node_options options;
  options.instances = 3;
  options.instance.make_executor = [&world](protocols::instance_id,
                                            const std::function<void(actors::executor_outcome)>& done) {
    gpu::executor_info device;
    device.device = "sim";
    device.layers = 4;
    device.vocabulary = 1000;
    device.positions_max = 512;
    device.blocks = 256;
    actors::executor_outcome out;
    out.made = gpu::sim::make_sim_executor(device, {}, world.timers());
    done(std::move(out));
  };
  options.scheduler.dispatchers["fullest_first"] = [] { return std::make_unique<fullest_first>(); };
  options.scheduler.policies.dispatch = "fullest_first";
  actors::cluster cluster(system, options);
  const auto ready = [&cluster] {
    const auto view = cluster.gate()->view();
    return std::ranges::count_if(view.instances, &actors::instance_entry::takes_requests) == 3;
  };
  if (!world.run_until(ready)) return 1;

  sinks all;
  submit(cluster, 6, all);
  world.run_for(50ms);
  const bool packed = spread(cluster, "fullest_first") == std::vector<std::uint32_t>{6, 0, 0};

  // Operators switch to it, and from it, as to those that are built in.
  actors::policy_order order;
  order.dispatch = "round_robin";
  const auto answer = system.ask(cluster.node(), 1s, order);
  if (!answer || !answer->error.empty()) return 1;
  submit(cluster, 6, all);
  world.run_for(50ms);
  const bool shared = spread(cluster, "round_robin") == std::vector<std::uint32_t>{8, 2, 2};

  const auto ended = [&all] { return std::ranges::all_of(all, [](const auto& sink) { return sink->ended; }); };
  const bool whole =
      world.run_until(ended) && std::ranges::all_of(all, [](const auto& sink) { return sink->count == 100; });
  return packed && shared && whole ? 0 : 1;
}
