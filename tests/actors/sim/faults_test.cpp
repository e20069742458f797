// How faults are planned and drawn.
#include <godwit/actors/sim/faults.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <set>

namespace godwit::test {

using namespace std::chrono_literals;
using actors::sim::fault;
using actors::sim::fault_draws;
using actors::sim::fault_kind;
using actors::sim::parse_faults;
using actors::sim::random_faults;
using ::testing::HasSubstr;

namespace {

std::string error_of(std::string_view spec, std::uint32_t instances = 4) {
  const auto plan = parse_faults(spec, instances);
  return plan ? "" : plan.error();
}

std::vector<fault> first(std::size_t count, const random_faults& what, std::uint64_t seed, std::uint64_t number = 0,
                         std::uint32_t instances = 8) {
  fault_draws draws(what, seed, number, instances);
  std::vector<fault> out;
  while (out.size() < count)
    if (auto next = draws.next())
      out.push_back(*next);
    else
      break;
  return out;
}

} // namespace

TEST(FaultPlan, SaysWhatWhomWhenAndForHowLong) {
  const auto plan = parse_faults("crash:instance-3@120s+30s, vanish:instance-0@2min,cut:head/instance-2@60.5s+500ms,"
                                 "cut:instance-1/instance-2@0s,freeze:head@1h+2s,slow:instance-1x2.5@10s+1min,"
                                 "random:12/h,random:0.5/min@60s+600s",
                                 4);
  ASSERT_TRUE(plan) << plan.error();
  const std::vector<fault> expected{
      {fault_kind::crash, "instance-3", "", 1, 120s, 30s},
      {fault_kind::vanish, "instance-0", "", 1, 120s, std::nullopt},
      {fault_kind::cut, "head", "instance-2", 1, 60500ms, 500ms},
      {fault_kind::cut, "instance-1", "instance-2", 1, 0s, std::nullopt},
      {fault_kind::freeze, "head", "", 1, 1h, 2s},
      {fault_kind::slow, "instance-1", "", 2.5, 10s, 1min},
  };
  EXPECT_EQ(plan->planned, expected);
  ASSERT_EQ(plan->random.size(), 2U);
  EXPECT_DOUBLE_EQ(plan->random[0].per_second * 3600, 12);
  EXPECT_FALSE(plan->random[0].lasts);
  EXPECT_DOUBLE_EQ(plan->random[1].per_second * 60, 0.5);
  EXPECT_EQ(plan->random[1].from, 60s);
  EXPECT_EQ(plan->random[1].lasts, 600s);
}

TEST(FaultPlan, IsWrittenAsItIsRead) {
  for (const auto* text :
       {"crash:instance-3@120s+30s", "vanish:instance-0@0s", "cut:head/instance-2@60.5s+0.25s", "freeze:head@7200s+2s",
        "slow:instance-1x2.5@0.000000001s", "slow:instance-1x10@10s", "slow:instance-1x1.0000001@10s",
        "slow:instance-1x1000@10s", "crash:instance-3@35999999.999999999s+12345678.987654321s"}) {
    const auto plan = parse_faults(text, 4);
    ASSERT_TRUE(plan) << plan.error();
    EXPECT_EQ(to_string(plan->planned.at(0)), text);
  }
}

TEST(FaultPlan, NamesTheMistakeAndHowToMendItInOneLine) {
  const std::vector<std::pair<std::string, std::string>> mistakes{
      {"crush:instance-1@5s", "no fault is called 'crush'; known are crash, vanish, cut, freeze, slow and random"},
      {"crash:instance-4@5s", "there is no 'instance-4'; this run has head and instance-0 to instance-3 (--instances)"},
      {"crash:instance-01@5s", "there is no 'instance-01'"},
      {"crash:instance-@5s", "there is no 'instance-'"},
      {"crash:instance-99999999999@5s", "there is no"},
      {"cut:head/instance-9@5s", "there is no 'instance-9'"},
      {"crash:instance-1", "KIND:TARGET@START+DURATION, as in crash:instance-0@120s+30s"},
      {"crash:@5s", "say to whom and when"},
      {"crash", "say to whom and when"},
      {"crash:head@5s", "name an instance, or freeze the head"},
      {"freeze:head@5s", "nothing would ever end; say for how long, as in freeze:head@60s+2s"},
      {"slow:headx2@5s", "the head has no device"},
      {"slow:instance-1@5s", "how many times slower, above 1 and at most 1000, as in slow:instance-1x4@10s+60s"},
      {"slow:instance-1x1@5s", "above 1"},
      {"slow:instance-1x1001@5s", "at most 1000"},
      {"slow:instance-1xnan@5s", "above 1"},
      {"cut:instance-1@5s", "both ends of the link, as in cut:head/instance-2@60s+5s"},
      {"cut:head/head@5s", "no link to itself"},
      {"crash:instance-1@5", "'5' is no time; write a number with ns, ms, s, min or h, as in 120s"},
      {"crash:instance-1@-5s", "'-5s' is no time"},
      {"crash:instance-1@1e3s", "'1e3s' is no time"},
      {"crash:instance-1@infs", "'infs' is no time"},
      {"crash:instance-1@10001h", "'10001h' is longer than any run; write at most 10000h"},
      {"crash:instance-1@5s+99999h", "'99999h' is longer than any run"},
      {"crash:instance-1@5s+", "'' is no time"},
      {"crash:instance-1@5s+1s+1s", "'1s+1s' is no time"},
      {"crash:instance-1@5s+0s", "leave +DURATION out for what is never mended"},
      {"random:5", "write how many per s, min or h, as in random:12/h or random:12/h@60s+600s"},
      {"random:x/h", "write how many per s"},
      {"random:0/h", "above 0 and at most 100/s"},
      {"random:101/s", "above 0 and at most 100/s"},
      {"random:5/h@x", "'x' is no time"},
      {"", "a fault is missing; write one, as in crash:instance-0@120s+30s"},
      {"crash:instance-1@5s,", "a fault is missing"},
      {"crash:instance-1@5s,,random:1/h", "a fault is missing"},
      {"crash:instance-1@5\ns", "'crash:instance-1@5 s': '5 s' is no time"},
  };
  for (const auto& [spec, expected] : mistakes) {
    const auto error = error_of(spec);
    EXPECT_THAT(error, HasSubstr(expected)) << spec;
    EXPECT_EQ(error.find('\n'), std::string::npos);
  }
  EXPECT_THAT(error_of("crash:instance-1@5s,crush:instance-1@9s"), HasSubstr("'crush:instance-1@9s': "))
      << "the part that is wrong";
  EXPECT_THAT(error_of("crash:instance-1@5s", 1), HasSubstr("this run has head and instance-0 (--instances)"));
}

TEST(FaultDraws, AreAFunctionOfSeedAndNumber) {
  const random_faults what{1.0, 0s, std::nullopt};
  EXPECT_EQ(first(100, what, 7), first(100, what, 7));
  EXPECT_NE(first(100, what, 7), first(100, what, 8));
  EXPECT_NE(first(100, what, 7, 0), first(100, what, 7, 1));
}

TEST(FaultDraws, ComeAtTheirRateOfAllKindsToAllInstancesAndCanBePlanned) {
  constexpr std::size_t count = 4000;
  const auto all = first(count, {2.0, 60s, std::nullopt}, 3);
  ASSERT_EQ(all.size(), count);
  EXPECT_NEAR(std::chrono::duration<double>(all.back().at - 60s).count(), count / 2.0, 0.1 * count / 2.0);
  std::map<fault_kind, int> kinds;
  std::map<std::string, int> names;
  for (const auto& f : all) {
    ++kinds[f.kind];
    ++names[f.target];
    ASSERT_TRUE(f.lasts);
    const auto plan = parse_faults(to_string(f), 8);
    ASSERT_TRUE(plan) << plan.error();
    EXPECT_EQ(plan->planned.at(0), f);
  }
  EXPECT_EQ(kinds.size(), 4U);
  for (const auto& [kind, n] : kinds) EXPECT_NEAR(n, count / 4.0, 0.1 * count) << to_string(kind);
  EXPECT_EQ(names.size(), 9U) << "the head of cut links, too";
}

TEST(FaultDraws, EndWithTheirTimeAndNeedOneInstanceOnly) {
  const auto some = first(1000, {1.0, 10s, 20s}, 1, 0, 1);
  EXPECT_LT(some.size(), 100U);
  EXPECT_GT(some.size(), 3U);
  for (const auto& f : some) {
    EXPECT_GE(f.at, 10s);
    EXPECT_LT(f.at, 30s);
    EXPECT_EQ(f.kind == fault_kind::cut ? f.other : f.target, "instance-0");
  }
  EXPECT_TRUE(first(1, {1e-300, 0s, std::nullopt}, 1).empty()) << "rarer than any run is long";
  for (std::uint64_t seed = 0; seed < 1000; ++seed)
    EXPECT_GE(first(1, {100.0, 700us, std::nullopt}, seed).at(0).at, 700us) << "not before";
}

} // namespace godwit::test
