#include "main/bench_prompt.hpp"

#include <godwit/protocols/workload/random.hpp>

#include <boost/json.hpp>

#include <algorithm>
#include <iterator>
#include <string_view>

namespace godwit::main {

namespace json = boost::json;
using protocols::workload::counter_random;
using protocols::workload::tokens_per_prefix_hash;
using protocols::workload::workload_request;

namespace {

constexpr std::uint32_t id_low = 10;
constexpr std::uint32_t id_end = 250;

// Frequent enough that most tokenizers have them whole.
constexpr std::string_view vocabulary_words[] = {
    "the",   "of",   "and",  "to",   "in",   "that", "is",    "was",   "for",   "it",    "with", "as",    "his",
    "on",    "be",   "at",   "by",   "had",  "not",  "are",   "but",   "from",  "or",    "have", "an",    "they",
    "which", "one",  "you",  "were", "her",  "all",  "she",   "there", "would", "their", "we",   "him",   "been",
    "has",   "when", "who",  "will", "more", "no",   "if",    "out",   "so",    "said",  "what", "up",    "its",
    "about", "into", "than", "them", "can",  "only", "other", "new",   "some",  "could", "time", "these", "two"};

} // namespace

std::vector<std::uint32_t> prompt_writer::draw(const workload_request& request, std::size_t index, std::uint32_t low,
                                               std::uint32_t high) const {
  auto out = std::vector<std::uint32_t>{};
  out.reserve(request.prompt_tokens);
  const auto append = [&](counter_random random, std::size_t count) {
    for (std::size_t i = 0; i < count; ++i) out.push_back(low + static_cast<std::uint32_t>(random.below(high - low)));
  };
  // Streams: the requests' own prompts have odd numbers, shared prefixes even ones.
  for (const auto hash : request.prefix_hashes)
    append(counter_random(settings_.seed, 2 * hash),
           std::min<std::size_t>(tokens_per_prefix_hash, request.prompt_tokens - out.size()));
  append(counter_random(settings_.seed, 2 * std::uint64_t{index} + 1), request.prompt_tokens - out.size());
  return out;
}

std::vector<std::uint32_t> prompt_writer::ids(const workload_request& request, std::size_t index) const {
  if (settings_.vocabulary == 0) return draw(request, index, id_low, id_end);
  return draw(request, index, settings_.vocabulary > 2 * id_low ? id_low : 0, settings_.vocabulary);
}

std::string prompt_writer::words(const workload_request& request, std::size_t index) const {
  auto out = std::string{};
  for (const auto i : draw(request, index, 0, static_cast<std::uint32_t>(std::size(vocabulary_words)))) {
    if (!out.empty()) out += ' ';
    out += vocabulary_words[i];
  }
  return out;
}

std::string prompt_writer::body(const workload_request& request, std::size_t index) const {
  auto out = json::object{};
  out["model"] = settings_.model;
  if (settings_.endpoint == bench_endpoint::chat) {
    out["messages"] = json::array{json::object{{"role", "user"}, {"content", words(request, index)}}};
  } else {
    const auto tokens = ids(request, index);
    out["prompt"] = json::array(tokens.begin(), tokens.end());
  }
  out["max_tokens"] = request.answer_tokens;
  out["temperature"] = settings_.temperature;
  out["seed"] = counter_random(settings_.seed, 2 * std::uint64_t{index} + 1).at(request.prompt_tokens) >> 33U;
  out["stream"] = true;
  out["stream_options"] = json::object{{"include_usage", true}};
  if (settings_.ignore_eos) out["ignore_eos"] = true; // an extension that strict servers refuse
  if (!settings_.priority.empty() && request.priority > 0) {
    out["priority"] = -static_cast<int>(request.priority); // lower goes first
    out["execution_priority"] = settings_.priority;
  }
  return json::serialize(out);
}

} // namespace godwit::main
