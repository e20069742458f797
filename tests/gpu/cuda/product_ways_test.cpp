#include "cuda/backend.hpp"
#include "cuda/emulated/emulated_driver.hpp"
#include "cuda/product_ways.hpp"
#include "gpu/cuda/device_test.hpp"

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace godwit::gpu::cuda::testing {
namespace {

using ::testing::HasSubstr;
using proposals = std::vector<std::optional<std::uint32_t>>;

/// One product of a model, on a device whose library proposes what a test says.
class ProductWays : public ::testing::Test {
protected:
  static constexpr std::uint32_t slow = 10'000; // microseconds; the fixed kernel takes less, emulated

  void open(const proposals& us, std::uint64_t kernel_that_fails = 0) {
    emulated::emulated_settings settings;
    settings.memory_bytes = std::uint64_t{16} << 20U;
    settings.proposals_us = us;
    settings.kernel_that_fails = kernel_that_fails;
    driver_ = emulated::make_emulated_driver(settings);
    stream_ = driver_->make_stream(stream_priority::high);
    memory_ = driver_->allocate(std::uint64_t{1} << 20U, "matrices");
    stream_->fill(memory_.data(), 0, memory_.bytes());
  }
  /// For as many rows as there is memory for.
  std::vector<product_trial> trials(std::uint32_t rows) {
    ++asked_;
    product_trial one;
    one.job.x = memory_.data();
    one.job.y = memory_.data() + (std::uint64_t{512} << 10U);
    one.job.rows = rows;
    one.job.columns = 16;
    one.job.depth = 64;
    one.weights = {memory_.data() + (std::uint64_t{256} << 10U), memory_.data() + (std::uint64_t{300} << 10U)};
    return {one};
  }
  void try_once(std::uint32_t rows) {
    ways_.try_once(
        *driver_, *stream_, [this, rows] { return trials(rows); }, [this] { return now_ += each_look_takes_; },
        [this](const std::string& line) { told_ += line; });
  }
  std::uint32_t way(std::uint32_t rows) {
    auto job = trials(rows).front().job;
    return ways_.of(job);
  }

  std::shared_ptr<driver> driver_;
  std::unique_ptr<driver_stream> stream_;
  allocation memory_;
  product_ways ways_;
  std::chrono::steady_clock::time_point now_;
  std::chrono::steady_clock::duration each_look_takes_{};
  std::string told_;
  int asked_ = 0;
};

TEST_F(ProductWays, TheFastestProposalStays) {
  open({slow, 0, slow});
  try_once(1);
  EXPECT_EQ(way(1), 1U);
  EXPECT_EQ(way(2), 0U) << "there was no memory to try it";
  EXPECT_THAT(told_, HasSubstr("1 shapes tried"));
  EXPECT_THAT(told_, HasSubstr("0 by cuBLASLt's first proposal, 1 by another one, 0 by"));
}

TEST_F(ProductWays, TheFixedKernelIsLeftWhereTheLibraryIsFaster) {
  open({0, 0, 0});
  auto longer = trials(1); // for the emulated kernel
  longer.front().job.columns = 64;
  longer.front().job.depth = 256;
  ways_.try_once(*driver_, *stream_, [&] { return longer; }, std::chrono::steady_clock::now, {});
  EXPECT_NE(ways_.of(longer.front().job), product_ways::fixed_kernel);
}

TEST_F(ProductWays, TheFixedKernelServesWhereItIsFaster) {
  open({slow});
  try_once(1);
  EXPECT_EQ(way(1), product_ways::fixed_kernel);
  EXPECT_THAT(told_, HasSubstr("0 by another one, 1 by the kernel of fixed order"));
}

TEST_F(ProductWays, WhatTheLibraryRefusesIsLeftOut) {
  open({std::nullopt, std::nullopt, 0});
  try_once(2);
  EXPECT_EQ(way(1), 2U);
  EXPECT_EQ(way(2), 2U);
}

TEST_F(ProductWays, IsTriedOnce) {
  open({slow, 0});
  try_once(1);
  const auto line = told_;
  const auto asked = asked_;
  try_once(1);
  EXPECT_EQ(asked_, asked);
  EXPECT_EQ(told_, line);
}

// Whatever takes the time: what runs on the device takes none of this clock's.
TEST_F(ProductWays, EndsInTimeAndFewRowsComeFirst) {
  open({slow});
  each_look_takes_ = product_ways::time_max / 2 - std::chrono::milliseconds(1);
  try_once(64);
  EXPECT_EQ(way(1), product_ways::fixed_kernel);
  EXPECT_EQ(way(2), product_ways::fixed_kernel);
  EXPECT_EQ(way(4), 0U);
  EXPECT_THAT(told_, HasSubstr("2 shapes tried in "));
}

TEST_F(ProductWays, ManyRowsAreNotTried) {
  open({0, 0});
  try_once(4096);
  EXPECT_THAT(told_, HasSubstr("7 shapes tried"));
  EXPECT_EQ(way(128), 0U);
}

TEST_F(ProductWays, ADeviceThatFailsIsAnError) {
  open({0}, 1);
  EXPECT_THAT(message_of([&] { try_once(1); }), HasSubstr("made to fail"));
}

/// A model whose products are the fixed kernel's, since the library is slow.
TEST(CudaTrials, AStepsNumbersAreTheSameUpToRounding) {
  emulated::emulated_settings device;
  device.proposals_us = {20'000};
  const auto backend = make_backend({emulated::make_emulated_driver(device)});
  const auto config = small_config();
  const memory_weights weights(config, model::data_type::bf16, 11);
  const auto tokens = some_tokens(24, config.vocabulary, 1);
  const auto all = cpu::compute_logits(cpu::pack_model(config, weights, 1), tokens, {.threads = 1});
  const auto model = backend->upload(0, config, weights);
  cuda_executor_settings settings;
  settings.blocks = 4;
  settings.step_tokens = 32;
  settings.trials = true;
  std::string told;
  settings.tell = [&](const std::string& line) { told += line + "\n"; };
  cuda_runner one(*backend, model, settings), other(*backend, model, settings);
  EXPECT_THAT(told, ::testing::Not(HasSubstr(" 0 by the kernel of fixed order")));
  EXPECT_EQ(std::ranges::count(told, '\n'), 1) << "the second executor knows of it: " << told;
  for (auto* runner : {&one, &other}) runner->step({slice_of(tokens, 0, 20, blocks{3, 1})});
  for (std::size_t i = 20; i < tokens.size(); ++i) {
    for (auto* runner : {&one, &other}) runner->step({slice_of(tokens, i, 1, blocks{3, 1})});
    const std::span row(all.data() + i * config.vocabulary, config.vocabulary);
    EXPECT_LT(distance(one.logits(0), row), tolerance) << i;
    EXPECT_TRUE(same(one.logits(0), other.logits(0))) << i;
  }
}

} // namespace
} // namespace godwit::gpu::cuda::testing
