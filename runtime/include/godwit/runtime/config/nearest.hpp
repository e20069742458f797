#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace godwit::runtime::config {

/// The candidate with the least edit distance, if near enough to be a slip of the same word; otherwise empty.
[[nodiscard]] std::string nearest(std::string_view word, const std::vector<std::string>& candidates);

} // namespace godwit::runtime::config
