#pragma once

#include <godwit/protocols/messages/request.hpp>
#include <godwit/protocols/messages/sampling.hpp>
#include <godwit/protocols/messages/tokens.hpp>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace godwit::actors {

/// What a finished request cost.
struct answer_usage {
  std::uint32_t prompt_tokens = 0;
  std::uint32_t cached_tokens = 0; ///< of the prompt
  std::uint32_t answer_tokens = 0;
  std::uint32_t prediction_accepted = 0; ///< tokens that were drafted from its prediction, and are in the answer
  std::uint32_t prediction_rejected = 0; ///< that were drafted from it in vain
};

/// Why a request gets no (further) answer.
enum class failure_kind : std::uint8_t {
  overloaded,  ///< every queue is full: try again later
  unavailable, ///< no instance takes requests
  too_long,    ///< the prompt leaves no room in the context
  invalid,     ///< the instance cannot take it as it is
  timed_out,   ///< its time was over before its answer was complete
  rejected,    ///< no instance is expected to meet its objectives: try again later, or without them
  internal
};

struct answer_failure {
  failure_kind kind = failure_kind::internal;
  std::string message; ///< one line, for the client
};

/// Takes the tokens of one request as they are accepted by its home, on the front end actor's context (on_failed on any
/// thread, where there is no front end). Calls come in this order: on_accepted, if the request is taken,
/// on_prompt_scores, if they were asked for, on_tokens any number of times, then exactly one of on_finished and
/// on_failed; none after the sink was withdrawn. Of one request only: each submission has a sink of its own. Must not
/// block and must not throw: the request of a sink that throws ends there, it is not called again, and the log says so.
class answer_sink {
public:
  answer_sink() noexcept : number_(last_.fetch_add(1, std::memory_order_relaxed) + 1) {}
  answer_sink(const answer_sink&) = delete;
  answer_sink& operator=(const answer_sink&) = delete;
  virtual ~answer_sink() = default;
  /// How recordings know it: no other one of this process has it. Where all sinks of a process are made in one order,
  /// as in a simulation that is the first in its process, it is the same in each run.
  [[nodiscard]] std::uint64_t number() const noexcept { return number_; }
  /// The front end has taken the request, and this is its number.
  virtual void on_accepted(protocols::request_id) {}
  /// Before the first tokens, where sampling.prompt_logprobs asks for it: of the prompt's tokens, from the second on.
  virtual void on_prompt_scores(std::vector<protocols::sampled_token>) {}
  /// The next tokens of the answer, never repeated, never out of order. With `ends_with_stop_token` the last one is the
  /// stop token: it counts, its text is no part of the answer. False: the answer is complete (a stop string was met);
  /// nothing more is wanted.
  [[nodiscard]] virtual bool on_tokens(std::span<const protocols::sampled_token> tokens, bool ends_with_stop_token) = 0;
  virtual void on_finished(protocols::finish_reason reason, const answer_usage& usage) = 0;
  virtual void on_failed(const answer_failure& failure) = 0;

private:
  static inline std::atomic<std::uint64_t> last_{0};
  const std::uint64_t number_;
};

/// A request that a client of this process submits to the front end. The front end gives it its id.
/// Whoever destroys a submission that no front end took (it died with the message in its mailbox) fails its sink: a
/// client is never left without an ending.
struct submission {
  submission() = default;
  submission(const submission&) = delete;
  submission& operator=(const submission&) = delete;
  ~submission() {
    if (!sink) return;
    try {
      sink->on_failed({failure_kind::unavailable, "the front end is restarting or shutting down"});
    } catch (...) { // it may not; but that is no reason to end the process of all others
    }
  }
  protocols::generate_request request; ///< id, epoch, answer and arrival are the front end's business
  std::string client_id;               ///< what the client knows the request by; for the log
  std::chrono::nanoseconds timeout{0}; ///< from its arrival to its end; 0: the front end's own
  /// The sink of another sample of the same prompt, submitted before: this one shares its instance and its KV.
  std::shared_ptr<answer_sink> first_sample;
  /// What the client wants it answered within; 0: the front end's own objectives.
  std::chrono::nanoseconds ttft{0};
  std::chrono::nanoseconds tpot{0};
  /// It goes on with what was let in before: no full queue and no objective turns it away any more.
  bool continues = false;
  bool seeded = false;               ///< the client gave sampling.seed; otherwise the front end draws one
  std::shared_ptr<answer_sink> sink; ///< taken by the front end
};

} // namespace godwit::actors
