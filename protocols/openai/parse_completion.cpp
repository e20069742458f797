#include "openai/parse_beams.hpp"
#include "openai/parse_common.hpp"
#include "openai/unsupported.hpp"

#include <algorithm>
#include <utility>

namespace godwit::protocols::openai {

namespace json = boost::json;

namespace {

prompt_input text_prompt(const json::value& value, const std::string& path) {
  if (!value.is_string()) fail_type(path, "a string", value);
  return {text_of(value), {}};
}

prompt_input token_prompt(const json::value& value, const std::string& path, const request_limits& limits) {
  if (!value.is_array()) fail_type(path, "an array of token ids", value);
  if (value.get_array().empty()) fail(invalid_value(path, "'" + path + "' must not be empty."));
  if (limits.context_length > 0 && value.get_array().size() >= limits.context_length)
    fail(context_length_exceeded(value.get_array().size(), limits.context_length, path));
  return {{}, parse_tokens(value.get_array(), path, limits.vocabulary)};
}

/// A string, an array of strings, token ids, or an array of arrays of token ids.
std::vector<prompt_input> parse_prompts(json_reader& body, const request_limits& limits) {
  const auto* value = body.value("prompt");
  if (value == nullptr) fail(invalid_value("prompt", "'prompt' is required."));
  if (value->is_string()) return {text_prompt(*value, "prompt")};
  const auto* list = value->if_array();
  if (list == nullptr) fail_type("prompt", "a string, an array of strings, or token ids", *value);
  if (list->empty()) fail(invalid_value("prompt", "'prompt' must not be empty."));
  if (list->front().is_number()) return {token_prompt(*value, "prompt", limits)};
  if (list->size() > limits.prompts_max)
    fail(invalid_value("prompt", "'prompt' may have up to " + std::to_string(limits.prompts_max) + " prompts, not " +
                                     std::to_string(list->size()) + "."));
  std::vector<prompt_input> prompts;
  prompts.reserve(list->size());
  for (std::size_t i = 0; i < list->size(); ++i) {
    const auto path = "prompt[" + std::to_string(i) + "]";
    prompts.push_back(list->front().is_string() ? text_prompt((*list)[i], path)
                                                : token_prompt((*list)[i], path, limits));
  }
  return prompts;
}

/// OpenAI: of 0 tokens with `echo`, the prompt comes back alone. The newer name wins.
bool asks_for_none(json_reader& body) {
  if (body.value("max_completion_tokens") != nullptr) return false;
  const auto* length = body.value("max_tokens");
  return length != nullptr && length->is_number() && integral(*length) == 0;
}

} // namespace

expected<completion_request, api_error> parse_completion(std::string_view text, const request_defaults& defaults,
                                                         const request_limits& limits) {
  try {
    const auto value = parse_body(text, limits.body_bytes_max, limits.depth_max);
    json_reader body{value.get_object()};
    completion_request request;
    refuse_unsupported_completion(body, limits, request);
    request.echo = body.boolean("echo").value_or(false);
    request.only_prompt = request.echo && asks_for_none(body);
    parse_common(body, defaults, limits, request);
    request.prompts = parse_prompts(body, limits);
    request.add_special_tokens = body.boolean("add_special_tokens").value_or(true);
    if (const auto logprobs = body.integer("logprobs", 0, limits.logprobs_max)) {
      request.sampling.logprobs = static_cast<std::int32_t>(*logprobs);
      if (request.echo)
        request.sampling.prompt_logprobs = std::max(request.sampling.prompt_logprobs, request.sampling.logprobs);
    }
    request.best_of = static_cast<std::uint32_t>(body.integer("best_of", 1, limits.choices_max).value_or(request.n));
    if (request.best_of < request.n)
      fail(invalid_value("best_of", "'best_of' (" + std::to_string(request.best_of) + ") must not be less than 'n' (" +
                                        std::to_string(request.n) + ")."));
    refuse_beside_beams(request, request.best_of != request.n, "best_of");
    if (request.beam_search && request.only_prompt)
      fail(invalid_value("max_tokens", "With 'use_beam_search' 'max_tokens' is at least 1."));
    if (request.beam_search && request.sampling.prompt_logprobs >= 0)
      fail(invalid_value("echo", "'echo' with 'logprobs' and 'use_beam_search' cannot be combined; leave one of the "
                                 "three out."));
    if (request.best_of > request.n && request.stream)
      fail(invalid_value("best_of", "'best_of' above 'n' cannot be streamed."));
    if (request.best_of > 1 && request.prompts.size() * request.best_of > limits.choices_max)
      fail(invalid_value("n", "A request may have up to " + std::to_string(limits.choices_max) +
                                  " answers, over all its prompts, not " +
                                  std::to_string(request.prompts.size() * request.best_of) + "."));
    if (!request.has_max_tokens) {
      request.has_max_tokens = true;
      request.stop.max_tokens = defaults.completion_max_tokens;
      if (request.stop.min_tokens > request.stop.max_tokens)
        fail(invalid_value("min_tokens", "'min_tokens' (" + std::to_string(request.stop.min_tokens) +
                                             ") exceeds 'max_tokens', which is " +
                                             std::to_string(request.stop.max_tokens) + " when not given."));
    }
    add_unasked(body, request);
    return request;
  } catch (parse_failure& failure) {
    return unexpected{std::move(failure.error)};
  }
}

} // namespace godwit::protocols::openai
