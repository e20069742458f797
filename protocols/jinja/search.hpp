#pragma once

#include <cstddef>
#include <string>
#include <string_view>

/// Searches that take linear time whatever the two texts are: both may be a stranger's. Those of std::string do not.
namespace godwit::protocols::jinja {

/// Where `what` first stands in `in`, not before `from`; npos: nowhere.
[[nodiscard]] std::size_t find_first(std::string_view in, std::string_view what, std::size_t from = 0) noexcept;
/// Where it last stands; npos: nowhere.
[[nodiscard]] std::size_t find_last(std::string_view in, std::string_view what);
/// How often it stands there, none within another and `most` at most; `what` is not empty.
[[nodiscard]] std::size_t count_matches(std::string_view in, std::string_view what, std::size_t most) noexcept;
/// The bytes from the last to the first: what is found in them from the left is found from the right.
[[nodiscard]] std::string mirrored(std::string_view bytes);

} // namespace godwit::protocols::jinja
