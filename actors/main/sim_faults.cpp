#include "main/sim_faults.hpp"

#include <boost/json.hpp>
#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <chrono>

namespace godwit::main {

namespace json = boost::json;

namespace {

constexpr std::size_t lines_max = 20;

double seconds_of(std::chrono::nanoseconds time) { return std::chrono::duration<double>(time).count(); }

json::object object_of(const std::map<std::string, std::uint64_t>& counts) {
  json::object out;
  for (const auto& [name, count] : counts) out[name] = count;
  return out;
}

std::string list(const std::map<std::string, std::uint64_t>& counts) {
  std::string out;
  for (const auto& [name, count] : counts) out += fmt::format("{}{} {}", out.empty() ? "" : ", ", count, name);
  return out;
}

std::uint64_t sum(const std::map<std::string, std::uint64_t>& counts) {
  std::uint64_t out = 0;
  for (const auto& [name, count] : counts) out += count;
  return out;
}

} // namespace

fault_report make_fault_report(const actors::sim::simulation_result& run) {
  fault_report out;
  for (const auto& record : run.faults.records) out.faults.emplace_back(to_string(record.what), record.why_not);
  out.struck = run.faults.struck;
  out.missed = run.faults.missed;
  out.early_end = run.faults.early_end;
  out.failures = run.failures;
  std::vector<double> interrupted;
  std::size_t answered = 0, counts = 0;
  for (const auto& r : run.requests) {
    counts += !run.interrupted_at_ns || r.arrival_ns >= 0 ? 1 : 0;
    answered += r.answered() ? 1 : 0;
    out.losses += r.losses;
    out.requests_lost += r.losses > 0 ? 1 : 0;
    if (r.interrupted_ns > 0) interrupted.push_back(static_cast<double>(r.interrupted_ns) * 1e-6);
  }
  out.interrupted_ms = summarise(std::move(interrupted));
  const auto share = [](double part, double whole) { return whole > 0 ? part / whole : 0.0; };
  out.answered_share = share(static_cast<double>(answered), static_cast<double>(counts));
  out.ready_share = share(seconds_of(run.instances.ready_time), seconds_of(run.instances.wanted_time));
  out.none_s = seconds_of(run.instances.none_time);
  return out;
}

std::string to_table(const fault_report& r) {
  auto out =
      fmt::format("\n{:<20}{} struck{}{}", "faults", sum(r.struck), r.struck.empty() ? "" : ": ", list(r.struck));
  if (r.missed > 0) out += fmt::format("; {} found nothing to strike", r.missed);
  if (r.early_end > 0) out += fmt::format("; {} planned after the end", r.early_end);
  out += '\n';
  for (std::size_t i = 0; i < std::min(r.faults.size(), lines_max); ++i) {
    const auto& [what, why_not] = r.faults[i];
    out += "  " + what + (why_not.empty() ? "" : "  not: " + why_not) + '\n';
  }
  if (const auto all = sum(r.struck) + r.missed; all > lines_max)
    out += fmt::format("  and {} more; --json has {}\n", all - lines_max, all > r.faults.size() ? "the first" : "all");
  out += fmt::format("{:<20}{} requests, {} times", "dispatched again", r.requests_lost, r.losses);
  if (r.interrupted_ms.count > 0)
    out += fmt::format("; {} answers interrupted for {:.2f} ms, at most {:.2f} ms", r.interrupted_ms.count,
                       r.interrupted_ms.mean, r.interrupted_ms.max);
  out += '\n';
  for (const auto& [cause, count] : r.failures) out += fmt::format("{:<20}{}: {}\n", "failed", count, cause);
  out += fmt::format("{:<20}{:.3f} % of the requests answered; {:.3f} % of the instances' time; {:.1f} s without any\n",
                     "availability", 100 * r.answered_share, 100 * r.ready_share, r.none_s);
  return out;
}

json::object to_object(const fault_report& r) {
  json::array faults;
  for (const auto& [what, why_not] : r.faults)
    faults.push_back(
        json::object{{"fault", what}, {"why_not", why_not.empty() ? json::value() : json::value(why_not)}});
  const auto& t = r.interrupted_ms;
  return {{"faults", std::move(faults)},
          {"struck", object_of(r.struck)},
          {"missed", r.missed},
          {"after_the_end", r.early_end},
          {"dispatched_again", json::object{{"requests", r.requests_lost}, {"times", r.losses}}},
          {"interrupted_ms",
           json::object{
               {"count", t.count}, {"mean", t.mean}, {"p50", t.p50}, {"p90", t.p90}, {"p99", t.p99}, {"max", t.max}}},
          {"failures", object_of(r.failures)},
          {"availability",
           json::object{{"requests", r.answered_share}, {"instances", r.ready_share}, {"none_s", r.none_s}}}};
}

} // namespace godwit::main
