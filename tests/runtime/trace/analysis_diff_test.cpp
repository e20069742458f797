#include "support/trace_scenes.hpp"

#include <godwit/runtime/trace/analysis/diff.hpp>

#include <gtest/gtest.h>

namespace godwit::runtime::trace::analysis {
namespace {

TEST(TraceDiff, FindsNoneBetweenARunAndItself) {
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    const auto r = support::random_forest(seed);
    const auto d = diff(index(r), index(r));
    EXPECT_TRUE(d.equal());
    EXPECT_EQ(d.matched, r.events.size());
  }
}

TEST(TraceDiff, DoesNotMindIdsTimesAndTheOrderOfUnrelatedMessages) {
  const auto a = support::served({3, 2, 5});
  auto b = a;
  for (auto& p : b.processes) p.key += 99;
  for (auto& e : b.events) {
    e.queued_ns += 5'000'000;
    e.begin_ns += 5'000'000;
    e.end_ns += 7'000'000;
    e.id.number += 1000;
    if (e.cause) e.cause.number += 1000;
    if (e.sender) e.sender.id += 50;
    if (e.receiver) e.receiver.id += 50;
  }
  b.actors.clear();
  for (const auto& [who, name] : a.actors) b.actors[{who.process, who.id + 50}] = name;
  EXPECT_TRUE(diff(index(a), index(b)).equal());
}

TEST(TraceDiff, FindsADecisionThatIsDifferentFirst) {
  const auto a = support::served({4, 2, 5});
  auto b = a;
  auto decisions = 0;
  for (auto& e : b.events)
    if (e.kind == event_kind::note && ++decisions >= 2) e.attributes[0].value = "7";
  ASSERT_EQ(decisions, 4);
  const auto d = diff(index(a), index(b));
  ASSERT_EQ(d.differences, 3U);
  EXPECT_EQ(d.divergences[0].what, difference::content);
  EXPECT_EQ(d.divergences[0].detail, "instance: '1' and '7'");
  EXPECT_EQ(a.events[d.divergences[0].first].request, 2U);
  diff_options structure;
  structure.content = false;
  EXPECT_TRUE(diff(index(a), index(b), structure).equal());
}

TEST(TraceDiff, CountsAMissingMessageOnceAndNotItsEffects) {
  const auto a = support::served({1, 1, 5});
  auto b = a;
  auto steps = 0;
  std::erase_if(b.events, [&](const event& e) { return b.name_of(e).ends_with("step_input") && ++steps == 3; });
  // Effects of what is gone are roots now, which the first run has not.
  const auto d = diff(index(a), index(b));
  ASSERT_FALSE(d.equal());
  EXPECT_EQ(d.divergences[0].what, difference::only_in_first);
  EXPECT_TRUE(a.name_of(a.events[d.divergences[0].first]).ends_with("step_input"));
  EXPECT_NE(d.divergences[0].first_cause, nowhere);
  EXPECT_NE(d.divergences[0].second_cause, nowhere);
}

TEST(TraceDiff, ComparesContentWithoutTheNumbersOfActors) {
  const auto make = [](const std::string& said, int others) {
    support::trace_builder b;
    b.process("p");
    for (int i = 0; i < others; ++i) b.actor(0, "other");
    const auto who = b.actor(0, "llumlet");
    support::sending how;
    how.text = "(" + said + ", @" + std::to_string(who.id) + ")";
    b.deliver({}, {}, who, "t", 1, 1, how);
    auto r = b.finish();
    std::erase_if(r.events, [](const event& e) { return e.kind == event_kind::spawned; });
    return r;
  };
  EXPECT_TRUE(diff(index(make("1", 0)), index(make("1", 5))).equal());
  const auto one = make("1", 0);
  const auto two = make("2\x1b[31m", 0);
  const auto d = diff(index(one), index(two));
  ASSERT_EQ(d.differences, 1U);
  EXPECT_EQ(d.divergences[0].detail, "'(1, @llumlet)' and '(2\\x1b[31m, @llumlet)'");
}

TEST(TraceDiff, ListsTheEarliestOfMany) {
  const auto a = support::random_forest(3, 3000);
  auto b = a;
  for (auto& e : b.events) e.text = "b" + std::to_string(e.id.number);
  auto c = a;
  for (auto& e : c.events) e.text = "c" + std::to_string(e.id.number);
  const index x(b);
  const index y(c);
  const auto d = diff(x, y);
  EXPECT_GT(d.differences, 2000U);
  ASSERT_EQ(d.divergences.size(), 10U);
  for (std::size_t i = 1; i < d.divergences.size(); ++i)
    EXPECT_LE(x.begin(d.divergences[i - 1].first), x.begin(d.divergences[i].first));
}

} // namespace
} // namespace godwit::runtime::trace::analysis
