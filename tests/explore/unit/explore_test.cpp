// The search's own parts: a search that cannot fail finds nothing.
#include "explore/books.hpp"
#include "explore/client.hpp"
#include "explore/fleet.hpp"
#include "explore/scenario.hpp"
#include "explore/shrink.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

namespace godwit::explore {
namespace {

using numbers = std::set<std::size_t>;

TEST(ExploreNumbers, AreReadAsTheyAreWritten) {
  for (const auto& text : {"none", "0", "0,2", "1-3", "0,3-5,9"}) {
    const auto read = parse_numbers(text);
    ASSERT_TRUE(read) << text;
    EXPECT_EQ(to_string(*read), text);
  }
  EXPECT_EQ(*parse_numbers("0,3-5"), (numbers{0, 3, 4, 5}));
  for (const auto& text : {"", "a", "1,", ",1", "3-1", "1-", "-1", "1 2", "99999999999999999999", "0-100000"})
    EXPECT_FALSE(parse_numbers(text)) << text;
}

TEST(ExploreScenario, FollowsFromItsNameAndSeed) {
  for (const auto& recipe : recipes()) {
    const auto a = draw(recipe.name, 5), again = draw(recipe.name, 5), other = draw(recipe.name, 6);
    EXPECT_EQ(describe(a), describe(again));
    EXPECT_NE(describe(a), describe(other));
    EXPECT_LE(a.machines.size() + 1, 5U);
    EXPECT_GT(a.requests.size(), 0U);
  }
  EXPECT_THROW((void)draw("nothing", 1), std::invalid_argument);
}

TEST(ExploreScenario, PartsKeepTheirNumbersWhenOthersAreLeftOut) {
  const auto whole = draw("chaos", 3);
  const auto less = select(whole, {numbers{1}, numbers{0, 2}, numbers{}});
  ASSERT_EQ(less.faults.size(), 1U);
  EXPECT_EQ(to_string(less.faults[0].second), to_string(whole.faults[1].second));
  ASSERT_EQ(less.requests.size(), 2U);
  EXPECT_EQ(less.requests[1].first, 2U);
  EXPECT_EQ(replay_line(less, whole),
            "./run explore --scenario chaos --seed 3 --faults 1 --requests 0,2 --settings none");
  EXPECT_EQ(replay_line(whole, whole), "./run explore --scenario chaos --seed 3");
}

TEST(ExploreShrink, KeepsWhatTheFailureNeedsAndNothingElse) {
  const auto whole = draw("chaos", 4);
  ASSERT_GT(whole.faults.size(), 2U);
  const auto needed = whole.faults[1].first;
  outcome broken;
  broken.broken = "a promise";
  const auto small = shrink(whole, broken, 1000, [&](const scenario& s) {
    outcome out;
    const auto has = [](const auto& parts, std::size_t number) {
      return std::any_of(parts.begin(), parts.end(), [&](const auto& part) { return part.first == number; });
    };
    if (has(s.faults, needed) && has(s.requests, 3)) out.broken = "a promise";
    // Another failure is not this one.
    if (s.requests.empty()) out.broken = "another promise";
    return out;
  });
  ASSERT_EQ(small.smallest.faults.size(), 1U);
  EXPECT_EQ(small.smallest.faults[0].first, needed);
  ASSERT_EQ(small.smallest.requests.size(), 1U);
  EXPECT_EQ(small.smallest.requests[0].first, 3U);
  EXPECT_TRUE(small.smallest.settings.empty());
}

TEST(ExploreShrink, EndsAfterSoManyRuns) {
  std::uint32_t runs = 0;
  outcome broken;
  broken.broken = "a promise";
  const auto small = shrink(draw("chaos", 4), broken, 5, [&](const scenario&) {
    ++runs;
    return outcome{};
  });
  EXPECT_EQ(runs, 5U);
  EXPECT_EQ(small.what.broken, "a promise");
}

std::vector<protocols::sampled_token> tokens(std::initializer_list<protocols::token_id> ids) {
  std::vector<protocols::sampled_token> out;
  for (const auto id : ids) out.emplace_back(id);
  return out;
}

TEST(ExploreClient, SeesWhatIsWrongWithAnAnswer) {
  const calm_answer calm{{5, 6, 7}, protocols::finish_reason::length};
  const auto usage = [](std::uint32_t count) {
    actors::answer_usage u;
    u.answer_tokens = count;
    return u;
  };
  {
    client c(&calm);
    EXPECT_TRUE(c.on_tokens(tokens({5, 6}), false));
    EXPECT_TRUE(c.on_tokens(tokens({7}), false));
    c.on_finished(protocols::finish_reason::length, usage(3));
    EXPECT_EQ(c.wrong, "");
    c.on_failed({actors::failure_kind::internal, "late"});
    EXPECT_EQ(c.wrong, "a second ending");
  }
  const auto wrong = [&](auto act) {
    client c(&calm);
    act(c);
    return c.wrong;
  };
  EXPECT_NE(wrong([&](client& c) { (void)c.on_tokens(tokens({5, 7}), false); }), "") << "one is missing";
  EXPECT_NE(wrong([&](client& c) { (void)c.on_tokens(tokens({5, 5}), false); }), "") << "one came twice";
  EXPECT_NE(wrong([&](client& c) { (void)c.on_tokens(tokens({5, 6, 7, 8}), false); }), "") << "one too many";
  EXPECT_NE(wrong([&](client& c) { (void)c.on_tokens(tokens({}), false); }), "");
  EXPECT_NE(wrong([&](client& c) { c.on_finished(protocols::finish_reason::length, usage(0)); }), "") << "too early";
  EXPECT_NE(wrong([&](client& c) { c.on_failed({actors::failure_kind::internal, ""}); }), "") << "no cause";
  EXPECT_NE(wrong([&](client& c) {
              (void)c.on_tokens(tokens({5, 6, 7}), false);
              c.on_finished(protocols::finish_reason::stop, usage(3));
            }),
            "");
  EXPECT_NE(wrong([&](client& c) {
              (void)c.on_tokens(tokens({5, 6, 7}), false);
              c.on_finished(protocols::finish_reason::length, usage(2));
            }),
            "")
      << "billed for another number";
}

TEST(ExploreBooks, ARecountFindsWhatIsNotCounted) {
  protocols::cluster_status status;
  auto& one = status.instances.emplace_back();
  one.state = protocols::instance_state::ready;
  one.load.blocks_total = 10;
  one.load.blocks_used = 4;
  one.load.running = 1;
  one.requests.emplace_back(protocols::request_id{1}, protocols::epoch{1}, protocols::request_state::running, 0, 10, 3,
                            4, 0);
  EXPECT_EQ(compare_books(status), "");
  one.load.blocks_used = 3;
  EXPECT_NE(compare_books(status), "");
  one.load.blocks_used = 4;
  one.load.running = 2;
  EXPECT_NE(compare_books(status), "");
  one.load.running = 1;
  status.instances.push_back(one);
  EXPECT_NE(compare_books(status), "") << "the same request in the same epoch at two instances";
}

TEST(ExploreFleet, GivesTheOutcomesOfRunsInThisProcess) {
  const auto s = draw("calm", 11);
  const auto here = run(s), apart = run_apart(s, std::chrono::seconds(60));
  EXPECT_EQ(here.broken, "");
  EXPECT_EQ(apart.hash, here.hash);
  EXPECT_EQ(apart.events, here.events);
  EXPECT_EQ(apart.answered, here.answered);
  EXPECT_GT(here.answered, 0U);
}

} // namespace
} // namespace godwit::explore
