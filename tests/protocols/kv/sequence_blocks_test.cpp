#include <godwit/protocols/ensure.hpp>
#include <godwit/protocols/kv/sequence_blocks.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>
#include <vector>

namespace godwit::protocols {
namespace {

std::vector<token_id> counted(std::size_t size, token_id first = 0) {
  std::vector<token_id> tokens(size);
  for (auto& token : tokens) token = first++;
  return tokens;
}

TEST(SequenceBlocks, TakesOnlyBlocksThatAreNobodyElses) {
  block_ledger ledger{4};
  const std::vector<block_id> blocks{*ledger.allocate(), *ledger.allocate()};
  ledger.share(blocks[1]);
  sequence_blocks table;
  EXPECT_THROW(table.take(ledger, blocks), contract_violation);
  ledger.release(blocks[1]);
  table.take(ledger, blocks);
  EXPECT_EQ(table.table(), blocks);
  EXPECT_THROW(table.take(ledger, blocks), contract_violation) << "the table is not empty";
  table.release(ledger);
  EXPECT_EQ(ledger.used(), 0U);
}

TEST(SequenceBlocks, GrowsToTheBlocksItsPositionsNeed) {
  block_ledger ledger{3};
  sequence_blocks blocks;
  EXPECT_TRUE(blocks.grow(ledger, 1));
  EXPECT_EQ(blocks.size(), 1U);
  EXPECT_TRUE(blocks.grow(ledger, 16));
  EXPECT_EQ(blocks.size(), 1U);
  EXPECT_TRUE(blocks.grow(ledger, 17));
  EXPECT_EQ(blocks.size(), 2U);
  EXPECT_FALSE(blocks.grow(ledger, 49));
  EXPECT_EQ(blocks.size(), 2U) << "all or nothing";
  blocks.release(ledger);
  EXPECT_EQ(ledger.used(), 0U);
}

TEST(SequenceBlocks, APrefixComputedOnceServesALaterRequest) {
  block_ledger ledger{8};
  sequence_blocks first;
  const auto tokens = counted(40);
  ASSERT_TRUE(first.grow(ledger, 40));
  first.seal(ledger, tokens);
  sequence_blocks second;
  auto longer = counted(33);
  longer.push_back(1000);
  EXPECT_EQ(second.match(ledger, longer), 32U);
  EXPECT_EQ(second.table()[0], first.table()[0]);
  EXPECT_EQ(second.table()[1], first.table()[1]);
  first.release(ledger);
  ledger.check();
  sequence_blocks third;
  EXPECT_EQ(third.match(ledger, tokens), 32U) << "still there after its owner left";
  second.release(ledger);
  third.release(ledger);
  EXPECT_EQ(ledger.cached(), 2U);
  ledger.check();
}

TEST(SequenceBlocks, TwoThatComputeTheSameEndUpSharing) {
  block_ledger ledger{8};
  sequence_blocks first, second;
  const auto tokens = counted(48);
  ASSERT_TRUE(first.grow(ledger, 48));
  ASSERT_TRUE(second.grow(ledger, 48));
  first.seal(ledger, std::span{tokens}.first(32));
  second.seal(ledger, tokens);
  first.seal(ledger, tokens);
  EXPECT_EQ(first.table(), second.table());
  EXPECT_EQ(ledger.used(), 3U);
  first.release(ledger);
  second.release(ledger);
  ledger.check();
}

TEST(SequenceBlocks, AForkIsWrittenInACopy) {
  block_ledger ledger{4};
  sequence_blocks blocks;
  ASSERT_TRUE(blocks.grow(ledger, 20));
  auto other = blocks.fork(ledger);
  const auto written = other.make_writable(ledger, 20).value();
  EXPECT_TRUE(written.copies());
  EXPECT_EQ(written.from, blocks.table()[1]);
  EXPECT_EQ(written.to, other.table()[1]);
  EXPECT_EQ(other.table()[0], blocks.table()[0]);
  ledger.release(written.from);
  EXPECT_FALSE(blocks.make_writable(ledger, 20)->copies()) << "it is alone again";
  blocks.release(ledger);
  other.release(ledger);
  EXPECT_EQ(ledger.used(), 0U);
}

TEST(SequenceBlocks, ForksSealTheSameBlockOnce) {
  block_ledger ledger{4};
  sequence_blocks blocks;
  const auto tokens = counted(32);
  ASSERT_TRUE(blocks.grow(ledger, 32));
  auto other = blocks.fork(ledger);
  blocks.seal(ledger, tokens);
  other.seal(ledger, tokens);
  EXPECT_EQ(ledger.figures().seals, 2U);
  other.release(ledger);
  blocks.release(ledger);
  ledger.check();
}

TEST(SequenceBlocks, BehindACollisionNothingIsShared) {
  block_ledger ledger{8, true,
                      +[](block_hash, std::span<const token_id>, std::uint64_t) noexcept -> block_hash { return 1; }};
  sequence_blocks first, second;
  ASSERT_TRUE(first.grow(ledger, 32));
  first.seal(ledger, counted(32));
  ASSERT_TRUE(second.grow(ledger, 32));
  second.seal(ledger, counted(32, 500));
  EXPECT_EQ(ledger.figures().seals, 1U);
  sequence_blocks third;
  EXPECT_EQ(third.match(ledger, counted(32)), 16U);
  for (auto* blocks : {&first, &second, &third}) blocks->release(ledger);
  ledger.check();
}

/// Contents of each block as a device would have them. Shared tables must always show their owner's own tokens.
class pool_model {
public:
  explicit pool_model(std::uint32_t blocks) : contents_(blocks) {}
  void write(block_id block, std::size_t offset, std::uint64_t value) { contents_[block.value()][offset] = value; }
  void copy(block_id from, block_id to) { contents_[to.value()] = contents_[from.value()]; }
  [[nodiscard]] std::uint64_t read(block_id block, std::size_t offset) const {
    return contents_[block.value()][offset];
  }

private:
  std::vector<std::array<std::uint64_t, tokens_per_block>> contents_;
};

std::uint64_t kv_of(std::span<const token_id> upto) {
  std::uint64_t value = 99;
  for (const auto token : upto) value = (value ^ static_cast<std::uint64_t>(token)) * 0x9E3779B97F4A7C15ULL + 1;
  return value;
}

class SequenceBlocksModel : public ::testing::TestWithParam<block_hash_function> {};

TEST_P(SequenceBlocksModel, EveryTableShowsItsOwnTokensWhateverIsSharedCopiedAndEvicted) {
  struct sequence {
    std::vector<token_id> tokens;
    sequence_blocks blocks;
  };
  for (unsigned seed = 0; seed < 60; ++seed) {
    std::mt19937 random{seed};
    const auto below = [&](std::uint32_t n) { return static_cast<std::uint32_t>(random() % n); };
    block_ledger ledger{6 + below(20), true, GetParam()};
    pool_model pool{ledger.total()};
    std::vector<sequence> live;
    for (int operation = 0; operation < 400; ++operation) {
      switch (below(5)) {
      case 0: { // a new one, often with a known beginning
        sequence s;
        for (std::uint32_t i = 0, n = 1 + below(50); i < n; ++i)
          s.tokens.push_back(static_cast<token_id>(i / 16 * below(2)));
        auto known = s.blocks.match(ledger, std::span{s.tokens}.first(s.tokens.size() - 1));
        if (!s.blocks.grow(ledger, s.tokens.size())) {
          s.blocks.release(ledger);
          break;
        }
        for (; known < s.tokens.size(); ++known)
          pool.write(s.blocks.table()[known / 16], known % 16, kv_of(std::span{s.tokens}.first(known + 1)));
        s.blocks.seal(ledger, s.tokens);
        live.push_back(std::move(s));
        break;
      }
      case 1:
      case 2: { // one token more
        if (live.empty()) break;
        auto& s = live[below(static_cast<std::uint32_t>(live.size()))];
        const auto position = s.tokens.size();
        if (!s.blocks.grow(ledger, position + 1)) break;
        const auto written = s.blocks.make_writable(ledger, position);
        if (!written) break;
        if (written->copies()) {
          pool.copy(written->from, written->to);
          ledger.release(written->from);
        }
        s.tokens.push_back(static_cast<token_id>(below(2)));
        pool.write(written->to, position % 16, kv_of(s.tokens));
        s.blocks.seal(ledger, s.tokens);
        break;
      }
      case 3: // a fork
        if (!live.empty() && live.size() < 12) {
          const auto& parent = live[below(static_cast<std::uint32_t>(live.size()))];
          live.push_back({parent.tokens, parent.blocks.fork(ledger)});
        }
        break;
      default: // one leaves
        if (!live.empty()) {
          const auto gone = below(static_cast<std::uint32_t>(live.size()));
          live[gone].blocks.release(ledger);
          live.erase(live.begin() + gone);
        }
      }
      ledger.check();
      std::map<block_id, std::uint32_t> references;
      for (const auto& s : live) {
        for (const auto block : s.blocks.table()) ++references[block];
        for (std::size_t i = 0; i < s.tokens.size(); ++i)
          ASSERT_EQ(pool.read(s.blocks.table()[i / 16], i % 16), kv_of(std::span{s.tokens}.first(i + 1)))
              << "seed " << seed;
      }
      ASSERT_EQ(ledger.used(), references.size());
      for (const auto& [block, count] : references) ASSERT_EQ(ledger.references(block), count);
    }
    for (auto& s : live) s.blocks.release(ledger);
    EXPECT_EQ(ledger.used(), 0U);
  }
}

block_hash four_values(block_hash parent, std::span<const token_id> tokens, std::uint64_t salt) noexcept {
  return hash_block(parent, tokens, salt) % 4;
}

INSTANTIATE_TEST_SUITE_P(Hashes, SequenceBlocksModel, ::testing::Values(&hash_block, &four_values));

} // namespace
} // namespace godwit::protocols
