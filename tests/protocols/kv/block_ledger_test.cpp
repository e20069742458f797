#include <godwit/protocols/ensure.hpp>
#include <godwit/protocols/kv/block_ledger.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numeric>
#include <set>
#include <vector>

namespace godwit::protocols {
namespace {

std::vector<token_id> sixteen(token_id first) {
  std::vector<token_id> tokens(tokens_per_block);
  std::iota(tokens.begin(), tokens.end(), first);
  return tokens;
}

block_hash always_the_same(block_hash, std::span<const token_id>, std::uint64_t) noexcept { return 7; }

TEST(BlockLedger, GivesEachBlockOnceAndThenNone) {
  block_ledger ledger{5};
  std::set<block_id> given;
  for (int i = 0; i < 5; ++i) given.insert(ledger.allocate().value());
  EXPECT_EQ(given.size(), 5U);
  EXPECT_FALSE(ledger.allocate());
  EXPECT_EQ(ledger.used(), 5U);
  EXPECT_EQ(ledger.available(), 0U);
  ledger.check();
}

TEST(BlockLedger, ABlockIsFreeOnlyAfterItsLastReference) {
  block_ledger ledger{1};
  const auto block = *ledger.allocate();
  ledger.share(block);
  ledger.release(block);
  EXPECT_FALSE(ledger.allocate());
  ledger.release(block);
  EXPECT_EQ(ledger.allocate(), block);
}

TEST(BlockLedger, ReleasingOrSharingAFreeBlockIsABug) {
  block_ledger ledger{2};
  EXPECT_THROW(ledger.release(block_id{0}), contract_violation);
  EXPECT_THROW(ledger.share(block_id{1}), contract_violation);
  EXPECT_THROW(ledger.release(block_id{2}), contract_violation);
}

TEST(BlockLedger, ASealedBlockIsFoundByItsTokensParentAndSalt) {
  block_ledger ledger{4};
  const auto first = *ledger.allocate();
  const auto second = *ledger.allocate();
  ASSERT_EQ(ledger.seal(first, std::nullopt, sixteen(0), 1), first);
  ASSERT_EQ(ledger.seal(second, first, sixteen(16), 1), second);
  EXPECT_EQ(ledger.find(std::nullopt, sixteen(0), 1), first);
  EXPECT_EQ(ledger.find(first, sixteen(16), 1), second);
  EXPECT_FALSE(ledger.find(std::nullopt, sixteen(0), 2)) << "another salt";
  EXPECT_FALSE(ledger.find(std::nullopt, sixteen(16), 1)) << "another parent";
  EXPECT_FALSE(ledger.find(first, sixteen(17), 1)) << "other tokens";
  EXPECT_EQ(ledger.references(first), 2U);
  EXPECT_EQ(ledger.references(second), 2U);
  ledger.check();
}

TEST(BlockLedger, ACachedBlockIsTakenUpAgainUntilItIsNeededForOtherContents) {
  block_ledger ledger{2};
  const auto block = *ledger.allocate();
  ASSERT_TRUE(ledger.seal(block, std::nullopt, sixteen(0), 0));
  ledger.release(block);
  EXPECT_EQ(ledger.cached(), 1U);
  EXPECT_EQ(ledger.available(), 2U);
  EXPECT_EQ(ledger.find(std::nullopt, sixteen(0), 0), block);
  EXPECT_EQ(ledger.cached(), 0U);
  ledger.release(block);
  const auto other = *ledger.allocate();
  EXPECT_NE(other, block) << "free blocks go first";
  EXPECT_EQ(ledger.allocate(), block);
  EXPECT_EQ(ledger.figures().evictions, 1U);
  EXPECT_FALSE(ledger.find(std::nullopt, sixteen(0), 0));
  ledger.check();
}

TEST(BlockLedger, TheLeastRecentlyUsedCachedBlockIsEvictedFirst) {
  block_ledger ledger{3};
  std::vector<block_id> blocks;
  for (token_id i = 0; i < 3; ++i) {
    blocks.push_back(*ledger.allocate());
    ASSERT_TRUE(ledger.seal(blocks.back(), std::nullopt, sixteen(100 * i), 0));
  }
  for (const auto block : blocks) ledger.release(block);
  ASSERT_TRUE(ledger.find(std::nullopt, sixteen(0), 0));
  ledger.release(blocks[0]);
  EXPECT_EQ(ledger.allocate(), blocks[1]);
  EXPECT_EQ(ledger.allocate(), blocks[2]);
  EXPECT_EQ(ledger.allocate(), blocks[0]);
}

TEST(BlockLedger, AParentOutlivesItsSealedChildren) {
  block_ledger ledger{2};
  const auto parent = *ledger.allocate();
  const auto child = *ledger.allocate();
  ASSERT_TRUE(ledger.seal(parent, std::nullopt, sixteen(0), 0));
  ASSERT_TRUE(ledger.seal(child, parent, sixteen(16), 0));
  EXPECT_THROW(ledger.release(parent), contract_violation);
  ledger.release(child);
  ledger.release(parent);
  EXPECT_EQ(ledger.allocate(), child);
  ledger.check();
}

TEST(BlockLedger, EqualContentsAreKeptOnce) {
  block_ledger ledger{2};
  const auto first = *ledger.allocate();
  const auto again = *ledger.allocate();
  ASSERT_EQ(ledger.seal(first, std::nullopt, sixteen(0), 0), first);
  EXPECT_EQ(ledger.seal(again, std::nullopt, sixteen(0), 0), first);
  EXPECT_EQ(ledger.references(first), 2U);
  EXPECT_EQ(ledger.references(again), 0U);
  EXPECT_EQ(ledger.figures().duplicates, 1U);
  ledger.check();
}

TEST(BlockLedger, ACollisionOfHashesNeverSharesOtherContents) {
  block_ledger ledger{3, true, &always_the_same};
  const auto first = *ledger.allocate();
  const auto other = *ledger.allocate();
  ASSERT_EQ(ledger.seal(first, std::nullopt, sixteen(0), 0), first);
  EXPECT_FALSE(ledger.seal(other, std::nullopt, sixteen(50), 0));
  EXPECT_FALSE(ledger.find(std::nullopt, sixteen(50), 0));
  EXPECT_FALSE(ledger.find(first, sixteen(0), 0)) << "the same tokens behind another parent";
  EXPECT_FALSE(ledger.find(std::nullopt, sixteen(0), 9)) << "the same tokens with another salt";
  EXPECT_EQ(ledger.find(std::nullopt, sixteen(0), 0), first);
  EXPECT_EQ(ledger.figures().collisions, 1U);
  ledger.check();
}

TEST(BlockLedger, ASharedOrSealedBlockIsCopiedBeforeItIsWritten) {
  block_ledger ledger{3};
  const auto block = *ledger.allocate();
  EXPECT_EQ(ledger.writable(block)->block, block);
  EXPECT_FALSE(ledger.writable(block)->copy);

  ledger.share(block);
  const auto for_shared = ledger.writable(block).value();
  EXPECT_TRUE(for_shared.copy);
  EXPECT_NE(for_shared.block, block);
  EXPECT_EQ(ledger.references(block), 2U) << "until the copy is made";
  ledger.release(block);

  ASSERT_TRUE(ledger.seal(block, std::nullopt, sixteen(0), 0));
  EXPECT_TRUE(ledger.writable(block)->copy);
  EXPECT_FALSE(ledger.writable(block)) << "the pool is used up";
  ledger.check();
}

TEST(BlockLedger, WithoutPrefixCachingNothingIsSealed) {
  block_ledger ledger{1, false};
  const auto block = *ledger.allocate();
  EXPECT_FALSE(ledger.seal(block, std::nullopt, sixteen(0), 0));
  EXPECT_FALSE(ledger.find(std::nullopt, sixteen(0), 0));
  ledger.release(block);
  EXPECT_EQ(ledger.cached(), 0U);
}

TEST(BlockLedger, KnowsContentsBehindACachedBlockWithoutTakingThemUp) {
  block_ledger ledger{3};
  const auto parent = *ledger.allocate();
  const auto child = *ledger.allocate();
  ASSERT_TRUE(ledger.seal(parent, std::nullopt, sixteen(0), 0));
  ASSERT_TRUE(ledger.seal(child, parent, sixteen(16), 0));
  ledger.release(child);
  ledger.release(parent);
  const auto version = ledger.cache_version();
  EXPECT_TRUE(ledger.knows(std::nullopt, sixteen(0), 0));
  EXPECT_TRUE(ledger.knows(parent, sixteen(16), 0));
  EXPECT_FALSE(ledger.knows(parent, sixteen(16), 1));
  EXPECT_FALSE(ledger.knows(child, sixteen(16), 0));
  EXPECT_EQ(ledger.cached(), 2U);
  EXPECT_EQ(ledger.cache_version(), version);
  ASSERT_TRUE(ledger.find(std::nullopt, sixteen(0), 0));
  EXPECT_NE(ledger.cache_version(), version);
  ledger.check();
}

TEST(BlockHash, DependsOnParentTokensOrderAndSalt) {
  auto tokens = sixteen(0);
  const auto hash = hash_block(root_hash, tokens, 0);
  EXPECT_EQ(hash, hash_block(root_hash, sixteen(0), 0));
  EXPECT_NE(hash, hash_block(1, tokens, 0));
  EXPECT_NE(hash, hash_block(root_hash, tokens, 1));
  std::swap(tokens[3], tokens[4]);
  EXPECT_NE(hash, hash_block(root_hash, tokens, 0));
}

// Instances name prefixes to each other by it, so it must not change from one version or machine to another.
TEST(BlockHash, IsTheSameEverywhere) {
  EXPECT_EQ(hash_block(root_hash, sixteen(0), 0), 0xad348743424143f7ULL);
  EXPECT_EQ(hash_block(hash_block(root_hash, sixteen(0), 0), sixteen(16), 3), 0xbd40593c49ae40fdULL);
}

} // namespace
} // namespace godwit::protocols
