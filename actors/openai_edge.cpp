#include <godwit/actors/openai_edge.hpp>

#include "api_errors.hpp"
#include "beam_searcher.hpp"
#include "openai_answer.hpp"
#include "traced_exchange.hpp"

#include <godwit/protocols/anthropic/messages_request.hpp>
#include <godwit/protocols/anthropic/messages_writer.hpp>
#include <godwit/protocols/anthropic/models.hpp>
#include <godwit/protocols/openai/chat_template.hpp>
#include <godwit/protocols/openai/json_text.hpp>
#include <godwit/protocols/openai/response.hpp>
#include <godwit/protocols/openai/responses_writer.hpp>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <exception>
#include <functional>
#include <utility>

namespace godwit::actors {

namespace anthropic = protocols::anthropic;
namespace openai = protocols::openai;
namespace http = transport::http;

namespace {

/// A path's part without percent-encoding: clients write the '/' of a model's name so.
std::string decoded(std::string_view text) {
  std::string out;
  for (std::size_t i = 0; i < text.size(); ++i) {
    unsigned code = 0;
    const auto* const digits = text.data() + i + 1;
    if (text[i] == '%' && i + 2 < text.size() && std::from_chars(digits, digits + 2, code, 16).ptr == digits + 2) {
      out += static_cast<char>(code);
      i += 2;
    } else {
      out += text[i];
    }
  }
  return out;
}

http::response json(std::string body) {
  http::response out;
  out.body = std::move(body);
  return out;
}

protocols::salt_key salt_key_of(std::uint64_t seed) {
  const runtime::async::counter_random random(seed, 2);
  return {random.at(0), random.at(1)};
}

edge_options with_a_seed(edge_options options) {
  if (!options.random_seed) options.random_seed = runtime::entropy();
  return options;
}

constexpr std::size_t large_waiting_max = 32;
/// An answer without `max_tokens` is counted as if it had so many.
constexpr std::uint64_t usual_answer_tokens = 4096;
/// Of all beams of a prompt: each step sends, and hashes, all that each of them has, so that a search takes the square.
constexpr std::uint64_t beam_tokens_max = 16'384;
constexpr std::size_t adapters_listed_max = 10'000;
thread_local bool serves_apart = false; // on a thread of long work

/// What a client wants its answers within; 0: it does not say.
struct call_objectives {
  std::chrono::nanoseconds ttft{0};
  std::chrono::nanoseconds tpot{0};
};

/// The types that protocols::openai's own errors of these statuses have.
std::string_view type_of(int status) {
  if (status == 429) return "rate_limit_error";
  return status >= 500 ? "server_error" : "invalid_request_error";
}

/// What a client, or the gateway before it, calls the request. Empty: nothing that can be a name.
std::string told_request_id(const http::request& from) {
  const auto told = from.fields.find("X-Request-Id");
  return told && openai::is_request_id(*told) ? std::string(*told) : std::string();
}

/// The field X-Request-Id names a request whose body does not. What could not be named so is no error, since
/// proxies set the field.
void take_request_id(const http::request& from, openai::common_request& into) {
  if (into.request_id.empty()) into.request_id = told_request_id(from);
}

/// A field of milliseconds, by the name that llm-d's router has for it, or by the one that it had before.
std::optional<openai::api_error> take_objective(const http::request& from, const char* name, const char* former,
                                                std::chrono::nanoseconds& into) {
  auto told = from.fields.find(name);
  if (!told) told = from.fields.find(name = former);
  if (!told) return std::nullopt;
  constexpr double ms_max = 86'400'000;
  double ms = 0;
  const auto* const end = told->data() + told->size();
  const auto [stop, error] = std::from_chars(told->data(), end, ms);
  if (error != std::errc{} || stop != end || !(ms > 0 && ms <= ms_max))
    return openai::invalid_value({}, std::string("The header ") + name +
                                         " should be a number of milliseconds above 0, of a day at most.");
  into = std::chrono::nanoseconds(std::max<std::int64_t>(static_cast<std::int64_t>(ms * 1e6), 1));
  return std::nullopt;
}

std::optional<openai::api_error> take_objectives(const http::request& from, call_objectives& into) {
  if (auto error = take_objective(from, "X-LLM-D-SLO-TTFT-MS", "X-SLO-TTFT-MS", into.ttft)) return error;
  return take_objective(from, "X-LLM-D-SLO-TPOT-MS", "X-SLO-TPOT-MS", into.tpot);
}

/// Names for a header field, without what could not stand in one.
std::string list_of(const std::vector<std::string>& names) {
  constexpr std::size_t bytes_max = 512, name_bytes_max = 64;
  std::string out;
  for (const auto& whole : names) {
    const auto name = std::string_view(whole).substr(0, name_bytes_max);
    if (out.size() + name.size() > bytes_max) return out + ", ...";
    if (!out.empty()) out += ", ";
    for (const char c : name) out += c > ' ' && c < 0x7f && c != ',' ? c : '?';
  }
  return out;
}

} // namespace

http::response openai_error_response(int status, std::string message, const http::request* head) {
  openai::api_error error;
  error.status = status;
  error.message = std::move(message);
  error.type = type_of(status);
  return to_response(error, head != nullptr ? api_of(*head) : api::openai);
}

/// One call, checked and tokenised.
struct openai_edge::call {
  const openai::common_request* common = nullptr;
  std::vector<std::vector<protocols::token_id>> prompts;
  std::vector<std::string> echoes;      ///< empty, or one a prompt
  std::uint32_t default_max_tokens = 0; ///< 0: what the context has room for
  std::vector<protocols::token_id> template_stops;
  const openai::chat_request* chat = nullptr;            ///< of a chat, in whichever words
  const openai::responses_request* responses = nullptr;  ///< ... in those of /v1/responses
  const anthropic::messages_request* messages = nullptr; ///< ... in those of /v1/messages
  std::vector<protocols::token_id> prediction;
  protocols::adapter_ref adapter;
  call_objectives objectives;
  std::uint32_t drawn = 1; ///< answers to each prompt, of which the client gets common->n
  protocols::reasoning_start reasoning = protocols::reasoning_start::off; ///< of a chat's answers
  std::shared_ptr<const openai::stop_patterns> stops;
};

struct openai_edge::route {
  std::string_view method; ///< empty: any
  std::string_view path;
  bool below = false; ///< the path is a prefix
  void (openai_edge::*serve)(const http::request&, const exchange_ptr&);
  bool debug = false; ///< there only where edge_options::debug_recording is
};

const std::vector<openai_edge::route>& openai_edge::routes() {
  static const std::vector<route> table{
      {"POST", "/v1/completions", false, &openai_edge::completion},
      {"POST", "/v1/chat/completions", false, &openai_edge::chat},
      {"POST", "/v1/responses", false, &openai_edge::responses},
      {"", "/v1/responses/compact", false, &openai_edge::not_served},
      {"", "/v1/responses/input_tokens", false, &openai_edge::not_served},
      {"", "/v1/responses/", true, &openai_edge::not_stored},
      {"POST", "/v1/messages", false, &openai_edge::messages},
      {"POST", "/v1/messages/count_tokens", false, &openai_edge::count_tokens},
      {"", "/v1/messages/batches", true, &openai_edge::not_served},
      {"GET", "/v1/models", false, &openai_edge::models},
      {"GET", "/v1/models/", true, &openai_edge::models},
      {"GET", "/health", false, &openai_edge::health},
      {"GET", "/ping", false, &openai_edge::ping},
      {"POST", "/ping", false, &openai_edge::ping},
      {"POST", "/tokenize", false, &openai_edge::tokenize},
      {"POST", "/detokenize", false, &openai_edge::detokenize},
      {"", "/v1/embeddings", false, &openai_edge::not_served},
      {"", "/v1/conversations", true, &openai_edge::not_served},
      {"", "/v1/moderations", false, &openai_edge::not_served},
      {"", "/v1/rerank", false, &openai_edge::not_served},
      {"", "/v1/score", false, &openai_edge::not_served},
      {"", "/v1/audio/", true, &openai_edge::not_served},
      {"", "/v1/images/", true, &openai_edge::not_served},
      {"", "/v1/files", true, &openai_edge::not_served},
      {"", "/v1/batches", true, &openai_edge::not_served},
      {"", "/v1/fine_tuning/", true, &openai_edge::not_served},
      {"GET", "/version", false, &openai_edge::version},
      {"GET", "/metrics", false, &openai_edge::metrics},
      {"GET", "/debug", false, &openai_edge::debug_home, true},
      {"GET", "/debug/", false, &openai_edge::debug_page, true},
      {"GET", "/debug/recording.json", false, &openai_edge::debug_recording, true},
  };
  return table;
}

openai_edge::openai_edge(std::shared_ptr<frontend_gate> gate, edge_options options)
    : gate_(std::move(gate)), options_(with_a_seed(std::move(options))), random_(*options_.random_seed),
      trace_random_(*options_.random_seed, 1), salt_key_(salt_key_of(*options_.random_seed)),
      started_s_(options_.unix_time_s()) {
  for (std::uint32_t id = 0; id < options_.model.tokens->size(); ++id)
    longest_token_ =
        std::max(longest_token_, options_.model.tokens->bytes(static_cast<protocols::token_id>(id)).size());
  if (options_.metrics != nullptr) {
    answers_ = &options_.metrics->add_counter_family(
        "godwit_http_answers_total", "Answers to completions, and refusals of what was asked.", {"status"});
    for (const auto* status : {"200", "400", "404", "429", "500", "503"})
      (void)answers_->with({status}); // at 0 from the start, or a rate would miss the first one
  }
  if (options_.large_bytes > 0) worker_ = std::make_shared<edge_worker>(large_waiting_max);
}

void openai_edge::count(int status) {
  if (answers_ != nullptr) answers_->with({std::to_string(status)}).increment();
}

void openai_edge::refuse(const openai::api_error& error, const http::request& request, const exchange_ptr& exchange,
                         const std::string& called) {
  count(error.status);
  const auto name = called.empty() ? told_request_id(request) : called;
  exchange->respond(to_response(error, api_of(request), name.empty() ? new_id("req-") : "req-" + name));
}

void openai_edge::handle(http::request request, exchange_ptr exchange) {
  if (!worker_ || request.body.size() <= options_.large_bytes) return serve_any(request, std::move(exchange));
  serve_apart(std::move(request), exchange,
              [this](const http::request& large, const exchange_ptr& whose) { serve_any(large, whose); });
}

void openai_edge::serve_apart(http::request request, const exchange_ptr& exchange, serve_function serve) {
  const auto apart = std::make_shared<http::request>(std::move(request));
  auto job = [this, exchange, serve = std::move(serve), apart] {
    if (exchange->closed()) return; // its client did not wait
    serves_apart = true;
    try {
      if (const auto span = span_of(*exchange))
        span->because([&] { serve(*apart, exchange); });
      else
        serve(*apart, exchange);
    } catch (const std::exception& failure) { // as the server does for the others
      options_.log.error("a request failed: {}", failure.what());
      refuse(openai::internal_error("the request's handler failed"), *apart, exchange);
    }
  };
  if (!worker_->post(std::move(job))) refuse(openai::overloaded(options_.retry_after_s), *apart, exchange);
}

// An adapter that nobody has asked for is read to learn which one it is.
bool openai_edge::reads_apart(const std::string& model, const http::request& request, const exchange_ptr& exchange,
                              void (openai_edge::*serve)(const http::request&, const exchange_ptr&)) {
  if (!worker_ || serves_apart || !options_.model.adapters || options_.model.is_called(model) ||
      !options_.model.adapters->is_new(model))
    return false;
  serve_apart(request, exchange,
              [this, serve](const http::request& again, const exchange_ptr& whose) { (this->*serve)(again, whose); });
  return true;
}

// Looking at recordings is not recorded.
void openai_edge::serve_any(const http::request& request, exchange_ptr exchange) {
  std::string allowed;
  for (const auto& r : routes()) {
    const bool matches = r.below ? request.target.starts_with(r.path) : request.target == r.path;
    if (!matches || (r.debug && !options_.debug_recording)) continue;
    if (r.method.empty() || request.method == r.method) {
      if (r.debug) return (this->*r.serve)(request, exchange);
      return recorded(request, std::move(exchange), [&](const exchange_ptr& e) { (this->*r.serve)(request, e); });
    }
    allowed += (allowed.empty() ? "" : ", ") + std::string{r.method};
    if (r.method == "GET") allowed += ", HEAD"; // which the server answers likewise, without the body
  }
  const auto error =
      allowed.empty() ? openai::not_found(request.target) : openai::method_not_allowed(request.method, allowed);
  recorded(request, std::move(exchange), [&](const exchange_ptr& e) { refuse(error, request, e); });
}

void openai_edge::recorded(const http::request& request, exchange_ptr exchange,
                           const std::function<void(const exchange_ptr&)>& serve) {
  const bool records = options_.recorder && options_.recorder->level() != runtime::trace::level::off;
  if (!records) return serve(exchange);
  const auto n = traces_.fetch_add(1) * 3;
  auto answered = trace_context_of(request).value_or(protocols::trace_context{});
  if (answered.trace.empty())
    answered.trace = protocols::trace_digits(trace_random_.at(n)) + protocols::trace_digits(trace_random_.at(n + 1));
  answered.parent = protocols::trace_digits(trace_random_.at(n + 2));
  answered.flags = 1; // it was recorded
  const auto span = std::make_shared<request_span>(options_.recorder, request, answered, options_.on_ended);
  const exchange_ptr traced = std::make_shared<traced_exchange>(std::move(exchange), span);
  span->because([&] { serve(traced); });
}

void openai_edge::models(const http::request& request, const exchange_ptr& exchange) {
  const auto& model = options_.model;
  const auto card = openai::model_card{model.name, started_s_, "godwit", model.context_length, model.root};
  const auto called = [&card](const std::string& name) {
    auto out = card;
    out.id = name;
    return out;
  };
  const auto card_of = [&](const std::string& adapter) {
    auto out = card;
    out.id = adapter;
    out.root = (model.adapters->path() / adapter).string();
    out.parent = model.name;
    return out;
  };
  const auto whose = api_of(request);
  constexpr std::string_view prefix = "/v1/models/";
  if (request.target.starts_with(prefix)) {
    const auto asked = decoded(std::string_view(request.target).substr(prefix.size()));
    if (reads_apart(asked, request, exchange, &openai_edge::models)) return;
    protocols::adapter_ref adapter;
    if (const auto error = asked.empty() ? openai::model_not_found(asked) : find_model(asked, adapter))
      return exchange->respond(to_response(*error, whose));
    const auto found = adapter ? card_of(asked) : called(asked);
    return exchange->respond(
        json(whose == api::anthropic ? anthropic::model_info(found) : openai::model_object(found)));
  }
  std::vector<openai::model_card> cards{card};
  for (const auto& alias : model.aliases) cards.push_back(called(alias));
  if (model.adapters)
    for (const auto& adapter : model.adapters->names(adapters_listed_max))
      if (!model.is_called(adapter)) cards.push_back(card_of(adapter));
  exchange->respond(json(whose == api::anthropic ? anthropic::models_page(cards) : openai::models_object(cards)));
}

std::optional<openai::api_error> openai_edge::find_model(const std::string& name,
                                                         protocols::adapter_ref& adapter) const {
  if (name.empty() || options_.model.is_called(name)) return std::nullopt;
  if (!options_.model.adapters) return openai::model_not_found(name);
  try {
    auto found = options_.model.adapters->find(name);
    if (!found) return openai::model_not_found(name);
    adapter = *std::move(found);
  } catch (const gpu::model::model_error& error) { // its path is the operator's affair
    options_.log.warning("adapter {}: {}", name, error.what());
    return openai::invalid_value("model", "The adapter '" + name + "' cannot be read.");
  }
  return std::nullopt;
}

void openai_edge::health(const http::request&, const exchange_ptr& exchange) {
  const bool ends = draining_ || unwell_;
  const bool well = !ends && gate_->ready();
  if (well) return exchange->respond(json("{\"status\":\"ok\"}"));
  exchange->respond(to_response(
      openai::unavailable(ends ? "the server is shutting down" : "no instance is ready", options_.retry_after_s)));
}

void openai_edge::ping(const http::request&, const exchange_ptr& exchange) { exchange->respond(json("{}")); }

void openai_edge::not_served(const http::request& request, const exchange_ptr& exchange) {
  refuse(openai::no_such_endpoint(request.target), request, exchange);
}

void openai_edge::not_stored(const http::request& request, const exchange_ptr& exchange) {
  refuse(openai::no_stored_response(request.target), request, exchange);
}

void openai_edge::version(const http::request&, const exchange_ptr& exchange) {
  exchange->respond(json("{\"version\":" + openai::json_string(options_.version) + "}"));
}

void openai_edge::metrics(const http::request&, const exchange_ptr& exchange) {
  http::response out;
  if (options_.metrics != nullptr) {
    out.content_type = runtime::metrics::registry::content_type;
    out.body = options_.metrics->expose();
  }
  exchange->respond(std::move(out));
}

std::optional<openai::api_error> openai_edge::admissible(const openai::common_request& request,
                                                         protocols::adapter_ref& adapter) const {
  if (auto error = find_model(request.model, adapter)) return error;
  if (draining_) return openai::unavailable("the server is shutting down", options_.retry_after_s);
  if (!gate_->ready()) return openai::unavailable("no instance is ready", options_.retry_after_s);
  return unknown_in(request);
}

std::optional<openai::api_error> openai_edge::unknown_in(const openai::common_request& request) const {
  if (request.unknown.empty() || options_.limits.lists_unsupported) return std::nullopt;
  return openai::unknown_parameter(request.unknown.front());
}

std::vector<protocols::token_id> openai_edge::text_prompt(const openai::completion_request& request,
                                                          const openai::prompt_input& input) const {
  if (!input.tokens.empty()) return input.tokens;
  const auto& tokens = *options_.model.tokens;
  std::vector<protocols::token_id> out;
  if (request.add_special_tokens) out = tokens.prefix();
  const auto text = tokens.encode(input.text, true);
  out.insert(out.end(), text.begin(), text.end());
  if (request.add_special_tokens) out.insert(out.end(), tokens.suffix().begin(), tokens.suffix().end());
  return out;
}

protocols::expected<std::vector<protocols::token_id>, openai::api_error>
openai_edge::chat_prompt(const openai::chat_request& request, bool has_to_fit) const {
  // Rendering and tokenising take time on an I/O thread: a text that cannot fit is spared both.
  std::uint64_t least = 0;
  for (const auto& message : request.messages) least += tokens_at_least(message.content);
  if (has_to_fit && least >= options_.model.context_length)
    return protocols::unexpected(
        openai::context_length_exceeded(least, options_.model.context_length, request.prompt_field, true));
  if (auto error = calls_beside_schema(request)) return protocols::unexpected(*std::move(error));
  const auto pieces = options_.model.chat->pieces(request, options_.unix_time_s());
  if (!pieces) return protocols::unexpected(pieces.error());
  const auto& tokens = *options_.model.tokens;
  // A model without a template was trained on texts, which begin with these.
  const bool begins = request.says_special_tokens ? request.add_special_tokens : options_.model.chat->built_in();
  auto out = begins ? tokens.prefix() : std::vector<protocols::token_id>{};
  std::vector<gpu::model::tokenizer::fragment> fragments;
  std::size_t bytes = 0;
  for (const auto& piece : *pieces) {
    fragments.push_back({piece.text, piece.markup});
    bytes += piece.text.size();
  }
  if (has_to_fit && bytes / longest_token_ >= options_.model.context_length)
    return protocols::unexpected(openai::context_length_exceeded(bytes / longest_token_, options_.model.context_length,
                                                                 request.prompt_field, true));
  const auto ids = tokens.encode(fragments);
  out.insert(out.end(), ids.begin(), ids.end());
  if (in_channels()) begin_in_channels(request, out);
  return out;
}

void openai_edge::completion(const http::request& request, const exchange_ptr& exchange) {
  auto parsed = openai::parse_completion(request.body, options_.model.defaults, options_.limits);
  if (parsed && reads_apart(parsed->model, request, exchange, &openai_edge::completion)) return;
  if (!parsed) return refuse(parsed.error(), request, exchange);
  take_request_id(request, *parsed);
  call what;
  const auto& called = parsed->request_id;
  if (auto error = admissible(*parsed, what.adapter)) return refuse(*error, request, exchange, called);
  if (auto error = take_objectives(request, what.objectives)) return refuse(*error, request, exchange, called);
  what.drawn = parsed->best_of;
  what.common = &*parsed;
  what.default_max_tokens = options_.model.defaults.completion_max_tokens;
  for (const auto& input : parsed->prompts) {
    if (const auto least = tokens_at_least(input.text); least >= options_.model.context_length)
      return refuse(openai::context_length_exceeded(least, options_.model.context_length, "prompt", true), request,
                    exchange, called);
    what.prompts.push_back(text_prompt(*parsed, input));
    if (parsed->echo)
      what.echoes.push_back(input.tokens.empty() ? input.text : options_.model.tokens->decode(input.tokens, true));
  }
  start(std::move(what), request, exchange);
}

void openai_edge::chat(const http::request& request, const exchange_ptr& exchange) {
  auto parsed = openai::parse_chat(request.body, options_.model.defaults, options_.limits);
  if (!parsed) return refuse(parsed.error(), request, exchange);
  if (reads_apart(parsed->model, request, exchange, &openai_edge::chat)) return;
  converse(*parsed, {}, request, exchange);
}

void openai_edge::responses(const http::request& request, const exchange_ptr& exchange) {
  auto parsed = openai::parse_responses(request.body, options_.model.defaults, options_.limits);
  if (!parsed) return refuse(parsed.error(), request, exchange);
  if (reads_apart(parsed->model, request, exchange, &openai_edge::responses)) return;
  call what;
  what.responses = &*parsed;
  converse(*parsed, std::move(what), request, exchange);
}

void openai_edge::messages(const http::request& request, const exchange_ptr& exchange) {
  auto parsed = anthropic::parse_messages(request.body, options_.model.defaults, options_.limits);
  if (!parsed) return refuse(parsed.error(), request, exchange);
  if (reads_apart(parsed->model, request, exchange, &openai_edge::messages)) return;
  call what;
  what.messages = &*parsed;
  converse(*parsed, std::move(what), request, exchange);
}

void openai_edge::converse(openai::chat_request& parsed, call what, const http::request& request,
                           const exchange_ptr& exchange) {
  take_request_id(request, parsed);
  const auto& called = parsed.request_id;
  if (auto error = admissible(parsed, what.adapter)) return refuse(*error, request, exchange, called);
  auto prompt = chat_prompt(parsed, true);
  if (!prompt) return refuse(prompt.error(), request, exchange, called);
  if (auto error = take_objectives(request, what.objectives)) return refuse(*error, request, exchange, called);
  what.drawn = parsed.n;
  what.common = &parsed;
  if (!in_channels() && options_.model.tells_reasoning) what.reasoning = reasoning_behind(*prompt);
  what.prompts.push_back(*std::move(prompt));
  what.chat = &parsed;
  for (const auto* marker : {"<|return|>", "<|call|>"}) // whatever the files say of the ends of answers
    if (const auto end = in_channels() ? options_.model.tokens->find(marker) : std::nullopt)
      what.template_stops.push_back(*end);
  if (const auto end = options_.model.tokens->find(openai::chatml_end);
      end && options_.model.chat->writes(openai::chatml_end))
    what.template_stops.push_back(*end);
  start(std::move(what), request, exchange);
}

// What lies far behind the longest answer is of no use to anybody.
std::vector<protocols::token_id> openai_edge::predicted(const std::string& text, std::uint32_t answer_max) const {
  constexpr std::uint64_t spare_tokens = 1024; // of what an answer leaves out
  const auto most =
      std::min<std::uint64_t>(options_.model.context_length, std::uint64_t{2} * answer_max + spare_tokens);
  auto bytes = std::min<std::size_t>(text.size(), most * longest_token_);
  while (bytes < text.size() && bytes > 0 && (static_cast<unsigned char>(text[bytes]) & 0xC0U) == 0x80U) --bytes;
  auto tokens = options_.model.tokens->encode(std::string_view(text).substr(0, bytes), false);
  if (tokens.size() > most) tokens.resize(most);
  return tokens;
}

// Tokenising takes time on an I/O thread: a text that cannot fit is not tokenised at all.
std::uint64_t openai_edge::tokens_at_least(const std::string& text) const noexcept {
  return text.size() / longest_token_;
}

std::string openai_edge::new_id(const char* prefix) {
  static constexpr std::array digits{'0', '1', '2', '3', '4', '5', '6', '7', '8', '9', 'a', 'b', 'c', 'd', 'e', 'f'};
  const auto n = ids_.fetch_add(1);
  std::string id = prefix;
  for (const auto word : {random_.at(2 * n), random_.at(2 * n + 1)})
    for (int shift = 60; shift >= 0; shift -= 4) id += digits[(word >> shift) & 15];
  return id;
}

std::optional<openai::api_error> openai_edge::fits(const call& what) const {
  const auto& common = *what.common;
  for (const auto& prompt : what.prompts) {
    if (prompt.empty()) {
      const auto index = &prompt - what.prompts.data();
      return openai::invalid_value(common.prompt_field +
                                       (what.prompts.size() > 1 ? "[" + std::to_string(index) + "]" : ""),
                                   "the prompt has no tokens");
    }
    if (prompt.size() >= options_.model.context_length)
      return openai::context_length_exceeded(prompt.size(), options_.model.context_length, common.prompt_field);
    if (!common.has_max_tokens || prompt.size() + common.stop.max_tokens <= options_.model.context_length) continue;
    if (what.messages != nullptr) continue; // whose clients always name one, often the most that any model has
    const auto field = "'" + common.length_field + "'";
    auto error = openai::invalid_value(
        common.length_field, (common.length_given ? field + " is too large: " + std::to_string(common.stop.max_tokens)
                                                  : field + " is " + std::to_string(common.stop.max_tokens) +
                                                        " where it is not given, which is too large here") +
                                 ". The model's context length is " + std::to_string(options_.model.context_length) +
                                 " tokens, of which the prompt takes " + std::to_string(prompt.size()) + ".");
    error.code = "context_length_exceeded";
    return error;
  }
  return small_enough(what);
}

std::uint64_t openai_edge::room_behind(const std::vector<protocols::token_id>& prompt) const noexcept {
  return options_.model.context_length - prompt.size();
}

std::uint64_t openai_edge::logprobs_a_token(const call& what) noexcept {
  const bool again = what.responses != nullptr && what.common->stream;
  const auto one = 1 + static_cast<std::uint64_t>(what.common->sampling.logprobs);
  return what.drawn * one * (again ? openai::responses_writer::times_told : 1);
}

// A short request must not make an answer that takes seconds to write and the memory of thousands of others.
std::optional<openai::api_error> openai_edge::small_enough(const call& what) const {
  const auto& common = *what.common;
  if (common.beam_search && common.has_max_tokens)
    if (const auto most = beam_tokens_max / common.n; common.stop.max_tokens > most)
      return openai::invalid_value(common.length_field, "With 'use_beam_search' and " + std::to_string(common.n) +
                                                            " beams an answer may have up to " + std::to_string(most) +
                                                            " tokens, not " + std::to_string(common.stop.max_tokens) +
                                                            ".");
  std::uint64_t told = 0;
  std::uint64_t bytes = 0;
  for (std::size_t i = 0; i < what.prompts.size(); ++i) {
    const bool echoes = i < what.echoes.size();
    const auto answer =
        common.has_max_tokens ? common.stop.max_tokens : std::min(usual_answer_tokens, room_behind(what.prompts[i]));
    const auto tokens = answer + (echoes ? what.prompts[i].size() : 0);
    if (common.sampling.logprobs >= 0) told += tokens * logprobs_a_token(what);
    if (common.prompt_logprobs_top) told += what.prompts[i].size() * (1 + std::uint64_t{*common.prompt_logprobs_top});
    if (echoes) bytes += what.drawn * what.echoes[i].size();
  }
  if (told > options_.limits.logprobs_told_max)
    return openai::invalid_value(common.logprobs_field,
                                 "The answer would tell " + std::to_string(told) + " log-probabilities; at most " +
                                     std::to_string(options_.limits.logprobs_told_max) +
                                     " are told. Ask for fewer, for fewer answers or for shorter ones.");
  if (bytes > options_.limits.body_bytes_max)
    return openai::invalid_value("echo", "The answer would repeat " + std::to_string(bytes) + " bytes of its prompts.");
  return std::nullopt;
}

/// An answer that follows a schema or calls tools, as the model likes, has to begin with what only calls begin with,
/// and no special token is drawn where a schema binds.
std::optional<openai::api_error> openai_edge::calls_beside_schema(const openai::chat_request& request) const {
  if (request.choice != openai::tool_choice::automatic || !request.sampling.constrained()) return std::nullopt;
  const auto& tokens = *options_.model.tokens;
  const auto marker = tokens.find("<tool_call>");
  if (options_.model.chat->calls() == openai::tool_format::hermes && !(marker && tokens.is_special(*marker)))
    return std::nullopt;
  return openai::invalid_value(request.schema_field,
                               "An answer of this model that follows a schema cannot call tools: leave out 'tools', or "
                               "have 'tool_choice' say that none is called, or that some have to be.");
}

/// How the calls in an answer are told from its text.
void openai_edge::call_tools(const openai::chat_request& request, openai_choice_options& text) const {
  using openai::tool_choice;
  if (request.choice == tool_choice::none) return;
  if (!request.parallel_tool_calls) text.calls.calls_max = 1;
  text.short_call_ids = options_.model.chat->calls() == openai::tool_format::mistral;
  if (request.choice == tool_choice::automatic) {
    text.tools = options_.model.chat->calls();
    text.calls.functions = request.tool_names;
    // Their markers are special tokens in some vocabularies.
    const auto& tokens = *options_.model.tokens;
    const auto marker = text.tools == openai::tool_format::hermes ? tokens.find("<tool_call>") : std::nullopt;
    if ((text.tools != openai::tool_format::none && text.tools != openai::tool_format::hermes) ||
        (marker && tokens.is_special(*marker)))
      text.skip_special_tokens = false;
    return;
  }
  text.tools = request.choice == tool_choice::required ? openai::tool_format::list : openai::tool_format::arguments;
  text.calls.function = request.chosen_tool;
  text.told_by_calls = request.choice == tool_choice::required; // as OpenAI has it
}

bool openai_edge::in_channels() const noexcept { return options_.model.chat->calls() == openai::tool_format::harmony; }

/// A schema binds an answer from its first token on, and what comes first in channels is a header: so this one is the
/// prompt's.
void openai_edge::begin_in_channels(const openai::chat_request& request,
                                    std::vector<protocols::token_id>& prompt) const {
  if (!request.sampling.constrained()) return;
  if (openai::harmony_parser::behind(end_of(prompt), request.continue_final_message) !=
      openai::harmony_parser::start::header)
    return;
  const auto opening = request.choice == openai::tool_choice::named
                           ? openai::harmony_parser::opening_of_call(request.chosen_tool)
                           : openai::harmony_parser::opening_of_text();
  const auto ids = options_.model.tokens->encode(opening, true);
  prompt.insert(prompt.end(), ids.begin(), ids.end());
}

/// Of its text so much as may have a marker in it, with the white space behind it.
std::string openai_edge::end_of(const std::vector<protocols::token_id>& prompt) const {
  constexpr std::size_t marker_tokens_max = 16;
  std::string end;
  for (auto i = prompt.size() - std::min(prompt.size(), marker_tokens_max); i < prompt.size(); ++i)
    end += options_.model.tokens->bytes(prompt[i]);
  return end;
}

protocols::reasoning_start openai_edge::reasoning_behind(const std::vector<protocols::token_id>& prompt) const {
  return openai::reasoning_splitter::behind(end_of(prompt));
}

std::shared_ptr<const openai::stop_patterns> openai_edge::stops_of(const call& what) const {
  const auto& common = *what.common;
  std::vector<std::string> own;
  const bool ends_turn = what.chat != nullptr && !common.stop.ignore_eos; // a turn's end is the sequence's end
  if (ends_turn && what.template_stops.empty() && options_.model.chat->writes(openai::chatml_end))
    own.emplace_back(openai::chatml_end);
  if (own.empty() && common.stop_strings.empty()) return nullptr;
  return std::make_shared<const openai::stop_patterns>(common.stop_strings, std::move(own));
}

openai_choice_options openai_edge::text_of(const call& what, std::size_t prompt, std::uint32_t index) const {
  const auto& common = *what.common;
  openai_choice_options text;
  text.index = index;
  text.tokens = options_.model.tokens;
  text.skip_special_tokens = common.skip_special_tokens;
  // As vLLM, which decodes with the prompt's last tokens in front; an answer in a turn of its own begins a text.
  text.goes_on =
      (what.chat == nullptr || what.chat->continue_final_message) &&
      std::ranges::any_of(what.prompts[prompt], [this](auto id) { return !options_.model.tokens->is_special(id); });
  text.stops = what.stops;
  if (what.chat != nullptr) call_tools(*what.chat, text);
  if (what.messages != nullptr) text.calls_begin = "toolu_";
  text.reasoning = what.reasoning;
  text.counts_prediction = what.chat != nullptr && !what.chat->prediction.empty();
  text.counts_reasoning = what.chat != nullptr && (options_.model.tells_reasoning || in_channels());
  if (what.chat != nullptr && in_channels() && !common.sampling.constrained()) {
    text.harmony.emplace();
    text.harmony->where =
        openai::harmony_parser::behind(end_of(what.prompts[prompt]), what.chat->continue_final_message);
    text.harmony->takes_calls = text.tools != openai::tool_format::none;
    text.harmony->calls_max = text.calls.calls_max;
    text.harmony->functions = text.calls.functions;
    text.skip_special_tokens = false;
  }
  if (text.reasoning != protocols::reasoning_start::off) { // its markers are special tokens in some vocabularies
    const auto marker = text.tokens->find(protocols::grammar::reasoning_tracker::opening);
    if (marker && text.tokens->is_special(*marker)) text.skip_special_tokens = false;
  }
  text.include_stop = common.include_stop_str_in_output;
  text.stop_token_ids = common.stop.stop_token_ids;
  text.min_tokens = common.stop.min_tokens;
  text.logprobs = common.sampling.logprobs >= 0;
  if (text.logprobs) text.logprobs_top = static_cast<std::size_t>(common.sampling.logprobs);
  text.tells_end = what.chat == nullptr;
  text.prompt_logprobs = common.prompt_logprobs_top && index % what.drawn == 0;
  if (text.prompt_logprobs) text.prompt_logprobs_top = *common.prompt_logprobs_top;
  text.only_prompt = common.only_prompt;
  text.prompt_tokens = static_cast<std::uint32_t>(what.prompts[prompt].size());
  if (what.echoes.empty()) return text;
  text.echo = what.echoes[prompt];
  if (text.logprobs) text.prompt = what.prompts[prompt];
  return text;
}

std::shared_ptr<submission> openai_edge::submission_of(const call& what, std::size_t prompt,
                                                       std::uint32_t sample) const {
  const auto& common = *what.common;
  auto one = std::make_shared<submission>();
  auto& request = one->request;
  request.prompt = what.prompts[prompt];
  request.sampling = common.sampling;
  if (request.sampling.constrained()) request.sampling.reasoning = what.reasoning;
  if (what.drawn > common.n) request.sampling.logprobs = std::max(request.sampling.logprobs, 0); // to choose by
  const bool echoes_logprobs = !what.echoes.empty() && common.sampling.logprobs >= 0;
  if (sample > 0 && !echoes_logprobs) request.sampling.prompt_logprobs = -1; // the first one's do for all
  request.stop = common.stop;
  auto room = room_behind(request.prompt);
  if (!common.has_max_tokens && common.sampling.logprobs >= 0) { // or a long context would tell more than the bound
    const auto told = what.prompts.size() * logprobs_a_token(what);
    room = std::min(room, std::max(usual_answer_tokens, options_.limits.logprobs_told_max / told));
  }
  if (common.beam_search) room = std::min(room, beam_tokens_max / common.n);
  const auto wanted = common.has_max_tokens          ? common.stop.max_tokens
                      : what.default_max_tokens != 0 ? what.default_max_tokens
                                                     : room;
  request.stop.max_tokens = static_cast<std::uint32_t>(std::min<std::uint64_t>(wanted, room));
  if (!common.stop.ignore_eos)
    request.stop.stop_token_ids.insert(request.stop.stop_token_ids.end(), what.template_stops.begin(),
                                       what.template_stops.end());
  request.prediction = what.prediction;
  request.priority = common.priority;
  request.execution_level = common.execution_level;
  request.cache_salt = protocols::salt_of_tenant(common.cache_salt, salt_key_);
  request.adapter = what.adapter;
  one->seeded = common.seed.has_value();
  request.sampling.seed = common.seed.value_or(0) + sample; // or all would be the same
  if (common.timeout_s > 0)                                 // 0 would be none
    one->timeout = std::chrono::nanoseconds(std::max<std::int64_t>(std::llround(common.timeout_s * 1e9), 1));
  one->ttft = what.objectives.ttft;
  one->tpot = what.objectives.tpot;
  return one;
}

std::unique_ptr<openai::answer_writer> openai_edge::writer_of(const call& what, openai::response_head head,
                                                              const std::string& items_id) const {
  const auto& common = *what.common;
  if (what.responses != nullptr)
    return std::make_unique<openai::responses_writer>(
        openai::responses_writer::form{std::move(head), items_id, what.responses->parameters, common.stream});
  if (what.messages != nullptr) {
    anthropic::messages_writer::form form;
    form.head = std::move(head);
    form.stream = common.stream;
    form.prompt_tokens = static_cast<std::uint32_t>(what.prompts.front().size());
    form.context_is_less = common.stop.max_tokens > room_behind(what.prompts.front());
    form.tells_thoughts = what.messages->tells_thoughts;
    form.manages_context = what.messages->manages_context;
    return std::make_unique<anthropic::messages_writer>(std::move(form));
  }
  openai::choices_writer::form form;
  if (what.chat != nullptr) form.endpoint = openai::chunk_writer::endpoint::chat;
  form.head = std::move(head);
  form.stream = common.stream;
  form.include_usage = common.include_usage;
  form.continuous_usage = common.continuous_usage;
  form.n = common.n;
  form.drawn = what.drawn;
  return std::make_unique<openai::choices_writer>(std::move(form));
}

void openai_edge::start(call what, const http::request& request, const exchange_ptr& exchange) {
  if (const auto error = fits(what)) return refuse(*error, request, exchange, what.common->request_id);
  const auto& common = *what.common;
  if (what.chat != nullptr)
    what.prediction = predicted(what.chat->prediction,
                                common.has_max_tokens ? common.stop.max_tokens : options_.model.context_length);
  const std::string prefix = what.messages != nullptr    ? "msg_"
                             : what.responses != nullptr ? "resp_"
                             : what.chat != nullptr      ? "chatcmpl-"
                                                         : "cmpl-";
  const auto id = common.request_id.empty() ? new_id(prefix.c_str()) : prefix + common.request_id;
  // A client's own id may come again, with the next turn of the same conversation.
  const auto parts_id = new_id("");
  openai_answer_options format;
  format.writer =
      writer_of(what, {id, what.adapter ? what.adapter.name : options_.model.name, options_.unix_time_s()}, parts_id);
  format.id = id;
  format.whose = api_of(request);
  format.stream = common.stream;
  format.drawn = what.drawn;
  format.heartbeat_s = common.heartbeat_s;
  format.ignored = list_of(common.unknown);
  format.retry_after_s = options_.retry_after_s;
  format.on_status = [family = answers_](int status) {
    if (family != nullptr) family->with({std::to_string(status)}).increment();
  };
  if (worker_)
    format.offload = [weak = std::weak_ptr(worker_)](std::function<void()> job) {
      const auto worker = weak.lock();
      return worker && worker->post(std::move(job));
    };
  const auto searches = std::make_shared<std::vector<std::weak_ptr<beam_searcher>>>(); // filled before it is asked
  format.withdraw = [gate = gate_, searches](std::shared_ptr<answer_sink> sink) {
    for (const auto& weak : *searches)
      if (const auto search = weak.lock()) search->stop();
    if (searches->empty()) gate->withdraw(std::move(sink));
  };
  format.span = span_of(*exchange);
  if (format.span) format.span->name_answer(id);
  const auto answer = std::make_shared<openai_answer>(exchange, std::move(format));

  what.stops = stops_of(what);
  std::vector<std::shared_ptr<openai_choice>> choices;
  std::vector<std::shared_ptr<submission>> submissions;
  for (std::size_t i = 0; i < what.prompts.size(); ++i) {
    std::shared_ptr<answer_sink> first_sample;
    for (std::uint32_t sample = 0; sample < what.drawn; ++sample) {
      const auto index = static_cast<std::uint32_t>(choices.size());
      auto text = text_of(what, i, index);
      text.id = parts_id;
      choices.push_back(std::make_shared<openai_choice>(answer, std::move(text)));
      auto one = submission_of(what, i, sample);
      one->client_id = id;
      one->sink = choices.back();
      one->first_sample = first_sample;
      if (sample == 0) first_sample = choices.back();
      submissions.push_back(std::move(one));
    }
  }
  answer->set_choices(choices);
  if (common.beam_search) return search_beams(common, std::move(submissions), *searches, exchange, answer);
  if (!gate_->submit(std::move(submissions))) return; // the sinks have answered
  // Last, so that a withdrawal comes after its submission.
  exchange->on_close([weak = std::weak_ptr(answer)] {
    if (const auto gone = weak.lock()) gone->client_gone();
  });
}

} // namespace godwit::actors
