#include <godwit/protocols/lengths/history_predictor.hpp>

#include <godwit/protocols/kv/block_hash.hpp>

#include <algorithm>
#include <bit>
#include <cmath>
#include <utility>

namespace godwit::protocols {

namespace {

constexpr std::array<std::size_t, 3> openings{16, 64, 256}; // tokens

/// Two classes to an octave.
std::uint64_t about(std::size_t tokens) noexcept {
  const auto octave = static_cast<std::uint64_t>(std::bit_width(tokens));
  return 2 * octave + (octave > 1 ? (tokens >> (octave - 2)) & 1U : 0);
}

std::uint64_t name_of(std::uint64_t kind, std::uint64_t what, std::uint64_t salt) noexcept {
  const std::array<token_id, 3> parts{static_cast<token_id>(kind), static_cast<token_id>(what & 0xffffffffU),
                                      static_cast<token_id>(what >> 32U)};
  return hash_block(root_hash, parts, salt);
}

/// From the widest on.
void contexts_of(const length_question& q, std::vector<std::uint64_t>& names) {
  enum kind : std::uint64_t { all, length, opening, opening_and_length, prompt };
  names.clear();
  names.push_back(name_of(all, 0, 0)); // how long answers are on the whole is no tenant's secret
  names.push_back(name_of(length, about(q.prompt.size()), 0));
  block_hash hash = root_hash;
  std::size_t hashed = 0;
  for (const auto end : openings) {
    if (q.prompt.size() < end) break;
    hash = hash_block(hash, q.prompt.subspan(hashed, end - hashed), q.salt);
    hashed = end;
    names.push_back(name_of(opening, hash, q.salt));
  }
  if (hashed > 0) names.push_back(name_of(opening_and_length, hash ^ about(q.prompt.size()), q.salt));
  if (hashed < q.prompt.size()) hash = hash_block(hash, q.prompt.subspan(hashed), q.salt);
  names.push_back(name_of(prompt, hash, q.salt));
}

} // namespace

history_predictor::history_predictor(std::size_t contexts_max)
    : contexts_max_(std::max<std::size_t>(contexts_max, 8)) {}

history_predictor::context* history_predictor::find(std::uint64_t name) {
  const auto known = contexts_.find(name);
  if (known == contexts_.end()) return nullptr;
  by_use_.splice(by_use_.begin(), by_use_, known->second.used);
  return &known->second;
}

history_predictor::context& history_predictor::at(std::uint64_t name) {
  if (auto* const known = find(name)) return *known;
  if (contexts_.size() >= contexts_max_) {
    contexts_.erase(by_use_.back());
    by_use_.pop_back();
  }
  by_use_.push_front(name);
  auto& made = contexts_[name];
  made.used = by_use_.begin();
  return made;
}

history_predictor::expectation history_predictor::expect() {
  expectation out;
  for (const auto name : names_) {
    const auto* const seen = find(name);
    if (seen == nullptr || seen->count <= 0) continue;
    const double weight = std::exchange(out.known, true) ? seen->count / (seen->count + lent) : 1;
    out.mean += weight * (seen->tokens / seen->count - out.mean);
    for (std::size_t i = 0; i < out.likely.size(); ++i)
      out.likely[i] += weight * (seen->answers[i] / seen->count - out.likely[i]);
  }
  return out;
}

length_forecast history_predictor::predict(const length_question& question) {
  contexts_of(question, names_);
  const auto expected = expect();
  if (!expected.known) return {};
  length_forecast out;
  const auto cap = std::max<std::uint32_t>(question.max_tokens, 1);
  out.tokens = static_cast<std::uint32_t>(std::clamp(std::round(expected.mean), 1.0, static_cast<double>(cap)));
  const auto best = std::ranges::max_element(expected.likely) - expected.likely.begin();
  out.most_likely = std::min(static_cast<std::uint32_t>(best), length_class(cap));
  return out;
}

void history_predictor::ended(const length_question& question, std::uint32_t answer_tokens) {
  contexts_of(question, names_);
  if (answer_tokens >= question.max_tokens)
    if (const auto expected = expect(); expected.known && expected.mean >= answer_tokens) return;
  // The widest last: it is the one to be kept.
  for (auto name = names_.rbegin(); name != names_.rend(); ++name) {
    auto& seen = at(*name);
    if (seen.count >= kept_max) {
      seen.count /= 2;
      seen.tokens /= 2;
      for (auto& answers : seen.answers) answers /= 2;
    }
    seen.count += 1;
    seen.tokens += answer_tokens;
    seen.answers[length_class(answer_tokens)] += 1;
  }
}

} // namespace godwit::protocols
