#include <godwit/protocols/kv/prefix_marks.hpp>

#include <gtest/gtest.h>

#include <cstddef>
#include <numeric>
#include <span>
#include <vector>

namespace godwit::protocols {
namespace {

std::vector<token_id> prompt(std::size_t tokens) {
  std::vector<token_id> out(tokens);
  std::iota(out.begin(), out.end(), 7);
  return out;
}

TEST(PrefixMarks, AreTheHashesOfEveryFourthBlock) {
  const auto tokens = prompt(200);
  const auto marks = prefix_marks(tokens, 3);
  ASSERT_EQ(marks.size(), 3U);
  auto hash = root_hash;
  for (std::size_t block = 0; block < 12; ++block) {
    hash = hash_block(hash, std::span(tokens).subspan(block * tokens_per_block, tokens_per_block), 3);
    if (block % 4 == 3) {
      EXPECT_EQ(marks[block / 4], hash) << block;
    }
  }
}

TEST(PrefixMarks, AgreeAsFarAsPromptsDo) {
  auto other = prompt(200);
  other[130] = 0;
  const auto ours = prefix_marks(prompt(200), 3), theirs = prefix_marks(other, 3);
  EXPECT_EQ(ours[1], theirs[1]);
  EXPECT_NE(ours[2], theirs[2]);
  EXPECT_NE(ours[0], prefix_marks(prompt(200), 4)[0]) << "another tenant's";
}

TEST(PrefixMarks, NameNoWholePromptAndAreBounded) {
  EXPECT_TRUE(prefix_marks({}, 0).empty());
  EXPECT_TRUE(prefix_marks(prompt(64), 0).empty()) << "its last token is computed anyway";
  EXPECT_EQ(prefix_marks(prompt(65), 0).size(), 1U);
  EXPECT_EQ(prefix_marks(prompt(100'000), 0).size(), prefix_marks_max);
}

} // namespace
} // namespace godwit::protocols
