#include "support/trace_scenes.hpp"

#include <godwit/runtime/trace/analysis/labels.hpp>
#include <godwit/runtime/trace/analysis/slow.hpp>

#include <gtest/gtest.h>

#include <chrono>
#include <numeric>

namespace godwit::runtime::trace::analysis {
namespace {

void expect_no_hole(const index& x, const request_path& path) {
  auto now = path.request.begin_ns;
  for (const auto& s : path.steps) {
    EXPECT_EQ(s.begin_ns, now);
    EXPECT_GT(s.end_ns, s.begin_ns);
    EXPECT_TRUE(s.what == nowhere || s.what < x.size());
    now = s.end_ns;
  }
  EXPECT_EQ(now, path.request.end_ns);
  EXPECT_EQ(std::accumulate(path.sums.begin(), path.sums.end(), std::int64_t{0}), path.request.duration_ns());
}

TEST(TraceSlow, AccountsForAllOfARequestsTimeWhateverTheScene) {
  for (std::uint64_t seed = 1; seed <= 30; ++seed) {
    support::served_settings s;
    s.seed = seed;
    s.requests = 1 + seed % 7;
    s.instances = 1 + seed % 3;
    s.node = seed % 2 == 0;
    s.migration = seed % 3 == 0;
    const auto r = support::served(s);
    const index x(r);
    for (const auto& request : model_requests(x)) {
      const auto path = critical_path(x, request);
      expect_no_hole(x, path);
      EXPECT_TRUE(path.whole) << "seed " << seed << " request " << request.id;
      EXPECT_GT(path.sum(spent::device), request.duration_ns() / 10) << "seed " << seed << " request " << request.id;
      if (s.requests == 1) {
        EXPECT_EQ(path.sum(spent::held), 0);
      }
    }
  }
}

TEST(TraceSlow, ARequestAloneSpendsItsTimeOnTheDevice) {
  const auto r = support::served({1, 1, 10});
  const index x(r);
  const auto path = critical_path(x, model_requests(x).front());
  std::size_t device = 0;
  for (const auto& s : path.steps) device += s.how == spent::device ? 1 : 0;
  EXPECT_EQ(device, 10U);
  EXPECT_GT(path.sum(spent::device), path.request.duration_ns() * 7 / 10);
  EXPECT_EQ(path.sum(spent::network), 0);
}

TEST(TraceSlow, ShowsTheNetworkToAnotherProcess) {
  const auto r = support::served({1, 1, 4, true});
  const index x(r);
  const auto path = critical_path(x, model_requests(x).front());
  EXPECT_GE(path.sum(spent::network), 2 * 200'000); // to the instance, and back with the last token
}

TEST(TraceSlow, ShowsThatARequestWaitedForTheStepBeforeIt) {
  const auto r = support::served({3, 1, 12});
  const index x(r);
  const auto second = *find_request(model_requests(x), "2");
  const auto path = critical_path(x, second);
  EXPECT_GT(path.sum(spent::held), 0);
  expect_no_hole(x, path);
}

// Among its causes are the steps that ran while it waited in the queue, one after the other.
TEST(TraceSlow, CountsOnlyTheStepsThatRanTheRequestAsTheDevices) {
  auto r = support::served({3, 1, 12});
  std::size_t without = 0;
  for (auto& e : r.events)
    for (auto& a : e.attributes)
      if (a.name == "requests" && a.value == "1 2 3" && ++without % 2 == 0) a.value = "1 3";
  ASSERT_GT(without, 4U);
  const index x(r);
  const auto path = critical_path(x, *find_request(model_requests(x), "2"));
  expect_no_hole(x, path);
  std::size_t held = 0;
  for (const auto& s : path.steps) {
    if (s.what == nowhere || r.name_of(x[s.what]) != "device.step") continue;
    const auto others = attribute_of(x[s.what], "requests") == "1 3";
    EXPECT_EQ(s.how, others ? spent::held : spent::device);
    held += others ? 1 : 0;
  }
  EXPECT_GT(held, 1U);
  for (const auto& part : parts_of(x, path))
    if (part.name == "device.step" && part.how == spent::held) {
      EXPECT_EQ(part.count, held);
    }
}

TEST(TraceSlow, ShowsAMigrationsTransfer) {
  const auto r = support::served({1, 2, 8, false, true});
  const index x(r);
  const auto path = critical_path(x, model_requests(x).front());
  EXPECT_EQ(path.sum(spent::transfer), 900'000);
}

// Of several devices each says what it had of a step, and what landed names the transfer that brought it.
TEST(TraceSlow, ShowsWhatDevicesHadOfAStepAndATransferThatIsACause) {
  support::trace_builder b;
  b.process("p");
  const auto instance = b.actor(0, "instance");
  const auto stage = b.actor(0, "shard");
  const auto target = b.actor(0, "migration_destination");
  support::sending about;
  about.request = 9;
  auto back = about;
  back.outside = true;
  const auto asked = b.deliver({}, {}, instance, "step_input", 0, 100, about);
  b.span(asked, 0, instance, "device.step", 100, 9'000'000, {{"requests", "9"}}, 9);
  const auto part = b.deliver(asked, instance, stage, "step_input", 100, 100, about);
  b.span(part, 0, stage, "device.part", 200, 3'000'000, {{"requests", "9"}}, 9);
  const auto done = b.deliver(part, {}, stage, "local<string>", 3'000'000, 100, back);
  const auto other = b.deliver(done, stage, stage, "step_input", 3'000'100, 100, about);
  b.span(other, 0, stage, "device.part", 3'000'200, 4'000'000, {{"requests", "8"}});
  const auto room = b.deliver(other, stage, target, "pre_alloc", 4'000'000, 100, about);
  const auto transfer = b.span(room, 0, target, "fabric.transfer", 4'000'100, 9'000'000, {}, 9);
  b.deliver(transfer, {}, target, "landed_news", 9'000'000, 100, back);
  const auto r = b.finish();
  const index x(r);
  const auto path = critical_path(x, model_requests(x).front());
  expect_no_hole(x, path);
  constexpr double handled = 5'000; // and queued
  EXPECT_NEAR(static_cast<double>(path.sum(spent::device)), 3'000'000, handled);
  EXPECT_NEAR(static_cast<double>(path.sum(spent::held)), 1'000'000, handled) << "for another one";
  EXPECT_NEAR(static_cast<double>(path.sum(spent::transfer)), 5'000'000, handled);
  EXPECT_LT(path.sum(spent::other), 5'000);
}

// KV that is loaded for it, from the store or the host's memory; what is put away beside its steps is nobody's time.
TEST(TraceSlow, CountsWhatIsLoadedAsTransfer) {
  for (const auto& [name, transfer] :
       {std::pair{"kv_store.load", true}, std::pair{"kv_swap.in", true}, std::pair{"kv_store.put", false}}) {
    support::trace_builder b;
    b.process("p");
    const auto llumlet = b.actor(0, "llumlet");
    support::sending about;
    about.request = 9;
    const auto first = b.deliver({}, {}, llumlet, "generate_order", 0, 100, about);
    b.span(first, 0, llumlet, name, 100, 5'000'000, {}, 9);
    auto back = about;
    back.outside = true;
    b.deliver(first, {}, llumlet, "landed_news", 5'000'000, 100, back);
    const auto r = b.finish();
    const index x(r);
    const auto path = critical_path(x, model_requests(x).front());
    expect_no_hole(x, path);
    EXPECT_EQ(path.sum(spent::transfer) > 4'900'000, transfer) << name << ": " << path.sum(spent::transfer);
  }
}

TEST(TraceSlow, ShowsATimerAndAMailboxThatWasFull) {
  support::trace_builder b;
  b.process("p");
  const auto a = b.actor(0, "a");
  const auto c = b.actor(0, "c");
  support::sending about;
  about.request = 9;
  const auto first = b.deliver({}, {}, a, "start", 0, 100, about);
  auto alarm = about;
  alarm.kind = message_kind::timer;
  const auto second = b.deliver(first, a, a, "alarm", 5'000'000, 100, alarm);
  b.deliver({}, {}, c, "other", 5'000'000, 3'000'000);
  b.deliver(second, a, c, "last", b.end_of(second), 50, about);
  const auto r = b.finish();
  const index x(r);
  const auto path = critical_path(x, model_requests(x).front());
  expect_no_hole(x, path);
  EXPECT_GT(path.sum(spent::timer), 4'900'000);
  EXPECT_GT(path.sum(spent::queueing), 2'900'000);
  EXPECT_EQ(path.sum(spent::other), 0);
}

// Whoever waits looks at each of them for a step that it came of, and they have one cause.
TEST(TraceSlow, EndsSoonWhereOneCauseHasManyEffects) {
  constexpr std::int64_t count = 100'000;
  support::trace_builder b;
  b.process("p");
  const auto hub = b.actor(0, "hub");
  const auto llumlet = b.actor(0, "llumlet");
  const auto frontend = b.actor(0, "frontend");
  support::sending about;
  about.request = 9;
  b.deliver({}, {}, llumlet, "generate_order", 0, 100, about);
  const auto all = b.deliver({}, {}, hub, "all", 2'000, 100);
  auto last = all;
  for (std::int64_t i = 0; i < count; ++i) last = b.deliver(all, hub, llumlet, "news", 4'000 + 200 * i, 100);
  b.deliver(last, llumlet, frontend, "token_updates", b.end_of(last), 100, about);
  const auto r = b.finish();
  const index x(r);
  const auto begin = std::chrono::steady_clock::now();
  const auto path = critical_path(x, model_requests(x).front());
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(10));
  expect_no_hole(x, path);
  EXPECT_EQ(path.events.size(), 3U);
  EXPECT_GT(path.sum(spent::held), 100 * count) << "no step was for it";
}

// The second of two in the line is decided upon with the first, by what the first one's question set off.
TEST(TraceSlow, LeadsToARequestsOwnQuestionWhereAnothersSetOffTheDecision) {
  const auto r = support::decided_together();
  const index x(r);
  for (const auto* const id : {"1", "2"}) {
    const auto path = critical_path(x, *find_request(model_requests(x), id));
    expect_no_hole(x, path);
    EXPECT_TRUE(path.whole);
    std::size_t asked = 0, decided = 0;
    for (const auto p : path.events) {
      asked += r.name_of(x[p]) == "dispatch_query" ? 1 : 0;
      decided += r.name_of(x[p]) == "decide_queued" ? 1 : 0;
      EXPECT_TRUE(x.about(p) == 0 || x.about(p) == path.request.id);
    }
    EXPECT_EQ(asked, 1U) << id;
    EXPECT_EQ(decided, 1U) << id;
  }
}

TEST(TraceSlow, IsIncompleteWhereCausesAreMissing) {
  auto r = support::served({2, 1, 6});
  const auto orders = std::erase_if(r.events, [&](const event& e) { return r.name_of(e).ends_with("generate_order"); });
  ASSERT_EQ(orders, 2U);
  const index x(r);
  const auto path = critical_path(x, model_requests(x).front());
  EXPECT_FALSE(path.whole);
  expect_no_hole(x, path);
}

TEST(TraceSlow, PartsSumUpTheSteps) {
  const auto r = support::served({4, 2, 6});
  const index x(r);
  const auto longest = slowest(model_requests(x), 2);
  ASSERT_EQ(longest.size(), 2U);
  EXPECT_GE(longest[0].duration_ns(), longest[1].duration_ns());
  const auto path = critical_path(x, longest[0]);
  std::int64_t sum = 0;
  std::size_t count = 0;
  for (const auto& part : parts_of(x, path)) {
    sum += part.ns;
    count += part.count;
  }
  EXPECT_EQ(sum, longest[0].duration_ns());
  EXPECT_EQ(count, path.steps.size());
}

} // namespace
} // namespace godwit::runtime::trace::analysis
