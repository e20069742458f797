#include "main/demo_report.hpp"

#include "main/latency_stats.hpp"

#include <boost/json.hpp>
#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <functional>

namespace godwit::main {

namespace {

using reader = std::function<void(const demo_answer&, std::vector<double>&)>;

latency_stats over(const std::vector<demo_answer>& answers, const reader& read) {
  std::vector<double> values;
  for (const auto& answer : answers) read(answer, values);
  return summarise(std::move(values));
}

struct row {
  const char* name;
  const char* key;
  reader read;
};

const std::vector<row>& rows() {
  static const std::vector<row> table{
      {"time to first token", "ttft_ms",
       [](const demo_answer& a, std::vector<double>& out) { out.push_back(a.first_token_ms); }},
      {"between tokens", "itl_ms",
       [](const demo_answer& a, std::vector<double>& out) {
         out.insert(out.end(), a.gaps_ms.begin(), a.gaps_ms.end());
       }},
      {"longest pause", "pause_ms",
       [](const demo_answer& a, std::vector<double>& out) { out.push_back(a.longest_pause_ms); }},
      {"whole answer", "e2e_ms", [](const demo_answer& a, std::vector<double>& out) { out.push_back(a.total_ms); }},
  };
  return table;
}

std::uint64_t tokens_of(const std::vector<demo_answer>& answers) {
  std::uint64_t sum = 0;
  for (const auto& answer : answers) sum += answer.tokens;
  return sum;
}

boost::json::object json_of(const std::vector<demo_answer>& answers, double seconds) {
  boost::json::object out{{"seconds", seconds},
                          {"tokens", tokens_of(answers)},
                          {"tokens_per_second", static_cast<double>(tokens_of(answers)) / seconds}};
  for (const auto& r : rows()) {
    const auto p = over(answers, r.read);
    out[r.key] = boost::json::object{{"p50", p.p50}, {"p90", p.p90}, {"p99", p.p99}};
  }
  return out;
}

} // namespace

std::size_t demo_report::complete() const {
  return static_cast<std::size_t>(
      std::count_if(disturbed.begin(), disturbed.end(), [](const demo_answer& a) { return a.error.empty(); }));
}

std::size_t demo_report::equal() const {
  std::size_t count = 0;
  for (std::size_t i = 0; i < std::min(calm.size(), disturbed.size()); ++i)
    if (same_text(calm[i], disturbed[i])) ++count;
  return count;
}

bool demo_report::passed() const {
  return redispatched > 0 && !calm.empty() && complete() == calm.size() && equal() == calm.size();
}

std::string demo_table(const demo_report& report) {
  auto out = fmt::format("{:<22}{:>30}{:>30}\n", "", "undisturbed", "an instance killed");
  out += fmt::format("{:<22}{:>10}{:>10}{:>10}{:>10}{:>10}{:>10}\n", "milliseconds", "P50", "P90", "P99", "P50", "P90",
                     "P99");
  for (const auto& r : rows()) {
    const auto a = over(report.calm, r.read);
    const auto b = over(report.disturbed, r.read);
    out += fmt::format("{:<22}{:>10.1f}{:>10.1f}{:>10.1f}{:>10.1f}{:>10.1f}{:>10.1f}\n", r.name, a.p50, a.p90, a.p99,
                       b.p50, b.p90, b.p99);
  }
  out +=
      fmt::format("{:<22}{:>30}{:>30}\n", "tokens per second",
                  fmt::format("{:.0f}", static_cast<double>(tokens_of(report.calm)) / report.calm_seconds),
                  fmt::format("{:.0f}", static_cast<double>(tokens_of(report.disturbed)) / report.disturbed_seconds));
  return out;
}

std::string demo_json(const demo_report& report) {
  return boost::json::serialize(
      boost::json::object{{"model", report.model},
                          {"instances", report.instances},
                          {"requests", report.calm.size()},
                          {"complete", report.complete()},
                          {"identical", report.equal() == report.calm.size()},
                          {"passed", report.passed()},
                          {"killed_instance", report.killed_instance},
                          {"redispatched", report.redispatched},
                          {"restarts", report.restarts},
                          {"undisturbed", json_of(report.calm, report.calm_seconds)},
                          {"disturbed", json_of(report.disturbed, report.disturbed_seconds)}});
}

} // namespace godwit::main
