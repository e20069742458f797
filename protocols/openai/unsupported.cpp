#include "openai/unsupported.hpp"

#include <algorithm>
#include <span>
#include <utility>

namespace godwit::protocols::openai {

namespace json = boost::json;

namespace {

/// The value, besides null, that asks for nothing.
enum class neutral : std::uint8_t { none, no, yes, one, empty, text_modality, choice, own_tier, disabled, standard };

struct known_parameter {
  std::string_view name;
  neutral passes;
};

constexpr known_parameter parameters_everywhere[] = {
    {"guided_grammar", neutral::none},
    {"guided_decoding_backend", neutral::none},
    {"guided_whitespace_pattern", neutral::none},
    {"early_stopping", neutral::no},
    {"truncate_prompt_tokens", neutral::none},
    {"bad_words", neutral::empty},
    {"allowed_token_ids", neutral::none},
    {"logits_processors", neutral::empty},
    {"spaces_between_special_tokens", neutral::yes},
    {"return_tokens_as_token_ids", neutral::no},
    {"return_token_ids", neutral::no},
    {"kv_transfer_params", neutral::none},
    {"vllm_xargs", neutral::empty},
    {"mm_processor_kwargs", neutral::empty},
};

constexpr known_parameter parameters_without_beams[] = {
    {"length_penalty", neutral::one},
};

constexpr known_parameter completion_parameters[] = {
    {"suffix", neutral::empty},
    {"prompt_embeds", neutral::none},
};

constexpr known_parameter chat_parameters[] = {
    {"functions", neutral::empty},
    {"function_call", neutral::choice},
    {"modalities", neutral::text_modality},
    {"audio", neutral::none},
    {"include_reasoning", neutral::yes}, // what a model thinks is part of its text
    {"web_search_options", neutral::none},
    {"chat_template", neutral::none},
    {"echo", neutral::no},
};

constexpr known_parameter responses_parameters[] = {
    {"background", neutral::no},
    {"max_tool_calls", neutral::none},
    {"context_management", neutral::empty},
    {"truncation", neutral::disabled},
};

constexpr known_parameter messages_parameters[] = {
    {"container", neutral::none},  {"mcp_servers", neutral::empty}, {"inference_geo", neutral::none},
    {"fallbacks", neutral::empty}, {"compaction", neutral::none},   {"service_tier", neutral::own_tier},
    {"speed", neutral::standard},
};

constexpr known_parameter output_config_parameters[] = {
    {"task_budget", neutral::none},
};

constexpr known_parameter message_parameters[] = {
    {"function_call", neutral::none},
    {"audio", neutral::none},
};

bool is_text(const json::value& value, std::string_view text) {
  return value.is_string() && std::string_view{value.get_string().data(), value.get_string().size()} == text;
}

bool is_empty(const json::value& value) {
  return (value.is_array() && value.get_array().empty()) || (value.is_object() && value.get_object().empty()) ||
         (value.is_string() && value.get_string().empty());
}

bool asks_for_nothing(const json::value& value, neutral passes) {
  switch (passes) {
  case neutral::none:
    return false;
  case neutral::no:
    return value.is_bool() && !value.get_bool();
  case neutral::yes:
    return value.is_bool() && value.get_bool();
  case neutral::one:
    return value.is_number() && integral(value) == 1;
  case neutral::empty:
    return is_empty(value);
  case neutral::choice:
    return is_text(value, "none") || is_text(value, "auto");
  case neutral::own_tier:
    return is_text(value, "auto") || is_text(value, "standard_only");
  case neutral::standard:
    return is_text(value, "standard");
  case neutral::disabled:
    return is_text(value, "disabled");
  case neutral::text_modality:
    return value.is_array() && std::ranges::all_of(value.get_array(), [](const auto& v) { return is_text(v, "text"); });
  }
  return false;
}

void refuse(json_reader& from, std::span<const known_parameter> parameters, const request_limits& limits,
            common_request& into) {
  for (const auto& parameter : parameters) {
    const auto* value = from.value(parameter.name);
    if (value == nullptr || asks_for_nothing(*value, parameter.passes)) continue;
    refuse_unsupported(from.path_of(parameter.name), {}, limits, into);
  }
}

} // namespace

void refuse_unsupported(std::string path, std::string message, const request_limits& limits, common_request& into) {
  if (!limits.lists_unsupported) fail(unsupported(std::move(path), std::move(message)));
  into.unknown.push_back(std::move(path));
}
void refuse_unsupported_everywhere(json_reader& body, const request_limits& limits, common_request& into) {
  refuse(body, parameters_everywhere, limits, into);
}
void refuse_unsupported_responses(json_reader& body, const request_limits& limits, common_request& into) {
  refuse(body, responses_parameters, limits, into);
}
void refuse_unsupported_messages(json_reader& body, const request_limits& limits, common_request& into) {
  refuse(body, messages_parameters, limits, into);
}
void refuse_unsupported_output_config(json_reader& config, const request_limits& limits, common_request& into) {
  refuse(config, output_config_parameters, limits, into);
}
void refuse_unsupported_without_beams(json_reader& body, const request_limits& limits, common_request& into) {
  if (const auto* value = body.value("length_penalty");
      value != nullptr && !asks_for_nothing(*value, neutral::one) && !limits.lists_unsupported)
    fail(unsupported("length_penalty", "'length_penalty' needs 'use_beam_search': true."));
  refuse(body, parameters_without_beams, limits, into);
}
void refuse_unsupported_completion(json_reader& body, const request_limits& limits, common_request& into) {
  refuse(body, completion_parameters, limits, into);
}
void refuse_unsupported_chat(json_reader& body, const request_limits& limits, common_request& into) {
  refuse(body, chat_parameters, limits, into);
}
void refuse_unsupported_message(json_reader& message, const request_limits& limits, common_request& into) {
  refuse(message, message_parameters, limits, into);
}

} // namespace godwit::protocols::openai
