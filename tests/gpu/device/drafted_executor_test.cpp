#include "gpu/cpu/tiny_model.hpp"
#include "gpu/swapped.hpp"

#include <godwit/gpu/drafted_executor.hpp>
#include <godwit/gpu/tensor_parallel.hpp>

#include <gtest/gtest.h>

#include <cstring>

namespace godwit::gpu::cpu::testing {
namespace {

model::config smaller(std::uint32_t layers) {
  auto c = tiny_config();
  c.layers = layers;
  return c;
}
std::shared_ptr<executor> model_of(std::uint32_t layers, std::uint32_t blocks, std::uint32_t swap_blocks = 0,
                                   std::uint32_t positions = 0) {
  auto c = smaller(layers);
  if (positions > 0) c.positions_max = positions;
  const auto packed = pack_model(c, memory_weights(c, model::data_type::bf16, 3), 1);
  const auto block = make_cpu_executor(packed, {.threads = 1, .blocks = 1})->info().block_bytes;
  return make_cpu_executor(packed, {.threads = 1, .blocks = blocks, .swap_bytes = swap_blocks * block});
}

TEST(DraftedExecutor, SaysOfItsBlocksWhatBothHaveOfThem) {
  const auto model = model_of(3, 8, 0, 400), draft = model_of(1, 8, 0, 300);
  const auto both = make_drafted_executor(model, draft);
  EXPECT_EQ(both->draft(), draft);
  EXPECT_FALSE(model->draft());
  const auto& info = both->info();
  EXPECT_EQ(info.layers, 3U) << "of the model, whose steps it runs";
  EXPECT_EQ(info.blocks, 8U);
  EXPECT_EQ(info.positions_max, 300U) << "what both can";
  EXPECT_EQ(info.block_bytes, model->info().block_bytes + draft->info().block_bytes);
  EXPECT_EQ(info.weight_bytes, model->info().weight_bytes + draft->info().weight_bytes);
  EXPECT_NE(info.kv_layout, model->info().kv_layout) << "who has no draft model cannot take its blocks";
  EXPECT_NE(info.kv_layout, make_drafted_executor(model, model_of(2, 8))->info().kv_layout) << "nor who has another";
  const protocols::block_id third{3};
  EXPECT_EQ(both->key_region(2, third).address, model->key_region(2, third).address);
  EXPECT_EQ(both->value_region(2, third).address, model->value_region(2, third).address);
  EXPECT_FALSE(both->swap());
  EXPECT_FALSE(make_drafted_executor(model_of(3, 8, 4), draft)->swap()) << "half of a block is of no use";
}

TEST(DraftedExecutor, WhatDoesNotFitIsRefused) {
  const auto model = model_of(2, 8);
  EXPECT_THROW((void)make_drafted_executor(model, nullptr), std::invalid_argument);
  EXPECT_THROW((void)make_drafted_executor(nullptr, model), std::invalid_argument);
  EXPECT_THROW((void)make_drafted_executor(model, model_of(1, 7)), std::invalid_argument) << "too few blocks";
  EXPECT_NO_THROW((void)make_drafted_executor(model, model_of(1, 9)));
  const std::shared_ptr<executor> both = make_drafted_executor(model, model_of(1, 8));
  EXPECT_THROW((void)make_drafted_executor(model, both), std::invalid_argument) << "a draft model of a draft model";
  const auto info = model->info();
  EXPECT_THROW((void)make_drafted_executor(model, tensor_parallel::join_ranks(info, {model})), std::invalid_argument);
}

TEST(DraftedExecutor, ASwapSlotHasTheKvOfBoth) {
  const auto model = model_of(3, 8, 6), draft = model_of(1, 8, 5);
  const auto both = make_drafted_executor(model, draft);
  const auto space = both->swap();
  ASSERT_TRUE(space);
  EXPECT_EQ(space->slots(), 5U);
  const auto regions = [&](std::uint32_t block) {
    std::vector<protocols::memory_region> out;
    for (const auto& [of, layers] : {std::pair{model, 3U}, std::pair{draft, 1U}})
      for (std::uint32_t layer = 0; layer < layers; ++layer) {
        out.push_back(of->key_region(layer, protocols::block_id{block}));
        out.push_back(of->value_region(layer, protocols::block_id{block}));
      }
    return out;
  };
  const auto fill = [&](std::uint32_t block, int with) {
    for (const auto& region : regions(block)) std::memset(region.address, with, region.bytes);
  };
  fill(2, 7);
  EXPECT_EQ(gpu::testing::copied_out(*space, gpu::testing::moves({2}, {4})), "");
  fill(2, 0);
  EXPECT_EQ(gpu::testing::copied_in(*space, gpu::testing::moves({5}, {4})), "");
  for (const auto& region : regions(5))
    for (std::size_t i = 0; i < region.bytes; ++i) ASSERT_EQ(static_cast<int>(region.address[i]), 7);
}

TEST(DraftedExecutor, MemoryOfBothIsDividedByBlocks) {
  EXPECT_EQ(share_beside_draft(1000, 60, 40), 600U);
  EXPECT_EQ(share_beside_draft(1099, 60, 40), 600U) << "ten blocks";
  EXPECT_EQ(share_beside_draft(99, 60, 40), 0U);
  EXPECT_EQ(share_beside_draft(0, 60, 40), 0U);
}

} // namespace
} // namespace godwit::gpu::cpu::testing
