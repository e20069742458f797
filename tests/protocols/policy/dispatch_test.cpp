#include <godwit/protocols/policy/dispatch.hpp>

#include <gtest/gtest.h>

#include <map>

namespace godwit::protocols {
namespace {

load_report report_of(std::uint32_t instance, std::uint32_t used, std::uint64_t sequence = 1, bool ready = true) {
  load_report report{instance_id{instance}, 1, sequence, ready};
  report.blocks_total = 100;
  report.blocks_used = used;
  report.waiting_max = 10;
  return report;
}

TEST(Dispatch, KnowsItsPoliciesByName) {
  for (const auto name : dispatcher_names()) {
    const auto policy = make_dispatcher(name);
    ASSERT_NE(policy, nullptr);
    EXPECT_EQ(policy->name(), name);
  }
  EXPECT_EQ(make_dispatcher("coin_toss"), nullptr);
}

TEST(Dispatch, WithoutAReadyInstanceThereIsNone) {
  for (const auto name : dispatcher_names()) {
    const auto policy = make_dispatcher(name);
    EXPECT_FALSE(policy->pick({10, 0}));
    policy->report(report_of(1, 0, 1, false));
    EXPECT_FALSE(policy->pick({10, 0}));
    policy->report(report_of(1, 0, 2));
    EXPECT_EQ(policy->pick({10, 0})->instance, instance_id{1});
    policy->remove(instance_id{1});
    EXPECT_FALSE(policy->pick({10, 0}));
  }
}

TEST(Infaas, PicksTheSmallestShareOfUsedBlocks) {
  const auto policy = make_dispatcher("infaas");
  policy->report(report_of(1, 50));
  policy->report(report_of(2, 20));
  policy->report(report_of(3, 30));
  EXPECT_EQ(policy->pick({16, 0})->instance, instance_id{2});
}

TEST(Infaas, ComparesSharesNotBlocks) {
  const auto policy = make_dispatcher("infaas");
  auto large = report_of(1, 200);
  large.blocks_total = 1000;
  policy->report(large);
  policy->report(report_of(2, 40));
  EXPECT_EQ(policy->pick({16, 0})->instance, instance_id{1});
}

TEST(Infaas, QueuedPromptsAreLoad) {
  const auto policy = make_dispatcher("infaas");
  auto queued = report_of(1, 10);
  queued.waiting_tokens = 16 * 30;
  policy->report(queued);
  policy->report(report_of(2, 30));
  EXPECT_EQ(policy->pick({16, 0})->instance, instance_id{2});
}

TEST(Infaas, ABurstBetweenReportsIsSpread) {
  const auto policy = make_dispatcher("infaas");
  for (std::uint32_t i = 1; i <= 3; ++i) policy->report(report_of(i, 0));
  std::map<instance_id, int> picked;
  for (int i = 0; i < 12; ++i) ++picked[policy->pick({64, 0})->instance];
  for (const auto& [instance, count] : picked) EXPECT_EQ(count, 4) << instance.value();
}

TEST(Infaas, AReportTakesThePlaceOfWhatWasDispatchedBeforeIt) {
  const auto policy = make_dispatcher("infaas");
  policy->report(report_of(1, 0));
  policy->report(report_of(2, 5));
  EXPECT_EQ(policy->pick({1600, 0})->instance, instance_id{1});
  EXPECT_EQ(policy->pick({16, 0})->instance, instance_id{2});
  policy->report(report_of(1, 1, 2)); // most of it was in the prefix cache
  EXPECT_EQ(policy->pick({16, 0})->instance, instance_id{1});
}

TEST(Dispatch, AFullQueueIsLeftAlone) {
  for (const auto name : dispatcher_names()) {
    const auto policy = make_dispatcher(name);
    auto nearly_full = report_of(1, 0);
    nearly_full.waiting = 9;
    policy->report(nearly_full);
    EXPECT_TRUE(policy->pick({1, 0}));
    EXPECT_FALSE(policy->pick({1, 0})) << "the place left is taken";
    policy->report(report_of(2, 90));
    EXPECT_EQ(policy->pick({1, 0})->instance, instance_id{2});
  }
}

TEST(Dispatch, OldReportsAreDropped) {
  const auto policy = make_dispatcher("infaas");
  EXPECT_TRUE(policy->report(report_of(1, 10, 5)));
  EXPECT_FALSE(policy->report(report_of(1, 99, 4)));
  EXPECT_FALSE(policy->report(report_of(1, 99, 5)));
  EXPECT_EQ(policy->reports().at(0).blocks_used, 10U);
  auto restarted = report_of(1, 0, 1);
  restarted.generation = 2;
  EXPECT_TRUE(policy->report(restarted)) << "sequences begin anew with a generation";
  EXPECT_FALSE(policy->report(report_of(1, 50, 6))) << "a message of the dead one";
}

TEST(Dispatch, AnotherInstanceIsPreferredToTheOneThatRefused) {
  const auto policy = make_dispatcher("infaas");
  policy->report(report_of(1, 0));
  EXPECT_EQ(policy->pick_other({16, 0}, instance_id{1})->instance, instance_id{1}) << "the only one";
  policy->report(report_of(2, 90));
  EXPECT_EQ(policy->pick_other({16, 0}, instance_id{1})->instance, instance_id{2});
}

TEST(RoundRobin, GoesRoundWhateverTheLoad) {
  const auto policy = make_dispatcher("round_robin");
  policy->report(report_of(1, 99));
  policy->report(report_of(2, 0));
  policy->report(report_of(3, 50));
  std::vector<std::uint32_t> picked;
  for (int i = 0; i < 6; ++i) picked.push_back(policy->pick({16, 0})->instance.value());
  EXPECT_EQ(picked, (std::vector<std::uint32_t>{1, 2, 3, 1, 2, 3}));
}

} // namespace
} // namespace godwit::protocols
