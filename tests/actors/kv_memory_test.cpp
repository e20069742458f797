#include "migration/kv_memory.hpp"

#include <godwit/actors/migration_environment.hpp>
#include <godwit/gpu/drafted_executor.hpp>
#include <godwit/gpu/tensor_parallel.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <numeric>

namespace godwit::test {

using actors::kv_memory;
using protocols::block_id;
using protocols::memory_region;

namespace {

constexpr std::uint32_t layers = 3, heads = 8, blocks = 5, head_bytes = 24;

/// The KV of some heads, and nothing that computes. V follows K, or lies elsewhere.
class pool_of_heads final : public gpu::executor {
public:
  pool_of_heads(std::uint32_t count, bool adjacent, protocols::memory_kind kind = protocols::memory_kind::host)
      : kind_(kind), half_(std::size_t{count} * head_bytes), adjacent_(adjacent),
        bytes_(std::size_t{layers} * blocks * 2 * half_) {
    info_.layers = layers;
    info_.blocks = blocks;
  }
  [[nodiscard]] const gpu::executor_info& info() const noexcept override { return info_; }
  [[nodiscard]] std::unique_ptr<gpu::forward> begin(protocols::step_input) override { return nullptr; }
  [[nodiscard]] memory_region key_region(std::uint32_t layer, block_id block) override {
    const std::size_t at = std::size_t{layer} * blocks + block.value();
    return {bytes_.data() + at * (adjacent_ ? 2 : 1) * half_, half_, kind_};
  }
  [[nodiscard]] memory_region value_region(std::uint32_t layer, block_id block) override {
    auto region = key_region(layer, block);
    region.address += adjacent_ ? half_ : bytes_.size() / 2;
    return region;
  }

private:
  protocols::memory_kind kind_;
  std::size_t half_;
  bool adjacent_;
  std::vector<std::byte> bytes_;
  gpu::executor_info info_;
};

std::shared_ptr<gpu::executor> pool(std::uint32_t devices, bool adjacent = true, std::uint32_t count = heads) {
  if (devices == 1) return std::make_shared<pool_of_heads>(count, adjacent);
  std::vector<std::shared_ptr<gpu::executor>> ranks;
  for (std::uint32_t i = 0; i < devices; ++i)
    ranks.push_back(std::make_shared<pool_of_heads>(count / devices, adjacent));
  auto info = ranks.front()->info();
  return gpu::tensor_parallel::join_ranks(std::move(info), std::move(ranks));
}

/// What a head's K or V is filled with.
std::byte mark(std::uint32_t layer, std::uint32_t block, bool keys, std::uint32_t head) {
  return static_cast<std::byte>(1 + ((layer * blocks + block) * 2 + (keys ? 0 : 1)) * heads + head);
}
void fill(gpu::executor& whole, std::uint32_t count = heads) {
  std::vector<gpu::executor*> devices;
  for (const auto& device : whole.shards()) devices.push_back(device.get());
  if (devices.empty()) devices.push_back(&whole);
  const auto each = static_cast<std::uint32_t>(count / devices.size());
  for (std::uint32_t layer = 0; layer < layers; ++layer)
    for (std::uint32_t block = 0; block < blocks; ++block)
      for (std::uint32_t head = 0; head < count; ++head)
        for (const bool keys : {true, false}) {
          auto& device = *devices[head / each];
          const auto region =
              keys ? device.key_region(layer, block_id{block}) : device.value_region(layer, block_id{block});
          std::memset(region.address + std::size_t{head % each} * head_bytes,
                      static_cast<int>(mark(layer, block, keys, head)), head_bytes);
        }
}

std::vector<std::byte> bytes_of(const std::vector<memory_region>& regions) {
  std::vector<std::byte> out;
  for (const auto& region : regions) out.insert(out.end(), region.address, region.address + region.bytes);
  return out;
}
std::vector<std::byte> expected(const std::vector<block_id>& list, std::uint32_t count = heads) {
  std::vector<std::byte> out;
  for (const auto block : list)
    for (std::uint32_t layer = 0; layer < layers; ++layer)
      for (const bool keys : {true, false})
        for (std::uint32_t head = 0; head < count; ++head)
          out.insert(out.end(), head_bytes, mark(layer, block.value(), keys, head));
  return out;
}

const std::vector<block_id> some_blocks{block_id{3}, block_id{0}, block_id{4}};

} // namespace

TEST(KvMemory, TheBytesOfABlockAreTheSameForEveryDegreeHoweverTheyAreCut) {
  for (const std::uint32_t devices : {1U, 2U, 4U, 8U})
    for (const bool adjacent : {true, false}) {
      const auto whole = pool(devices, adjacent);
      fill(*whole);
      const kv_memory memory(whole);
      EXPECT_EQ(memory.devices(), devices);
      EXPECT_EQ(memory.block_bytes(), std::uint64_t{layers} * 2 * heads * head_bytes);
      EXPECT_EQ(bytes_of(memory.regions(some_blocks)), expected(some_blocks));
      for (const std::uint32_t peer : {1U, 2U, 4U, 8U}) {
        const auto common = memory.common_with(peer);
        ASSERT_TRUE(common);
        EXPECT_EQ(bytes_of(common->regions(some_blocks)), expected(some_blocks)) << devices << " with " << peer;
        EXPECT_EQ(common->regions(some_blocks).size(), some_blocks.size() * common->regions_per_block());
        EXPECT_EQ(common->block_bytes(), memory.block_bytes());
      }
    }
}

TEST(KvMemory, BothSidesOfAnExchangeHaveRegionsOfTheSameSizes) {
  for (const std::uint32_t here : {1U, 2U, 4U, 8U})
    for (const std::uint32_t there : {1U, 2U, 4U, 8U}) {
      const kv_memory ours(pool(here)), theirs(pool(there));
      const auto sent = ours.common_with(there), landed = theirs.common_with(here);
      ASSERT_TRUE(sent && landed);
      const auto from = sent->regions(some_blocks), to = landed->regions(some_blocks);
      ASSERT_EQ(from.size(), to.size()) << here << " to " << there;
      for (std::size_t i = 0; i < from.size(); ++i) ASSERT_EQ(from[i].bytes, to[i].bytes);
      EXPECT_EQ(sent->regions_per_block(), landed->regions_per_block());
    }
}

// As it was before there was more than one.
TEST(KvMemory, BetweenInstancesOfOneDeviceKAndVOfALayerAreOneRegion) {
  EXPECT_EQ(kv_memory(pool(1)).common_with(1)->regions_per_block(), layers);
  EXPECT_EQ(kv_memory(pool(1, false)).common_with(1)->regions_per_block(), 2 * layers);
  EXPECT_EQ(kv_memory(pool(2)).common_with(2)->regions_per_block(), 4 * layers);
  EXPECT_EQ(kv_memory(pool(1)).common_with(4)->regions_per_block(), 8 * layers);
}

TEST(KvMemory, ADivisionIntoOnePartIsThatPart) {
  const auto one = pool(1);
  fill(*one);
  const kv_memory memory(gpu::tensor_parallel::join_ranks(one->info(), {one}));
  EXPECT_EQ(bytes_of(memory.regions(some_blocks)), expected(some_blocks));
  const auto common = memory.common_with(1);
  ASSERT_TRUE(common);
  EXPECT_EQ(bytes_of(common->regions(some_blocks)), expected(some_blocks));
  EXPECT_EQ(common->regions_per_block(), kv_memory(one).regions_per_block()) << "so they can exchange blocks";
}

// Neither degree divides the other: both cut into six.
TEST(KvMemory, SixHeadsGoFromTwoDevicesToThree) {
  const auto two = pool(2, true, 6), three = pool(3, true, 6);
  fill(*two, 6);
  fill(*three, 6);
  const auto from = kv_memory(two).common_with(3), to = kv_memory(three).common_with(2);
  ASSERT_TRUE(from && to);
  const auto sent = from->regions(some_blocks), landed = to->regions(some_blocks);
  ASSERT_EQ(sent.size(), some_blocks.size() * layers * 2 * 6);
  ASSERT_EQ(landed.size(), sent.size());
  for (std::size_t i = 0; i < sent.size(); ++i) {
    EXPECT_EQ(sent[i].bytes, head_bytes);
    EXPECT_EQ(landed[i].bytes, head_bytes);
  }
  EXPECT_EQ(bytes_of(sent), expected(some_blocks, 6));
  EXPECT_EQ(bytes_of(landed), expected(some_blocks, 6));
}

TEST(KvMemory, SaysWhetherCoresOrADeviceCopyIt) {
  const kv_memory host(pool(1)), divided(pool(2));
  const kv_memory device(std::make_shared<pool_of_heads>(heads, true, protocols::memory_kind::device));
  EXPECT_TRUE(host.on_host());
  EXPECT_TRUE(divided.on_host());
  EXPECT_FALSE(device.on_host());
  EXPECT_FALSE(device.common_with(2)->on_host());
}

TEST(MigrationSettings, CopiesArePacedAsTheirMemoryAsksForUnlessTold) {
  actors::migration_settings settings;
  const auto host = settings.pace_of_copies(true), device = settings.pace_of_copies(false);
  EXPECT_EQ(host.share, 0.0125);
  EXPECT_EQ(host.bytes_per_second, 100e6);
  EXPECT_EQ(host.share_max, 0.25);
  EXPECT_EQ(device.share, 0.25);
  EXPECT_EQ(device.bytes_per_second, 0);
  settings.copy_share = 0.5;
  for (const bool in_host_memory : {true, false}) {
    EXPECT_EQ(settings.pace_of_copies(in_host_memory).share, 0.5);
    EXPECT_EQ(settings.pace_of_copies(in_host_memory).bytes_per_second, 0);
    EXPECT_LT(settings.pace_of_copies(in_host_memory).stretch_max, settings.stage_timeout);
    EXPECT_LT(settings.pace_of_copies(in_host_memory).rest_max, settings.lease);
  }
}

/// A pool beside that of a draft model with two heads.
std::shared_ptr<gpu::executor> with_draft(const std::shared_ptr<gpu::executor>& whole,
                                          const std::shared_ptr<gpu::executor>& draft) {
  return gpu::make_drafted_executor(whole, draft);
}

std::vector<std::byte> expected_of_both(const std::vector<block_id>& list, std::uint32_t draft_heads) {
  std::vector<std::byte> out;
  for (const auto block : list)
    for (const auto count : {heads, draft_heads}) {
      const auto some = expected({block}, count);
      out.insert(out.end(), some.begin(), some.end());
    }
  return out;
}

TEST(KvMemory, BehindAModelsLayersAreThoseOfItsDraftModel) {
  for (const std::uint32_t devices : {1U, 2U, 4U}) {
    const auto whole = pool(devices), draft = pool(1, true, 2);
    fill(*whole);
    fill(*draft, 2);
    const kv_memory memory(with_draft(whole, draft));
    EXPECT_EQ(memory.devices(), devices) << "of the model";
    EXPECT_EQ(memory.block_bytes(), std::uint64_t{layers} * 2 * (heads + 2) * head_bytes);
    EXPECT_EQ(bytes_of(memory.regions(some_blocks)), expected_of_both(some_blocks, 2));
    for (const std::uint32_t peer : {1U, 2U, 4U}) {
      const auto common = memory.common_with(peer);
      ASSERT_TRUE(common);
      EXPECT_EQ(bytes_of(common->regions(some_blocks)), expected_of_both(some_blocks, 2))
          << devices << " with " << peer;
      const auto theirs = kv_memory(with_draft(pool(peer), draft)).common_with(devices);
      const auto sent = common->regions(some_blocks), landed = theirs->regions(some_blocks);
      ASSERT_EQ(sent.size(), landed.size());
      for (std::size_t i = 0; i < sent.size(); ++i) ASSERT_EQ(sent[i].bytes, landed[i].bytes);
      EXPECT_EQ(sent.size(), some_blocks.size() * common->regions_per_block());
    }
  }
}

TEST(KvMemory, WhoKeepsBlocksGetsThemInRegionsOfOneSize) {
  for (const std::uint32_t devices : {1U, 2U})
    for (const std::uint32_t draft_heads : {0U, 2U, 3U}) {
      const auto whole = pool(devices);
      fill(*whole);
      auto both = whole;
      if (draft_heads > 0) {
        const auto draft = pool(1, true, draft_heads);
        fill(*draft, draft_heads);
        both = with_draft(whole, draft);
      }
      const kv_memory memory(both);
      const auto even = memory.even();
      ASSERT_TRUE(even);
      const auto regions = even->regions(some_blocks);
      EXPECT_EQ(regions.size(), some_blocks.size() * even->regions_per_block());
      for (const auto& region : regions) ASSERT_EQ(region.bytes, regions.front().bytes);
      EXPECT_EQ(bytes_of(regions),
                draft_heads == 0 ? expected(some_blocks) : expected_of_both(some_blocks, draft_heads));
      if (draft_heads == 0) {
        EXPECT_EQ(even->regions_per_block(), memory.regions_per_block()) << "they are already";
      }
      EXPECT_EQ(even->block_bytes(), memory.block_bytes());
    }
}

// 96 bytes on each of two devices: they cannot be cut into ten pieces of 19.2.
TEST(KvMemory, ADegreeThatCannotBeIsRefused) {
  const kv_memory memory(pool(2));
  for (const std::uint32_t wrong : {0U, 5U, 7U, 65U, 96U, 1023U, 1025U, ~0U})
    EXPECT_FALSE(memory.common_with(wrong)) << wrong;
}

} // namespace godwit::test
