#pragma once

#include <godwit/gpu/event.hpp>
#include <godwit/gpu/executor.hpp>

#include <chrono>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace godwit::bench {

[[nodiscard]] inline double seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

/// A step of some requests, each over as many blocks of its own as the pool has for it. What lies in the KV cache does
/// not matter for the time.
struct engine_step {
  std::uint32_t requests = 1;
  std::uint32_t before = 0; ///< tokens of each that are in the KV cache
  std::uint32_t tokens = 1; ///< of each
  std::uint32_t drafted = 0;
  bool draws = true;
  std::vector<std::uint64_t> adapters = {}; ///< which the requests take in turn
};

/// How long it takes.
[[nodiscard]] inline double seconds_of(gpu::executor& runner, const engine_step& step) {
  const auto& info = runner.info();
  protocols::step_input input;
  for (std::uint32_t i = 0; i < step.requests; ++i) {
    auto& slice = input.slices.emplace_back();
    slice.first_position = step.before;
    for (std::uint32_t token = 0; token < step.tokens; ++token)
      slice.tokens.push_back(static_cast<protocols::token_id>((step.before + token + i) * 7919U % info.vocabulary));
    const auto blocks = (step.before + step.tokens - 1) / protocols::tokens_per_block + 1;
    for (std::uint32_t block = 0; block < blocks; ++block)
      slice.blocks.emplace_back(i * (info.blocks / step.requests) + block);
    slice.samples = step.draws;
    slice.drafted = step.drafted;
    slice.sampling.temperature = 0;
    if (!step.adapters.empty()) slice.adapter = step.adapters[i % step.adapters.size()];
  }
  const double start = seconds();
  const auto pass = runner.begin(std::move(input));
  std::string failed;
  const gpu::event ran;
  pass->advance(pass->layers(), [&](const std::string& error) {
    failed = error;
    ran.set();
  });
  ran.wait();
  if (!failed.empty()) throw std::runtime_error(failed);
  (void)pass->take();
  return seconds() - start;
}

} // namespace godwit::bench
