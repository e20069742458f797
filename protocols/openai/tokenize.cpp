#include <godwit/protocols/openai/tokenize.hpp>

#include "openai/parse_common.hpp"

#include <godwit/protocols/openai/json_text.hpp>

#include <utility>

namespace godwit::protocols::openai {

namespace {

void refuse_unknown(const json_reader& body, const request_limits& limits) {
  if (limits.lists_unsupported) return;
  if (const auto names = body.unasked(); !names.empty()) fail(unknown_parameter(names.front()));
}

} // namespace

expected<tokenize_request, api_error> parse_tokenize(std::string_view text, const request_defaults& defaults,
                                                     const request_limits& limits) {
  try {
    const auto value = parse_body(text, limits.body_bytes_max, limits.depth_max);
    json_reader body{value.get_object()};
    tokenize_request request;
    request.model = body.text("model").value_or("");
    request.with_strings = body.boolean("return_token_strs").value_or(false);
    if (body.value("messages") != nullptr) {
      if (body.value("prompt") != nullptr) fail(invalid_value("prompt", "'prompt' and 'messages' exclude each other."));
      auto chat = parse_chat(text, defaults, limits);
      if (!chat) return unexpected{std::move(chat.error())};
      request.chat = std::move(*chat);
      for (const auto& name : request.chat->unknown) // parse_chat does not know this one
        if (name != "return_token_strs" && !limits.lists_unsupported) fail(unknown_parameter(name));
      return request;
    }
    auto prompt = body.text("prompt");
    if (!prompt) fail(invalid_value("prompt", "'prompt' or 'messages' is required."));
    request.prompt = *std::move(prompt);
    request.add_special_tokens = body.boolean("add_special_tokens").value_or(true);
    refuse_unknown(body, limits);
    return request;
  } catch (parse_failure& failure) {
    return unexpected{std::move(failure.error)};
  }
}

std::string tokenize_object(const std::vector<token_id>& tokens, std::uint32_t context_length,
                            const std::optional<std::vector<std::string>>& strings) {
  std::string out = R"({"count":)" + std::to_string(tokens.size()) + R"(,"max_model_len":)" +
                    std::to_string(context_length) + R"(,"tokens":[)";
  for (std::size_t i = 0; i < tokens.size(); ++i) out += (i == 0 ? "" : ",") + std::to_string(tokens[i]);
  out += R"(],"token_strs":)";
  if (!strings) return out + "null}";
  out += '[';
  for (std::size_t i = 0; i < strings->size(); ++i) {
    if (i > 0) out += ',';
    append_json_string(out, (*strings)[i]);
  }
  return out + "]}";
}

expected<detokenize_request, api_error> parse_detokenize(std::string_view text, const request_limits& limits) {
  try {
    const auto value = parse_body(text, limits.body_bytes_max, limits.depth_max);
    json_reader body{value.get_object()};
    detokenize_request request;
    request.model = body.text("model").value_or("");
    const auto* tokens = body.array("tokens");
    if (tokens == nullptr) fail(invalid_value("tokens", "'tokens' is required."));
    if (limits.context_length > 0 && tokens->size() > limits.context_length)
      fail(invalid_value("tokens", "'tokens' may have as many ids as the context, " +
                                       std::to_string(limits.context_length) + ", not " +
                                       std::to_string(tokens->size()) + "."));
    request.tokens = parse_tokens(*tokens, "tokens", limits.vocabulary);
    refuse_unknown(body, limits);
    return request;
  } catch (parse_failure& failure) {
    return unexpected{std::move(failure.error)};
  }
}

std::string detokenize_object(std::string_view text) { return R"({"prompt":)" + json_string(text) + "}"; }

} // namespace godwit::protocols::openai
