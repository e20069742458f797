#include "gpu/cuda/device_test.hpp"
#include "gpu/swapped.hpp"

#include <chrono>

// KV that waits in the host's memory: on emulated GPUs with every build, and on real ones where there are as many
// (ctest -L gpu).
namespace godwit::gpu::cuda::testing {
namespace {

using gpu::testing::copied_in;
using gpu::testing::copied_out;
using gpu::testing::moves;

class CudaSwap : public ::testing::TestWithParam<std::uint32_t> {
protected:
  void SetUp() override {
    auto found = find_backend(GetParam());
    if (!found.backend) GTEST_SKIP() << found.why_not;
    backend_ = std::move(found.backend);
    parts_ = upload_parts(*backend_, config_, weights_, GetParam());
  }
  cuda_runner make(std::uint64_t swap_bytes) {
    cuda_executor_settings settings;
    settings.blocks = 16;
    settings.step_tokens = 256;
    settings.deterministic = true;
    settings.swap_bytes = swap_bytes;
    return {*backend_, parts_, settings};
  }

  model::config config_ = four_kv_heads();
  memory_weights weights_{config_, model::data_type::bf16, 11};
  std::shared_ptr<cuda_backend> backend_;
  model_parts parts_;
};

TEST_P(CudaSwap, WhatComesBackIsWhatWent) {
  auto calm = make(0);
  EXPECT_FALSE(calm.get().swap());
  auto run = make(12 * calm.get().info().block_bytes);
  const auto space = run.get().swap();
  ASSERT_TRUE(space);
  EXPECT_EQ(space->slots(), 12U);

  const auto text = some_tokens(170, config_.vocabulary, 1), other = some_tokens(256, config_.vocabulary, 2);
  const blocks first{15, 2, 7, 0, 9, 11, 4, 3, 13, 6};
  for (auto* each : {&run, &calm}) each->step({slice_of(text, 0, 160, first)});
  const blocks slots{11, 10, 9, 8, 7, 6, 5, 4, 3, 0};
  ASSERT_EQ(copied_out(*space, moves(first, slots)), "");
  run.step({slice_of(other, 0, 256, first_blocks(16))}); // the blocks are others' meanwhile
  const blocks second{1, 0, 5, 8, 10, 12, 14, 15, 2, 3};
  ASSERT_EQ(copied_in(*space, moves(second, slots)), "");
  auto to = second, from = first;
  to.push_back(7);
  from.push_back(1);
  run.step({slice_of(text, 160, 1, to)});
  calm.step({slice_of(text, 160, 1, from)});
  EXPECT_TRUE(same(run.logits(0), calm.logits(0)));
}

TEST_P(CudaSwap, EndsWithCopiesUnderWay) {
  auto run = make(make(0).get().info().block_bytes * 4);
  for (int i = 0; i < 20; ++i) run.get().swap()->copy_out(moves({0, 1, 2, 3}, {3, 2, 1, 0}), [](const std::string&) {});
}

INSTANTIATE_TEST_SUITE_P(Alone, CudaSwap, ::testing::Values(1));
INSTANTIATE_TEST_SUITE_P(Divided, CudaSwap, ::testing::Values(2)); // its name says that it wants several GPUs

} // namespace
} // namespace godwit::gpu::cuda::testing
