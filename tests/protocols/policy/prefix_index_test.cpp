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

constexpr instance_id a{1}, b{2}, c{3};

std::vector<match> found(prefix_index& index, const std::vector<block_hash>& marks) {
  const auto all = index.find(marks);
  return {all.begin(), all.end()};
}

TEST(PrefixIndex, SaysHowMuchOfABeginningEachWasSent) {
  prefix_index index;
  EXPECT_THAT(found(index, {1, 2, 3}), IsEmpty());
  index.sent(b, std::vector<block_hash>{1, 2, 30}, 100);
  index.sent(a, std::vector<block_hash>{1, 2, 3, 4}, 100);
  index.sent(c, std::vector<block_hash>{9}, 100);
  EXPECT_THAT(found(index, {1, 2, 3}), ElementsAre(match{a, 3}, match{b, 2}));
  EXPECT_THAT(found(index, {1, 20, 3}), ElementsAre(match{a, 1}, match{b, 1})) << "only from the first on";
  EXPECT_THAT(found(index, {}), IsEmpty());
}

TEST(PrefixIndex, AnInstanceKeepsWhatItWasSentLast) {
  prefix_index index;
  index.sent(a, std::vector<block_hash>{1, 2}, 4);
  index.sent(a, std::vector<block_hash>{10, 11}, 4);
  EXPECT_THAT(found(index, {1, 2}), ElementsAre(match{a, 2}));
  index.sent(a, std::vector<block_hash>{1, 2}, 4); // again, so that it is the other one that goes
  index.sent(a, std::vector<block_hash>{20, 21}, 4);
  index.sent(a, std::vector<block_hash>{30}, 4);
  EXPECT_THAT(found(index, {1, 2}), ElementsAre(match{a, 2}));
  EXPECT_THAT(found(index, {10, 11}), IsEmpty());
  index.sent(b, std::vector<block_hash>{40, 41, 42, 43, 44, 45}, 4);
  EXPECT_THAT(found(index, {20, 21}), ElementsAre(match{a, 2})) << "another one's memory is not its own";
}

TEST(PrefixIndex, ForgetsWhatIsGoneForGood) {
  prefix_index index;
  index.sent(a, std::vector<block_hash>{1, 2}, 100);
  index.sent(b, std::vector<block_hash>{1}, 100);
  index.forget(a);
  index.forget(c);
  EXPECT_THAT(found(index, {1, 2}), ElementsAre(match{b, 1}));
  // Started again, it has what it is sent from now on.
  for (block_hash mark = 100; mark < 110; ++mark) index.sent(a, std::vector<block_hash>{mark}, 100);
  EXPECT_THAT(found(index, {1, 2}), ElementsAre(match{b, 1}));
  index.sent(a, std::vector<block_hash>{1}, 100);
  EXPECT_THAT(found(index, {1, 2}), ElementsAre(match{a, 1}, match{b, 1}));
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
  EXPECT_EQ(index.find(last).size(), 1U);
  // More instances than it has marks for keep one each at most.
  for (std::uint32_t i = 0; i < 300'000; ++i) index.sent(instance_id{i}, std::vector<block_hash>{1}, 100);
  EXPECT_LE(index.size(), prefix_index::marks_max);
}

} // namespace
} // namespace godwit::protocols
