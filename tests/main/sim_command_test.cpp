// `godwit sim`: a run as a whole.
#include "main/bench_workload.hpp"
#include "main/sim_command_support.hpp"
#include "main/sim_report.hpp"

#include <godwit/actors/sim/simulation.hpp>
#include <godwit/gpu/sim/profile.hpp>
#include <godwit/protocols/workload/workload.hpp>

#include <boost/json.hpp>
#include <gtest/gtest.h>

#include <chrono>
#include <string>
#include <utility>

namespace godwit::main::test {

TEST(SimCommand, SaysTheSameBytesForTheSameSeed) {
  const auto options = options_of("M-M", 2, 150);
  const auto first = simulate(options);
  EXPECT_EQ(first.code, 0) << first.err;
  EXPECT_EQ(first.out, simulate(options).out);
  auto other = options;
  other.load.seed = 2;
  EXPECT_NE(first.out, simulate(other).out);
  EXPECT_EQ(first.err.find('{'), std::string::npos);
}

TEST(SimCommand, TakesNoFailpointsAndAnotherDispatcherFromTheSettings) {
  auto options = options_of("L-L", 3, 400); // which migrates
  options.settings.debug.failpoints = "source.opened=kill";
  EXPECT_EQ(parse(simulate(options)).at("answered").as_int64(), 400);
  options = options_of("S-S", 6, 20);
  options.settings.scheduler.policy = "round_robin"; // as a file may say
  const auto report = parse(simulate(options));
  EXPECT_EQ(report.at("setup").at("dispatch").as_string(), "round_robin");
  EXPECT_EQ(report.at("setup").at("policy").as_string(), "custom") << "it is none that has a name";
  options.policy_told = true;
  options.policy = "infaas++";
  EXPECT_EQ(parse(simulate(options)).at("setup").at("dispatch").as_string(), "infaas");
}

TEST(SimCommand, SaysWhyItsInstancesDoNotStart) {
  auto options = options_of("S-S", 2, 10);
  options.settings.instances.step_timeout = std::chrono::milliseconds(1);
  const auto result = simulate(options);
  EXPECT_EQ(result.code, 1);
  EXPECT_NE(result.err.find("the instances never get ready: instance-"), std::string::npos) << result.err;
  EXPECT_NE(result.err.find("a step of its profile took longer than instances.step_timeout"), std::string::npos)
      << result.err;
}

TEST(SimCommand, EndsRequestsByTheirDeadlineWhereThereIsOne) {
  auto options = options_of("M-M", 2, 100);
  EXPECT_EQ(parse(simulate(options)).at("answered").as_int64(), 100);
  options.settings.frontend.request_timeout = std::chrono::seconds(5);
  const auto report = parse(simulate(options));
  const auto late = report.at("failed").at("timed_out").as_int64();
  EXPECT_GT(late, 10);
  EXPECT_EQ(report.at("answered").as_int64() + late, 100);
}

// What changed the run is in its report, and what did not is not.
TEST(SimCommand, NamesTheSettingsOfAFileThatChangedTheRunAndThoseThatDidNot) {
  const scratch folder("settings");
  const std::string toml = "[instances]\nrestart_backoff_min = \"1s\"\nrestart_backoff_max = \"2s\"\n"
                           "[frontend]\nrequests_max = 3\n[cluster]\nconnection_timeout = \"9s\"\n"
                           "[trace]\nlevel = \"content\"\n[llumlet]\nsequences_max = 64\n";
  const auto file = folder.write("sim.toml", toml);
  const std::string small = "--json --instances 2 --lengths S-S --rate 4 --requests 40 --config '" + file + "'";
  const auto settings = [](const sim_outcome& result) {
    EXPECT_EQ(result.code, 0) << result.err;
    std::string names;
    const auto report = boost::json::parse(result.out);
    for (const auto& [name, text] : report.at("setup").at("settings").as_object())
      names += std::string(name) + "=" + std::string(text.as_string()) + " ";
    return names;
  };
  const std::string always =
      "instances.restart_backoff_min=1s instances.restart_backoff_max=2s llumlet.sequences_max=64 ";
  const auto calm = typed(small);
  EXPECT_EQ(settings(calm), always);
  EXPECT_TRUE(calm.err.starts_with("godwit: " + file + ": this run has no use for ")) << calm.err;
  const auto first = calm.err.substr(0, calm.err.find('\n'));
  for (const auto* name : {"frontend.requests_max", "cluster.connection_timeout", "trace.level"})
    EXPECT_NE(first.find(name), std::string::npos) << first;
  const auto faulty = typed(small + " --faults crash:instance-0@100h --record " + (folder.path / "s.gwt").string());
  EXPECT_EQ(settings(faulty), always + "cluster.connection_timeout=9s ");
  EXPECT_TRUE(faulty.err.starts_with("godwit: " + file + ": this run has no use for frontend.requests_max\n"))
      << faulty.err;
  EXPECT_EQ(typed("--json --instances 2 --lengths S-S --rate 4 --requests 4").err.find("no use"), std::string::npos);
}

// What an experiment in C++ says of its own policy is to be compared with what the command says of the others.
TEST(SimCommand, ASimulationOfOnesOwnHasItsFiguresWithTheNodeOfTheCommand) {
  const scratch folder("own");
  auto options = options_of("L-L", 2, 300);
  options.csv = (folder.path / "r.csv").string();
  EXPECT_EQ(simulate(options).code, 0);
  actors::sim::simulation_options own;
  own.cluster.seed = options.load.seed;
  own.cluster.instances = options.instances;
  own.cluster.device = gpu::sim::open_profile(options.profile).value();
  own.cluster.node = actors::sim::node_of_the_command();
  own.requests = plan_workload(options.load).value().requests;
  protocols::workload::clamp_to_context(own.requests, actors::sim::context_length_of(own.cluster));
  const auto result = actors::sim::simulate(std::move(own));
  EXPECT_FALSE(result.migrations_committed.empty()) << "too calm to tell";
  EXPECT_EQ(requests_csv(result, false), read(options.csv));
}

} // namespace godwit::main::test
