#pragma once

#include "actors/support/sim_cluster.hpp"

#include <cstdint>
#include <memory>
#include <vector>

namespace godwit::test {

/// Requests whose answers are known: prompts of one to 150 tokens, many of which begin alike; greedy and seeded.
inline constexpr std::uint32_t catalogue_size = 48;
inline constexpr std::uint32_t traveller = 41; ///< one worth moving: 110 tokens of prompt, 88 of answer
[[nodiscard]] protocols::generate_request catalogue_request(std::uint32_t number);
/// Its answer in a run that nothing disturbs.
[[nodiscard]] const std::vector<protocols::token_id>& calm_answer(std::uint32_t number);
std::shared_ptr<recording_sink> submit_catalogue(sim_cluster& cluster, std::uint32_t number);

/// A request of a storm, and what its client saw.
struct asked {
  std::uint32_t number = 0;
  std::shared_ptr<recording_sink> sink;
  bool withdrawn = false;
};
/// Ended once, with the tokens of the calm run; a withdrawn one with a beginning of them.
void expect_calm_answers(const std::vector<asked>& all);
/// No token but those of the calm run, in order, once; ended exactly once, by whatever reason.
void expect_beginnings(const std::vector<asked>& all);

/// Runs until nothing is held anywhere and `alive` actors are left; complains otherwise.
void expect_nothing_left(sim_cluster& cluster, std::uint32_t instances, std::size_t alive);

} // namespace godwit::test
