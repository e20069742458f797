#include "main/profile_measure.hpp"

#include <godwit/gpu/event.hpp>

#include <algorithm>
#include <cstring>
#include <limits>
#include <memory>
#include <set>
#include <stdexcept>

namespace godwit::main {

using clock = std::chrono::steady_clock;
using protocols::tokens_per_block;

namespace {

// 1, 2, 3 ... 16, 22, 32, 33, 43, 54, 64, 65 ... and the largest. Kernels work on tiles of rows, and take what fills no
// tile row by row: a row more than a tile costs what a tile does, and three rows more than four. So where few tiles
// make a step all counts are measured, beyond that both sides of each large tile's edge and counts that no tile
// divides.
std::vector<std::uint32_t> counts_up_to(std::uint32_t largest) {
  constexpr std::uint32_t each_max = 16, tile = 32, tiled_max = 256;
  std::set<std::uint32_t> out{largest};
  for (std::uint32_t n = 1; n <= each_max; ++n) out.insert(n);
  for (std::uint32_t n = 0; n <= tiled_max; n += tile)
    for (const auto more : {0U, 1U, 11U, 22U}) out.insert(n + more); // of each remainder by 4 one
  for (auto n = tiled_max; n <= largest; n *= 2) out.insert({n, n + n / 2});
  out.erase(0);
  out.erase(out.upper_bound(largest), out.end());
  return {out.begin(), out.end()};
}

} // namespace

double run_step_us(gpu::executor& on, protocols::step_input input) {
  struct outcome {
    gpu::event over;
    clock::time_point ended;
    std::string error;
  };
  const auto result = std::make_shared<outcome>();
  const auto start = clock::now();
  const auto pass = on.begin(std::move(input));
  pass->advance(pass->layers(), [result](const std::string& error) {
    result->ended = clock::now(); // waking the caller is none of the device's work
    result->error = error;
    result->over.set();
  });
  result->over.wait();
  if (!result->error.empty()) throw std::runtime_error("a step failed: " + result->error);
  return std::chrono::duration<double, std::micro>(result->ended - start).count();
}

std::vector<step_sample> steps_to_measure(const measured_sizes& sizes) {
  std::vector<step_sample> out;
  const auto add = [&](step_role role, std::vector<step_shape::part> parts) {
    step_shape shape{std::move(parts)};
    const auto fits = [&](const step_shape::part& p) {
      return p.sequences > 0 && p.tokens > 0 && p.first + p.tokens <= sizes.positions_max;
    };
    if (shape.tokens() <= sizes.step_tokens_max && shape.sequences() <= std::max(sizes.sequences_max, 64U) &&
        shape.blocks() <= sizes.blocks && std::all_of(shape.parts.begin(), shape.parts.end(), fits))
      out.push_back({role, std::move(shape)});
  };
  // Prompts of one block at most, so that there is little attention.
  for (const auto n : counts_up_to(sizes.step_tokens_max)) {
    std::vector<step_shape::part> parts;
    if (n >= tokens_per_block) parts.push_back({n / tokens_per_block, 0, tokens_per_block, false});
    if (n % tokens_per_block != 0) parts.push_back({1, 0, n % tokens_per_block, false});
    add(step_role::linear, std::move(parts));
  }
  const auto sequences = std::min(sizes.sequences_max, sizes.step_tokens_max);
  for (const auto n : counts_up_to(sequences)) add(step_role::logits, {{n, 0, 1, true}});
  const auto context = sizes.positions_max;
  for (const std::uint32_t n : {1U, 2U, 4U, 8U, 16U, 32U, 64U})
    for (const auto length : {context / 8, context / 4, context / 2, context})
      if (length > 1 && n <= sequences) add(step_role::decode, {{n, length - 1, 1, true}});
  for (const auto tokens :
       {sizes.step_tokens_max / 8, sizes.step_tokens_max / 4, sizes.step_tokens_max / 2, sizes.step_tokens_max})
    for (const auto first : {0U, context / 4, context / 2, context - std::min(context, sizes.step_tokens_max)})
      add(step_role::prefill, {{1, first / tokens_per_block * tokens_per_block, tokens, false}});
  // What serving does: sequences of several lengths that decode, with a chunk of a prompt or without.
  for (const std::uint32_t n : {3U, 7U, 20U}) {
    add(step_role::check, {{n, context / 5, 1, true}, {n, context / 3, 1, true}});
    add(step_role::check, {{n, context / 5, 1, true}, {1, 0, 100, true}});
    add(step_role::check, {{n, context * 2 / 5, 1, true}, {1, context / 3, 3 * sizes.step_tokens_max / 5, false}});
  }
  return out;
}

measured_steps measure_steps(gpu::executor& on, std::vector<step_sample> steps, std::chrono::nanoseconds time_max,
                             std::chrono::nanoseconds step_time_max, float temperature) {
  constexpr std::uint32_t rounds_least = 3, rounds_max = 200;
  const auto start = clock::now();
  const auto longest_us = std::chrono::duration<double, std::micro>(step_time_max).count();
  measured_steps out;
  // Smallest first, untimed but for what is too long: more of the same would be longer still.
  std::stable_sort(steps.begin(), steps.end(),
                   [](const step_sample& a, const step_sample& b) { return a.shape.tokens() < b.shape.tokens(); });
  std::vector<protocols::step_input> inputs;
  double us_per_token = std::numeric_limits<double>::infinity();
  for (auto& step : steps) {
    if (step.shape.tokens() > 1 && us_per_token * step.shape.tokens() > longest_us) {
      ++out.left_out;
      continue;
    }
    inputs.push_back(step.shape.input(on.info().vocabulary));
    for (auto& slice : inputs.back().slices) slice.sampling.temperature = temperature;
    us_per_token = std::min(us_per_token, run_step_us(on, inputs.back()) / step.shape.tokens());
    out.samples.push_back(std::move(step));
  }
  std::vector<std::vector<double>> us(inputs.size());
  while (out.rounds < rounds_max && (out.rounds < rounds_least || clock::now() - start < time_max)) {
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      (void)run_step_us(on, inputs[i]);
      us[i].push_back(run_step_us(on, inputs[i]));
    }
    ++out.rounds;
  }
  for (std::size_t i = 0; i < inputs.size(); ++i) out.samples[i].us = median(us[i]);
  return out;
}

double measure_block_copies(gpu::executor& on) {
  const auto& info = on.info();
  const auto half = std::min(info.blocks / 2, 4096U);
  if (half == 0) throw std::runtime_error("the KV pool has less than two blocks");
  constexpr int repeats = 9;
  std::vector<double> rates;
  for (int i = 0; i < repeats; ++i) {
    const auto start = clock::now();
    std::uint64_t bytes = 0;
    const auto copy = [&](protocols::memory_region from, protocols::memory_region to) {
      std::memcpy(to.address, from.address, from.bytes);
      bytes += from.bytes;
    };
    // At least a few megabytes, or the clock would be measured.
    constexpr std::uint64_t bytes_least = std::uint64_t{16} << 20;
    while (bytes < bytes_least)
      for (std::uint32_t block = 0; block < half; ++block)
        for (std::uint32_t layer = 0; layer < info.layers; ++layer) {
          const protocols::block_id from(block), to(block + half);
          copy(on.key_region(layer, from), on.key_region(layer, to));
          copy(on.value_region(layer, from), on.value_region(layer, to));
        }
    rates.push_back(static_cast<double>(bytes) / std::chrono::duration<double>(clock::now() - start).count());
  }
  return median(std::move(rates));
}

} // namespace godwit::main
