#include <godwit/protocols/policy/prefix_index.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <vector>

namespace godwit::protocols {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using match = prefix_index::match;

constexpr instance_id in_1{1}, in_2{2}, in_3{3};

std::vector<match> found(prefix_index& index, const std::vector<block_hash>& marks) {
  const auto all = index.find(marks);
  return {all.begin(), all.end()};
}

TEST(PrefixIndex, SaysHowMuchOfABeginningEachWasSentTheLongestFirst) {
  prefix_index index;
  EXPECT_THAT(found(index, {1, 2, 3}), IsEmpty());
  index.sent(in_1, std::vector<block_hash>{1, 2, 30}, 100);
  index.sent(in_2, std::vector<block_hash>{1, 2, 3, 4}, 100);
  index.sent(in_3, std::vector<block_hash>{9}, 100);
  EXPECT_THAT(found(index, {1, 2, 3}), ElementsAre(match{in_2, 3}, match{in_1, 2}));
  EXPECT_THAT(found(index, {1, 20, 3}), ElementsAre(match{in_1, 1}, match{in_2, 1})) << "only from the first on";
  EXPECT_THAT(found(index, {}), IsEmpty());
}

TEST(PrefixIndex, AnInstanceKeepsWhatItWasSentLast) {
  prefix_index index;
  index.sent(in_1, std::vector<block_hash>{1, 2}, 4);
  index.sent(in_1, std::vector<block_hash>{10, 11}, 4);
  EXPECT_THAT(found(index, {1, 2}), ElementsAre(match{in_1, 2}));
  index.sent(in_1, std::vector<block_hash>{1, 2}, 4); // again, so that it is the other one that goes
  index.sent(in_1, std::vector<block_hash>{20, 21}, 4);
  EXPECT_THAT(found(index, {1, 2}), ElementsAre(match{in_1, 2}));
  EXPECT_THAT(found(index, {10, 11}), IsEmpty());
  index.sent(in_2, std::vector<block_hash>{40, 41, 42, 43, 44, 45}, 4);
  EXPECT_THAT(found(index, {20, 21}), ElementsAre(match{in_1, 2})) << "another one's memory is not its own";
}

TEST(PrefixIndex, EndsGoBeforeBeginnings) {
  prefix_index index;
  index.sent(in_1, std::vector<block_hash>{1, 2, 3, 4}, 5);
  index.sent(in_1, std::vector<block_hash>{10, 11, 12}, 5);
  EXPECT_THAT(found(index, {1, 2, 3, 4}), ElementsAre(match{in_1, 2}));
  index.sent(in_2, std::vector<block_hash>{1, 2, 3, 4}, 3);
  EXPECT_THAT(found(index, {1, 2, 3, 4}), ElementsAre(match{in_2, 3}, match{in_1, 2}));
}

// Conversations that take turns: what is sent again takes no more memory than once, and no less.
TEST(PrefixIndex, WhatIsSentAgainCountsOnce) {
  prefix_index index;
  constexpr block_hash conversations = 50;
  for (block_hash turn = 1; turn <= 20; ++turn)
    for (block_hash one = 0; one < conversations; ++one) {
      std::vector<block_hash> marks;
      for (block_hash i = 0; i < turn; ++i) marks.push_back(one * 1000 + i);
      index.sent(in_1, marks, 100);
      ASSERT_LE(index.size(), 100U);
    }
  // The last five had 20 marks each.
  for (block_hash one = 0; one < conversations; ++one) {
    std::vector<block_hash> marks;
    for (block_hash i = 0; i < 21; ++i) marks.push_back(one * 1000 + i);
    EXPECT_EQ(found(index, marks).empty(), one < 45) << one;
  }
}

TEST(PrefixIndex, ForgetsWhatIsGone) {
  prefix_index index;
  index.sent(in_1, std::vector<block_hash>{1, 2}, 100);
  index.sent(in_2, std::vector<block_hash>{1}, 100);
  index.forget(in_1);
  index.forget(in_3);
  EXPECT_THAT(found(index, {1, 2}), ElementsAre(match{in_2, 1}));
  EXPECT_EQ(index.size(), 1U);
  index.sent(in_1, std::vector<block_hash>{1}, 100);
  EXPECT_THAT(found(index, {1, 2}), ElementsAre(match{in_1, 1}, match{in_2, 1}));
}

TEST(PrefixIndex, IsBounded) {
  prefix_index index;
  block_hash next = 1;
  std::vector<block_hash> last(128);
  for (int turn = 0; turn < 10'000; ++turn) {
    for (auto& mark : last) mark = next++;
    index.sent(instance_id{static_cast<std::uint32_t>(turn % 7)}, last, 1'000'000'000);
    ASSERT_LE(index.size(), prefix_index::marks_max);
  }
  EXPECT_GT(index.size(), prefix_index::marks_max / 2);
  EXPECT_THAT(found(index, last), ElementsAre(match{instance_id{9'999 % 7}, 128}));
  // More instances: each has less, and a prompt that all were sent has as many matches as there may be.
  for (std::uint32_t i = 0; i < 3'000; ++i) index.sent(instance_id{i}, last, 100);
  EXPECT_LE(index.size(), prefix_index::marks_max);
  const auto all = found(index, last);
  EXPECT_EQ(all.size(), prefix_index::matches_max);
  EXPECT_EQ(all.front().marks, prefix_index::marks_max / 3'000);
}

} // namespace
} // namespace godwit::protocols
