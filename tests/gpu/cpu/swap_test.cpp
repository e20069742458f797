// KV that waits in the host's memory: on one device and on several, it comes back as it was.
#include "gpu/cpu/tiny_model.hpp"
#include "gpu/swapped.hpp"

#include <godwit/gpu/memory_pool.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace godwit::gpu::cpu::testing {
namespace {

using gpu::testing::copied_in;
using gpu::testing::copied_out;
using gpu::testing::moves;
using table = std::vector<std::uint32_t>;

model::config two_kv_heads() {
  auto config = tiny_config();
  config.heads = 4;
  config.kv_heads = 2;
  return config;
}

class CpuSwap : public ::testing::TestWithParam<std::uint32_t> {
protected:
  runner make(std::uint64_t swap_bytes) {
    cpu_executor_settings settings;
    settings.threads = 2;
    settings.blocks = 8;
    settings.swap_bytes = swap_bytes;
    return {pack_shards(config_, weights_, GetParam(), 2), settings};
  }
  std::uint64_t block_bytes() { return make(0).get().info().block_bytes; }

  model::config config_ = two_kv_heads();
  memory_weights weights_{config_, model::data_type::f32, 3};
};

TEST_P(CpuSwap, WhatComesBackIsWhatWent) {
  const auto bytes = block_bytes();
  auto run = make(6 * bytes + bytes / 2), calm = make(0);
  const auto space = run.get().swap();
  ASSERT_TRUE(space);
  EXPECT_EQ(space->slots(), 6U) << "whole blocks only";
  EXPECT_FALSE(calm.get().swap());

  const auto text = some_tokens(50, config_.vocabulary, 1), other = some_tokens(64, config_.vocabulary, 2);
  for (auto* each : {&run, &calm}) each->step({slice_of(text, 0, 48, table{5, 2, 7})});
  ASSERT_EQ(copied_out(*space, moves({5, 2, 7}, {4, 0, 3})), "");
  run.step({slice_of(other, 0, 64, table{2, 5, 7, 0})}); // the blocks are others' meanwhile
  ASSERT_EQ(copied_in(*space, moves({1, 3, 6}, {4, 0, 3})), "");
  run.step({slice_of(text, 48, 1, table{1, 3, 6, 4})});
  calm.step({slice_of(text, 48, 1, table{5, 2, 7, 4})});
  EXPECT_EQ(run.logits(0), calm.logits(0));
}

TEST_P(CpuSwap, CopiesRunBesideSteps) {
  auto run = make(8 * block_bytes());
  const auto space = run.get().swap();
  const auto text = some_tokens(64, config_.vocabulary, 1), other = some_tokens(64, config_.vocabulary, 2);
  run.step({slice_of(text, 0, 64, table{0, 1, 2, 3})});
  for (int round = 0; round < 20; ++round) {
    const event ended;
    std::string error;
    space->copy_out(moves({0, 1, 2, 3}, {7, 6, 5, 4}), [&](std::string why) {
      error = std::move(why);
      ended.set();
    });
    run.step({slice_of(other, 0, 64, table{4, 5, 6, 7})});
    ended.wait();
    ASSERT_EQ(error, "");
  }
}

TEST_P(CpuSwap, ASlotThatIsNotThereIsRefused) {
  auto run = make(2 * block_bytes());
  EXPECT_THAT(copied_out(*run.get().swap(), moves({0, 1}, {1, 2})), ::testing::HasSubstr("no slot 2"));
  EXPECT_EQ(copied_out(*run.get().swap(), {}), "") << "of nothing";
}

TEST_P(CpuSwap, EndsWithCopiesUnderWay) {
  for (int round = 0; round < 10; ++round) {
    auto run = make(8 * block_bytes());
    auto space = run.get().swap();
    for (int i = 0; i < 20; ++i) space->copy_out(moves({0, 1, 2, 3}, {7, 6, 5, 4}), [](const std::string&) {});
    if (round % 2 == 0) space.reset(); // the executor's is the last one, or ours
  }
}

INSTANTIATE_TEST_SUITE_P(Devices, CpuSwap, ::testing::Values(1, 2));

TEST(CpuSwapSpace, MoreThanTheMachineHasIsRefused) {
  const auto config = two_kv_heads();
  const memory_weights weights(config, model::data_type::f32, 3);
  cpu_executor_settings settings;
  settings.blocks = 8;
  settings.swap_bytes = std::uint64_t{1} << 60U;
  EXPECT_THROW((void)make_cpu_executor(pack_shards(config, weights, 1, 1), settings), out_of_memory);
}

} // namespace
} // namespace godwit::gpu::cpu::testing
