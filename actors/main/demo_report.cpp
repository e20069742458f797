#include "main/demo_report.hpp"

#include "main/latency_stats.hpp"

#include <boost/json.hpp>
#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <array>
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

boost::json::object json_of(const demo_play& round) {
  boost::json::object out{{"seconds", round.seconds},
                          {"tokens", tokens_of(round.answers)},
                          {"tokens_per_second", static_cast<double>(tokens_of(round.answers)) / round.seconds}};
  for (const auto& r : rows()) {
    const auto p = over(round.answers, r.read);
    out[r.key] = boost::json::object{{"p50", p.p50}, {"p90", p.p90}, {"p99", p.p99}};
  }
  return out;
}

} // namespace

std::size_t demo_report::complete(const demo_play& round) const {
  return static_cast<std::size_t>(
      std::ranges::count_if(round.answers, [](const demo_answer& a) { return a.error.empty(); }));
}

std::size_t demo_report::equal(const demo_play& round) const {
  std::size_t count = 0;
  for (std::size_t i = 0; i < std::min(calm.answers.size(), round.answers.size()); ++i)
    if (same_text(calm.answers[i], round.answers[i])) ++count;
  return count;
}

bool demo_report::identical() const {
  const auto all = calm.answers.size();
  return all > 0 && complete(migrated) == all && equal(migrated) == all && complete(killed) == all &&
         equal(killed) == all;
}

bool demo_report::passed() const { return identical() && moved.committed > 0 && redispatched > 0; }

std::string demo_table(const demo_report& report) {
  const std::array plays{&report.calm, &report.migrated, &report.killed};
  auto out = fmt::format("{:<20}", "");
  for (const auto* play : plays) out += fmt::format("{:>28}", play->title);
  out += fmt::format("\n{:<20}", "milliseconds");
  for (std::size_t i = 0; i < plays.size(); ++i) out += fmt::format("{:>10}{:>9}{:>9}", "P50", "P90", "P99");
  for (const auto& r : rows()) {
    out += fmt::format("\n{:<20}", r.name);
    for (const auto* play : plays) {
      const auto p = over(play->answers, r.read);
      out += fmt::format("{:>10.1f}{:>9.1f}{:>9.1f}", p.p50, p.p90, p.p99);
    }
  }
  out += fmt::format("\n{:<20}", "tokens per second");
  for (const auto* play : plays)
    out += fmt::format("{:>28.0f}", static_cast<double>(tokens_of(play->answers)) / play->seconds);
  return out + "\n";
}

std::string demo_json(const demo_report& report) {
  const auto stall = summarise(report.moved.stall_ms);
  return boost::json::serialize(boost::json::object{
      {"model", report.model},
      {"instances", report.instances},
      {"requests", report.calm.answers.size()},
      {"identical", report.identical()},
      {"passed", report.passed()},
      {"migrations", report.moved.committed},
      {"migrations_ordered", report.moved.ordered},
      {"migrated_bytes", report.moved.bytes},
      {"migration_stall_ms", boost::json::object{{"p50", stall.p50}, {"p90", stall.p90}, {"p99", stall.p99}}},
      {"killed_instance", report.killed_instance},
      {"redispatched", report.redispatched},
      {"restarts", report.restarts},
      {report.calm.key, json_of(report.calm)},
      {report.migrated.key, json_of(report.migrated)},
      {report.killed.key, json_of(report.killed)}});
}

} // namespace godwit::main
