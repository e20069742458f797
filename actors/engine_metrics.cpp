#include <godwit/actors/engine_metrics.hpp>

#include <array>
#include <utility>

namespace godwit::actors {

namespace metrics = runtime::metrics;

namespace {

constexpr std::size_t engines_max = 256;
/// Some 20 KiB of a page each.
constexpr std::size_t gone_max = 16;
constexpr std::array reasons{"stop", "length", "abort", "error"};

std::vector<std::string> labels() { return {"model_name", "engine"}; }

// The buckets are vLLM's: a dashboard's quantiles are then as fine here as there.
std::vector<double> first_token_bounds() {
  return {0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75,
          1,     2.5,   5,    7.5,  10,   20,   40,   80,  160,  640, 2560};
}
std::vector<double> token_bounds() {
  return {0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.75, 1, 2.5, 5, 7.5, 10, 20, 40, 80};
}
std::vector<double> request_bounds() {
  return {0.3, 0.5, 0.8, 1, 1.5, 2, 2.5, 5, 10, 15, 20, 30, 40, 50, 60, 120, 240, 480, 960, 1920, 7680};
}
/// 1, 2, 5, 10, ... up to `most`.
std::vector<double> count_bounds(std::uint32_t most) {
  std::vector<double> out;
  for (double power = 1;; power *= 10)
    for (const double digit : {1, 2, 5}) {
      if (!out.empty() && digit * power > most) return out;
      out.push_back(digit * power);
    }
}

} // namespace

engine_metrics::engine_metrics(metrics::registry& registry, std::string model, std::uint32_t context_length)
    : model_(std::move(model)),
      prompt_tokens_(registry.add_counter_family(
          "vllm:prompt_tokens_total", "Prompt tokens of requests that brought a token.", labels(), engines_max)),
      generation_tokens_(registry.add_counter_family("vllm:generation_tokens_total",
                                                     "Tokens generated, each counted once.", labels(), engines_max)),
      success_(registry.add_counter_family("vllm:request_success_total", "Requests that ended.",
                                           {"model_name", "engine", "finished_reason"}, engines_max * reasons.size())),
      first_token_(registry.add_histogram_family("vllm:time_to_first_token_seconds",
                                                 "From a request's arrival to its first token.", labels(),
                                                 first_token_bounds(), engines_max)),
      inter_token_(registry.add_histogram_family("vllm:inter_token_latency_seconds", "Between two tokens of a request.",
                                                 labels(), token_bounds(), engines_max)),
      per_output_token_(registry.add_histogram_family("vllm:time_per_output_token_seconds",
                                                      "The older name of vllm:inter_token_latency_seconds.", labels(),
                                                      token_bounds(), engines_max)),
      queue_(registry.add_histogram_family(
          "vllm:request_queue_time_seconds",
          "From a request's arrival until its first step: at the front end and in its instance's queue.", labels(),
          request_bounds(), engines_max)),
      prefill_(registry.add_histogram_family("vllm:request_prefill_time_seconds",
                                             "From a request's first step to its first token.", labels(),
                                             request_bounds(), engines_max)),
      decode_(registry.add_histogram_family("vllm:request_decode_time_seconds",
                                            "From a request's first token to its last.", labels(), request_bounds(),
                                            engines_max)),
      inference_(registry.add_histogram_family("vllm:request_inference_time_seconds",
                                               "From a request's first step to its last token.", labels(),
                                               request_bounds(), engines_max)),
      latency_(registry.add_histogram_family("vllm:e2e_request_latency_seconds", "From a request's arrival to its end.",
                                             labels(), request_bounds(), engines_max)),
      request_prompt_tokens_(registry.add_histogram_family("vllm:request_prompt_tokens",
                                                           "Prompt tokens of requests that ended.", labels(),
                                                           count_bounds(context_length), engines_max)),
      request_generation_tokens_(registry.add_histogram_family("vllm:request_generation_tokens",
                                                               "Tokens generated for requests that ended.", labels(),
                                                               count_bounds(context_length), engines_max)),
      request_max_generation_tokens_(registry.add_histogram_family(
          "vllm:request_max_num_generation_tokens", "As vllm:request_generation_tokens: each sample is a request here.",
          labels(), count_bounds(context_length), engines_max)),
      request_max_tokens_(registry.add_histogram_family("vllm:request_params_max_tokens",
                                                        "Tokens that requests which ended asked for at most.", labels(),
                                                        count_bounds(context_length), engines_max)) {
  (void)of(protocols::instance_id{0}); // so that the names are there before the first request
}

engine_metrics::series& engine_metrics::of(protocols::instance_id instance) {
  const auto found = places_.find(instance);
  if (found != places_.end()) return found->second.of;
  if (places_.size() + 1 >= engines_max) {
    if (gone_.empty()) {
      if (!others_) others_ = called("other");
      return *others_;
    }
    remove(gone_.begin()->second);
  }
  return places_.emplace(instance, place{called(std::to_string(instance.value()))}).first->second.of;
}

void engine_metrics::adopt(const topology& news) {
  for (auto& [instance, its] : places_) {
    const bool there = news.find(instance) != nullptr;
    if (there && its.left != 0) {
      gone_.erase(its.left);
      its.left = 0;
    } else if (!there && its.left == 0) {
      its.left = ++left_;
      gone_.emplace(its.left, instance);
    }
  }
  for (const auto& entry : news.instances)
    if (entry.ready) (void)of(entry.instance); // at 0 from the start, or a rate would miss the first event
  while (gone_.size() > gone_max) remove(gone_.begin()->second);
}

void engine_metrics::remove(protocols::instance_id instance) {
  const std::vector<std::string> values{model_, std::to_string(instance.value())};
  for (auto* family : {&prompt_tokens_, &generation_tokens_}) family->remove(values);
  for (auto* family :
       {&first_token_, &inter_token_, &per_output_token_, &queue_, &prefill_, &decode_, &inference_, &latency_,
        &request_prompt_tokens_, &request_generation_tokens_, &request_max_generation_tokens_, &request_max_tokens_})
    family->remove(values);
  for (const auto* reason : reasons) success_.remove({values[0], values[1], reason});
  gone_.erase(places_.at(instance).left);
  places_.erase(instance);
}

engine_metrics::series engine_metrics::called(std::string engine) {
  const std::vector<std::string> values{model_, std::move(engine)};
  series s;
  for (const auto* reason : reasons) (void)success_.with({values[0], values[1], reason});
  s.prompt_tokens = &prompt_tokens_.with(values);
  s.generation_tokens = &generation_tokens_.with(values);
  s.first_token = &first_token_.with(values);
  s.inter_token = &inter_token_.with(values);
  s.per_output_token = &per_output_token_.with(values);
  s.queue = &queue_.with(values);
  s.prefill = &prefill_.with(values);
  s.decode = &decode_.with(values);
  s.inference = &inference_.with(values);
  s.latency = &latency_.with(values);
  s.request_prompt_tokens = &request_prompt_tokens_.with(values);
  s.request_generation_tokens = &request_generation_tokens_.with(values);
  s.request_max_generation_tokens = &request_max_generation_tokens_.with(values);
  s.request_max_tokens = &request_max_tokens_.with(values);
  return s;
}

void engine_metrics::first_token(protocols::instance_id instance, std::uint32_t prompt_tokens, double seconds) {
  auto& s = of(instance);
  s.prompt_tokens->increment(prompt_tokens);
  s.first_token->observe(seconds);
}

void engine_metrics::next_token(protocols::instance_id instance, double seconds) {
  auto& s = of(instance);
  s.inter_token->observe(seconds);
  s.per_output_token->observe(seconds);
}

void engine_metrics::tokens(protocols::instance_id instance, std::size_t count) {
  of(instance).generation_tokens->increment(count);
}

void engine_metrics::queued(protocols::instance_id instance, double seconds) { of(instance).queue->observe(seconds); }

void engine_metrics::ended(const ended_request& request) {
  const bool complete = request.outcome == "stop" || request.outcome == "length";
  const bool aborted = request.outcome == "cancelled" || request.outcome == "timed_out";
  const auto reason = complete ? request.outcome : aborted ? std::string("abort") : std::string("error");
  auto& s = of(request.instance);
  const auto engine = places_.contains(request.instance) ? std::to_string(request.instance.value()) : "other";
  success_.with({model_, engine, reason}).increment();
  if (!complete) return;
  s.latency->observe(request.seconds);
  s.prefill->observe(request.prefill_seconds);
  s.decode->observe(request.decode_seconds);
  s.inference->observe(request.prefill_seconds + request.decode_seconds);
  s.request_prompt_tokens->observe(request.prompt_tokens);
  s.request_generation_tokens->observe(request.answer_tokens);
  s.request_max_generation_tokens->observe(request.answer_tokens);
  s.request_max_tokens->observe(request.tokens_max);
}

} // namespace godwit::actors
