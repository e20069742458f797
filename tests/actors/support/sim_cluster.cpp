#include "actors/support/sim_cluster.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <utility>

namespace godwit::test {

namespace {

constexpr std::uint16_t head_port = 7700;

actors::node_options options_of(const sim_cluster_options& o, runtime::timer_source& timers) {
  actors::node_options n;
  n.version = "test";
  n.model = "sim";
  n.instances = o.instances;
  n.scheduler.policies.dispatch = o.policy;
  n.frontend.random_seed = o.seed;
  auto& p = n.llumlet.planner;
  p.context_length = o.context;
  p.step_tokens_max = o.step_tokens_max;
  p.running_max = o.running_max;
  p.waiting_max = o.waiting_max;
  gpu::executor_info info;
  info.device = "sim";
  info.layers = o.layers;
  info.vocabulary = o.vocabulary;
  info.positions_max = o.context;
  info.blocks = o.blocks;
  gpu::sim::sim_model model;
  model.swap = o.swap;
  if (o.adapters) model.adapters = std::make_shared<gpu::sim::sim_adapters>(timers, *o.adapters);
  n.instance.make_executor = [info, latency = o.latency, model, stages = o.stages, wrap = o.wrap_stage,
                              speeds = o.stage_speeds,
                              &timers](protocols::instance_id id, std::function<void(actors::executor_outcome)> done) {
    actors::executor_outcome out;
    const auto count = stages.empty() ? 1 : stages[id.value() % stages.size()];
    if (count == 1)
      out.made = gpu::sim::make_sim_executor(info, latency, timers, model);
    else
      out.made =
          gpu::sim::make_sim_stages(info, latency, timers, model, gpu::pipeline::cut_layers(info.layers, count),
                                    {.wrap = wrap, .speeds = speeds.size() == count ? speeds : decltype(speeds){}});
    done(std::move(out));
  };
  if (o.adjust) o.adjust(n);
  return n;
}

actors::head_finder finder_in(runtime::sim::system& process) {
  return [&process](const std::function<void(actors::found_head)>& done) {
    process.find<actors::node_interface>("head", head_port, std::chrono::seconds{5}, done);
  };
}

} // namespace

sim_cluster::sim_cluster(sim_cluster_options options) : world(options.seed), options_(options) {
  world.log_to(&events);
  if (options.record) world.record_to(options.record(world.clock()));
  runtime::sim::system_settings settings;
  settings.report = [this](std::string_view actor, std::string_view text) {
    reports.push_back(std::string(actor) + ": " + std::string(text));
  };
  settings.name = "head";
  system = std::make_unique<runtime::sim::system>(world, std::move(settings));
  auto made = options_of(options, world.timers());
  if (options.fabric) {
    network = std::make_unique<transport::sim::network>(world.timers(), *options.fabric);
    made.identity = {"0123456789abcdef", "f32", gpu::sim::sim_block_bytes, options.context};
    made_ = made;
    made.instances = 0;
    cluster = std::make_unique<actors::cluster>(*system, std::move(made));
    EXPECT_TRUE(!options.nodes || system->publish(cluster->node(), "head", head_port));
    // One after the other, so that ids are known: instance i lives in process i.
    for (std::uint32_t i = 0; i < options.instances; ++i) {
      start_process(i);
      EXPECT_TRUE(run_until([&] { return cluster->gate()->view().instances.size() == i + 1; }));
    }
  } else {
    cluster = std::make_unique<actors::cluster>(*system, std::move(made));
  }
  EXPECT_TRUE(run_until([&] { return all_ready(options.instances); }));
}

runtime::handle<actors::member_interface> sim_cluster::start_process(std::uint32_t number, std::string name) {
  actors::member_options o;
  o.version = made_.version;
  o.address = name.empty() ? process_of(number) : std::move(name);
  o.key = number + 1;
  o.model = made_.identity;
  o.find_head = [head = cluster->node()](const std::function<void(actors::found_head)>& done) { done(head); };
  o.backoff_min = made_.backoff_min;
  o.instance = made_.instance;
  o.roles = {protocols::role_at(made_.roles, number)};
  o.llumlet = made_.llumlet;
  o.llumlet.migration.fabric = network->make_fabric(process_of(number));
  o.llumlet.migration.transfers = std::make_shared<std::atomic<std::uint64_t>>(0);
  fabrics.push_back(o.llumlet.migration.fabric);
  if (!options_.nodes) return system->spawn<actors::member>(std::move(o));
  auto& own = start_system(o.address);
  o.find_head = finder_in(own);
  o.instance.make_executor = options_of(options_, own.timers()).instance.make_executor;
  return own.spawn<actors::member>(std::move(o));
}

runtime::sim::system& sim_cluster::start_system(const std::string& name) {
  auto& own = processes[name];
  own.reset(); // of an earlier process of this name, nothing stays
  runtime::sim::system_settings settings;
  settings.name = name;
  settings.report = [this](std::string_view actor, std::string_view text) {
    reports.push_back(std::string(actor) + ": " + std::string(text));
  };
  own = std::make_unique<runtime::sim::system>(world, std::move(settings));
  return *own;
}

std::shared_ptr<actors::frontend_gate>
sim_cluster::start_frontend(std::uint32_t number, const std::string& name,
                            const std::function<void(actors::frontend_options&)>& adjust) {
  auto& own = start_system(name);
  auto gate = std::make_shared<actors::frontend_gate>(own);
  actors::member_options o;
  o.version = made_.version;
  o.address = name;
  o.key = number + 1;
  o.instances = 0;
  o.model = made_.identity;
  o.frontend = made_.frontend;
  if (adjust) adjust(*o.frontend);
  o.on_topology = [gate](const actors::topology& news) { gate->update(news); };
  o.find_head = finder_in(own);
  o.backoff_min = made_.backoff_min;
  o.log = made_.log;
  (void)own.spawn<actors::member>(std::move(o));
  return gate;
}

void sim_cluster::crash_head(runtime::sim::crash_kind how) {
  system->crash(how);
  cluster.reset();
}

void sim_cluster::restart_head() {
  system.reset();
  runtime::sim::system_settings settings;
  settings.name = "head";
  settings.report = [this](std::string_view actor, std::string_view text) {
    reports.push_back(std::string(actor) + ": " + std::string(text));
  };
  system = std::make_unique<runtime::sim::system>(world, std::move(settings));
  auto made = made_;
  made.instances = 0;
  cluster = std::make_unique<actors::cluster>(*system, std::move(made));
  EXPECT_TRUE(system->publish(cluster->node(), "head", head_port));
}

bool sim_cluster::all_ready(std::uint32_t instances) const {
  const auto view = cluster->gate()->view();
  for (const auto& entry : view.instances)
    if (!entry.ready) return false;
  return view.instances.size() == instances;
}

sim_cluster::~sim_cluster() {
  cluster.reset();
  for (auto& [name, process] : processes)
    EXPECT_TRUE(process->state() != runtime::sim::system::state_type::running || process->shutdown()) << name;
  EXPECT_TRUE(system->state() == runtime::sim::system::state_type::crashed || system->shutdown());
  world.log_to(nullptr);
}

std::shared_ptr<recording_sink> sim_cluster::submit(std::uint32_t number, std::uint32_t prompt_tokens,
                                                    std::uint32_t answer_tokens) {
  return submit_at(*cluster->gate(), number, prompt_tokens, answer_tokens);
}

std::shared_ptr<recording_sink> sim_cluster::submit_at(actors::frontend_gate& gate, std::uint32_t number,
                                                       std::uint32_t prompt_tokens, std::uint32_t answer_tokens) {
  auto sink = std::make_shared<recording_sink>();
  auto one = std::make_shared<actors::submission>();
  for (std::uint32_t i = 0; i < prompt_tokens; ++i)
    one->request.prompt.push_back(static_cast<protocols::token_id>((number * 7919 + i * 31) % 1000));
  one->request.stop.max_tokens = answer_tokens;
  one->seeded = true;
  one->request.sampling.seed = number;
  one->sink = sink;
  one->client_id = "r" + std::to_string(number);
  EXPECT_TRUE(gate.submit({std::move(one)}));
  return sink;
}

void sim_cluster::submit(std::shared_ptr<actors::submission> one) {
  EXPECT_TRUE(cluster->gate()->submit({std::move(one)}));
}

bool sim_cluster::run_until(const std::function<bool()>& condition) {
  constexpr std::uint64_t steps_max = 20'000'000;
  return world.run_until(condition, steps_max);
}

bool sim_cluster::run_until_ended(const std::vector<std::shared_ptr<recording_sink>>& sinks) {
  return run_until([&] {
    for (const auto& sink : sinks)
      if (!sink->ended()) return false;
    return true;
  });
}

protocols::cluster_status sim_cluster::status(bool with_requests) {
  auto answer = cluster->status(with_requests);
  EXPECT_TRUE(answer) << (answer ? "" : answer.error().message);
  return answer ? *answer : protocols::cluster_status{};
}

std::optional<std::uint32_t> sim_cluster::instance_with(protocols::request_state state) {
  for (const auto& instance : status(true).instances)
    for (const auto& request : instance.requests)
      if (request.state == state) return instance.instance.value();
  return std::nullopt;
}

std::uint32_t sim_cluster::blocks_used() {
  std::uint32_t sum = 0;
  for (const auto& instance : status().instances) sum += instance.load.blocks_used;
  return sum;
}

} // namespace godwit::test
