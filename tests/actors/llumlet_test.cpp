#include <godwit/actors/instance.hpp>
#include <godwit/actors/llumlet.hpp>
#include <godwit/gpu/sim/sim_executor.hpp>
#include <godwit/runtime/sim/world.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <utility>

namespace godwit::test {

using namespace std::chrono_literals;

namespace {

/// A home that keeps what it is told.
class keeping_home final : public runtime::actor<actors::home_interface> {
public:
  keeping_home(runtime::actor_context context, std::vector<protocols::token_update>* kept)
      : actor(context), kept_(kept) {}
  runtime::behavior_of<actors::home_interface> make_behavior() override {
    return {[this](protocols::token_updates& news) {
              for (auto& update : news.updates) kept_->push_back(std::move(update));
            },
            [](protocols::prepare_move&) { return protocols::move_prepared{}; },
            [](protocols::claim_request&) { return protocols::claim_answer{}; },
            [](protocols::reclaim_request&) { return protocols::reclaim_answer{}; },
            [](protocols::disown_request&) {},
            [](protocols::migration_report&) {}};
  }

private:
  std::vector<protocols::token_update>* kept_;
};

class Llumlet : public ::testing::Test {
protected:
  void SetUp() override {
    gpu::executor_info info;
    info.layers = 2;
    info.vocabulary = 100;
    info.positions_max = 64;
    info.blocks = 16;
    actors::instance_options i;
    i.make_executor = [this, info](protocols::instance_id, std::function<void(actors::executor_outcome)> done) {
      done({gpu::sim::make_sim_executor(info, {}, world.timers()), {}});
    };
    actors::llumlet_options l;
    instance = system.spawn<actors::instance>(std::move(i));
    l.instance = instance;
    l.planner.step_tokens_max = 64;
    l.planner.running_max = 4;
    l.planner.waiting_max = 4;
    llumlet = system.spawn<actors::llumlet>(std::move(l));
    home = system.spawn<keeping_home>(&updates);
    world.run_for(10ms);
  }

  runtime::async::expected<protocols::admission> admit(std::uint64_t id, std::uint32_t epoch, std::size_t prompt,
                                                       std::vector<protocols::token_id> answer, std::uint32_t max) {
    protocols::generate_request r;
    r.request = protocols::request_id{id};
    r.epoch = protocols::epoch{epoch};
    r.prompt.assign(prompt, 7);
    r.answer = std::move(answer);
    r.stop.max_tokens = max;
    return system.ask(llumlet, 1s, actors::generate_order{std::move(r), runtime::handle<actors::home_interface>{home}});
  }

  runtime::sim::world world{1};
  std::vector<protocols::token_update> updates;
  runtime::sim::system system{world};
  runtime::handle<actors::instance_interface> instance;
  runtime::handle<actors::llumlet_interface> llumlet;
  runtime::handle<actors::home_interface> home;
};

} // namespace

// The last update of its former owner was lost: nothing is left to compute, and the home still has to hear of the end.
TEST_F(Llumlet, ARequestThatIsCompleteWhenItArrivesIsToldSo) {
  const auto answer = admit(1, 2, 5, {1, 2, 3}, 3);
  ASSERT_TRUE(answer);
  EXPECT_TRUE(answer->accepted());
  ASSERT_TRUE(world.run_until([&] { return !updates.empty(); }));
  EXPECT_EQ(updates[0].finish, protocols::finish_reason::length);
  EXPECT_EQ(updates[0].epoch, protocols::epoch{2});
}

TEST_F(Llumlet, ALaterEpochReplacesAnEarlierOneInTheMiddleOfAStep) {
  ASSERT_TRUE(admit(1, 1, 5, {}, 40)->accepted());
  world.run_for(5ms);
  ASSERT_TRUE(admit(1, 2, 5, {}, 4)->accepted());
  ASSERT_TRUE(world.run_until([&] { return !updates.empty() && updates.back().finished(); }));
  std::size_t tokens = 0;
  for (const auto& update : updates)
    if (update.epoch == protocols::epoch{2}) tokens += update.tokens.size();
  EXPECT_EQ(tokens, 4U) << "the home hears of the new epoch, although the old one's end came in between";
  world.run_for(1s);
  const auto status = system.ask(llumlet, 1s, actors::status_query{true});
  ASSERT_TRUE(status);
  EXPECT_TRUE(status->requests.empty());
  EXPECT_EQ(status->load.blocks_used, 0U);
}

TEST_F(Llumlet, RequestsOfAHomeThatDiesAreDropped) {
  ASSERT_TRUE(admit(1, 1, 5, {}, 50)->accepted());
  ASSERT_TRUE(admit(2, 1, 5, {}, 50)->accepted());
  world.run_for(5ms);
  system.stop(home, runtime::stop_reason::killed);
  world.run_for(1s);
  const auto status = system.ask(llumlet, 1s, actors::status_query{true});
  ASSERT_TRUE(status);
  EXPECT_TRUE(status->requests.empty());
  EXPECT_EQ(status->load.blocks_used, 0U);
}

TEST_F(Llumlet, TellsWithTheFirstTokenHowLongARequestWaitedForItsFirstStep) {
  for (std::uint64_t id = 1; id <= 5; ++id) ASSERT_TRUE(admit(id, 1, 5, {}, 10)->accepted()); // four run at a time
  ASSERT_TRUE(world.run_until([&] { return updates.size() == 50; }));
  std::map<std::uint64_t, std::chrono::nanoseconds> waited;
  for (const auto& update : updates) {
    if (update.first_index == 0)
      waited[update.request.value()] = std::chrono::nanoseconds{update.queue_ns};
    else
      EXPECT_EQ(update.queue_ns, 0);
  }
  ASSERT_EQ(waited.size(), 5U);
  EXPECT_LT(waited[1], 1ms) << "nobody was before it";
  EXPECT_GT(waited[5], 18ms) << "ten steps of 2 ms and a little: until another had its tokens";
  EXPECT_LT(waited[5], 40ms);
}

// An earlier epoch of it that comes late, and is refused, changes nothing of it.
TEST_F(Llumlet, ARefusedDuplicateDoesNotBeginTheWaitAnew) {
  for (std::uint64_t id = 1; id <= 5; ++id) ASSERT_TRUE(admit(id, 2, 5, {}, 10)->accepted());
  world.run_for(15ms);
  ASSERT_EQ(admit(5, 1, 5, {}, 10)->reason, protocols::refusal::duplicate);
  std::int64_t waited_ns = 0;
  ASSERT_TRUE(world.run_until([&] { return updates.size() == 50; }));
  for (const auto& update : updates)
    if (update.request == protocols::request_id{5}) waited_ns = std::max(waited_ns, update.queue_ns);
  EXPECT_GT(std::chrono::nanoseconds{waited_ns}, 18ms);
}

// An embedder who names no end-of-sequence tokens means the model's: otherwise every answer runs to max_tokens.
TEST_F(Llumlet, AnswersEndWithTheTokensThatTheModelEndsWith) {
  const auto tokens_of_an_answer = [this](std::vector<protocols::token_id> eos) {
    gpu::executor_info info;
    info.layers = 2;
    info.vocabulary = 100;
    info.positions_max = 64;
    info.blocks = 16;
    gpu::sim::sim_model says;
    says.eos = {3};
    says.eos_share = 1;
    actors::instance_options i;
    i.make_executor = [&](protocols::instance_id, std::function<void(actors::executor_outcome)> done) {
      done({gpu::sim::make_sim_executor(info, {}, world.timers(), says), {}});
    };
    actors::llumlet_options l;
    l.instance = system.spawn<actors::instance>(std::move(i));
    l.planner.step_tokens_max = 64;
    l.planner.running_max = 4;
    l.planner.eos = std::move(eos);
    llumlet = system.spawn<actors::llumlet>(std::move(l));
    world.run_for(10ms);
    updates.clear();
    EXPECT_TRUE(admit(1, 1, 5, {}, 20)->accepted());
    EXPECT_TRUE(world.run_until([&] { return !updates.empty() && updates.back().finished(); }));
    std::size_t tokens = 0;
    for (const auto& update : updates) tokens += update.tokens.size();
    return std::pair{tokens, updates.back().finish};
  };
  EXPECT_EQ(tokens_of_an_answer({}), (std::pair{std::size_t{1}, protocols::finish_reason::stop}));
  EXPECT_EQ(tokens_of_an_answer({5}), (std::pair{std::size_t{20}, protocols::finish_reason::length}));
}

// Its node takes the end of the one for the end of both.
TEST_F(Llumlet, EndsWhenItsInstanceIsGone) {
  ASSERT_TRUE(admit(1, 1, 5, {}, 50)->accepted());
  system.stop(instance, runtime::stop_reason::killed);
  ASSERT_TRUE(world.run_until([&] { return system.alive() == 1; })) << "only the home is left";
}

} // namespace godwit::test
