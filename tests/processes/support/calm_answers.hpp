#pragma once

#include "processes/support/answers.hpp"

#include <string>
#include <vector>

namespace godwit::test {

/// The answers of one process with one instance that nothing happens to, which many tests compare with. Each test has a
/// process of its own: what one has asked others of the same program find in a file.
[[nodiscard]] std::vector<streamed_answer> calm_answers(const std::vector<question>& questions);

} // namespace godwit::test
