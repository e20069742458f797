// The search's own parts: a search that cannot fail finds nothing.
#include "explore/books.hpp"
#include "explore/client.hpp"
#include "explore/effects.hpp"
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
  protocols::planner_settings planner;
  planner.execution_levels = {{"normal", 0}, {"high", 6}};
  // One runs at the high level with 63 of its 64 tokens computed and wants a block for the next; one of 20 waits.
  protocols::cluster_status status;
  auto& one = status.instances.emplace_back();
  one.state = protocols::instance_state::ready;
  auto& load = one.load;
  load = {protocols::instance_id{1}, 1, 1, true};
  load.blocks_total = 20;
  load.blocks_used = 4;
  load.running = load.waiting = 1;
  load.running_max = 8;
  load.queued_blocks = 1 + 2;
  load.headroom_blocks = 6;
  load.execution_levels = 0b10;
  load.waiting_tokens = 20;
  using state = protocols::request_state;
  one.requests.emplace_back(protocols::request_id{1}, protocols::epoch{1}, state::running, 0, 60, 4, 4, 0);
  one.requests.back().execution_level = 1;
  one.requests.emplace_back(protocols::request_id{2}, protocols::epoch{1}, state::waiting, 0, 20, 0, 0, 0);
  EXPECT_EQ(compare_books(status, planner), "");

  const auto wrong = [&](auto change) {
    auto changed = status;
    change(changed.instances.front().load);
    return compare_books(changed, planner);
  };
  EXPECT_NE(wrong([](auto& l) { l.blocks_used = 3; }), "");
  EXPECT_NE(wrong([](auto& l) { l.blocks_cached = 17; }), "");
  EXPECT_NE(wrong([](auto& l) { l.running = 2; }), "");
  EXPECT_NE(wrong([](auto& l) { l.waiting = 2; }), "");
  EXPECT_NE(wrong([](auto& l) { l.migrating = 1; }), "");
  EXPECT_NE(wrong([](auto& l) { l.queued_blocks = 2; }), "");
  EXPECT_NE(wrong([](auto& l) { l.headroom_blocks = 12; }), "");
  EXPECT_NE(wrong([](auto& l) { l.execution_levels = 0b11; }), "");
  EXPECT_NE(wrong([](auto& l) { l.waiting_tokens = 19; }), "");
  // Without a place in the batch, all that is free is wanted and of no use.
  EXPECT_NE(wrong([](auto& l) { l.running_max = 1; }), "");
  EXPECT_EQ(wrong([](auto& l) {
              l.running_max = 1;
              l.queued_blocks = 16;
            }),
            "");
  status.instances.push_back(one);
  EXPECT_NE(compare_books(status, planner), "") << "the same request in the same epoch at two instances";
}

TEST(ExploreBooks, TheMeanFreenessIsThatOfTheInstances) {
  protocols::scaling_settings settings;
  settings.freeness_min = 2;
  settings.freeness_max = 8;
  protocols::load_report idle{protocols::instance_id{1}, 1, 1, true}, busy{protocols::instance_id{2}, 1, 1, true};
  idle.blocks_total = busy.blocks_total = 20;
  busy.blocks_used = 10;
  busy.running = 2;
  auto leaving = idle;
  leaving.terminating = true;
  EXPECT_EQ(recounted_mean({idle, busy, leaving}, settings), (16.0 + 5.0) / 2) << "an idle one counts with at most 16";
  EXPECT_EQ(recounted_mean({leaving}, settings), -16);
}

TEST(ExploreEffects, AreCountedByName) {
  effects a, b;
  a.add("crash");
  b.add("crash", 2);
  b.add("nothing that is known");
  a.add(b);
  EXPECT_EQ(a.of("crash"), 3U);
  EXPECT_EQ(std::count(a.counts().begin(), a.counts().end(), 0U) + 1,
            static_cast<std::ptrdiff_t>(effects::names().size()));
}

TEST(ExploreFleet, GivesTheOutcomesOfRunsInThisProcess) {
  const auto s = draw("calm", 11);
  const auto here = run(s), apart = run_apart(s, std::chrono::seconds(60));
  EXPECT_EQ(here.broken, "");
  EXPECT_EQ(apart.hash, here.hash);
  EXPECT_EQ(apart.events, here.events);
  EXPECT_EQ(apart.answered, here.answered);
  EXPECT_GT(here.answered, 0U);
  EXPECT_EQ(apart.seen.counts(), here.seen.counts());
}

} // namespace
} // namespace godwit::explore
