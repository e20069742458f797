#pragma once

#include <godwit/protocols/messages/load.hpp>

#include <cstdint>
#include <optional>

/// How long a request will take on an instance, by what that reports of itself (Mooncake, FAST '25, section 6.1: the
/// time to the first token is that of the queue, and that of the prompt's computation).
namespace godwit::protocols {

/// How often a token of [first, upto) attends to one, itself included, when those before `first` are there.
[[nodiscard]] double attention_pairs(std::uint64_t first, std::uint64_t upto) noexcept;

/// What is on its way to an instance, or about to be, and not in its report.
struct expected_work {
  std::uint64_t requests = 0;
  std::uint64_t blocks = 0;
  std::uint64_t tokens = 0; ///< of their prompts, and what else is to be computed before they decode
  double pairs = 0;         ///< attention_pairs of these
};

/// A request, as it would come there.
struct expected_request {
  std::uint32_t tokens = 0;
  std::uint32_t known = 0; ///< of these, the first ones that the instance has already
  /// What waits there, and would start after it. Empty: it would be the last one.
  queue_part behind = {};
};

/// Blocks that it would have to wait for there.
[[nodiscard]] std::uint64_t blocks_lacking(const load_report& load, std::uint64_t on_the_way,
                                           const expected_request& request) noexcept;

/// Nanoseconds from now until a request has its next token, if it is sent there now. By `pace`, which is the report's
/// or, where that knows no prompts yet, another instance's; 0: nobody knows.
///
/// Prompts are computed one after the other: those that are there, those on their way, this one; as many tokens in a
/// step as its budget leaves beside those who decode. Where memory or places lack, it starts when enough has been left,
/// memory at the latest in `room_within`, where that can be made by migration.
/// Who runs is not looked at by priority, though it may have to give way; nor does anybody know who comes later and
/// goes first.
[[nodiscard]] double expected_ttft_ns(const load_report& load, const step_pace& pace, const expected_work& on_the_way,
                                      const expected_request& request, std::optional<double> room_within = {}) noexcept;

/// Nanoseconds that its prompt takes by itself.
[[nodiscard]] double expected_alone_ns(const step_pace& pace, std::uint32_t step_tokens, std::uint32_t tokens) noexcept;

/// Nanoseconds that a request waits for each further token there.
[[nodiscard]] double expected_tpot_ns(const load_report& load) noexcept;

} // namespace godwit::protocols
