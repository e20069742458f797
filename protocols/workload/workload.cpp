#include <godwit/protocols/workload/random.hpp>
#include <godwit/protocols/workload/workload.hpp>

#include <algorithm>
#include <cassert>
#include <cmath>

namespace godwit::protocols::workload {

namespace {
constexpr std::uint64_t prompt_stream = 2;
constexpr std::uint64_t answer_stream = 3;
constexpr std::uint64_t priority_stream = 4;
} // namespace

std::string workload_error::text(const std::string& name) const {
  if (line == 0) return message;
  return name + ":" + std::to_string(line) + ":" + std::to_string(column) + ": " + message;
}

std::vector<workload_request> make_workload(const workload_spec& spec) {
  const auto arrivals = arrival_times(spec.arrivals, spec.requests, spec.seed);
  const auto prompts = draw_lengths(spec.lengths.prompt, spec.requests, spec.seed, prompt_stream);
  const auto answers = draw_lengths(spec.lengths.answer, spec.requests, spec.seed, answer_stream);
  auto out = std::vector<workload_request>(spec.requests);
  for (std::size_t i = 0; i < out.size(); ++i) {
    out[i].arrival_ns = arrivals[i];
    out[i].prompt_tokens = prompts[i];
    out[i].answer_tokens = answers[i];
  }
  draw_priorities(out, spec.high_priority_share, spec.seed);
  return out;
}

void draw_priorities(std::vector<workload_request>& requests, double share, std::uint64_t seed) {
  auto random = counter_random(seed, priority_stream);
  for (auto& r : requests) r.priority = random.unit() < share ? 1 : 0;
}

void scale_rate(std::vector<workload_request>& requests, double factor) {
  assert(factor > 0.0 && std::isfinite(factor));
  constexpr double arrival_ns_max = 1e18;
  for (auto& r : requests)
    r.arrival_ns = static_cast<std::int64_t>(std::min(static_cast<double>(r.arrival_ns) / factor, arrival_ns_max));
}

std::size_t clamp_to_context(std::vector<workload_request>& requests, std::uint32_t context) {
  assert(context >= 2);
  std::size_t changed = 0;
  for (auto& r : requests) {
    if (std::uint64_t{r.prompt_tokens} + r.answer_tokens <= context) continue;
    ++changed;
    // A long prompt with a short answer keeps its answer; otherwise each may have half.
    const auto prompt = std::min(r.prompt_tokens, context - std::min(r.answer_tokens, context / 2));
    r.answer_tokens = std::min(r.answer_tokens, context - prompt);
    r.prompt_tokens = prompt;
    const auto hashes = (std::size_t{prompt} + tokens_per_prefix_hash - 1) / tokens_per_prefix_hash;
    if (r.prefix_hashes.size() > hashes) r.prefix_hashes.resize(hashes);
  }
  return changed;
}

} // namespace godwit::protocols::workload
