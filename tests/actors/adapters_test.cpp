// What instances and homes do with requests that name an adapter, in a simulated world.
#include "actors/support/openai_edge_fixture.hpp"
#include "actors/support/sim_cluster.hpp"

#include <godwit/actors/instance.hpp>
#include <godwit/actors/llumlet.hpp>
#include <godwit/gpu/sim/sim_adapters.hpp>
#include <godwit/gpu/sim/sim_executor.hpp>
#include <godwit/runtime/sim/world.hpp>
#include <godwit/transport/sim/network.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <filesystem>
#include <fstream>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <unistd.h>

namespace godwit::test {

using namespace std::chrono_literals;
using protocols::adapter_ref;
using protocols::refusal;
using ::testing::HasSubstr;
using ::testing::Not;

namespace {

/// A home that counts tokens.
class counting_home final : public runtime::actor<actors::home_interface> {
public:
  counting_home(runtime::actor_context context, std::uint32_t* ended) : actor(context), ended_(ended) {}
  runtime::behavior_of<actors::home_interface> make_behavior() override {
    return {[this](protocols::token_updates& news) {
              for (const auto& update : news.updates) *ended_ += update.finished() ? 1 : 0;
            },
            [](protocols::prepare_move&) { return protocols::move_prepared{}; },
            [](protocols::claim_request&) { return protocols::claim_answer{}; },
            [](protocols::reclaim_request&) { return protocols::reclaim_answer{}; },
            [](protocols::disown_request&) {},
            [](protocols::migration_report&) {}};
  }

private:
  std::uint32_t* ended_;
};

class keeper_of_one final : public runtime::actor<actors::pair_keeper_interface> {
public:
  keeper_of_one(runtime::actor_context context, bool* drained) : actor(context), drained_(drained) {}
  runtime::behavior_of<actors::pair_keeper_interface> make_behavior() override {
    return {[](actors::instance_ready&) {}, [](actors::instance_failed&) {},
            [this](actors::instance_drained&) { *drained_ = true; }};
  }

private:
  bool* drained_;
};

/// One instance, whose adapters take 50 ms to load.
class AdaptersOfAnInstance : public ::testing::Test {
protected:
  void start(gpu::sim::sim_adapters_settings settings = {}, bool has_adapters = true) {
    gpu::executor_info info;
    info.layers = 2;
    info.vocabulary = 100;
    info.positions_max = 64;
    info.blocks = 32;
    if (has_adapters) adapters = std::make_shared<gpu::sim::sim_adapters>(world.timers(), std::move(settings));
    actors::instance_options i;
    i.make_executor = [this, info](protocols::instance_id, std::function<void(actors::executor_outcome)> done) {
      gpu::sim::sim_model model;
      model.adapters = adapters;
      done({gpu::sim::make_sim_executor(info, {}, world.timers(), model), {}});
    };
    actors::llumlet_options l;
    l.instance = system.spawn<actors::instance>(std::move(i));
    l.node = system.spawn<keeper_of_one>(&drained);
    l.planner.step_tokens_max = 64;
    l.planner.running_max = 4;
    l.planner.waiting_max = 2;
    l.adapter_wait = 200ms;
    llumlet = system.spawn<actors::llumlet>(std::move(l));
    home = system.spawn<counting_home>(&ended);
    world.run_for(10ms);
  }
  static actors::generate_order order(std::uint64_t id, adapter_ref adapter,
                                      const runtime::handle<actors::home_interface>& by) {
    protocols::generate_request r;
    r.request = protocols::request_id{id};
    r.epoch = protocols::epoch{1};
    r.prompt.assign(5, 7);
    r.adapter = std::move(adapter);
    r.stop.max_tokens = 20;
    return {std::move(r), by};
  }
  protocols::admission admit(std::uint64_t id, adapter_ref adapter) {
    auto answer = system.ask(llumlet, 10s, order(id, std::move(adapter), home));
    EXPECT_TRUE(answer);
    return answer ? *answer : protocols::admission{};
  }
  protocols::instance_status status() {
    auto answer = system.ask(llumlet, 1s, actors::status_query{true});
    EXPECT_TRUE(answer);
    return answer ? *answer : protocols::instance_status{};
  }

  runtime::sim::world world{1};
  std::uint32_t ended = 0;
  bool drained = false;
  runtime::sim::system system{world};
  std::shared_ptr<gpu::sim::sim_adapters> adapters;
  runtime::handle<actors::llumlet_interface> llumlet;
  runtime::handle<actors::home_interface> home;
};

} // namespace

TEST_F(AdaptersOfAnInstance, AreBroughtWhenTheyAreFirstAskedFor) {
  start();
  const auto before = world.clock().now();
  EXPECT_TRUE(admit(1, {"a", 1}).accepted());
  EXPECT_GE(world.clock().now() - before, 50ms);
  const auto loaded = world.clock().now();
  EXPECT_TRUE(admit(2, {"a", 1}).accepted());
  EXPECT_LT(world.clock().now() - loaded, 5ms) << "it is there";
  EXPECT_EQ(adapters->counts().loads_total, 1U);
  EXPECT_EQ(adapters->holders(), 2U);
  ASSERT_TRUE(world.run_until([&] { return ended == 2; }));
  world.run_for(10ms);
  EXPECT_EQ(adapters->holders(), 0U) << "nobody holds what nobody needs";
  EXPECT_EQ(adapters->counts().adapters, 1U) << "the next one finds it";
}

TEST_F(AdaptersOfAnInstance, ThatIsSlowIsNotReady) {
  start({.load_time = 500ms});
  const auto answer = admit(1, {"a", 1});
  EXPECT_EQ(answer.reason, refusal::not_ready);
  world.run_for(1s); // what is under way is brought all the same
  EXPECT_EQ(adapters->holders(), 0U);
  EXPECT_TRUE(admit(1, {"a", 1}).accepted());
  EXPECT_EQ(adapters->counts().loads_total, 1U);
}

TEST_F(AdaptersOfAnInstance, ThatCannotBeHadRefusesWithTheReason) {
  start({.fails = [](const adapter_ref& which) { return which.name == "b" ? "b is broken" : std::string(); }});
  const auto answer = admit(1, {"b", 2});
  EXPECT_EQ(answer.reason, refusal::no_adapter);
  EXPECT_THAT(answer.why, HasSubstr("b is broken"));
  EXPECT_TRUE(admit(2, {"a", 1}).accepted());
  EXPECT_TRUE(admit(3, {}).accepted());
}

TEST_F(AdaptersOfAnInstance, WithoutAnyRefusesWhatNamesOne) {
  start({}, false);
  const auto answer = admit(1, {"a", 1});
  EXPECT_EQ(answer.reason, refusal::no_adapter);
  EXPECT_THAT(answer.why, HasSubstr("--lora-dir"));
  EXPECT_TRUE(admit(2, {}).accepted());
}

// Otherwise a queue that is not bounded stands before the one that is.
TEST_F(AdaptersOfAnInstance, AQueueOfThoseThatWaitForThemIsBounded) {
  start();
  system.tell(llumlet, order(1, {"a", 1}, home));
  system.tell(llumlet, order(2, {"b", 2}, home));
  EXPECT_EQ(admit(3, {"c", 3}).reason, refusal::queue_full);
  EXPECT_TRUE(admit(4, {}).accepted()) << "who needs none does not wait for it";
  ASSERT_TRUE(world.run_until([&] { return ended == 3; }));
}

// As in a queue, from which nobody is turned away who had a place elsewhere.
TEST_F(AdaptersOfAnInstance, WhoWasTakenBeforeWaitsForThemToo) {
  start();
  system.tell(llumlet, order(1, {"a", 1}, home));
  system.tell(llumlet, order(2, {"b", 2}, home));
  auto lost = order(3, {"c", 3}, home);
  lost.request.taken_before = true;
  const auto answer = system.ask(llumlet, 10s, std::move(lost));
  ASSERT_TRUE(answer);
  EXPECT_TRUE(answer->accepted());
  ASSERT_TRUE(world.run_until([&] { return ended == 3; }));
}

// The scheduler counts them until the instance does.
TEST_F(AdaptersOfAnInstance, ReportsNameThoseThatWaitForThem) {
  start();
  const auto send = [&](std::uint64_t number, adapter_ref adapter) {
    auto one = order(number, std::move(adapter), home);
    one.dispatch = 10 + number;
    system.tell(llumlet, std::move(one));
    world.run_for(1ms);
  };
  send(1, {});
  send(2, {"a", 1});
  send(3, {});
  auto load = status().load;
  EXPECT_EQ(load.dispatched, 13U);
  EXPECT_THAT(load.held_back, ::testing::ElementsAre(12U));
  EXPECT_EQ(load.running + load.waiting, 2U);
  world.run_for(60ms);
  load = status().load;
  EXPECT_EQ(load.dispatched, 13U);
  EXPECT_THAT(load.held_back, ::testing::IsEmpty());
  ASSERT_TRUE(world.run_until([&] { return ended == 3; }));
}

TEST_F(AdaptersOfAnInstance, ARequestThatIsCancelledMeanwhileDoesNotStart) {
  start();
  system.tell(llumlet, order(1, {"a", 1}, home));
  world.run_for(10ms);
  system.tell(llumlet, protocols::cancel_request{protocols::request_id{1}, protocols::epoch{1}});
  world.run_for(1s);
  EXPECT_EQ(ended, 0U);
  EXPECT_TRUE(status().requests.empty());
  EXPECT_EQ(adapters->holders(), 0U);
}

TEST_F(AdaptersOfAnInstance, ADrainWaitsForWhoWaitsAndNoLonger) {
  start();
  system.tell(llumlet, order(1, {"a", 1}, home));
  world.run_for(10ms);
  system.tell(llumlet, actors::drain_order{true, 1});
  world.run_for(10ms);
  EXPECT_FALSE(drained);
  world.run_for(1s);
  EXPECT_TRUE(drained);
  EXPECT_EQ(ended, 0U) << "it came too late to be taken";
  EXPECT_EQ(adapters->holders(), 0U);
}

TEST_F(AdaptersOfAnInstance, WithRoomForOneServesOneAfterTheOther) {
  start({.slots = 1});
  ASSERT_TRUE(admit(1, {"a", 1}).accepted());
  EXPECT_TRUE(admit(2, {"b", 2}).accepted()) << "after the first one's 20 tokens";
  EXPECT_EQ(ended, 1U);
  EXPECT_EQ(adapters->counts().evictions_total, 1U);
  ASSERT_TRUE(world.run_until([&] { return ended == 2; }));
}

// ---- Migrations ------------------------------------------------------------------------------------------------

namespace {

/// Two processes, of which the second one's adapters are as said.
class AdaptersOfTwo : public ::testing::Test {
protected:
  void start(std::optional<gpu::sim::sim_adapters_settings> there) {
    first = std::make_shared<gpu::sim::sim_adapters>(timers(), gpu::sim::sim_adapters_settings{});
    if (there) second = std::make_shared<gpu::sim::sim_adapters>(timers(), std::move(*there));
    gpu::executor_info info;
    info.layers = 2;
    info.vocabulary = 100;
    info.positions_max = 512;
    info.blocks = 64;
    for (std::uint32_t i = 0; i < 2; ++i) {
      actors::instance_options device;
      device.make_executor = [this, i, info](protocols::instance_id,
                                             std::function<void(actors::executor_outcome)> done) {
        gpu::sim::sim_model model;
        model.adapters = i == 0 ? first : second;
        done({gpu::sim::make_sim_executor(info, {}, timers(), model), {}});
      };
      actors::llumlet_options l;
      l.id = protocols::instance_id{i};
      l.instance = system.spawn<actors::instance>(std::move(device));
      l.planner.step_tokens_max = 64;
      l.planner.running_max = 4;
      l.planner.waiting_max = 2;
      l.migration.fabric = network.make_fabric("host-" + std::to_string(i), timers());
      l.migration.transfers = std::make_shared<std::atomic<std::uint64_t>>(0);
      l.migration.settings.answer_timeout = 400ms;
      llumlets.push_back(system.spawn<actors::llumlet>(std::move(l)));
    }
    home = system.spawn<granting_home>(&ended);
    world.run_for(50ms);
  }
  /// A request with an adapter at the first one, which is to go to the second one.
  std::optional<protocols::migration_report> move() {
    protocols::generate_request r;
    r.request = protocols::request_id{1};
    r.epoch = protocols::epoch{1};
    r.prompt.assign(40, 7);
    r.adapter = {"sql", 5};
    r.stop.max_tokens = 300;
    const auto taken = system.ask(llumlets[0], 10s,
                                  actors::generate_order{std::move(r), runtime::handle<actors::home_interface>{home}});
    EXPECT_TRUE(taken && taken->accepted());
    world.run_for(20ms);
    auto order =
        actors::migrate_order{protocols::request_id{1}, protocols::epoch{1}, protocols::instance_id{1}, llumlets[1]};
    const auto report = system.ask(llumlets[0], 10s, std::move(order));
    if (!report) return std::nullopt;
    return *report;
  }
  runtime::timer_source& timers() { return world.timers(); }

  /// Grants what is asked.
  class granting_home final : public runtime::actor<actors::home_interface> {
  public:
    granting_home(runtime::actor_context context, std::uint32_t* ended) : actor(context), ended_(ended) {}
    runtime::behavior_of<actors::home_interface> make_behavior() override {
      return {[this](protocols::token_updates& news) {
                for (const auto& update : news.updates) *ended_ += update.finished() ? 1 : 0;
              },
              [](protocols::prepare_move&) {
                protocols::move_prepared yes;
                yes.wanted = true;
                return yes;
              },
              [](protocols::claim_request& claim) {
                protocols::claim_answer yes;
                yes.granted = true;
                yes.epoch = protocols::epoch{claim.from.value() + 1};
                return yes;
              },
              [](protocols::reclaim_request&) { return protocols::reclaim_answer{}; },
              [](protocols::disown_request&) {},
              [](protocols::migration_report&) {}};
    }

  private:
    std::uint32_t* ended_;
  };

  runtime::sim::world world{1};
  std::uint32_t ended = 0;
  transport::sim::network network{world.timers(), {}};
  runtime::sim::system system{world};
  std::shared_ptr<gpu::sim::sim_adapters> first, second;
  std::vector<runtime::handle<actors::llumlet_interface>> llumlets;
  runtime::handle<actors::home_interface> home;
};

} // namespace

TEST_F(AdaptersOfTwo, ARequestMovesToWhereItsAdapterIsBrought) {
  start(gpu::sim::sim_adapters_settings{});
  const auto report = move();
  ASSERT_TRUE(report);
  EXPECT_TRUE(report->committed()) << to_string(report->reason);
  EXPECT_EQ(second->counts().loads_total, 1U);
  EXPECT_EQ(second->holders(), 1U);
  world.run_for(100ms);
  EXPECT_EQ(first->holders(), 0U) << "the source has let go";
  ASSERT_TRUE(world.run_until([&] { return ended == 1; }));
  world.run_for(100ms);
  EXPECT_EQ(second->holders(), 0U);
}

TEST_F(AdaptersOfTwo, ARequestStaysWhereOthersHaveNotItsAdapter) {
  start(std::nullopt);
  const auto report = move();
  ASSERT_TRUE(report);
  EXPECT_EQ(report->reason, protocols::migration_reason::no_adapter);
  EXPECT_EQ(first->holders(), 1U);
  ASSERT_TRUE(world.run_until([&] { return ended == 1; }));
}

TEST_F(AdaptersOfTwo, ARequestStaysWhereOthersTakeTooLongForItsAdapter) {
  gpu::sim::sim_adapters_settings slow;
  slow.load_time = 10s;
  start(slow);
  const auto report = move();
  ASSERT_TRUE(report);
  EXPECT_EQ(report->reason, protocols::migration_reason::no_adapter);
  world.run_for(20s);
  EXPECT_EQ(second->holders(), 0U) << "and nobody holds it when it comes";
  EXPECT_EQ(ended, 1U);
}

// ---- Homes -----------------------------------------------------------------------------------------------------

namespace {

std::shared_ptr<recording_sink> submit(sim_cluster& to, adapter_ref adapter) {
  auto one = std::make_shared<actors::submission>();
  one->request.prompt.assign(20, 5);
  one->request.sampling.temperature = 0;
  one->request.stop.max_tokens = 10;
  one->request.adapter = std::move(adapter);
  auto sink = std::make_shared<recording_sink>();
  one->sink = sink;
  to.submit(std::move(one));
  EXPECT_TRUE(to.run_until_ended({sink}));
  return sink;
}

} // namespace

TEST(AdaptersOfACluster, ThatNobodyHasEndTheRequestInWords) {
  sim_cluster all;
  const auto none = submit(all, {"sql", 1});
  ASSERT_TRUE(none->failed);
  EXPECT_EQ(none->failed->kind, actors::failure_kind::unavailable);
  EXPECT_EQ(none->failed->message, "the adapter 'sql' cannot be loaded; the server's log says why");
  EXPECT_FALSE(submit(all, {})->failed);
}

// As never_fits: the others are asked.
TEST(AdaptersOfACluster, OneThatSomeCannotHaveIsServedByTheOthers) {
  sim_cluster_options options;
  options.instances = 3;
  options.policy = "round_robin";
  options.adapters.emplace();
  std::uint32_t asked = 0; // all have one store here: two of three tries fail
  options.adapters->fails = [&asked](const adapter_ref&) { return ++asked % 3 != 0 ? "broken" : std::string(); };
  sim_cluster all(std::move(options));
  for (std::uint64_t id = 1; id <= 4; ++id) EXPECT_FALSE(submit(all, {"a", id})->failed) << id;
}

TEST(AdaptersOfACluster, TheSamePromptIsComputedAnewForEach) {
  sim_cluster_options options;
  options.instances = 1;
  options.adapters.emplace();
  sim_cluster all(std::move(options));
  const auto plain = submit(all, {}), a = submit(all, {"a", 1}), b = submit(all, {"b", 2}),
             again = submit(all, {"a", 1});
  EXPECT_NE(plain->tokens, a->tokens);
  EXPECT_NE(b->tokens, a->tokens);
  EXPECT_EQ(again->tokens, a->tokens);
  EXPECT_EQ(plain->usage.cached_tokens, 0U);
  EXPECT_EQ(a->usage.cached_tokens, 0U);
  EXPECT_EQ(b->usage.cached_tokens, 0U);
  EXPECT_EQ(again->usage.cached_tokens, 16U);
}

// ---- The HTTP endpoint --------------------------------------------------------------------------------------------

namespace {

class AdaptersOfTheEdge : public openai_edge_fixture {
protected:
  void SetUp() override {
    openai_edge_fixture::SetUp();
    if (IsSkipped()) return;
    std::filesystem::remove_all(path);
    std::filesystem::create_directories(path);
    sim_cluster_options options;
    options.adapters.emplace();
    adapters = std::make_shared<gpu::model::adapter_directory>(path);
    restart(std::move(options));
  }
  void TearDown() override { std::filesystem::remove_all(path); }
  /// What the endpoint looks at; a simulated device reads nothing.
  void put(const std::string& name, const std::string& content) {
    std::filesystem::create_directories(path / name);
    std::ofstream(path / name / "adapter_model.safetensors") << content;
    std::ofstream(path / name / "adapter_config.json") << "{}";
  }
  std::string text_of(const std::string& model) {
    return field(
        complete(R"({"model":")" + model + R"(","prompt":"A hacker is","max_tokens":20,"temperature":0})")->whole.body,
        "text");
  }

  std::filesystem::path path =
      std::filesystem::temp_directory_path() / ("godwit-edge-adapters-" + std::to_string(::getpid()));
};

} // namespace

TEST_F(AdaptersOfTheEdge, AreModels) {
  put("sql", "one");
  put("law", "two");
  const auto list = call("GET", "/v1/models")->whole.body;
  EXPECT_THAT(list, HasSubstr(R"({"id":"sim-model")"));
  EXPECT_THAT(list, HasSubstr(R"("id":"law","object":"model")"));
  EXPECT_LT(list.find("\"law\""), list.find("\"sql\""));
  EXPECT_THAT(call("GET", "/v1/models/sql")->whole.body, HasSubstr(R"("parent":"sim-model")"));
  EXPECT_EQ(call("GET", "/v1/models/nope")->whole.status, 404);
  EXPECT_EQ(call("GET", "/v1/models/..%2Fsql")->whole.status, 404);
  EXPECT_NE(text_of("sql"), text_of("sim-model"));
  EXPECT_NE(text_of("sql"), text_of("law"));
  EXPECT_EQ(text_of("sql"), text_of("sql"));
  const auto answer = complete(R"({"model":"sql","prompt":"A hacker is","max_tokens":2})")->whole.body;
  EXPECT_EQ(field(answer, "model"), "sql");
  EXPECT_EQ(call("POST", "/tokenize", R"({"model":"sql","prompt":"A"})")->whole.status, 200);
  EXPECT_EQ(call("POST", "/detokenize", R"({"model":"nope","tokens":[5]})")->whole.status, 404);
}

TEST_F(AdaptersOfTheEdge, ComeAndGoWhileItServes) {
  EXPECT_EQ(complete(R"({"model":"sql","prompt":"A","max_tokens":2})")->whole.status, 404);
  put("sql", "one");
  EXPECT_EQ(complete(R"({"model":"sql","prompt":"A","max_tokens":2})")->whole.status, 200);
  const auto before = text_of("sql");
  put("sql", "another one, which is longer");
  EXPECT_NE(text_of("sql"), before);
  std::filesystem::remove_all(path / "sql");
  EXPECT_EQ(complete(R"({"model":"sql","prompt":"A","max_tokens":2})")->whole.status, 404);
}

TEST_F(AdaptersOfTheEdge, ThatCannotBeReadAreRefusedWithoutTellingWhere) {
  std::filesystem::create_directories(path / "sql");
  std::ofstream(path / "sql" / "adapter_config.json") << "{}";
  const auto answer = complete(R"({"model":"sql","prompt":"A","max_tokens":2})");
  EXPECT_EQ(answer->whole.status, 400);
  EXPECT_THAT(answer->whole.body, HasSubstr("The adapter 'sql' cannot be read."));
  EXPECT_THAT(answer->whole.body, Not(HasSubstr(path.string())));
}

} // namespace godwit::test
