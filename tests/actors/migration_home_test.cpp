// The home's part in a live migration, message by message: claims that bring the tokens which are still on their way,
// reclaims, and instances that let go of a request.
#include "actors/support/idle_llumlet.hpp"
#include "actors/support/recording_sink.hpp"

#include <godwit/actors/frontend.hpp>
#include <godwit/runtime/sim/world.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace godwit::test {

using namespace std::chrono_literals;
using protocols::epoch;
using protocols::instance_id;
using ::testing::ElementsAre;
using reclaimed = protocols::ownership_reclaim::answer;

namespace {

std::vector<protocols::sampled_token> tokens(std::initializer_list<protocols::token_id> ids) {
  std::vector<protocols::sampled_token> out;
  for (const auto id : ids) {
    out.emplace_back(id);
    out.back().logprob = -0.5F * static_cast<float>(id);
  }
  return out;
}

/// A request that instance 0 has under epoch 1.
class MigrationHome : public ::testing::Test {
protected:
  MigrationHome() {
    for (auto& journal : journals) journal = std::make_shared<idle_llumlet::journal>();
    actors::frontend_options o;
    o.on_migration = [this](const protocols::migration_report& report) { noted.push_back(report); };
    home = system.spawn<actors::frontend>(std::move(o));
    llumlets[0] = system.spawn<idle_llumlet>(journals[0]);
    llumlets[1] = system.spawn<idle_llumlet>(journals[1]);
    announce(1, true);
    auto one = std::make_shared<actors::submission>();
    one->request.prompt = {1, 2, 3};
    one->request.stop.max_tokens = 100;
    one->sink = sink;
    system.tell(home, actors::submit_request{std::move(one)});
    world.run_for(1ms);
    EXPECT_EQ(journals[0]->admitted.size(), 1U);
    id = journals[0]->admitted.at(0).request;
    send(1, 0, {10, 11});
  }
  ~MigrationHome() override {
    home = {};
    llumlets[0] = llumlets[1] = {};
  }

  /// Instance 0 is the first in turn; 1 is ready when told so.
  void announce(std::uint64_t version, bool second_there) {
    actors::topology news;
    news.version = version;
    news.instances.edit().emplace_back(instance_id{0}, 1, true, llumlets[0]);
    if (second_there) news.instances.edit().emplace_back(instance_id{1}, 5, version > 1, llumlets[1]);
    system.tell(home, news);
    world.run_for(1ms);
  }
  void send(std::uint32_t under, std::uint32_t index, std::initializer_list<protocols::token_id> ids) {
    protocols::token_updates news;
    news.updates.emplace_back(id, epoch{under}, index, tokens(ids));
    system.tell(home, news);
    world.run_for(1ms);
  }
  protocols::claim_answer claim(std::uint32_t from, std::uint32_t index,
                                std::initializer_list<protocols::token_id> tail, std::uint64_t generation = 5) {
    const auto answer = system.ask(
        home, 1s, protocols::claim_request{id, epoch{from}, instance_id{1}, generation, index, tokens(tail)});
    EXPECT_TRUE(answer);
    return answer ? *answer : protocols::claim_answer{};
  }
  protocols::reclaim_answer reclaim(std::uint32_t from) {
    const auto answer = system.ask(home, 1s, protocols::reclaim_request{id, epoch{from}});
    EXPECT_TRUE(answer);
    return answer ? *answer : protocols::reclaim_answer{};
  }

  /// The source's coordinator begins to move the request.
  void prepare(std::uint32_t under, protocols::migration_cause::kind why) {
    protocols::migration_cause cause;
    cause.what = why;
    const auto answer = system.ask(
        home, 1s, protocols::prepare_move{id, epoch{under}, protocols::migration_id{77}, instance_id{1}, cause});
    EXPECT_TRUE(answer && answer->wanted);
  }
  [[nodiscard]] protocols::migration_report told_by_the_source() const {
    protocols::migration_report report;
    report.migration = protocols::migration_id{77};
    report.request = id;
    report.epoch = epoch{1};
    report.destination = instance_id{1};
    report.outcome = protocols::migration_outcome::aborted;
    report.reason = protocols::migration_reason::request_cancelled;
    return report;
  }

  std::vector<protocols::migration_report> noted; ///< what the metrics count
  runtime::sim::world world{1};
  runtime::sim::system system{world};
  std::shared_ptr<recording_sink> sink = std::make_shared<recording_sink>();
  std::shared_ptr<idle_llumlet::journal> journals[2];
  runtime::handle<actors::frontend_interface> home;
  runtime::handle<actors::llumlet_interface> llumlets[2];
  protocols::request_id id;
};

} // namespace

TEST_F(MigrationHome, AClaimBringsTheTokensThatAreStillOnTheirWay) {
  const auto answer = claim(1, 1, {11, 12, 13});
  EXPECT_TRUE(answer.granted);
  EXPECT_EQ(answer.epoch, epoch{2});
  EXPECT_THAT(sink->tokens, ElementsAre(10, 11, 12, 13));
  EXPECT_TRUE(sink->sampled == tokens({10, 11, 12, 13})) << "with their log-probabilities";
  send(1, 2, {12, 13}); // the source's own messages come late
  send(2, 4, {14});
  EXPECT_THAT(sink->tokens, ElementsAre(10, 11, 12, 13, 14));
}

TEST_F(MigrationHome, AClaimWhoseTailLeavesAGapIsRefusedAndTheRequestDispatchedAgain) {
  EXPECT_FALSE(claim(1, 3, {13}).granted);
  world.run_for(1s);
  EXPECT_THAT(sink->tokens, ElementsAre(10, 11));
  EXPECT_EQ(journals[0]->admitted.size() + journals[1]->admitted.size(), 2U);
}

TEST_F(MigrationHome, AnAnswerThatIsCompleteWithTheTailIsNotMoved) {
  sink->enough = 4;
  EXPECT_FALSE(claim(1, 2, {12, 13}).granted);
  world.run_for(1ms);
  EXPECT_EQ(sink->finished, protocols::finish_reason::stop);
  ASSERT_EQ(journals[0]->cancelled.size(), 1U) << "the source, which waits for word of its commit";
  EXPECT_EQ(reclaim(1).how, reclaimed::ended);
}

TEST_F(MigrationHome, AClaimIsGrantedAgainAndAReclaimAfterItIsNot) {
  EXPECT_TRUE(claim(1, 2, {12}).granted);
  const auto again = claim(1, 2, {12});
  EXPECT_TRUE(again.granted) << "the first answer was lost";
  EXPECT_EQ(again.epoch, epoch{2});
  EXPECT_EQ(reclaim(1).how, reclaimed::moved);
  EXPECT_THAT(sink->tokens, ElementsAre(10, 11, 12));
}

TEST_F(MigrationHome, AReclaimIsGrantedAgainAndAClaimAfterItIsNot) {
  EXPECT_EQ(reclaim(1).how, reclaimed::granted);
  const auto again = reclaim(1);
  EXPECT_EQ(again.how, reclaimed::granted);
  EXPECT_EQ(again.epoch, epoch{2});
  EXPECT_FALSE(claim(1, 2, {12}).granted);
  EXPECT_THAT(sink->tokens, ElementsAre(10, 11)) << "the epoch of that tail is over";
  send(2, 2, {12});
  EXPECT_THAT(sink->tokens, ElementsAre(10, 11, 12));
}

// The answer to the first commit was lost, and the request moved on before its first source asked.
TEST_F(MigrationHome, ASourceThatAsksLateHearsThatTheRequestMovedAlthoughItMovedOn) {
  EXPECT_TRUE(claim(1, 2, {12}).granted);
  const auto back = system.ask(home, 1s, protocols::claim_request{id, epoch{2}, instance_id{0}, 1, 3, {}});
  ASSERT_TRUE(back && back->granted);
  EXPECT_EQ(reclaim(1).how, reclaimed::moved);
  system.tell(home, told_by_the_source());
  world.run_for(1ms);
  ASSERT_EQ(noted.size(), 1U);
  EXPECT_EQ(noted[0].outcome, protocols::migration_outcome::committed);
}

TEST_F(MigrationHome, AMigrationWhoseSourceIsLostIsCountedByItsHome) {
  prepare(1, protocols::migration_cause::kind::drain);
  actors::topology news; // without instance 0
  news.version = 2;
  news.instances.edit().emplace_back(instance_id{1}, 5, true, llumlets[1]);
  system.tell(home, news);
  world.run_for(1s);
  ASSERT_EQ(noted.size(), 1U);
  EXPECT_EQ(noted[0].migration, protocols::migration_id{77});
  EXPECT_EQ(noted[0].cause.what, protocols::migration_cause::kind::drain);
  EXPECT_EQ(noted[0].source, instance_id{0});
  EXPECT_EQ(noted[0].destination, instance_id{1});
  EXPECT_EQ(noted[0].outcome, protocols::migration_outcome::lost) << "and the request dispatched anew";
  EXPECT_EQ(noted[0].reason, protocols::migration_reason::peer_lost);
  system.tell(home, told_by_the_source());
  world.run_for(1s);
  EXPECT_EQ(noted.size(), 1U) << "it was only cut off, and tells late";
}

TEST_F(MigrationHome, AMigrationThatCommittedIsCountedSoAlthoughItsSourceIsLost) {
  prepare(1, protocols::migration_cause::kind::freeness);
  EXPECT_TRUE(claim(1, 2, {12}).granted);
  actors::topology news;
  news.version = 2;
  news.instances.edit().emplace_back(instance_id{1}, 5, true, llumlets[1]);
  system.tell(home, news);
  world.run_for(1s);
  ASSERT_EQ(noted.size(), 1U);
  EXPECT_EQ(noted[0].outcome, protocols::migration_outcome::committed);
}

TEST_F(MigrationHome, AMigrationThatCommittedIsCountedSoAlthoughItsRequestHasEndedSince) {
  prepare(1, protocols::migration_cause::kind::freeness);
  sink->enough = 4;
  EXPECT_TRUE(claim(1, 2, {12}).granted);
  send(2, 3, {13});
  EXPECT_EQ(sink->finished, protocols::finish_reason::stop);
  system.tell(home, told_by_the_source()); // it heard nothing of its commit, nor of the end
  world.run_for(1s);
  ASSERT_EQ(noted.size(), 1U);
  EXPECT_EQ(noted[0].outcome, protocols::migration_outcome::committed);
}

TEST_F(MigrationHome, AMigrationThatCommittedIsCountedSoAlthoughBothItsRequestAndItsSourceAreGone) {
  prepare(1, protocols::migration_cause::kind::freeness);
  sink->enough = 4;
  EXPECT_TRUE(claim(1, 2, {12}).granted);
  send(2, 3, {13});
  actors::topology news; // without instance 0
  news.version = 2;
  news.instances.edit().emplace_back(instance_id{1}, 5, true, llumlets[1]);
  system.tell(home, news);
  world.run_for(1s);
  ASSERT_EQ(noted.size(), 1U);
  EXPECT_EQ(noted[0].outcome, protocols::migration_outcome::committed);
}

TEST_F(MigrationHome, AMigrationIsCountedThoughItsRequestHasMovedOnBeforeItsSourceWasLost) {
  prepare(1, protocols::migration_cause::kind::freeness);
  EXPECT_TRUE(claim(1, 2, {12}).granted);
  prepare(2, protocols::migration_cause::kind::manual); // the next one
  actors::topology news;
  news.version = 2;
  news.instances.edit().emplace_back(instance_id{1}, 5, true, llumlets[1]);
  system.tell(home, news);
  world.run_for(1s);
  ASSERT_EQ(noted.size(), 1U);
  EXPECT_EQ(noted[0].epoch, epoch{1});
  EXPECT_EQ(noted[0].outcome, protocols::migration_outcome::committed);
}

TEST_F(MigrationHome, AMigrationThatItsSourceToldOfIsNotCountedAgainWhenThatIsLost) {
  prepare(1, protocols::migration_cause::kind::freeness);
  system.tell(home, told_by_the_source());
  announce(2, false);
  actors::topology news;
  news.version = 3;
  system.tell(home, news);
  world.run_for(1ms);
  EXPECT_EQ(noted.size(), 1U);
}

TEST_F(MigrationHome, AnEarlierLifeOfAnInstanceIsGrantedNothing) {
  EXPECT_FALSE(claim(1, 2, {}, 4).granted);
  EXPECT_EQ(reclaim(1).how, reclaimed::granted);
}

TEST_F(MigrationHome, AMovedRequestIsDispatchedAgainWhenItsNewInstanceIsLost) {
  EXPECT_TRUE(claim(1, 2, {12}).granted);
  announce(2, false);
  world.run_for(1s);
  ASSERT_EQ(journals[0]->admitted.size(), 2U);
  EXPECT_THAT(journals[0]->admitted[1].answer, ElementsAre(10, 11, 12));
  EXPECT_EQ(journals[0]->admitted[1].epoch, epoch{3});
}

TEST_F(MigrationHome, ARequestThatItsInstanceLetGoOfIsDispatchedAgain) {
  EXPECT_TRUE(claim(1, 2, {12}).granted);
  system.tell(home, protocols::disown_request{id, epoch{1}, instance_id{0}});
  world.run_for(1s);
  EXPECT_EQ(journals[0]->admitted.size(), 1U) << "not its owner";
  system.tell(home, protocols::disown_request{id, epoch{1}, instance_id{1}});
  world.run_for(1s);
  ASSERT_EQ(journals[0]->admitted.size(), 2U);
  EXPECT_THAT(journals[0]->admitted[1].answer, ElementsAre(10, 11, 12));
}

} // namespace godwit::test
