#include "openai/parse_common.hpp"

#include "openai/parse_beams.hpp"
#include "openai/parse_response_format.hpp"
#include "openai/unsupported.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <limits>

namespace godwit::protocols::openai {

namespace json = boost::json;

namespace {

constexpr auto float_limit = std::numeric_limits<float>::max();
constexpr std::size_t request_id_bytes_max = 128;

void parse_sampling(json_reader& body, const request_defaults& defaults, common_request& into) {
  auto& s = into.sampling;
  s.temperature = body.number("temperature", 0.0F, 2.0F).value_or(defaults.temperature);
  s.top_p = body.number("top_p", 0.0F, 1.0F, true).value_or(defaults.top_p);
  // vLLM: -1 is another way to say 0.
  s.top_k = static_cast<std::int32_t>(std::max<std::int64_t>(
      0, body.integer("top_k", -1, std::numeric_limits<std::int32_t>::max()).value_or(defaults.top_k)));
  s.min_p = body.number("min_p", 0.0F, 1.0F).value_or(defaults.min_p);
  s.presence_penalty = body.number("presence_penalty", -2.0F, 2.0F).value_or(0.0F);
  s.frequency_penalty = body.number("frequency_penalty", -2.0F, 2.0F).value_or(0.0F);
  s.repetition_penalty =
      body.number("repetition_penalty", 0.0F, float_limit, true).value_or(defaults.repetition_penalty);
  if (const auto seed =
          body.integer("seed", std::numeric_limits<std::int64_t>::min(), std::numeric_limits<std::int64_t>::max());
      seed && *seed != -1) // vLLM and llama.cpp: any
    into.seed = static_cast<std::uint64_t>(*seed);
}

/// {"token id": bias, ...}
void parse_logit_bias(json_reader& body, const request_limits& limits, common_request& into) {
  const auto* biases = body.object("logit_bias");
  if (biases == nullptr) return;
  if (biases->size() > limits.logit_bias_max)
    fail(invalid_value("logit_bias", "'logit_bias' may name up to " + std::to_string(limits.logit_bias_max) +
                                         " tokens, not " + std::to_string(biases->size()) + "."));
  const auto maximum = limits.vocabulary > 0 ? std::int64_t{limits.vocabulary} - 1 : tokens_limit;
  json_reader reader{*biases, "logit_bias"};
  for (const auto& entry : *biases) {
    const std::string_view name{entry.key().data(), entry.key().size()};
    std::int64_t id = -1;
    const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), id);
    if (error != std::errc{} || end != name.data() + name.size() || id < 0 || id > maximum ||
        name != std::to_string(id))
      fail(invalid_value("logit_bias", "'logit_bias' names token ids from 0 to " + std::to_string(maximum) + ", not '" +
                                           std::string{name.substr(0, 32)} + "'."));
    if (const auto bias = reader.number(name, -100.0F, 100.0F))
      into.sampling.logit_bias.emplace_back(static_cast<token_id>(id), *bias);
  }
}

void parse_choices(json_reader& body, const request_limits& limits, common_request& into) {
  into.n = static_cast<std::uint32_t>(body.integer("n", 1, limits.choices_max).value_or(1));
  if (const auto count = body.integer("prompt_logprobs", 0, limits.logprobs_max)) {
    into.sampling.prompt_logprobs = static_cast<std::int32_t>(*count);
    into.prompt_logprobs_top = static_cast<std::uint32_t>(*count);
    if (body.boolean("stream").value_or(false))
      fail(invalid_value("prompt_logprobs", "'prompt_logprobs' is not there with 'stream': true."));
  }
}

void parse_timeout(json_reader& body, const request_limits& limits, common_request& into) {
  into.timeout_s =
      static_cast<double>(body.number("timeout", 0.0F, static_cast<float>(limits.timeout_s_max), true).value_or(0.0F));
}

void parse_lengths(json_reader& body, common_request& into) {
  auto length = body.integer("max_completion_tokens", 1, tokens_limit);
  const auto older_name = body.integer("max_tokens", into.only_prompt || length ? 0 : 1, tokens_limit);
  const std::string_view field = length ? "max_completion_tokens" : "max_tokens";
  if (!length) length = older_name;
  if (length == 0) length = 1; // drawn, and left out
  parse_length(body, field, length, into);
}

void add_stop(const json::value& value, const std::string& path, const request_limits& limits, common_request& into) {
  if (!value.is_string()) fail_type(path, "a string", value);
  auto text = text_of(value);
  if (text.empty()) fail(invalid_value(path, "A stop string must not be empty."));
  if (text.size() > limits.stop_bytes_max)
    fail(invalid_value(path, "A stop string may have " + std::to_string(limits.stop_bytes_max) +
                                 " bytes, this one has " + std::to_string(text.size()) + "."));
  into.stop_strings.push_back(std::move(text));
}

void parse_stops(json_reader& body, dialect words, const request_limits& limits, common_request& into) {
  const std::string field = words == dialect::messages ? "stop_sequences" : "stop";
  if (const auto* stop = body.value(field)) {
    if (const auto* list = stop->if_array()) {
      if (list->size() > limits.stops_max)
        fail(invalid_value(field, "'" + field + "' may have up to " + std::to_string(limits.stops_max) +
                                      " strings, not " + std::to_string(list->size()) + "."));
      for (std::size_t i = 0; i < list->size(); ++i)
        add_stop((*list)[i], field + "[" + std::to_string(i) + "]", limits, into);
    } else if (stop->is_string()) {
      add_stop(*stop, field, limits, into);
    } else {
      fail_type(field, "a string or an array of strings", *stop);
    }
  }
  if (const auto* ids = body.array("stop_token_ids")) {
    if (ids->size() > limits.stop_token_ids_max)
      fail(invalid_value("stop_token_ids", "'stop_token_ids' may have up to " +
                                               std::to_string(limits.stop_token_ids_max) + " tokens, not " +
                                               std::to_string(ids->size()) + "."));
    into.stop.stop_token_ids = parse_tokens(*ids, "stop_token_ids", limits.vocabulary);
  }
  into.stop.ignore_eos = body.boolean("ignore_eos").value_or(false);
  into.include_stop_str_in_output = body.boolean("include_stop_str_in_output").value_or(false);
}

void parse_stream(json_reader& body, common_request& into) {
  into.stream = body.boolean("stream").value_or(false);
  const auto* options = body.object("stream_options");
  if (options == nullptr) return;
  if (!into.stream) fail(invalid_value("stream_options", "'stream_options' is allowed only with 'stream': true."));
  json_reader reader{*options, "stream_options"};
  into.include_usage = reader.boolean("include_usage").value_or(false);
  into.continuous_usage = reader.boolean("continuous_usage_stats").value_or(false) && into.include_usage;
  static_cast<void>(reader.boolean("include_obfuscation")); // that there may be some says nothing of how much
  into.heartbeat_s = static_cast<std::uint32_t>(reader.integer("heartbeat_interval", 1, 3600).value_or(0));
  add_unasked(reader, into);
}

/// Who is served first, and who decodes undisturbed.
void parse_priorities(json_reader& body, const request_limits& limits, common_request& into) {
  into.priority = static_cast<std::int32_t>(
      body.integer("priority", std::numeric_limits<std::int32_t>::min(), std::numeric_limits<std::int32_t>::max())
          .value_or(0));
  const auto name = body.text("execution_priority");
  if (!name) return;
  const auto& levels = limits.execution_levels;
  const auto found = std::ranges::find(levels, *name);
  if (found == levels.end()) {
    std::string known;
    for (const auto& level : levels) known += (known.empty() ? "'" : ", '") + level + "'";
    fail(invalid_value("execution_priority", "There is no execution priority '" + name->substr(0, 64) +
                                                 "'; 'execution_priority' is one of " + known + "."));
  }
  into.execution_level = static_cast<std::uint8_t>(found - levels.begin());
}

void parse_identity(json_reader& body, dialect words, common_request& into) {
  into.model = body.text("model").value_or("");
  into.user = body.text("user").value_or("");
  into.cache_salt = body.text("cache_salt").value_or("");
  into.request_id = body.text("request_id").value_or("");
  if (!is_request_id(into.request_id))
    fail(invalid_value("request_id", "'request_id' may have up to " + std::to_string(request_id_bytes_max) +
                                         " letters, digits and '-', '_', '.'."));
  // Labels for the provider's own records: checked, without effect on the answer.
  static_cast<void>(body.text("safety_identifier"));
  static_cast<void>(body.text("prompt_cache_key"));
  static_cast<void>(body.text("prompt_cache_retention"));
  if (words != dialect::messages) {
    static_cast<void>(body.boolean("store")); // nothing is
    // Whoever asks for a tier is told at OpenAI, too, which one there was.
    constexpr std::array<std::string_view, 5> tiers{"auto", "default", "flex", "scale", "priority"};
    if (const auto tier = body.text("service_tier"); tier && std::ranges::find(tiers, *tier) == tiers.end())
      fail(invalid_value("service_tier", "'service_tier' must be 'auto', 'default', 'flex', 'scale' or 'priority'."));
  }
  if (const auto* metadata = body.object("metadata"))
    for (const auto& field : *metadata)
      if (!field.value().is_string() && !(words == dialect::messages && field.value().is_null()))
        fail_type("metadata." + std::string{field.key().data(), field.key().size()}, "a string", field.value());
}

} // namespace

bool is_request_id(std::string_view text) noexcept {
  const auto harmless = [](char c) {
    return (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || c == '-' || c == '_' ||
           c == '.';
  };
  return text.size() <= request_id_bytes_max && std::ranges::all_of(text, harmless);
}

std::vector<token_id> parse_tokens(const json::array& from, const std::string& path, std::uint32_t vocabulary) {
  std::vector<token_id> tokens;
  tokens.reserve(from.size());
  const auto maximum = vocabulary > 0 ? std::int64_t{vocabulary} - 1 : tokens_limit;
  for (std::size_t i = 0; i < from.size(); ++i) {
    const auto id = from[i].is_number() ? integral(from[i]) : std::nullopt;
    if (!id || *id < 0 || *id > maximum) {
      const auto place = path + "[" + std::to_string(i) + "]";
      if (!from[i].is_number()) fail_type(place, "a token id", from[i]);
      fail(invalid_value(place, "'" + place + "' must be a token id from 0 to " + std::to_string(maximum) + "."));
    }
    tokens.push_back(static_cast<token_id>(*id));
  }
  return tokens;
}

void parse_length(json_reader& body, std::string_view field, std::optional<std::int64_t> tokens, common_request& into) {
  into.length_field = field;
  if (tokens) {
    into.has_max_tokens = into.length_given = true;
    into.stop.max_tokens = static_cast<std::uint32_t>(*tokens);
  }
  into.stop.min_tokens = static_cast<std::uint32_t>(body.integer("min_tokens", 0, tokens_limit).value_or(0));
  if (into.has_max_tokens && into.stop.min_tokens > into.stop.max_tokens)
    fail(invalid_value("min_tokens", "'min_tokens' (" + std::to_string(into.stop.min_tokens) + ") must not exceed '" +
                                         into.length_field + "' (" + std::to_string(into.stop.max_tokens) + ")."));
}

void add_unasked(const json_reader& from, common_request& into) {
  for (auto& name : from.unasked()) into.unknown.push_back(std::move(name));
}

void parse_shared(json_reader& body, dialect words, const request_defaults& defaults, const request_limits& limits,
                  common_request& into) {
  refuse_unsupported_everywhere(body, limits, into);
  parse_identity(body, words, into);
  parse_priorities(body, limits, into);
  parse_sampling(body, defaults, into);
  parse_logit_bias(body, limits, into);
  parse_timeout(body, limits, into);
  parse_stops(body, words, limits, into);
  parse_stream(body, into);
  into.skip_special_tokens = body.boolean("skip_special_tokens").value_or(true);
}

void parse_common(json_reader& body, const request_defaults& defaults, const request_limits& limits,
                  common_request& into) {
  parse_shared(body, dialect::chat, defaults, limits, into);
  parse_choices(body, limits, into);
  parse_lengths(body, into);
  parse_response_format(body, limits, into);
  parse_beams(body, limits, into);
}

} // namespace godwit::protocols::openai
