#include <godwit/protocols/kv/chunk_name.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <numeric>
#include <set>
#include <span>
#include <vector>

namespace godwit::protocols {
namespace {

std::vector<token_id> counting(std::size_t tokens) {
  std::vector<token_id> out(tokens);
  std::iota(out.begin(), out.end(), 0);
  return out;
}

// The values are OpenSSL's (`openssl mac -macopt hexkey:000102030405060708090a0b0c0d0e0f -macopt size:16 SIPHASH`), of
// 16 bytes of the name before and the chunk's tokens as 32-bit little-endian numbers.
TEST(ChunkName, IsSipHashOf128Bits) {
  const auto names = chunk_names(counting(150), 0x0706050403020100ULL, 0x0f0e0d0c0b0a0908ULL);
  ASSERT_EQ(names.size(), 2U) << "whole chunks only";
  EXPECT_EQ(names[0], chunk_name(0x1924402677bd1a06ULL, 0xd02dbbf193424decULL));
  EXPECT_EQ(names[1], chunk_name(0x8643feb1734312c7ULL, 0xf70765b9e009aa95ULL));
}

TEST(ChunkName, DependsOnAllThatCameBeforeOnTheTenantAndOnTheLayout) {
  const auto names = chunk_names(counting(256), 3, 4);
  auto other = counting(256);
  other[70] = 9;
  const auto theirs = chunk_names(other, 3, 4);
  EXPECT_EQ(names[0], theirs[0]);
  for (std::size_t i = 1; i < names.size(); ++i) EXPECT_NE(names[i], theirs[i]) << i;
  EXPECT_NE(names[0], chunk_names(counting(256), 5, 4)[0]);
  EXPECT_NE(names[0], chunk_names(counting(256), 3, 5)[0]);
  EXPECT_TRUE(chunk_names(counting(63), 3, 4).empty());
}

class ShardOf : public ::testing::Test {
protected:
  static std::vector<chunk_name> many() {
    std::vector<chunk_name> out;
    for (std::uint64_t salt = 0; salt < 100; ++salt) {
      const auto some = chunk_names(counting(std::size_t{64} * 100), salt, 1);
      out.insert(out.end(), some.begin(), some.end());
    }
    return out;
  }
};

TEST_F(ShardOf, SpreadsChunksEvenly) {
  const std::vector<std::uint64_t> shards{0, 1, 2, 17, 0xFFFF'FFFF'FFFF'FFFFULL};
  std::vector<int> counts(shards.size());
  for (const auto& name : many()) ++counts[shard_of(name, shards)];
  for (const auto count : counts) EXPECT_NEAR(count, 2000, 150); // 10,000 chunks, 40 is one standard deviation
}

TEST_F(ShardOf, AShardThatComesOrGoesMovesItsOwnShareAlone) {
  const std::vector<std::uint64_t> before{10, 20, 30, 40}, after{10, 20, 40};
  for (const auto& name : many()) {
    const auto was = before[shard_of(name, before)];
    const auto is = after[shard_of(name, after)];
    if (was != 30) {
      ASSERT_EQ(was, is);
    }
  }
}

TEST_F(ShardOf, DoesNotDependOnTheOrderInWhichShardsAreKnown) {
  std::vector<std::uint64_t> shards{5, 9, 11};
  for (const auto& name : many()) {
    const auto place = shards[shard_of(name, shards)];
    std::ranges::rotate(shards, shards.begin() + 1);
    ASSERT_EQ(shards[shard_of(name, shards)], place);
  }
}

} // namespace
} // namespace godwit::protocols
