#pragma once

#include <godwit/actors/interfaces.hpp>
#include <godwit/protocols/messages/ids.hpp>
#include <godwit/runtime/metrics/registry.hpp>

#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

namespace godwit::actors {

/// What the front end measures of its requests under the names, labels and buckets of vLLM (its version 1 engine), so
/// that dashboards and autoscalers made for that work here: an instance is vLLM's `engine`. What instances themselves
/// report under such names is main::load_board's.
///
/// A preempted or migrated request counts where it ended; of one that was moved before its first token came,
/// `request_queue_time_seconds` has the queues of all instances that it was at.
///
/// There is room for 255 instances. One that has left keeps its series, so that what it counted last is read, until 16
/// others have left or another one needs the place: that of whoever has been gone longest. Where nobody is gone,
/// further ones are the engine "other".
///
/// Used on one context at a time, the front end's.
class engine_metrics {
public:
  engine_metrics(runtime::metrics::registry& registry, std::string model, std::uint32_t context_length);

  /// Of one instance.
  struct series {
    runtime::metrics::counter* prompt_tokens = nullptr;
    runtime::metrics::counter* generation_tokens = nullptr;
    runtime::metrics::histogram* first_token = nullptr;
    runtime::metrics::histogram* inter_token = nullptr;
    runtime::metrics::histogram* per_output_token = nullptr;
    runtime::metrics::histogram* queue = nullptr;
    runtime::metrics::histogram* prefill = nullptr;
    runtime::metrics::histogram* decode = nullptr;
    runtime::metrics::histogram* inference = nullptr;
    runtime::metrics::histogram* latency = nullptr;
    runtime::metrics::histogram* request_prompt_tokens = nullptr;
    runtime::metrics::histogram* request_generation_tokens = nullptr;
    runtime::metrics::histogram* request_max_generation_tokens = nullptr;
    runtime::metrics::histogram* request_max_tokens = nullptr;
  };
  /// The reference lives until the next call.
  [[nodiscard]] series& of(protocols::instance_id instance);
  /// Who is there.
  void adopt(const topology& news);

  /// The first token of a request came, so long after its arrival.
  void first_token(protocols::instance_id instance, std::uint32_t prompt_tokens, double seconds_since_arrival);
  void next_token(protocols::instance_id instance, double seconds_since_last);
  void tokens(protocols::instance_id instance, std::size_t count);
  /// Before its first step, at the front end and in the instance's queue together. Told with the first token.
  void queued(protocols::instance_id instance, double seconds);

  struct ended_request {
    protocols::instance_id instance;
    std::string outcome; ///< the front end's: stop, length, cancelled, timed_out, error
    double seconds = 0;
    double prefill_seconds = 0; ///< from its first step to its first token
    double decode_seconds = 0;  ///< from its first token to its last
    std::uint32_t prompt_tokens = 0;
    std::uint32_t answer_tokens = 0;
    std::uint32_t tokens_max = 0;
  };
  void ended(const ended_request& request);

private:
  const std::string model_;
  runtime::metrics::family<runtime::metrics::counter>& prompt_tokens_;
  runtime::metrics::family<runtime::metrics::counter>& generation_tokens_;
  runtime::metrics::family<runtime::metrics::counter>& success_;
  runtime::metrics::family<runtime::metrics::histogram>& first_token_;
  runtime::metrics::family<runtime::metrics::histogram>& inter_token_;
  runtime::metrics::family<runtime::metrics::histogram>& per_output_token_;
  runtime::metrics::family<runtime::metrics::histogram>& queue_;
  runtime::metrics::family<runtime::metrics::histogram>& prefill_;
  runtime::metrics::family<runtime::metrics::histogram>& decode_;
  runtime::metrics::family<runtime::metrics::histogram>& inference_;
  runtime::metrics::family<runtime::metrics::histogram>& latency_;
  runtime::metrics::family<runtime::metrics::histogram>& request_prompt_tokens_;
  runtime::metrics::family<runtime::metrics::histogram>& request_generation_tokens_;
  runtime::metrics::family<runtime::metrics::histogram>& request_max_generation_tokens_;
  runtime::metrics::family<runtime::metrics::histogram>& request_max_tokens_;
  struct place {
    series of;
    std::uint64_t left = 0; ///< its key in gone_; 0: it is there
  };
  [[nodiscard]] series called(std::string engine);
  void remove(protocols::instance_id instance);
  std::unordered_map<protocols::instance_id, place> places_;
  std::map<std::uint64_t, protocols::instance_id> gone_; ///< those with a place, in the order in which they left
  std::uint64_t left_ = 0;                               ///< so far
  std::optional<series> others_;
};

} // namespace godwit::actors
