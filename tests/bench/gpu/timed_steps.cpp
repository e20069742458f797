#include "gpu/timed_steps.hpp"

#include <godwit/gpu/event.hpp>

#include <chrono>
#include <stdexcept>
#include <string>
#include <utility>

namespace godwit::bench {

step_times timed_steps::run(std::uint32_t batch, std::uint32_t position, std::uint32_t tokens, std::uint32_t drafted) {
  const std::uint32_t blocks = (position + tokens + protocols::tokens_per_block - 1) / protocols::tokens_per_block;
  protocols::step_input input;
  input.step = ++steps_;
  for (std::uint32_t r = 0; r < batch; ++r) {
    auto& slice = input.slices.emplace_back();
    slice.request = protocols::request_id(r);
    slice.first_position = position;
    for (std::uint32_t i = 0; i < tokens; ++i)
      slice.tokens.push_back(static_cast<protocols::token_id>((position + i) * 7919U % executor_.info().vocabulary));
    for (std::uint32_t i = 0; i < blocks; ++i) slice.blocks.emplace_back(r * blocks + i);
    slice.samples = true;
    slice.drafted = drafted;
    slice.sampling.temperature = temperature_;
    slice.sampling.top_p = top_p_;
    slice.sampling.seed = r;
    slice.sample_index = static_cast<std::uint32_t>(steps_);
  }
  const auto begun = std::chrono::steady_clock::now();
  const auto pass = executor_.begin(std::move(input));
  const gpu::event ran;
  std::string error;
  std::chrono::steady_clock::time_point ended;
  pass->advance(pass->layers(), [&](std::string what) {
    ended = std::chrono::steady_clock::now();
    error = std::move(what);
    ran.set();
  });
  ran.wait();
  if (!error.empty()) throw std::runtime_error(error);
  step_times times;
  times.caller = std::chrono::duration<double>(ended - begun).count();
  times.device = static_cast<double>(pass->take().duration_ns) / 1e9;
  return times;
}

} // namespace godwit::bench
