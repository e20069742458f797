#pragma once

#include <godwit/protocols/lengths/length_predictor.hpp>

#include <cstdint>
#include <functional>
#include <memory>

/// What a simulated front end may know of lengths. Its requests have `max_tokens` as long as their answers will be,
/// which tells a predictor what it is to find out.
namespace godwit::actors::sim {

using predictor_factory = std::function<std::unique_ptr<protocols::length_predictor>()>;

/// The same predictors, who see no max_tokens. Empty: those of the front end itself.
[[nodiscard]] predictor_factory without_limits(predictor_factory from);

/// One that knows the class of that share of the answers, as a model that was trained for it (UELLM's: 99.5 % of its
/// own distribution, over 80 % of others), and thinks of the others that they are one or two classes shorter or longer.
[[nodiscard]] predictor_factory told_lengths(double accuracy, std::uint64_t seed);

} // namespace godwit::actors::sim
