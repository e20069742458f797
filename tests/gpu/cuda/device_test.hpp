#pragma once

#include "gpu/cuda/cuda_support.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <exception>
#include <functional>
#include <memory>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

namespace godwit::gpu::cuda::testing {

using ::testing::HasSubstr;
using blocks = std::vector<std::uint32_t>;
using cpu::testing::memory_weights;
using cpu::testing::slice_of;
using cpu::testing::some_tokens;

/// Of logits, against the row's largest: roundings to 16 bits at other places than the CPU's, two layers deep. Seen in
/// these tests: up to 0.031.
inline constexpr double tolerance = 0.05;

inline blocks first_blocks(std::uint32_t count, std::uint32_t first = 0) {
  blocks table(count);
  std::iota(table.begin(), table.end(), first);
  return table;
}

inline bool same(const std::vector<float>& a, const std::vector<float>& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

inline std::string message_of(const std::function<void()>& call) {
  try {
    call();
  } catch (const std::exception& failure) {
    return failure.what();
  }
  return "";
}

/// A step of these tokens in the middle of a crowd, whose blocks begin with the eighth.
inline std::vector<protocols::step_slice> among_others(protocols::step_slice mine, std::uint32_t crowd) {
  std::vector<protocols::step_slice> slices;
  for (std::uint32_t i = 0; i < crowd; ++i)
    slices.push_back(slice_of(some_tokens(30, 101, 50 + i), 0, 1 + (i * 5 + mine.first_position) % 20,
                              blocks{2 * i + 8, 2 * i + 9}));
  slices.insert(slices.begin() + crowd / 2, std::move(mine));
  return slices;
}

/// A prompt of 5 of these tokens in one block, then one token after the other, every third step layer by layer, with
/// penalties: what is drawn after each.
inline std::vector<protocols::token_id> draws_along(executor& on, const std::vector<protocols::token_id>& tokens,
                                                    std::uint32_t block) {
  std::vector<protocols::token_id> drawn;
  std::uint64_t step = 0;
  for (std::size_t done = 0; done < tokens.size(); done += step == 1 ? 5 : 1) {
    auto slice = slice_of(tokens, done, step == 0 ? 5 : 1, blocks{block});
    slice.sampling.presence_penalty = 1;
    slice.generated = {1, 2, 3};
    ++step;
    const std::uint32_t at_once = step % 3 == 0 ? 1 : 0; // layers
    drawn.push_back(run_step(on, step, {slice}, {}, at_once).tokens.at(0).id);
  }
  return drawn;
}

/// With a backend and a small random model on it; skipped, with the reason, where there is no device.
class device_test : public ::testing::Test {
protected:
  void SetUp() override {
    auto found = find_backend();
    if (!found.backend) GTEST_SKIP() << found.why_not;
    backend_ = std::move(found.backend);
    model_ = upload(small_config());
  }

  std::shared_ptr<const cuda_model> upload(const model::config& config,
                                           model::data_type type = model::data_type::bf16) {
    weights_ = std::make_unique<memory_weights>(config, type, 11);
    return backend_->upload(0, config, *weights_);
  }

  /// The CPU's logits after each of the tokens.
  std::vector<std::vector<float>> cpu_logits(const model::config& config,
                                             const std::vector<protocols::token_id>& tokens) const {
    const auto all = cpu::compute_logits(cpu::pack_model(config, *weights_, 1), tokens, {.threads = 1});
    std::vector<std::vector<float>> rows;
    for (std::size_t i = 0; i < tokens.size(); ++i) {
      const auto first = all.begin() + static_cast<std::ptrdiff_t>(i * config.vocabulary);
      rows.emplace_back(first, first + config.vocabulary);
    }
    return rows;
  }

  cuda_runner runner(std::uint32_t pool, bool deterministic = false) {
    cuda_executor_settings settings;
    settings.blocks = pool;
    settings.deterministic = deterministic;
    return runner(settings);
  }
  cuda_runner runner(const cuda_executor_settings& settings) { return {*backend_, model_, settings}; }

  std::shared_ptr<cuda_backend> backend_;
  std::unique_ptr<memory_weights> weights_;
  std::shared_ptr<const cuda_model> model_;
};

} // namespace godwit::gpu::cuda::testing
