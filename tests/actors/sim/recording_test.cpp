// Recording a simulated cluster changes nothing in it and loses nothing of it.
#include <godwit/actors/sim/simulation.hpp>
#include <godwit/protocols/workload/workload.hpp>
#include <godwit/runtime/trace/analysis/check.hpp>
#include <godwit/runtime/trace/analysis/requests.hpp>
#include <godwit/runtime/trace/analysis/slow.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>

namespace godwit::test {

namespace trace = runtime::trace;

namespace {

/// Keeps all that happens.
class whole_recording final : public actors::sim::run_recorder {
public:
  explicit whole_recording(trace::level level) : level_(level) { all.names.emplace_back(); }
  std::shared_ptr<trace::recorder> begin(const runtime::clock& clock) override {
    trace::recorder_settings settings;
    settings.level = level_;
    settings.events_per_thread = settings.events_beside = std::size_t{1} << 16U;
    return recorder = std::make_shared<trace::recorder>(trace::process{}, settings, clock);
  }
  void pump() override {
    ++pumps;
    recorder->drain([this](trace::event& e, std::string_view name) {
      const auto [at, fresh] = names_.try_emplace(std::string(name), static_cast<std::uint32_t>(all.names.size()));
      if (fresh) all.names.emplace_back(name);
      e.name = at->second;
      all.events.push_back(std::move(e));
    });
    all.processes = recorder->processes();
  }
  /// As a reader would give it.
  trace::recording sorted() {
    std::stable_sort(all.events.begin(), all.events.end(), [this](const trace::event& a, const trace::event& b) {
      return std::pair{all.at(a), a.id} < std::pair{all.at(b), b.id};
    });
    return all;
  }
  [[nodiscard]] std::size_t count(std::string_view name) const {
    return static_cast<std::size_t>(
        std::ranges::count_if(all.events, [&](const trace::event& e) { return all.name_of(e) == name; }));
  }

  trace::recording all;
  std::shared_ptr<trace::recorder> recorder;
  std::size_t pumps = 0;

private:
  trace::level level_;
  std::map<std::string, std::uint32_t> names_;
};

actors::sim::simulation_options small(std::uint64_t seed) {
  actors::sim::simulation_options o;
  auto device = gpu::sim::open_profile("toy");
  EXPECT_TRUE(device);
  o.cluster.device = std::move(*device);
  o.cluster.device.positions_max = 4096;
  o.cluster.device.kv_blocks = 60;
  o.cluster.device.overhead_us = 20'000;
  o.cluster.seed = seed;
  o.cluster.instances = 3;
  auto& node = o.cluster.node;
  node.scheduler.policies.dispatch = "freeness";
  node.scheduler.policies.migration = protocols::migration_policy::freeness;
  node.llumlet.planner.running_max = 64;
  node.llumlet.planner.step_tokens_max = 256;
  node.llumlet.planner.waiting_max = 1000;
  protocols::workload::workload_spec spec;
  spec.requests = 120;
  spec.arrivals.rate = 6;
  spec.lengths = *protocols::workload::parse_lengths("uniform:16-300:8-300");
  spec.seed = seed;
  o.requests = protocols::workload::make_workload(spec);
  return o;
}

} // namespace

TEST(SimulationRecording, ARunIsTheSameWhetherItIsRecordedOrNot) {
  for (const auto level : {trace::level::headers, trace::level::content}) {
    const auto alone = simulate(small(5));
    auto options = small(5);
    const auto recording = std::make_shared<whole_recording>(level);
    options.cluster.recorder = recording;
    const auto recorded = simulate(std::move(options));
    EXPECT_EQ(alone.requests, recorded.requests);
    EXPECT_EQ(alone.samples, recorded.samples);
    EXPECT_EQ(alone.events, recorded.events);
    EXPECT_EQ(alone.stalls_ns, recorded.stalls_ns);
    EXPECT_GT(recording->pumps, 10U);
  }
}

TEST(SimulationRecording, TheEventLogIsTheSameWhetherItIsRecordedOrNot) {
  const auto hash_of = [](std::shared_ptr<actors::sim::run_recorder> recorder) {
    auto options = small(6).cluster;
    options.recorder = std::move(recorder);
    runtime::sim::event_log log; // outlives the world
    actors::sim::simulated_cluster cluster(std::move(options));
    cluster.world().log_to(&log);
    EXPECT_TRUE(cluster.start());
    cluster.world().run_for(std::chrono::seconds(5));
    EXPECT_GT(log.count(), 100U);
    const auto hash = log.hash();
    cluster.world().log_to(nullptr);
    return hash;
  };
  EXPECT_EQ(hash_of(nullptr), hash_of(std::make_shared<whole_recording>(trace::level::content)));
}

TEST(SimulationRecording, NothingIsLostAndEveryCauseIsThere) {
  auto options = small(7);
  const auto recording = std::make_shared<whole_recording>(trace::level::headers);
  options.cluster.recorder = recording;
  const auto result = simulate(std::move(options));
  EXPECT_EQ(recording->recorder->lost(), 0U);
  const auto all = recording->sorted();
  const trace::analysis::index index(all);
  const auto found = check_causality(index);
  EXPECT_TRUE(found.sound()) << found.fault_count << " faults, " << found.missing << " missing; "
                             << (found.faults.empty() ? "" : found.faults.front());
  EXPECT_EQ(found.before, 0U);
}

TEST(SimulationRecording, DecisionsDevicesTransfersAndOwnersAreInIt) {
  auto options = small(8);
  const auto recording = std::make_shared<whole_recording>(trace::level::headers);
  options.cluster.recorder = recording;
  const auto result = simulate(std::move(options));
  std::uint64_t committed = 0;
  for (const auto& [cause, count] : result.migrations_committed) committed += count;
  const auto with_blocks = committed - result.moved_waiting; // those of requests that waited have nothing to copy
  ASSERT_GT(with_blocks, 0U) << "the workload is not what this test needs";
  EXPECT_GE(recording->count("decision.dispatch"), result.requests.size());
  EXPECT_GT(recording->count("decision.pairing"), 0U);
  EXPECT_GT(recording->count("device.step"), 100U);
  EXPECT_GE(recording->count("fabric.transfer"), 2 * with_blocks) << "on both sides";
  EXPECT_GE(recording->count("migration.source"), 5 * committed);
  EXPECT_GE(recording->count("migration.destination"), 4 * committed);
  EXPECT_GE(recording->count("ownership"), 2 * result.requests.size() + committed);
  // Every dispatched request, with the loads that were looked at and what was chosen.
  for (const auto& e : recording->all.events) {
    if (recording->all.name_of(e) != "decision.dispatch") continue;
    std::set<std::string> names;
    for (const auto& a : e.attributes) names.insert(a.name);
    EXPECT_TRUE(names.contains("loads") && names.contains("chosen"));
  }
}

// What the scheduler saw and chose is asked for by the request's number, and its story tells how it came to that.
TEST(SimulationRecording, ADispatchIsFoundByItsRequest) {
  auto options = small(8);
  const auto recording = std::make_shared<whole_recording>(trace::level::headers);
  options.cluster.recorder = recording;
  (void)simulate(std::move(options));
  const auto all = recording->sorted();
  const trace::analysis::index index(all);
  std::size_t dispatched = 0;
  for (const auto& request : model_requests(index)) {
    std::map<std::string, std::size_t> there;
    for (const auto p : events_of(index, request.id)) {
      const auto& name = all.name_of(index[p]);
      ++there[name.substr(name.find_last_of(':') + 1)];
      const auto about = index.about(p);
      EXPECT_TRUE(about == 0 || about == request.id) << name;
    }
    if (there["generate_order"] == 0) continue; // turned away
    ++dispatched;
    EXPECT_GE(there["decision.dispatch"], 1U) << request.id;
    EXPECT_EQ(there["decision.dispatch"], there["dispatch_query"]) << request.id;
    EXPECT_GE(there["decide_queued"], 1U) << request.id;
  }
  EXPECT_GT(dispatched, 100U);
}

/// Of all requests' time, how much devices and transfers took; and how many paths lack a cause.
struct time_told {
  double explained = 0;
  std::size_t broken = 0, requests = 0;
};
time_told told_by(actors::sim::simulation_options options) {
  const auto recording = std::make_shared<whole_recording>(trace::level::headers);
  options.cluster.recorder = recording;
  (void)simulate(std::move(options));
  const auto all = recording->sorted();
  const trace::analysis::index index(all);
  time_told out;
  double explained = 0, whole = 0;
  for (const auto& request : model_requests(index)) {
    const auto path = critical_path(index, request);
    for (const auto how :
         {trace::analysis::spent::device, trace::analysis::spent::held, trace::analysis::spent::transfer})
      explained += static_cast<double>(path.sum(how));
    whole += static_cast<double>(request.duration_ns());
    out.broken += path.whole ? 0 : 1;
    ++out.requests;
  }
  out.explained = explained / whole;
  return out;
}

// What several devices have of a step is told as one device's is.
TEST(SimulationRecording, TheTimeOfRequestsIsToldAlsoWhereStepsAreDivided) {
  for (const std::uint32_t stages : {1U, 2U}) {
    auto options = small(9);
    options.cluster.stages = stages;
    const auto told = told_by(std::move(options));
    EXPECT_GT(told.requests, 10U);
    EXPECT_EQ(told.broken, 0U) << stages << " stages";
    EXPECT_GT(told.explained, 0.9) << stages << " stages";
  }
}

// What a prefill instance did is the beginning of the story that its decode instance tells.
TEST(SimulationRecording, TheTimeOfRequestsThatWereHandedOverIsToldFromTheirBeginning) {
  auto options = small(10);
  options.cluster.instances = 3;
  options.cluster.device.kv_blocks = 2000; // or they would wait for room
  options.cluster.node.roles = {protocols::instance_role::prefill, protocols::instance_role::decode,
                                protocols::instance_role::decode};
  options.cluster.node.scheduler.policies.migration = protocols::migration_policy::none;
  const auto told = told_by(std::move(options));
  EXPECT_GT(told.requests, 10U);
  EXPECT_EQ(told.broken, 0U);
  EXPECT_GT(told.explained, 0.9);
}

} // namespace godwit::test
