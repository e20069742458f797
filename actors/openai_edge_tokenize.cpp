#include <godwit/actors/openai_edge.hpp>

#include <godwit/protocols/anthropic/messages_request.hpp>
#include <godwit/protocols/anthropic/messages_writer.hpp>
#include <godwit/protocols/openai/tokenize.hpp>

#include <utility>

/// The tokenizer as a service: what a request would be counted as.
namespace godwit::actors {

namespace anthropic = protocols::anthropic;
namespace openai = protocols::openai;
namespace http = transport::http;

namespace {
/// An answer of some ten MB.
constexpr std::size_t tokens_told_max = std::size_t{1} << 20;
} // namespace

void openai_edge::tokenize(const http::request& request, const exchange_ptr& exchange) {
  const auto parsed = openai::parse_tokenize(request.body, options_.model.defaults, options_.limits);
  if (!parsed) return refuse(parsed.error(), request, exchange);
  const auto& model = parsed->chat ? parsed->chat->model : parsed->model;
  if (reads_apart(model, request, exchange, &openai_edge::tokenize)) return;
  protocols::adapter_ref adapter; // all have the model's tokens
  if (const auto error = find_model(model, adapter)) return refuse(*error, request, exchange);
  openai::completion_request text;
  text.add_special_tokens = parsed->add_special_tokens;
  const auto prompt = parsed->chat ? chat_prompt(*parsed->chat, false)
                                   : protocols::expected<std::vector<protocols::token_id>, openai::api_error>(
                                         text_prompt(text, {parsed->prompt, {}}));
  if (!prompt) return refuse(prompt.error(), request, exchange);
  const auto& tokens = *prompt;
  if (tokens.size() > tokens_told_max)
    return refuse(openai::invalid_value(parsed->chat ? "messages" : "prompt",
                                        "It has " + std::to_string(tokens.size()) + " tokens; at most " +
                                            std::to_string(tokens_told_max) + " are told."),
                  request, exchange);
  std::optional<std::vector<std::string>> strings;
  if (parsed->with_strings) {
    strings.emplace();
    for (const auto id : tokens) strings->emplace_back(options_.model.tokens->bytes(id));
  }
  http::response out;
  out.body = openai::tokenize_object(tokens, options_.model.context_length, strings);
  exchange->respond(std::move(out));
}

void openai_edge::count_tokens(const http::request& request, const exchange_ptr& exchange) {
  const auto parsed = anthropic::parse_count_tokens(request.body, options_.model.defaults, options_.limits);
  if (!parsed) return refuse(parsed.error(), request, exchange);
  if (reads_apart(parsed->model, request, exchange, &openai_edge::count_tokens)) return;
  protocols::adapter_ref adapter;
  if (const auto error = find_model(parsed->model, adapter)) return refuse(*error, request, exchange);
  if (const auto error = unknown_in(*parsed)) return refuse(*error, request, exchange);
  const auto prompt = chat_prompt(*parsed, false);
  if (!prompt) return refuse(prompt.error(), request, exchange);
  http::response out;
  out.body = anthropic::count_object(prompt->size(), parsed->manages_context);
  exchange->respond(std::move(out));
}

void openai_edge::detokenize(const http::request& request, const exchange_ptr& exchange) {
  const auto parsed = openai::parse_detokenize(request.body, options_.limits);
  if (!parsed) return refuse(parsed.error(), request, exchange);
  if (reads_apart(parsed->model, request, exchange, &openai_edge::detokenize)) return;
  protocols::adapter_ref adapter;
  if (const auto error = find_model(parsed->model, adapter)) return refuse(*error, request, exchange);
  http::response out;
  out.body = openai::detokenize_object(options_.model.tokens->decode(parsed->tokens, false));
  exchange->respond(std::move(out));
}

} // namespace godwit::actors
