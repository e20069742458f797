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
constexpr std::uint64_t deadline_stream = 5;
} // namespace

std::string workload_error::text(const std::string& name) const {
  if (line == 0) return message;
  return name + ":" + std::to_string(line) + ":" + std::to_string(column) + ": " + message;
}

std::vector<workload_request> make_workload(const workload_spec& spec) {
  auto out = std::vector<workload_request>(spec.requests);
  draw_arrivals(out, spec.arrivals, spec.seed);
  draw_lengths(out, spec.lengths, spec.seed);
  draw_priorities(out, spec.high_priority_share, spec.seed);
  return out;
}

void draw_arrivals(std::vector<workload_request>& requests, const arrival_process& process, std::uint64_t seed) {
  const auto times = arrival_times(process, requests.size(), seed);
  for (std::size_t i = 0; i < requests.size(); ++i) requests[i].arrival_ns = times[i];
}

void draw_lengths(std::vector<workload_request>& requests, const length_spec& lengths, std::uint64_t seed) {
  const auto prompts = draw_lengths(lengths.prompt, requests.size(), seed, prompt_stream);
  const auto answers = draw_lengths(lengths.answer, requests.size(), seed, answer_stream);
  for (std::size_t i = 0; i < requests.size(); ++i) {
    requests[i].prompt_tokens = prompts[i];
    requests[i].answer_tokens = answers[i];
    requests[i].prefix_hashes.clear();
  }
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

void draw_deadlines(std::vector<workload_request>& requests, std::int64_t least_ns, std::int64_t most_ns,
                    std::uint64_t seed) {
  counter_random random(seed, deadline_stream);
  for (auto& r : requests)
    r.deadline_ns =
        least_ns + static_cast<std::int64_t>(random.below(static_cast<std::uint64_t>(most_ns - least_ns) + 1));
}

} // namespace godwit::protocols::workload
