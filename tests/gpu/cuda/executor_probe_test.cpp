#include "gpu/cuda/device_test.hpp"

namespace godwit::gpu::cuda::testing {
namespace {

using CudaProbe = device_test;

TEST_F(CudaProbe, TimesCopiesProductsAndAttention) {
  const auto probe = backend_->make_probe(0);
  for (const auto route : {copy_route::within_device, copy_route::to_device, copy_route::from_device})
    EXPECT_GT(probe->copy(route, 100'000, 2), 0.0);
  for (const bool fixed : {false, true})
    for (const auto y : {model::data_type::f32, model::data_type::bf16})
      EXPECT_GT(probe->product({4, 64, 32, y, fixed}, 2), 0.0);
  for (const bool deterministic : {false, true}) EXPECT_GT(probe->attention({2, 40, 4, 2, 32, deterministic}, 2), 0.0);
  EXPECT_THAT(message_of([&] { (void)probe->attention({1, 40, 4, 2, 33, false}, 1); }), ::testing::Not(""));
}

TEST_F(CudaProbe, TimesTheGraphsOfTheLastStepBackToBackAndLeavesTheNextOneRight) {
  const auto tokens = some_tokens(40, 101, 13);
  cuda_executor_settings settings;
  settings.blocks = 4;
  const auto timed = backend_->make_executor(model_, settings), plain = backend_->make_executor(model_, settings);
  std::uint64_t number = 0;
  const auto step = [&](std::size_t first, std::size_t count) {
    ++number;
    const auto slice = slice_of(tokens, first, count, first_blocks(4));
    const auto got = run_step(*timed, number, {slice}), same_as = run_step(*plain, number, {slice});
    EXPECT_EQ(got.tokens.at(0).id, same_as.tokens.at(0).id) << "at " << first;
  };
  step(0, 32);
  EXPECT_THAT(message_of([&] { (void)backend_->time_graphs(*timed, 1); }), HasSubstr("graphs"));
  for (std::size_t at = 32; at < 36; ++at) step(at, 1);
  EXPECT_GT(backend_->time_graphs(*timed, 3), 0.0);
  for (std::size_t at = 36; at < 40; ++at) step(at, 1);
}

} // namespace
} // namespace godwit::gpu::cuda::testing
