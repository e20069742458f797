#pragma once

#include <godwit/runtime/trace/recording.hpp>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

/// What people are told: short, on one line, harmless to a terminal whatever a recording contains.
namespace godwit::runtime::trace::analysis {

/// `llumlet 12`, with more than one process `llumlet 12@node-2`; the number is that of `@12` in messages' text.
/// Somebody who is no actor: `outside`.
[[nodiscard]] std::string label(const recording& of, actor_id who);
/// Without namespaces: `token_updates`, `local<vector<int>>`.
[[nodiscard]] std::string short_type(std::string_view type);
/// What an event is called: a message's type without namespaces, the name of a span or note; what has none by its kind.
[[nodiscard]] std::string short_name(const recording& of, const event& e);
/// `12`; of a recorder's threads, which count on their own, `3-12` or `3b-12`; with more than one process `1.3-12`.
[[nodiscard]] std::string label(const recording& of, event_id id);
/// Reads what `label` wrote, and the number in full. Nothing: it is none, or names no process of the recording.
[[nodiscard]] std::optional<event_id> parse_event_id(const recording& of, std::string_view text);

/// All of an event on one line, for showing two of them side by side: number, who to whom, kind, name, what it says.
/// `name`: of events that are not in the recording, whose index means nothing there.
[[nodiscard]] std::string in_words(const recording& of, const event& e, std::string_view name);

/// `850 ns`, `12.3 us`, `4.56 ms`, `1.23 s`.
[[nodiscard]] std::string duration_text(std::int64_t ns);
/// Escapes what would leave the line, move a cursor or turn the direction of writing; what is not UTF-8 is replaced.
[[nodiscard]] std::string harmless(std::string_view text);
/// Of times: the sum, or the nearest number that there is. A recording may say anything.
[[nodiscard]] std::int64_t added(std::int64_t a, std::int64_t b) noexcept;
/// As it is, for JSON, but for bytes that are no UTF-8: a recording may have been made by anybody.
[[nodiscard]] std::string valid_utf8(std::string_view text);
/// The first `characters_max` of it, with `…` where more was there. Keeps UTF-8 whole.
[[nodiscard]] std::string shortened(std::string_view text, std::size_t characters_max);
[[nodiscard]] std::size_t width_of(std::string_view utf8) noexcept; ///< in characters

/// An attribute of a span or note; empty where there is none.
[[nodiscard]] std::string_view attribute_of(const event& e, std::string_view name) noexcept;

/// `text` against a pattern with `*` and `?`; a pattern without either is found anywhere in it.
[[nodiscard]] bool matches(std::string_view pattern, std::string_view text) noexcept;

} // namespace godwit::runtime::trace::analysis
