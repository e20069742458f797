// What `godwit status` prints, as people and as programs read it.
#include "main/request_story.hpp"
#include "main/status_json.hpp"
#include "main/status_table.hpp"

#include <boost/json.hpp>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace godwit::main {
namespace {

namespace json = boost::json;
using protocols::instance_id;
using protocols::instance_state;
using protocols::migration_cause;
using protocols::request_event;
using ::testing::HasSubstr;
using ::testing::Not;

protocols::instance_status instance(std::uint32_t id, instance_state state) {
  protocols::instance_status out;
  out.instance = instance_id{id};
  out.state = state;
  out.node = "here:1";
  out.uptime_ns = 12'000'000'000;
  out.headroom_profiled = 7;
  out.load.instance = out.instance;
  out.load.blocks_total = 100;
  out.load.blocks_used = 40;
  out.load.queued_blocks = 8;
  out.load.headroom_blocks = 12;
  out.load.running = 4;
  out.load.ready = state == instance_state::ready;
  return out;
}

protocols::cluster_status cluster() {
  protocols::cluster_status out;
  out.version = "1.2.3";
  out.scheduling.scheduler_up = true;
  out.scheduling.dispatch_policy = "freeness";
  out.scheduling.migration_policy = "defrag";
  out.scheduling.scaling = "dry_run";
  out.scheduling.pairs.emplace_back(instance_id{1}, instance_id{0});
  out.instances = {instance(0, instance_state::ready), instance(1, instance_state::ready),
                   instance(2, instance_state::starting)};
  out.instances[1].load.terminating = true;
  return out;
}

json::value parsed(const std::string& text) {
  EXPECT_EQ(text.find('\n'), std::string::npos);
  return json::parse(text);
}

protocols::request_history history() {
  protocols::request_history out;
  out.found = true;
  out.request = protocols::request_id{17};
  out.client_id = "cmpl-a";
  out.owned = true;
  out.instance = instance_id{1};
  out.epoch = protocols::epoch{2};
  out.execution_priority = "high";
  out.age_ns = 1'500'000;
  auto dispatched = request_event{request_event::kind::dispatched, 400'000, instance_id{0}, protocols::epoch{1}};
  dispatched.dispatch.policy = "freeness";
  dispatched.dispatch.score = 12.5;
  dispatched.dispatch.runner_up = 8;
  dispatched.dispatch.candidates = 4;
  dispatched.dispatch.blocks = 9;
  auto moved = request_event{request_event::kind::migrated, 1'000'000, instance_id{1}, protocols::epoch{1}};
  moved.migration.epoch = protocols::epoch{1};
  moved.migration.source = instance_id{0};
  moved.migration.destination = instance_id{1};
  moved.migration.outcome = protocols::migration_outcome::committed;
  moved.migration.stages = 2;
  moved.migration.blocks = 9;
  moved.migration.stall_ns = 800'000;
  moved.migration.cause.what = migration_cause::kind::freeness;
  moved.migration.cause.round = 12;
  moved.migration.cause.source_before = 1.25;
  moved.migration.cause.source_after = 3.5;
  moved.migration.cause.destination_before = 20;
  moved.migration.cause.destination_after = 9.75;
  out.events = {dispatched, moved};
  return out;
}

} // namespace

TEST(StatusOutput, SaysWhyAnInstanceDidNotStart) {
  auto page = cluster();
  page.instances[2].last_error = "out of memory";
  const auto out = parsed(status_json(page, false));
  EXPECT_TRUE(out.at("instances").at(0).at("last_error").is_null());
  EXPECT_EQ(out.at("instances").at(2).at("last_error").as_string(), "out of memory");
  EXPECT_NE(status_table(page).find("\ninstance 2 did not start: out of memory\n"), std::string::npos);
  EXPECT_EQ(status_table(cluster()).find("did not start"), std::string::npos);
}

TEST(StatusJson, GivesFreenessInBlocksAndStepsAndWhatVirtualUsageIsMadeOf) {
  const auto out = parsed(status_json(cluster(), false));
  const auto& first = out.at("instances").at(0);
  EXPECT_EQ(first.at("virtual_usage").as_int64(), 60);
  EXPECT_EQ(first.at("queued_blocks").as_int64(), 8);
  EXPECT_EQ(first.at("headroom_blocks").as_int64(), 12);
  EXPECT_EQ(first.at("headroom_profiled").as_int64(), 7);
  EXPECT_EQ(first.at("freeness").as_double(), 10.0);
  EXPECT_EQ(first.at("freeness_steps").as_double(), 160.0);
  EXPECT_FALSE(first.at("terminating").as_bool());
  EXPECT_FALSE(first.as_object().contains("requests"));
}

TEST(StatusJson, GivesNoFreenessOfAnInstanceThatDrainsOrStarts) {
  const auto out = parsed(status_json(cluster(), true));
  EXPECT_TRUE(out.at("instances").at(1).at("freeness").is_null());
  EXPECT_TRUE(out.at("instances").at(1).at("freeness_steps").is_null());
  EXPECT_TRUE(out.at("instances").at(1).at("terminating").as_bool());
  EXPECT_TRUE(out.at("instances").at(2).at("freeness").is_null());
  EXPECT_EQ(out.at("instances").at(2).at("starting_s").as_double(), 12.0);
  EXPECT_TRUE(out.at("instances").at(0).at("starting_s").is_null());
}

// Otherwise an operator would have to remember what `drain --undo` brings back.
TEST(StatusOutput, ShowsStoppedInstancesAmongTheOthers) {
  auto page = cluster();
  auto& stopped = page.stopped.emplace_back();
  stopped.instance = instance_id{1};
  stopped.state = instance_state::stopped;
  stopped.node = "there:2";
  page.instances.erase(page.instances.begin() + 1);
  const auto all = parsed(status_json(page, true)).at("instances").as_array();
  ASSERT_EQ(all.size(), 3U);
  EXPECT_EQ(all.at(1).at("id").as_int64(), 1);
  EXPECT_EQ(all.at(1).at("state").as_string(), "stopped");
  EXPECT_EQ(all.at(1).at("node").as_string(), "there:2");
  EXPECT_TRUE(all.at(1).at("freeness").is_null());
  const auto text = status_table(page);
  EXPECT_THAT(text, ::testing::ContainsRegex(" 1  stopped +- +- .* there:2"));
  EXPECT_LT(text.find(" 0  ready"), text.find(" 1  stopped"));
  EXPECT_LT(text.find(" 1  stopped"), text.find(" 2  starting"));
}

TEST(StatusOutput, CallsARequestsExecutionPriorityByItsName) {
  auto page = cluster();
  auto& request = page.instances[0].requests.emplace_back();
  request.request = protocols::request_id{5};
  request.execution_level = 1;
  request.execution_priority = "high";
  EXPECT_THAT(status_table(page), HasSubstr("priority 0, execution priority high"));
  const auto shown = parsed(status_json(page, true)).at("instances").at(0).at("requests").at(0);
  EXPECT_EQ(shown.at("execution_priority").as_string(), "high");
  EXPECT_EQ(shown.at("execution_level").as_int64(), 1);
}

TEST(StatusJson, SaysHowTheClusterIsScheduled) {
  const auto out = parsed(status_json(cluster(), false)).at("scheduling");
  EXPECT_TRUE(out.at("scheduler_up").as_bool());
  EXPECT_EQ(out.at("dispatch_policy").as_string(), "freeness");
  EXPECT_EQ(out.at("migration_policy").as_string(), "defrag");
  EXPECT_FALSE(out.at("migration_paused").as_bool());
  EXPECT_EQ(out.at("scaling").as_string(), "dry_run");
  EXPECT_EQ(out.at("pairs").at(0).at("from").as_int64(), 1);
  EXPECT_TRUE(out.at("provisioning_s").is_null());
}

TEST(StatusTable, ShowsFreenessColdStartsAndWhoMigratesWhere) {
  const auto text = status_table(cluster());
  EXPECT_THAT(text, HasSubstr("starting 12 s"));
  EXPECT_THAT(text, HasSubstr("10.0"));
  EXPECT_THAT(text, HasSubstr("migrating: 1 -> 0"));
  EXPECT_THAT(text, Not(HasSubstr("scheduler is away")));
  auto without = cluster();
  without.scheduling.scheduler_up = false;
  EXPECT_THAT(status_table(without), HasSubstr("scheduler is away"));
}

TEST(StatusOutput, SaysHowTheTwoPhasesAreLoaded) {
  auto page = cluster();
  page.scheduling.roles = "balance";
  auto out = parsed(status_json(page, false)).at("scheduling");
  EXPECT_EQ(out.at("roles").as_string(), "balance");
  EXPECT_TRUE(out.at("prefill_load").is_null());
  EXPECT_TRUE(out.at("decode_load").is_null());
  EXPECT_EQ(out.at("roles_last").as_string(), "");
  EXPECT_THAT(status_table(page), Not(HasSubstr("load")));
  page.scheduling.phases_known = true;
  page.scheduling.prefill_load = 0.75;
  page.scheduling.decode_load = 1.25;
  page.scheduling.roles_last = "instance 3 for decode: so it is";
  out = parsed(status_json(page, false)).at("scheduling");
  EXPECT_EQ(out.at("prefill_load").as_double(), 0.75);
  EXPECT_EQ(out.at("decode_load").as_double(), 1.25);
  EXPECT_EQ(out.at("roles_last").as_string(), "instance 3 for decode: so it is");
  EXPECT_THAT(status_table(page), HasSubstr("roles balance: prefill load 0.75, decode load 1.25\n"
                                            "last change of roles: instance 3 for decode: so it is\n"));
}

TEST(StatusOutput, SaysWhatAnInstanceIsFor) {
  auto page = cluster();
  page.instances[0].load.role = protocols::instance_role::prefill;
  page.instances[1].load.role = protocols::instance_role::decode;
  const auto out = parsed(status_json(page, false)).at("instances");
  EXPECT_EQ(out.at(0).at("role").as_string(), "prefill");
  EXPECT_EQ(out.at(1).at("role").as_string(), "decode");
  EXPECT_EQ(out.at(2).at("role").as_string(), "mixed");
  const auto text = status_table(page);
  EXPECT_THAT(text, HasSubstr(" 0  ready, prefill "));
  EXPECT_THAT(text, HasSubstr(" 1  ready, decode "));
}

TEST(RequestStory, TellsEachDecisionWithItsNumbers) {
  const auto text = request_story(history());
  EXPECT_THAT(text, HasSubstr("request 17 (cmpl-a): open for 1.5 ms, on instance 1 (epoch 2)"));
  EXPECT_THAT(text, HasSubstr("0.4 ms  dispatched to instance 0 (epoch 1): policy freeness: F 12.50, the next best F "
                              "8.00; 4 candidates, it demands 9 blocks"));
  EXPECT_THAT(text, HasSubstr("moved from instance 0 to 1 for freeness (round 12: F 1.25 -> 3.50 at the source, 20.00 "
                              "-> 9.75 at the destination); 2 stages, 9 blocks, 0.0 MiB, stall 0.80 ms"));
}

TEST(RequestStory, TellsTheEndOthersOfTheNameAndWhatIsForgotten) {
  auto h = history();
  h.ended = true;
  h.outcome = "length";
  h.namesakes = {protocols::request_id{18}, protocols::request_id{19}};
  h.events_dropped = 1;
  h.events.pop_back();
  h.events.emplace_back(request_event::kind::lost, 500'000, instance_id{0}, protocols::epoch{1});
  h.events.emplace_back(request_event::kind::dispatched, 600'000, instance_id{2}, protocols::epoch{2});
  h.events.back().dispatch.policy = "bypass";
  h.events.back().dispatch.candidates = 3;
  const auto text = request_story(h);
  EXPECT_THAT(text, HasSubstr("ended (length) after 1.5 ms"));
  EXPECT_THAT(text, HasSubstr("others of this name: 18 19"));
  EXPECT_THAT(text, HasSubstr("1 event before these"));
  EXPECT_THAT(text, HasSubstr("lost by instance 0 (epoch 1)"));
  EXPECT_THAT(text, HasSubstr("in turn among 3: the scheduler is away"));
}

TEST(RequestStory, SaysWhyAMigrationDidNotHappen) {
  auto h = history();
  auto& m = h.events[1].migration;
  m.outcome = protocols::migration_outcome::refused;
  m.reason = protocols::migration_reason::destination_full;
  m.cause.what = migration_cause::kind::defrag;
  m.stages = 0;
  EXPECT_THAT(request_story(h), HasSubstr("not moved from instance 0 to 1 to make room for the head of the line"));
  EXPECT_THAT(request_story(h), HasSubstr(": refused (destination_full)\n"));
  m.cause.what = migration_cause::kind::handoff;
  EXPECT_THAT(request_story(h), HasSubstr("0 to 1 as its prompt was computed, and the source is for prefill (round"));
  m.cause = {};
  EXPECT_THAT(request_story(h), HasSubstr("not moved from instance 0 to 1 by hand"));
  m.epoch = {}; // nobody knows where it was
  EXPECT_THAT(request_story(h), HasSubstr("not moved to instance 1 by hand"));
  m.outcome = protocols::migration_outcome::committed;
  EXPECT_THAT(request_story(h), HasSubstr("; it waited, so there was nothing to copy"));
}

TEST(RequestStory, IsOneJsonObject) {
  const auto out = parsed(request_story_json(history()));
  EXPECT_EQ(out.at("id").as_int64(), 17);
  EXPECT_TRUE(out.at("outcome").is_null());
  EXPECT_EQ(out.at("instance").as_int64(), 1);
  EXPECT_EQ(out.at("execution_priority").as_string(), "high");
  const auto& dispatched = out.at("events").at(0);
  EXPECT_EQ(dispatched.at("event").as_string(), "dispatched");
  EXPECT_EQ(dispatched.at("why").at("policy").as_string(), "freeness");
  EXPECT_EQ(dispatched.at("why").at("score").as_double(), 12.5);
  const auto& migration = out.at("events").at(1).at("migration");
  EXPECT_EQ(migration.at("outcome").as_string(), "committed");
  EXPECT_EQ(migration.at("stall_ms").as_double(), 0.8);
  EXPECT_EQ(migration.at("cause").at("kind").as_string(), "freeness");
  EXPECT_EQ(migration.at("cause").at("round").as_int64(), 12);
  EXPECT_EQ(migration.at("cause").at("source_freeness_after").as_double(), 3.5);
}

TEST(StatusTable, CountsTheInstancesThatAreOrdered) {
  protocols::cluster_status page;
  page.scheduling.provisioning = 1;
  page.scheduling.provisioning_ns = 3'000'000'000;
  EXPECT_THAT(status_table(page), HasSubstr("\n1 instance ordered, 3 s ago\n"));
  page.scheduling.provisioning = 2;
  EXPECT_THAT(status_table(page), HasSubstr("\n2 instances ordered, the first 3 s ago\n"));
}

} // namespace godwit::main
