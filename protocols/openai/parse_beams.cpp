#include "openai/parse_beams.hpp"

#include "openai/unsupported.hpp"

#include <godwit/protocols/decoding/beam_search.hpp>

#include <initializer_list>
#include <limits>
#include <string>

namespace godwit::protocols::openai {

namespace {

constexpr auto penalty_limit = static_cast<float>(beam_settings::length_penalty_max);

/// The first of these fields that the body has.
std::string_view given(json_reader& body, std::initializer_list<std::string_view> fields) {
  for (const auto field : fields)
    if (body.value(field) != nullptr) return field;
  return *fields.begin();
}

} // namespace

void refuse_beside_beams(const common_request& request, bool asks, std::string_view field) {
  if (request.beam_search && asks)
    fail(invalid_value(std::string(field), "'" + std::string(field) +
                                               "' and 'use_beam_search' cannot be combined; leave one of them out."));
}

void parse_beams(json_reader& body, const request_limits& limits, common_request& into) {
  into.beam_search = body.boolean("use_beam_search").value_or(false);
  if (!into.beam_search) return refuse_unsupported_without_beams(body, limits, into);
  into.length_penalty =
      static_cast<double>(body.number("length_penalty", -penalty_limit, penalty_limit).value_or(1.0F));
  if (into.n > limits.beams_max)
    fail(invalid_value("n", "With 'use_beam_search' 'n', the number of beams, is at most " +
                                std::to_string(limits.beams_max) + ", not " + std::to_string(into.n) + "."));
  const auto changes = [&body](std::string_view field, float neutral) {
    return body.number(field, -std::numeric_limits<float>::max(), std::numeric_limits<float>::max())
               .value_or(neutral) != neutral;
  };
  refuse_beside_beams(into, into.stream, "stream");
  refuse_beside_beams(into, !into.stop_strings.empty(), "stop");
  refuse_beside_beams(into, !into.sampling.logit_bias.empty(), "logit_bias");
  refuse_beside_beams(into, changes("presence_penalty", 0), "presence_penalty");
  refuse_beside_beams(into, changes("frequency_penalty", 0), "frequency_penalty");
  refuse_beside_beams(into, changes("repetition_penalty", 1), "repetition_penalty");
  refuse_beside_beams(into, into.prompt_logprobs_top.has_value(), "prompt_logprobs");
  refuse_beside_beams(into, into.timeout_s > 0, "timeout");
  refuse_beside_beams(
      into, into.sampling.constrained(),
      given(body, {"response_format", "structured_outputs", "guided_json", "guided_choice", "guided_regex"}));
}

} // namespace godwit::protocols::openai
