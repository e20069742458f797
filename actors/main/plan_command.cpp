#include "main/plan_command.hpp"

#include "main/huge_heap.hpp"
#include "main/rate_search.hpp"
#include "main/sim_flags.hpp"
#include "main/sim_policy.hpp"

#include <boost/json.hpp>
#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <iostream>
#include <memory>
#include <utility>

#include <unistd.h>

namespace godwit::main {

namespace json = boost::json;
using protocols::expected;
using protocols::unexpected;

namespace {

/// Fewer say nothing about one in a hundred, and more take minutes.
constexpr double requests_min = 300, requests_max = 20'000;

std::string roles_text(std::uint32_t prefill, std::uint32_t instances) {
  if (prefill == 0) return {};
  return fmt::format("prefill:{},decode:{}", prefill, instances - prefill);
}

sim_options at_rate(const plan_options& options, const plan_entry& entry, double rate) {
  auto sim = options.sim;
  sim.load.rate = rate;
  if (!options.exact_requests)
    sim.load.requests =
        static_cast<std::size_t>(std::clamp(std::ceil(rate * options.seconds), requests_min, requests_max));
  sim.settings.llumlet.step_tokens_max = entry.step_tokens;
  sim.settings.instances.roles.clear();
  if (!entry.roles.empty()) {
    const auto comma = entry.roles.find(',');
    sim.settings.instances.roles = {entry.roles.substr(0, comma), entry.roles.substr(comma + 1)};
  }
  return sim;
}

/// Whether a run may yet meet its objectives. Most do not, and need not be played to their end.
std::function<bool(const sim_setup&, const actors::sim::run_progress&)> still_open(double attainment) {
  return [attainment](const sim_setup& setup, const actors::sim::run_progress& at) {
    const auto missed = std::ranges::count_if(
        at.requests, [&](const auto& r) { return r.ended_ns >= 0 && !meets_objectives(setup, r); });
    return static_cast<double>(missed) <= (1 - attainment) * static_cast<double>(at.requests.size());
  };
}

/// Fills in how much it bears. Looks from `first` on.
std::optional<bench_error> measure(const plan_options& options, double first, plan_entry& entry) {
  std::optional<bench_error> wrong;
  const auto holds = [&](double rate) {
    if (wrong) return false;
    const auto report = simulate_once(at_rate(options, entry, rate), still_open(options.attainment));
    if (!report) {
      wrong = report.error();
      return false;
    }
    if (report->interrupted || report->attainment < options.attainment) return false;
    entry.attainment = report->attainment;
    entry.ttft_p99_ms = report->times.prefill_ms.p99;
    entry.tpot_p99_ms = report->times.decode_ms.p99;
    return true;
  };
  entry.rate = highest_rate(holds, first, options.precision);
  return wrong;
}

std::vector<plan_entry> entries_of(const plan_options& options, bool moves) {
  std::vector<plan_entry> out;
  const auto prefill_max = moves ? options.sim.instances - 1 : 0;
  for (std::uint32_t prefill = 0; prefill <= prefill_max; ++prefill)
    for (const auto tokens : options.step_tokens) {
      auto& entry = out.emplace_back();
      entry.roles = roles_text(prefill, options.sim.instances);
      entry.step_tokens = tokens;
    }
  return out;
}

std::string objectives_text(const plan_options& options) {
  const auto& load = options.sim.load;
  std::string out;
  if (load.ttft_ms) out += fmt::format("{:g} ms to the first token", *load.ttft_ms);
  if (load.tpot_ms) out += fmt::format("{}{:g} ms for each one after it", out.empty() ? "" : " and ", *load.tpot_ms);
  return out;
}

std::string flags_of(const plan_options& options, const plan_entry& entry) {
  return fmt::format("--instances {}{}{} --llumlet-step-tokens-max {}", options.sim.instances,
                     entry.roles.empty() ? "" : " --roles ", entry.roles, entry.step_tokens);
}

std::string to_table(const plan_options& options, const std::vector<plan_entry>& plan) {
  const auto share = 100 * options.attainment;
  auto out = fmt::format("{} instances of {}: the most requests/s of which {:g} % are within {}\n\n",
                         options.sim.instances, options.sim.profile, share, objectives_text(options));
  out += fmt::format("{:<26} {:>12} {:>11} {:>12} {:>9} {:>13} {:>13}\n", "roles", "step tokens", "requests/s",
                     "an instance", "within", "prefill P99", "decode P99");
  for (const auto& entry : plan) {
    out += fmt::format("{:<26} {:>12} ", entry.roles.empty() ? "all mixed" : entry.roles, entry.step_tokens);
    if (entry.rate > 0)
      out +=
          fmt::format("{:>11.3f} {:>12.3f} {:>7.1f} % {:>10.1f} ms {:>10.1f} ms\n", entry.rate,
                      entry.rate / options.sim.instances, 100 * entry.attainment, entry.ttft_p99_ms, entry.tpot_p99_ms);
    else
      out += fmt::format("{:>11} {:>12} {:>9} {:>13} {:>13}\n", "none", "-", "-", "-", "-");
  }
  if (plan.front().rate > 0) out += fmt::format("\ngodwit serve {}\n", flags_of(options, plan.front()));
  return out;
}

std::string to_json(const plan_options& options, const std::vector<plan_entry>& plan) {
  const auto number = [](const std::optional<double>& x) { return x ? json::value(*x) : json::value(); };
  const auto object_of = [&](const plan_entry& entry) {
    const bool found = entry.rate > 0;
    const auto figure = [found](double x) { return found ? json::value(x) : json::value(); };
    return json::object{{"roles", entry.roles},
                        {"step_tokens_max", entry.step_tokens},
                        {"requests_per_s", entry.rate},
                        {"attainment", figure(entry.attainment)},
                        {"prefill_p99_ms", figure(entry.ttft_p99_ms)},
                        {"decode_p99_ms", figure(entry.tpot_p99_ms)},
                        {"flags", flags_of(options, entry)}};
  };
  json::array list;
  for (const auto& entry : plan) list.push_back(object_of(entry));
  return json::serialize(json::object{{"instances", options.sim.instances},
                                      {"profile", options.sim.profile},
                                      {"policy", options.sim.policy},
                                      {"slo_ttft_ms", number(options.sim.load.ttft_ms)},
                                      {"slo_tpot_ms", number(options.sim.load.tpot_ms)},
                                      {"attainment", options.attainment},
                                      {"seed", options.sim.load.seed},
                                      {"plan", std::move(list)}});
}

} // namespace

expected<std::vector<plan_entry>, bench_error>
make_plan(const plan_options& options, const std::function<void(std::size_t done, std::size_t of)>& told) {
  const auto bundle = find_bundle(options.sim.policy);
  if (!bundle) return unexpected(bench_error{2, "--policy: " + bundle.error()});
  const auto migration = options.sim.migration_told ? options.sim.settings.scheduler.migration : bundle->migration;
  auto plan = entries_of(options, migration != protocols::migration_policy::never);
  double first = options.sim.instances;
  for (std::size_t i = 0; i < plan.size(); ++i) {
    if (auto wrong = measure(options, first, plan[i])) return unexpected(std::move(*wrong));
    if (plan[i].rate > 0) first = plan[i].rate; // the next one is most likely near
    if (told) told(i + 1, plan.size());
  }
  std::ranges::stable_sort(plan, std::greater{}, &plan_entry::rate); // of equals the simpler one
  return plan;
}

int run_plan(const plan_options& options, std::ostream& out, std::ostream& err,
             const std::function<void(std::size_t done, std::size_t of)>& told) {
  if (!options.sim.load.ttft_ms && !options.sim.load.tpot_ms) {
    err << "godwit: a plan is made for objectives: --slo-ttft, --slo-tpot or both\n";
    return 2;
  }
  const auto plan = make_plan(options, told);
  if (!plan) {
    err << "godwit: " << plan.error().message << '\n';
    return plan.error().exit_code;
  }
  out << (options.sim.json ? to_json(options, *plan) + "\n" : to_table(options, *plan)) << std::flush;
  return plan->front().rate > 0 ? 0 : 1;
}

void add_plan_command(CLI::App& app, command_result& result) {
  struct flags_and_plan {
    sim_flags sim;
    plan_options plan;
  };
  auto f = std::make_shared<flags_and_plan>();
  auto* command =
      app.add_subcommand("plan", "Find by simulation how many instances should prefill and how many decode, "
                                 "for the most requests within objectives");
  add_simulation_flags(*command, f->sim);
  command->add_option("--attainment", f->plan.attainment, "The share of the requests that has to meet the objectives")
      ->type_name("SHARE")
      ->check(CLI::Range(0.01, 1.0))
      ->capture_default_str();
  command->add_option("--step-tokens", f->plan.step_tokens, "To be tried for --llumlet-step-tokens-max")
      ->delimiter(',')
      ->type_name("N,...")
      ->check(CLI::Range(1U, 1'000'000U))
      ->default_str("256,512,1024,2048");
  command->add_option("--seconds", f->plan.seconds, "Of arrivals in each run; at least 300 requests, at most 20,000")
      ->type_name("S")
      ->check(CLI::Range(1.0, 86'400.0))
      ->capture_default_str();
  command->callback([f, command, &result] {
    if (command->count("--rate") > 0) throw CLI::ValidationError("--rate", "is what a plan looks for");
    if (command->count("--roles") > 0) throw CLI::ValidationError("--roles", "are what a plan looks for");
    if (command->count("--llumlet-step-tokens-max") > 0)
      throw CLI::ValidationError("--llumlet-step-tokens-max", "is tried; say --step-tokens");
    note_given(*command, f->sim);
    f->plan.exact_requests = command->count("--requests") > 0;
    result.run = [f] {
      use_huge_pages();
      if (!f->sim.gather()) return 2;
      f->plan.sim = f->sim.options;
      const bool seen = ::isatty(STDERR_FILENO) == 1;
      return run_plan(f->plan, std::cout, std::cerr, [seen](std::size_t done, std::size_t of) {
        if (seen) std::cerr << done << " of " << of << " tried\n";
      });
    };
  });
}

} // namespace godwit::main
