#include "main/trace_command.hpp"
#include "main/trace_input.hpp"
#include "main/trace_output.hpp"

#include <godwit/runtime/trace/analysis/labels.hpp>
#include <godwit/runtime/trace/analysis/slow.hpp>

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <functional>
#include <iostream>
#include <memory>
#include <numeric>
#include <set>

namespace godwit::main {

namespace json = boost::json;
namespace analysis = runtime::trace::analysis;

using analysis::duration_text;
using analysis::harmless;
using analysis::label;
using analysis::spent;

namespace {

struct slow_options {
  std::vector<std::string> files;
  std::string request;
  std::size_t count = 5;
  std::size_t steps = 40;
  bool json = false;
};

double share(std::int64_t part, std::int64_t whole) {
  return whole > 0 ? 100 * static_cast<double>(part) / static_cast<double>(whole) : 0;
}

std::string summary(const analysis::request_path& path) {
  const auto whole = path.request.duration_ns();
  std::vector<std::pair<std::int64_t, spent>> sums;
  for (std::size_t i = 0; i < analysis::spent_kinds; ++i)
    if (path.sums[i] > 0) sums.emplace_back(path.sums[i], static_cast<spent>(i));
  std::sort(sums.rbegin(), sums.rend());
  std::string out;
  for (const auto& [ns, how] : sums)
    out += fmt::format("{}{} {:.1f}%", out.empty() ? "" : ", ", to_string(how), share(ns, whole));
  return out;
}

std::string title(const analysis::index& of, const analysis::request_path& path) {
  const auto& r = path.request;
  return fmt::format("request {}{}{}: {} from {}\n  {}{}\n", r.id, r.client_id.empty() ? "" : " ",
                     harmless(r.client_id), duration_text(r.duration_ns()), offset_text(of, r.begin_ns), summary(path),
                     path.whole ? "" : "; causes are missing, and what they cost counts as other");
}

std::string what_text(const analysis::index& of, const analysis::path_step& s) {
  if (s.what == analysis::nowhere) return {};
  const auto& e = of[s.what];
  const auto& r = of.source();
  const auto who = e.receiver ? e.receiver : e.sender;
  return fmt::format("{} {}", analysis::short_name(r, e), who ? "at " + label(r, who) : std::string());
}

/// Steps that follow each other and are alike, such as a device's in a simulation, where nothing lies between them.
struct stretch {
  analysis::path_step all; ///< `what`: of the first
  std::size_t count = 1;
};

std::vector<stretch> stretches(const analysis::index& of, const analysis::request_path& path) {
  std::vector<stretch> out;
  const auto alike = [&](const analysis::path_step& a, const analysis::path_step& b) {
    return a.how == b.how && what_text(of, a) == what_text(of, b);
  };
  for (const auto& s : path.steps) {
    if (out.empty() || !alike(out.back().all, s)) {
      out.push_back({s});
    } else {
      out.back().all.end_ns = s.end_ns;
      ++out.back().count;
    }
  }
  return out;
}

/// Where in the request's time a step lies.
std::string bar(const analysis::request_path& path, const analysis::path_step& s) {
  constexpr std::int64_t columns = 40;
  const auto whole = std::max<std::int64_t>(path.request.duration_ns(), 1);
  const auto column = [&](std::int64_t ns) {
    return static_cast<std::size_t>(static_cast<double>(ns - path.request.begin_ns) / static_cast<double>(whole) *
                                    columns);
  };
  const auto from = std::min<std::size_t>(column(s.begin_ns), columns - 1);
  const auto to = std::clamp<std::size_t>(column(s.end_ns), from + 1, columns);
  return std::string(from, ' ') + std::string(to - from, '#') + std::string(columns - to, ' ');
}

std::string waterfall(const analysis::index& of, const analysis::request_path& path, std::size_t steps_max) {
  const auto all = stretches(of, path);
  // The longest ones; of equals, as they are common on virtual time, the earlier.
  std::vector<std::size_t> longest(all.size());
  std::iota(longest.begin(), longest.end(), std::size_t{0});
  std::ranges::stable_sort(longest, std::greater(), [&](std::size_t i) { return all[i].all.duration_ns(); });
  longest.resize(std::min(longest.size(), steps_max));
  const std::set<std::size_t> chosen(longest.begin(), longest.end());
  auto out =
      fmt::format("  {:>12} {:>10} {:>6}  |{:<40}| {:<9} {}\n", "since begin", "time", "share", "", "spent", "on");
  std::int64_t skipped_ns = 0;
  std::size_t skipped = 0;
  for (std::size_t i = 0; i < all.size(); ++i) {
    const auto& [s, count] = all[i];
    if (!chosen.contains(i)) {
      skipped_ns += s.duration_ns();
      ++skipped;
      continue;
    }
    out +=
        fmt::format("  {:>12} {:>10} {:>5.1f}%  |{}| {:<9} {}{}\n", duration_text(s.begin_ns - path.request.begin_ns),
                    duration_text(s.duration_ns()), share(s.duration_ns(), path.request.duration_ns()), bar(path, s),
                    to_string(s.how), what_text(of, s), count > 1 ? fmt::format(", {} times", count) : "");
  }
  if (skipped > 0)
    out += fmt::format("  {} shorter steps left out, {} together; --steps {} shows them\n", skipped,
                       duration_text(skipped_ns), all.size());
  return out;
}

std::string parts(const analysis::index& of, const analysis::request_path& path) {
  auto out = fmt::format("  {:>10} {:>6} {:>6}  {:<9} {}\n", "in all", "share", "times", "spent", "on");
  auto all = analysis::parts_of(of, path);
  if (all.size() > 12) all.resize(12);
  for (const auto& part : all)
    out += fmt::format("  {:>10} {:>5.1f}% {:>6}  {:<9} {}\n", duration_text(part.ns),
                       share(part.ns, path.request.duration_ns()), part.count, to_string(part.how),
                       analysis::short_type(part.name));
  return out;
}

json::object to_json(const analysis::index& of, const analysis::request_path& path) {
  auto out = request_json(of, path.request);
  out["whole"] = path.whole;
  auto& sums = out["spent_ns"].emplace_object();
  for (std::size_t i = 0; i < analysis::spent_kinds; ++i) sums[to_string(static_cast<spent>(i))] = path.sums[i];
  auto& steps = out["steps"].emplace_array();
  for (const auto& s : path.steps) {
    json::object step{
        {"spent", to_string(s.how)}, {"begin_ns", s.begin_ns - of.first_ns()}, {"duration_ns", s.duration_ns()}};
    if (s.what != analysis::nowhere) {
      step["event"] = label(of.source(), of[s.what].id);
      step["name"] = of.source().name_of(of[s.what]);
    }
    steps.push_back(std::move(step));
  }
  return out;
}

int explain(const slow_options& options) {
  const auto recording = read_recordings(options.files);
  if (!recording) return 1;
  const analysis::index of(*recording);
  auto chosen = analysis::model_requests(of);
  if (!options.request.empty()) {
    const auto found = request_named(chosen, options.request);
    if (!found) return 1;
    chosen = {*found};
  }
  chosen = analysis::slowest(std::move(chosen), options.count);
  if (options.json) {
    json::array out;
    for (const auto& r : chosen) out.push_back(to_json(of, analysis::critical_path(of, r)));
    std::cout << json_text(out) << '\n' << std::flush;
    return 0;
  }
  if (chosen.empty()) std::cerr << "godwit: the recording has no model requests\n";
  for (std::size_t i = 0; i < chosen.size(); ++i) {
    const auto path = analysis::critical_path(of, chosen[i]);
    std::cout << title(of, path);
    if (i == 0) std::cout << '\n' << parts(of, path) << '\n' << waterfall(of, path, options.steps);
    if (i == 0 && chosen.size() > 1) std::cout << "\nthe next ones; --request NUMBER has more of each\n";
  }
  std::cout << std::flush;
  return 0;
}

} // namespace

void add_trace_slow_command(CLI::App& trace, command_result& result) {
  auto o = std::make_shared<slow_options>();
  auto* command = trace.add_subcommand("slow", "Where a request's time went, along the causes of its last token");
  add_recordings(*command, o->files);
  command->add_option("--request", o->request, std::string("Only this one. ") + request_help)->type_name("REQUEST_ID");
  command->add_option("--count", o->count, "So many of the slowest")
      ->type_name("N")
      ->check(CLI::Range(std::size_t{1}, std::size_t{1'000'000}))
      ->capture_default_str();
  command->add_option("--steps", o->steps, "So many steps of the waterfall, the longest ones")
      ->type_name("N")
      ->check(CLI::Range(std::size_t{0}, std::size_t{1'000'000'000}))
      ->capture_default_str();
  command->add_flag("--json", o->json, "One JSON array, with all steps");
  command->callback([o, &result] { result.run = [o] { return explain(*o); }; });
}

} // namespace godwit::main
