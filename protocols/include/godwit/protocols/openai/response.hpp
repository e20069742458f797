#pragma once

#include <godwit/protocols/openai/tool_parser.hpp>

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace godwit::protocols::openai {

struct usage {
  std::uint32_t prompt_tokens = 0;
  std::uint32_t completion_tokens = 0;
  std::uint32_t cached_tokens = 0; ///< of the prompt
  /// Of the completion, what was thought (reasoning_counter); absent: nobody tells it apart.
  std::optional<std::uint32_t> reasoning_tokens = std::nullopt;
  /// Tokens of the request's prediction that were tried: those that are in the completion, and the others. Absent: it
  /// has none.
  std::optional<std::uint32_t> accepted_prediction_tokens = std::nullopt;
  std::optional<std::uint32_t> rejected_prediction_tokens = std::nullopt;
};

/// One token with its logarithmic probability, as text. `bytes` may be part of a character.
struct token_text {
  std::string bytes;
  float logprob = 0.0F;
};
struct token_choice {
  token_text chosen;
  std::vector<token_text> top;   ///< most probable first
  bool first = false;            ///< of the prompt, with nothing before it: its log-probability is null
  std::uint32_t text_offset = 0; ///< in characters, from the beginning of the text; /v1/completions only
};

using prompt_logprobs_writer = std::function<std::string()>;

/// A choice, whole or as far as one chunk adds to it.
struct choice {
  std::uint32_t index = 0;
  std::string text;
  std::string reasoning;                             ///< what was thought before it; chats only
  bool thinks = false;                               ///< what comes next belongs to that, or to its markers
  std::string finish_reason;                         ///< empty: null (it goes on)
  std::optional<std::string> stop_string;            ///< vLLM's stop_reason: the string that ended it
  std::optional<std::int32_t> stop_token;            ///< or the token of stop_token_ids
  std::optional<std::vector<token_choice>> logprobs; ///< absent: null
  std::vector<tool_call_delta> calls;                ///< of tools, as far as they go; each with its index
  prompt_logprobs_writer prompt_logprobs;            ///< makes `prompt_logprobs_list`; empty: not asked for
  double mean_logprob = 0.0;                         ///< of its tokens; with the last piece
};

/// A token of the prompt as vLLM's `prompt_logprobs` tells of it.
struct prompt_token {
  std::int32_t id = 0;
  token_text text;
  struct other {
    std::int32_t id = 0;
    token_text text;
  };
  std::vector<other> top; ///< most probable first; may hold the token itself
};
/// [null, {"id": {"logprob", "rank", "decoded_token"}, ...}, ...]: of all tokens but the first, which is null. The rank
/// of a token outside the top is null, since nobody counted that far.
[[nodiscard]] std::string prompt_logprobs_list(const std::vector<prompt_token>& tokens);

/// Heads every object of one answer.
struct response_head {
  std::string id; ///< "cmpl-...", "chatcmpl-...", "resp_..." or "msg_..."
  std::string model;
  std::int64_t created_s = 0; ///< Unix time
};

[[nodiscard]] std::string completion_object(const response_head& head, const std::vector<choice>& choices,
                                            const usage& used);
[[nodiscard]] std::string chat_object(const response_head& head, const std::vector<choice>& choices, const usage& used);

/// Writes the chunks of one streamed answer, as JSON without framing.
/// With `include_usage` each chunk has "usage": null but the last, which has no choices.
class chunk_writer {
public:
  enum class endpoint : std::uint8_t { completions, chat };
  chunk_writer(endpoint which, response_head head, bool include_usage, bool continuous_usage = false);

  /// Chat: the first chunk of a choice, with the role and no text. Not for completions.
  [[nodiscard]] std::string first(std::uint32_t index, const usage& so_far) const;
  [[nodiscard]] std::string delta(const choice& added, const usage& so_far) const;
  /// The last chunk, when asked for.
  [[nodiscard]] std::string last(const usage& used) const;
  [[nodiscard]] bool include_usage() const noexcept { return include_usage_; }

private:
  void open(std::string& out) const;
  void close(std::string& out, const usage& so_far) const;
  endpoint endpoint_;
  response_head head_;
  bool include_usage_;
  bool continuous_usage_;
};

struct model_card {
  std::string id;
  std::int64_t created_s = 0;
  std::string owned_by = "godwit";
  std::uint32_t max_model_len = 0;
  std::string root;        ///< as vLLM: where its files are, for clients that load the tokenizer; empty: the id
  std::string parent = {}; ///< of an adapter: the model that it is one of; empty: none
};
/// GET /v1/models.
[[nodiscard]] std::string models_object(const std::vector<model_card>& models);
/// GET /v1/models/{id}.
[[nodiscard]] std::string model_object(const model_card& model);

} // namespace godwit::protocols::openai
