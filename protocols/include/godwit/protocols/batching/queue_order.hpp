#pragma once

#include <compare>
#include <cstdint>
#include <tuple>

namespace godwit::protocols {

/// Who of those that wait starts first on an instance, among requests of one priority. With all but fcfs those go first
/// that have begun (were preempted, came from elsewhere with a part of their answer): their clients have begun to read.
enum class queue_order : std::uint8_t {
  fcfs, ///< first come, first served
  sjf,  ///< the shortest job first, by its prompt and the answer that is expected of it
  ljf,  ///< the longest first: the baseline that UELLM and TetriInfer compare with
  edf   ///< the earliest deadline first: of its first token, by its own objective or the server's
};

struct queue_rule {
  queue_order order = queue_order::fcfs;
  /// With sjf and ljf: how much later whoever is shorter, or longer, by a token may come and go first. So nobody
  /// starves for ever: with sjf a request of n tokens is overtaken only by those that come within n times this; with
  /// ljf by those that come within so many times this as the longest has more.
  std::int64_t aging_ns = 300'000'000;

  static constexpr std::int64_t aging_ns_max = 3'600'000'000'000;

  queue_rule() = default;
  queue_rule(queue_order by, std::int64_t aging) noexcept : order(by), aging_ns(aging) {}
  friend bool operator==(const queue_rule&, const queue_rule&) = default;
  auto fields() { return std::tie(order, aging_ns); }
};

/// Of a request without an objective edf thinks as if it had this one, so that it does not wait for ever.
inline constexpr std::int64_t undemanding_ttft_ns = 60'000'000'000;

/// What its place depends on.
struct queued_request {
  std::int32_t priority = 0; ///< lower goes first
  std::int64_t arrival_ns = 0;
  std::uint64_t serial = 0;
  bool begun = false; ///< has run before, here or elsewhere
  std::uint32_t prompt_tokens = 0;
  std::uint32_t expected_tokens = 0; ///< of the whole answer; 0: nobody knows
  std::int64_t ttft_ns = 0;          ///< objective, from its arrival; 0: none
};

/// First in line first. Does not change while the request waits.
struct queue_place {
  std::int32_t priority = 0;
  bool fresh = false;
  std::int64_t due_ns = 0;
  std::int64_t arrival_ns = 0;
  std::uint64_t serial = 0;
  friend auto operator<=>(const queue_place&, const queue_place&) = default;
  auto fields() { return std::tie(priority, fresh, due_ns, arrival_ns, serial); }
};

/// Sources: seeds of UELLM (FIFO, SJF, LJF), TetriInfer (prefill by FCFS, SJF, LJF) and AdaptiveLLM, whose priority is
/// the time of waiting by the length. That changes all the time, and would have the queue sorted anew for each step;
/// arrival + length x aging is the same thought as a sum.
[[nodiscard]] queue_place place_in_queue(const queue_rule& rule, const queued_request& r) noexcept;

/// Tokens of answer that its prompt and answer are worth: a token of a prompt takes a small part of a step, one of the
/// answer a step.
[[nodiscard]] std::int64_t work_of(const queued_request& r) noexcept;

} // namespace godwit::protocols
