#include <godwit/actors/frontend.hpp>

#include <godwit/protocols/policy/dispatch.hpp>

#include <algorithm>
#include <array>
#include <cstddef>
#include <memory>
#include <string>

namespace godwit::actors {

namespace {
constexpr std::array forecasts_off{"0", "1", "2", "more"}; // classes
}

frontend_metrics::frontend_metrics(runtime::metrics::registry& registry, const std::string& model,
                                   std::uint32_t context_length)
    : requests(registry.add_counter_family("godwit_requests_total",
                                           "Requests that ended, by outcome and execution priority.",
                                           {"outcome", "execution_priority"})),
      dispatches(registry.add_counter_family(
          "godwit_dispatches_total", "Requests given to an instance, by the policy that chose it; it may refuse them.",
          {"policy"})),
      ttft_over_expected(registry.add_histogram(
          "godwit_ttft_over_expected",
          "From a request's dispatch to its first token, as a multiple of what the scheduler expected.",
          runtime::metrics::exponential_bounds(0.0625, 1.4142135623730951, 17))),
      length_forecasts(registry.add_counter_family(
          "godwit_length_forecasts_total",
          "Answers that were complete, by how many classes (powers of two) their length was off what was most likely.",
          {"off"})),
      redispatches(registry.add_counter("godwit_redispatches_total",
                                        "Requests dispatched again because their instance was lost.")),
      moves(registry.add_counter("godwit_moves_total", "Changes of a request's owner by live migration.")),
      prompt_tokens(registry.add_counter("godwit_prompt_tokens_total", "Prompt tokens of accepted requests.")),
      answer_tokens(registry.add_counter("godwit_generation_tokens_total", "Tokens generated, each counted once.")),
      open(registry.add_gauge("godwit_requests_open", "Requests accepted and not ended.")),
      first_token_seconds(registry.add_histogram_family(
          "godwit_time_to_first_token_seconds", "From a request's arrival to its first token.", {"execution_priority"},
          runtime::metrics::exponential_bounds(0.001, 2, 18))),
      inter_token_seconds(registry.add_histogram_family("godwit_inter_token_seconds",
                                                        "Between two tokens of a request.", {"execution_priority"},
                                                        runtime::metrics::exponential_bounds(0.0005, 2, 16))),
      total_seconds(registry.add_histogram_family("godwit_request_seconds", "From a request's arrival to its end.",
                                                  {"execution_priority"},
                                                  runtime::metrics::exponential_bounds(0.001, 2, 20))) {
  // At 0 from the start, or a rate would miss the first one.
  for (const auto policy : protocols::dispatcher_names()) (void)dispatches.with({std::string(policy)});
  for (const auto* policy : {"bypass", "retry", "sibling"}) (void)dispatches.with({policy});
  for (const auto* off : forecasts_off) (void)length_forecasts.with({off});
  if (!model.empty()) engines = std::make_unique<engine_metrics>(registry, model, context_length);
}

void frontend_metrics::count_forecast(std::size_t off) {
  length_forecasts.with({forecasts_off.at(std::min(off, forecasts_off.size() - 1))}).increment();
}

} // namespace godwit::actors
