#include <godwit/actors/llumlet.hpp>

#include "milliseconds.hpp"

#include <godwit/protocols/policy/headroom.hpp>

#include <algorithm>
#include <chrono>
#include <utility>
#include <vector>

/// How a llumlet finds out what its instance can run without harm to anybody, before it takes requests.
namespace godwit::actors {

using runtime::async::task;

namespace {

constexpr std::size_t samples = 3; ///< of one batch; their median counts

/// A decode step of sequences as long as each other, over blocks whose contents do not matter. Their tokens differ, or
/// of a mixture all would go to the same experts.
protocols::step_input decode_step(const protocols::profile_point& batch, std::uint32_t vocabulary) {
  protocols::step_input input;
  const auto last = batch.blocks_each * protocols::tokens_per_block - 1;
  for (std::uint32_t i = 0; i < batch.sequences; ++i) {
    auto& slice = input.slices.emplace_back();
    slice.request = protocols::make_request_id(protocols::nobodys_home, i + 1ULL);
    slice.first_position = last;
    slice.tokens = {static_cast<protocols::token_id>(std::uint64_t{i} * 7919 % std::max(vocabulary, 1U))};
    slice.samples = true;
    for (std::uint32_t b = 0; b < batch.blocks_each; ++b) slice.blocks.emplace_back(i * batch.blocks_each + b);
  }
  return input;
}

} // namespace

task<std::optional<std::uint32_t>> llumlet::profile_headroom(protocols::planner_settings settings) {
  const auto& levels = settings.execution_levels;
  const bool needed = std::ranges::any_of(levels, [](const auto& level) { return !level.headroom; });
  if (!options_.profile.enabled || !needed) co_return 0;
  const auto end = now() + options_.profile.time_max;
  protocols::headroom_profile profile{settings.blocks, settings.running_max,
                                      settings.context_length / protocols::tokens_per_block,
                                      options_.profile.tolerance};
  std::uint32_t points = 0;
  bool warm = false; // the very first step finds weights that nobody has touched yet
  while (const auto batch = profile.next()) {
    std::vector<std::chrono::nanoseconds> times;
    while (times.size() < samples && now() < end) {
      auto input = decode_step(*batch, settings.vocabulary);
      const auto began = now();
      const auto output = co_await ask(options_.instance, options_.step_timeout, std::move(input));
      if (!output) {
        give_up(output.error().code == runtime::async::error_code::timeout
                    ? "a step of its profile took longer than instances.step_timeout"
                    : "a step of its profile failed: " + output.error().message);
        co_return std::nullopt;
      }
      if (std::exchange(warm, true)) times.push_back(now() - began);
    }
    if (times.size() < samples) break;
    ++points;
    std::ranges::nth_element(times, times.begin() + samples / 2);
    profile.took(times[samples / 2].count());
  }
  if (points == 0)
    options_.log.warning("instance {}: no headroom: a profile takes longer than {} ms", options_.id.value(),
                         milliseconds_of(options_.profile.time_max));
  else
    options_.log.info("instance {}: headroom {} of {} blocks (a batch of {} blocks decodes within {:.0f} % of "
                      "unloaded)",
                      options_.id.value(), profile.headroom(), settings.blocks, profile.harmless(),
                      options_.profile.tolerance * 100);
  co_return profile.headroom();
}

} // namespace godwit::actors
