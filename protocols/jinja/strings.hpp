#pragma once

#include <godwit/protocols/jinja/text.hpp>

#include <cstddef>
#include <optional>
#include <string_view>
#include <vector>

/// Python's string methods. What is cut out of a text stays markup or content as it was.
namespace godwit::protocols::jinja {

/// Without the white space, or the characters of `of`, at the chosen ends.
[[nodiscard]] text stripped(const text& from, bool left, bool right, std::optional<std::string_view> of = {});
/// At most `count` times from the left. An empty `what` stands before each character and at the end.
[[nodiscard]] text replaced(const text& in, std::string_view what, const text& by, std::size_t count);
/// `at` is not empty. At most `count` cuts, from the right if asked.
[[nodiscard]] std::vector<text> split(const text& what, std::string_view at, std::size_t count, bool from_right);
/// At runs of white space; none at the ends.
[[nodiscard]] std::vector<text> split_words(const text& what, std::size_t count);
[[nodiscard]] std::vector<text> split_lines(const text& what, bool keep_ends);
/// How many lines that makes, or one more.
[[nodiscard]] std::size_t count_lines(std::string_view bytes) noexcept;

/// title: a capital after whatever has no two cases; words: after white space and opening brackets only.
enum class letter_case : unsigned char { upper, lower, capitalized, title, words };
[[nodiscard]] text in_case(const text& what, letter_case how);

} // namespace godwit::protocols::jinja
