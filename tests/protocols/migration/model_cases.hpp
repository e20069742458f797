#pragma once

#include "model_case.hpp"

#include <vector>

namespace godwit::protocols::model {

/// Explored completely with every run of the tests.
[[nodiscard]] std::vector<model_case> everyday_cases();
/// Much larger ones, for a night.
[[nodiscard]] std::vector<model_case> nightly_cases();
/// A case in which this bug shows.
[[nodiscard]] model_case case_for(mutant bug);

} // namespace godwit::protocols::model
