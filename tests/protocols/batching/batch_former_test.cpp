#include "protocols/batching/waiting_request.hpp"
#include "protocols/second.hpp"

#include <godwit/protocols/batching/batch_former.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

namespace godwit::protocols {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using testing_support::second_ns;

TEST(BatchFormer, WithoutARuleTakesAll) {
  batch_former batch{{}};
  for (int i = 0; i < 1000; ++i) {
    ASSERT_TRUE(batch.takes(i * second_ns, 5000));
    batch.add(i * second_ns, 5000);
  }
}

TEST(BatchFormer, TheFirstOneAlwaysJoins) {
  batch_former batch{{1, 1}};
  EXPECT_TRUE(batch.takes(1000 * second_ns, 100'000));
  batch.add(1000 * second_ns, 100'000);
  EXPECT_FALSE(batch.takes(second_ns, 1));
}

// UELLM, formula 3-4: (length + the longest) x (size + 1).
TEST(BatchFormer, LengthsCountByTheLongestAndBySize) {
  batch_former batch{{0, 1.0 / 1000}};
  batch.add(second_ns, 100);
  EXPECT_TRUE(batch.takes(second_ns, 400)) << "500 x 2";
  EXPECT_FALSE(batch.takes(second_ns, 401));
  batch.add(second_ns, 10);
  batch.add(second_ns, 10);
  EXPECT_TRUE(batch.takes(second_ns, 150)) << "250 x 4";
  EXPECT_FALSE(batch.takes(second_ns, 151)) << "the longest is still there";
}

// Formula 3-3, likewise.
TEST(BatchFormer, ObjectivesCountAlikeAndThoseWithoutAsOfAMinute) {
  batch_former batch{{1.0 / 100, 0}};
  batch.add(10 * second_ns, 100'000);
  EXPECT_TRUE(batch.takes(40 * second_ns, 100'000));
  EXPECT_FALSE(batch.takes(41 * second_ns, 1));
  EXPECT_FALSE(batch.takes(0, 1)) << "60 s";
}

TEST(BatchFormer, BothCountTogether) {
  batch_former batch{{1.0 / 200, 1.0 / 2000}};
  batch.add(10 * second_ns, 100);
  EXPECT_TRUE(batch.takes(40 * second_ns, 400)) << "a half each";
  EXPECT_FALSE(batch.takes(41 * second_ns, 400));
  EXPECT_FALSE(batch.takes(40 * second_ns, 401));
}

/// Batches of a static planner, by the requests' numbers.
class Batches : public ::testing::Test {
protected:
  planner make(batch_rule rule, queue_order order) {
    planner_settings settings;
    settings.mode = batching_mode::static_batch;
    settings.blocks = 64;
    settings.context_length = 500;
    settings.step_tokens_max = 64;
    settings.running_max = 16;
    settings.queue.order = order;
    settings.batch = rule;
    return planner{settings};
  }
  static void admit(planner& p, std::uint64_t id, std::uint32_t expected, std::int64_t ttft_ns) {
    ASSERT_TRUE(p.admit(testing_support::waiting_request(id, expected, ttft_ns)).accepted());
  }
  /// Runs until it is idle.
  static std::vector<std::vector<std::uint64_t>> batches_of(planner& p) {
    std::vector<std::vector<std::uint64_t>> out;
    while (const auto input = p.plan()) {
      auto begun = p.take_effects().begun;
      if (!begun.empty()) {
        out.emplace_back();
        for (const auto id : begun) out.back().push_back(id.value());
      }
      (void)testing_support::ends(p, *input);
    }
    EXPECT_TRUE(p.idle());
    return out;
  }
};

TEST_F(Batches, AreOfRequestsThatAreAlike) {
  auto p = make({0, 1.0 / 900}, queue_order::sjf);
  admit(p, 1, 300, 0);
  admit(p, 2, 10, 0);
  admit(p, 3, 320, 0);
  admit(p, 4, 20, 0);
  EXPECT_THAT(batches_of(p), ElementsAre(ElementsAre(2, 4), ElementsAre(1), ElementsAre(3)));
}

TEST_F(Batches, AreSortedByTheirObjectivesWhereTheQueueIs) {
  auto p = make({1.0 / 100, 0}, queue_order::edf);
  admit(p, 1, 0, 300 * second_ns);
  admit(p, 2, 0, 10 * second_ns);
  admit(p, 3, 0, 20 * second_ns);
  admit(p, 4, 0, 290 * second_ns);
  EXPECT_THAT(batches_of(p), ElementsAre(ElementsAre(2, 3), ElementsAre(4), ElementsAre(1)));
}

TEST_F(Batches, WithoutARuleAreAllThatFit) {
  auto p = make({}, queue_order::sjf);
  for (std::uint64_t id = 1; id <= 4; ++id) admit(p, id, id % 2 == 0 ? 1000 : 10, 0);
  EXPECT_THAT(batches_of(p), ElementsAre(ElementsAre(1, 3, 2, 4)));
}

TEST_F(Batches, AContinuousOneHasNoRule) {
  planner_settings settings;
  settings.blocks = 4;
  settings.context_length = 100;
  settings.batch = {1, 0};
  EXPECT_THAT(settings.validate(), ::testing::HasSubstr("static"));
  settings.mode = batching_mode::static_batch;
  EXPECT_THAT(settings.validate(), IsEmpty());
  settings.batch = {-1, 0};
  EXPECT_THAT(settings.validate(), ::testing::Not(IsEmpty()));
}

} // namespace
} // namespace godwit::protocols
