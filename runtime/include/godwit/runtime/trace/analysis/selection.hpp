#pragma once

#include <godwit/runtime/trace/analysis/index.hpp>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace godwit::runtime::trace::analysis {

/// Which events somebody wants to see. What is left empty lets everything pass; all of it must hold.
/// Texts are found anywhere in a name; with `*` and `?` they are patterns for the whole of it.
struct selection {
  std::optional<std::uint64_t> request; ///< see events_of
  std::string actor;                    ///< sender or receiver: part of its label, `llumlet 12`, or a number alone
  std::string type;                     ///< of the message, or the span's or note's name; qualified or not
  std::vector<event_kind> kinds;
  std::vector<message_kind> messages;  ///< of deliveries and sent events
  std::string process;                 ///< name or number
  std::optional<std::int64_t> from_ns; ///< since the recording began; what had not ended before
  std::optional<std::int64_t> to_ns;   ///< what had begun until then
  std::int64_t queue_min_ns = 0;
  std::int64_t handling_min_ns = 0; ///< or a span's time
};

/// By time; of events at the same moment causes come before effects.
[[nodiscard]] std::vector<position> select(const index& of, const selection& wanted);

[[nodiscard]] std::optional<event_kind> parse_event_kind(std::string_view text) noexcept;
[[nodiscard]] std::optional<message_kind> parse_message_kind(std::string_view text) noexcept;

} // namespace godwit::runtime::trace::analysis
