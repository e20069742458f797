#pragma once

#include <godwit/protocols/expected.hpp>
#include <godwit/protocols/jinja/template.hpp>
#include <godwit/protocols/messages/ids.hpp>
#include <godwit/protocols/messages/sampling.hpp>
#include <godwit/protocols/openai/error.hpp>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace godwit::protocols::openai {

/// What holds where the client says nothing (generation_config.json).
struct request_defaults {
  float temperature = 1.0F;
  float top_p = 1.0F;
  std::int32_t top_k = 0;
  float min_p = 0.0F;
  float repetition_penalty = 1.0F;
  std::uint32_t completion_max_tokens = 16; ///< of /v1/completions; a chat answer may fill the context
};

/// Bounds of what is parsed; beyond them a 400 (413 for the body).
struct request_limits {
  std::size_t body_bytes_max = 10U << 20U;
  std::size_t depth_max = 64;
  std::size_t prompts_max = 128;
  std::size_t messages_max = 4096;
  std::size_t tools_max = 128;
  std::size_t messages_tools_max = 1024; ///< ... in the words of /v1/messages, whose clients send all that they have
  std::size_t template_values_max = 100'000; ///< of JSON in tools, calls, documents and chat_template_kwargs together
  std::size_t stops_max = 64;
  std::size_t stop_bytes_max = 1024;
  std::size_t stop_token_ids_max = 128;
  std::int32_t logprobs_max = 20;
  std::uint32_t choices_max = 128; ///< `n` and `best_of`
  std::uint32_t beams_max = 16;    ///< `n` with `use_beam_search`
  std::size_t logit_bias_max = 1024;
  std::uint64_t logprobs_told_max = 262'144; ///< in one answer, alternatives counted
  std::uint32_t context_length = 0;          ///< no list of token ids is longer; 0: not checked
  std::size_t schema_bytes_max = 64U << 10U;
  double timeout_s_max = 24.0 * 3600.0;
  std::uint32_t vocabulary = 0; ///< token ids lie below; 0: not checked
  /// What is known and not supported is listed among the unknown fields, not refused.
  bool lists_unsupported = false;
  /// Names that `execution_priority` may have, by level; the first is what requests get that name none.
  std::vector<std::string> execution_levels{"normal"};
};

/// What all endpoints share.
struct common_request {
  std::string model;                 ///< empty: the served one
  sampling_params sampling;          ///< without the seed
  std::optional<std::uint64_t> seed; ///< absent: the home draws one
  stop_params stop;                  ///< stop.max_tokens is meant only when has_max_tokens
  bool has_max_tokens = false;       ///< absent: as many as the context has room for
  bool length_given = false;         ///< by the client, in the field that `length_field` names; else by default
  std::string length_field = "max_tokens";
  std::string prompt_field = "prompt";     ///< what the client calls what is answered
  std::string logprobs_field = "logprobs"; ///< ... and the number of log-probabilities
  std::string schema_field; ///< what asked for sampling.json_schema: "response_format.json_schema.schema"
  std::vector<std::string> stop_strings;
  bool include_stop_str_in_output = false;
  bool skip_special_tokens = true;
  bool add_special_tokens = true; ///< of a text prompt (chat: false, the template has them)
  bool only_prompt = false;       ///< max_tokens of 0, with `echo`: one token is drawn, and left out
  std::uint32_t n = 1;            ///< answers to each prompt
  bool beam_search = false;  ///< they are the most probable ones that so many beams find (decoding/beam_search.hpp)
  double length_penalty = 1; ///< of the beam search
  /// Log-probabilities of the prompt are in the answer, as vLLM gives them, with so many others a token.
  std::optional<std::uint32_t> prompt_logprobs_top;
  double timeout_s = 0.0; ///< 0: the server's own
  std::uint32_t heartbeat_s =
      0; ///< stream_options.heartbeat_interval: a comment after so long without an event; 0: none
  bool stream = false;
  bool include_usage = false;       ///< stream_options: a last chunk with the usage
  bool continuous_usage = false;    ///< stream_options.continuous_usage_stats: the usage so far in every chunk
  std::int32_t priority = 0;        ///< of scheduling: lower runs first
  std::uint8_t execution_level = 0; ///< index of the named `execution_priority`
  std::string request_id;           ///< the client's; empty: none
  std::string cache_salt;
  std::string user;
  /// Names of fields nobody knows (or supports, with `lists_unsupported`): whoever serves the request refuses it, or
  /// says which were ignored.
  std::vector<std::string> unknown;
};

/// One prompt of /v1/completions: text, or tokens as they are.
struct prompt_input {
  std::string text;
  std::vector<token_id> tokens; ///< not empty: already tokenised
  friend bool operator==(const prompt_input&, const prompt_input&) = default;
};

struct completion_request : common_request {
  std::vector<prompt_input> prompts; ///< at least one; choice i answers prompt i
  bool echo = false;                 ///< the prompt's text in front of the answer
  std::uint32_t best_of = 1;         ///< answers drawn for each prompt, of which the `n` most probable are given
};

enum class role : std::uint8_t { system, developer, user, assistant, tool };
[[nodiscard]] std::string_view to_string(role who) noexcept;

/// A call that an earlier answer made.
struct chat_tool_call {
  std::string id;
  std::string name;
  std::string arguments; ///< a JSON object, unless the model broke off within it
  friend bool operator==(const chat_tool_call&, const chat_tool_call&) = default;
};

struct chat_message {
  role who = role::user;
  std::string content; ///< text parts are joined
  std::string name;
  std::string reasoning;                  ///< an assistant's `reasoning_content`, for templates that show it
  std::vector<chat_tool_call> tool_calls; ///< an assistant's
  std::string tool_call_id;               ///< which call a tool's message answers
  bool only_calls = false;                ///< an assistant's that has `tool_calls` and no content, not an empty one
  chat_message() = default;
  chat_message(role from, std::string text) : who(from), content(std::move(text)) {}
  friend bool operator==(const chat_message&, const chat_message&) = default;
};

/// What the model may, must or must not call.
enum class tool_choice : std::uint8_t { none, automatic, required, named };

struct chat_request : common_request {
  chat_request() { prompt_field = "messages"; }
  std::string prediction;             ///< what the answer will be, as far as the client knows: it comes the sooner
  std::vector<chat_message> messages; ///< at least one
  bool says_special_tokens = false;   ///< `add_special_tokens` is the client's word, not what there is without it
  bool add_generation_prompt = true;
  bool continue_final_message = false; ///< the answer goes on where the last message ends
  /// What the system says later than in front may be the user's, for templates that do not take it.
  bool system_may_be_users = false;
  jinja::value tools;                  ///< the list as the client sent it; undefined: none
  jinja::value documents;              ///< undefined: none
  jinja::variables template_variables; ///< `chat_template_kwargs`
  jinja::variables template_hints;     ///< for a template that reads them; nothing to any other
  std::vector<std::string> tool_names; ///< of `tools`
  tool_choice choice = tool_choice::none;
  std::string chosen_tool;         ///< when named
  bool parallel_tool_calls = true; ///< false: at most one call an answer
};

/// A conversation in the words of /v1/responses; those of /v1/messages are anthropic/'s.
struct responses_request : chat_request {
  responses_request() { prompt_field = "input"; }
  std::string parameters; ///< what its answer repeats of it: members of an object, as JSON
};

/// What a client may name a request. It appears in logs, headers and files.
[[nodiscard]] bool is_request_id(std::string_view text) noexcept;

/// The body of POST /v1/completions. What is known but not supported is named in the error, never ignored; defaults and
/// null pass.
[[nodiscard]] expected<completion_request, api_error>
parse_completion(std::string_view body, const request_defaults& defaults, const request_limits& limits);
/// The body of POST /v1/chat/completions.
[[nodiscard]] expected<chat_request, api_error> parse_chat(std::string_view body, const request_defaults& defaults,
                                                           const request_limits& limits);

/// The body of POST /v1/responses. Nothing is kept, so that what refers to an earlier answer is refused.
[[nodiscard]] expected<responses_request, api_error>
parse_responses(std::string_view body, const request_defaults& defaults, const request_limits& limits);

} // namespace godwit::protocols::openai
