#include "main/plan_command.hpp"

#include "main/counted.hpp"
#include "main/huge_heap.hpp"
#include "main/number_range.hpp"
#include "main/plan.hpp"
#include "main/policy_plugins.hpp"
#include "main/rate_search.hpp"
#include "main/signals.hpp"
#include "main/sim_flags.hpp"
#include "main/sim_policy.hpp"

#include <boost/json.hpp>
#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <iostream>
#include <memory>
#include <set>
#include <utility>

#include <unistd.h>

namespace godwit::main {

namespace json = boost::json;
using protocols::expected;
using protocols::unexpected;

namespace {

constexpr std::array sought_by_plans{"--rate", "--rate-scale"};

constexpr double requests_min = 300, requests_max = 50'000; ///< of a run; more take minutes
constexpr double day_s = 86'400, days_max = 10;
/// How many times as long as the longest requests arrivals have to last, or memory is not as full as it gets.
constexpr double times_longest = 10;

std::string roles_text(std::uint32_t prefill, std::uint32_t instances) {
  if (prefill == 0) return {};
  return fmt::format("prefill:{},decode:{}", prefill, instances - prefill);
}

sim_options at_rate(const plan_options& options, const plan_entry& entry, double rate, double seconds) {
  auto sim = options.sim;
  sim.load.rate = rate;
  if (!options.exact_requests)
    sim.load.requests = static_cast<std::size_t>(std::clamp(std::ceil(rate * seconds), requests_min, requests_max));
  sim.settings.llumlet.step_tokens_max = entry.step_tokens;
  sim.settings.instances.roles.clear();
  if (!entry.roles.empty()) {
    const auto comma = entry.roles.find(',');
    sim.settings.instances.roles = {entry.roles.substr(0, comma), entry.roles.substr(comma + 1)};
  }
  return sim;
}

/// Looks for the highest rate of one way.
class measurement {
public:
  measurement(const plan_options& options, const std::function<bool()>& goes_on, plan_entry& entry)
      : options_(options), goes_on_(goes_on), entry_(entry) {}
  /// From `first` on. What went wrong, or nothing.
  std::optional<bench_error> run(double first) {
    const auto found = highest_rate([this](double rate) { return holds(rate); }, first, options_.precision);
    entry_.rate = found.rate;
    entry_.bounded = found.bounded || found.rate == 0;
    return std::move(wrong_);
  }
  [[nodiscard]] bool interrupted() const noexcept { return interrupted_; }

private:
  bool holds(double rate) {
    for (auto seconds = options_.seconds;;) {
      if (wrong_ || interrupted_) return false;
      const auto sim = at_rate(options_, entry_, rate, seconds);
      if (static_cast<double>(sim.load.requests) / rate > days_max * day_s) return false; // so idle that it is no load
      const auto report = simulate_once(sim, [this](const auto& setup, const auto& at) { return may_hold(setup, at); });
      if (!report) {
        wrong_ = report.error();
        return false;
      }
      if (report->requests < plan_requests_min) {
        wrong_ = bench_error{2, fmt::format("a plan needs at least {} requests a run, and there are {}",
                                            plan_requests_min, report->requests)};
        return false;
      }
      if (report->interrupted || report->attainment < options_.attainment) return false;
      const auto wanted = times_longest * report->times.e2e_ms.p99 / 1000;
      const bool settled = static_cast<double>(report->requests) / rate >= wanted;
      const bool there_are_more = report->requests >= sim.load.requests; // in the trace, if it is one
      if (!settled && !options_.exact_requests && there_are_more && sim.load.requests < requests_max) {
        seconds = 1.2 * wanted; // the next run's are longer
        continue;
      }
      entry_.settled = settled;
      entry_.attainment = report->attainment;
      entry_.ttft_p99_ms = report->times.prefill_ms.p99;
      entry_.tpot_p99_ms = report->times.decode_ms.p99;
      return true;
    }
  }

  /// Most runs do not meet their objectives, and need not be played to their end.
  bool may_hold(const sim_setup& setup, const actors::sim::run_progress& at) {
    interrupted_ = interrupted_ || (goes_on_ && !goes_on_());
    const auto missed = std::ranges::count_if(
        at.requests, [&](const auto& r) { return r.ended_ns >= 0 && !meets_objectives(setup, r); });
    const auto all = static_cast<double>(at.requests.size());
    return !interrupted_ && (all - static_cast<double>(missed)) / all >= options_.attainment;
  }

  const plan_options& options_;
  const std::function<bool()>& goes_on_;
  plan_entry& entry_;
  std::optional<bench_error> wrong_;
  bool interrupted_ = false;
};

std::vector<plan_entry> entries_of(const plan_options& options, bool moves) {
  std::vector<plan_entry> out;
  const auto instances = options.sim.instances;
  std::set<std::uint32_t> divisions{0};
  for (std::uint32_t i = 1; moves && i < std::min(instances, plan_all_up_to); ++i)
    divisions.insert(instances <= plan_all_up_to ? i : (instances * i + plan_all_up_to / 2) / plan_all_up_to);
  const std::set<std::uint32_t> sizes(options.step_tokens.begin(), options.step_tokens.end());
  for (const auto prefill : divisions)
    for (const auto tokens : sizes) {
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
  auto out = fmt::format("--instances {}{}{} --llumlet-step-tokens-max {}", options.sim.instances,
                         entry.roles.empty() ? "" : " --roles ", entry.roles, entry.step_tokens);
  const serve_settings usual;
  const auto own = own_policies_of(options.sim.settings);
  if (const auto bundle = find_bundle(options.sim.policy, own)) { // the simulated ones, where they are not serve's own
    if (bundle->dispatch != usual.scheduler.policy) out += " --policy " + bundle->dispatch;
    if (!options.sim.migration_told && bundle->migration != usual.scheduler.migration)
      out += " --migration " + std::string(to_string(bundle->migration));
  }
  return out + options.sim.changed_flags;
}

std::string to_table(const plan_options& options, const std::vector<plan_entry>& plan) {
  const auto share = 100 * options.attainment;
  const auto stages = options.sim.settings.instances.pipeline_parallel;
  auto out = fmt::format(
      "{} of {}{}: the most requests/s of which {:g} % are within {}\n\n", counted(options.sim.instances, "instance"),
      stages > 1 ? fmt::format("{} devices each, ", stages) : "", options.sim.profile, share, objectives_text(options));
  out += fmt::format("{:<26} {:>12} {:>11} {:>12} {:>9} {:>13} {:>13}\n", "roles", "step tokens", "requests/s",
                     "an instance", "within", "prefill P99", "decode P99");
  for (const auto& entry : plan) {
    out += fmt::format("{:<26} {:>12} ", entry.roles.empty() ? "all mixed" : entry.roles, entry.step_tokens);
    if (entry.rate > 0)
      out += fmt::format("{:>11.3f} {:>12.3f} {:>7.1f} % {:>10.1f} ms {:>10.1f} ms{}{}\n", entry.rate,
                         entry.rate / options.sim.instances, 100 * entry.attainment, entry.ttft_p99_ms,
                         entry.tpot_p99_ms, entry.bounded ? "" : "  or more", entry.settled ? "" : "  *");
    else
      out += fmt::format("{:>11} {:>12} {:>9} {:>13} {:>13}\n", "none", "-", "-", "-", "-");
  }
  if (std::ranges::any_of(plan, [](const auto& entry) { return entry.rate > 0 && !entry.settled; }))
    out +=
        fmt::format("\n* requests came for less than {:g} times what the longest take: in the long run it bears less\n",
                    times_longest);
  if (plan.front().rate > 0) out += fmt::format("\ngodwit serve {}\n", flags_of(options, plan.front()));
  return out;
}

std::string to_json(const plan_options& options, const std::vector<plan_entry>& plan, bool interrupted) {
  const auto number = [](const std::optional<double>& x) { return x ? json::value(*x) : json::value(); };
  const auto object_of = [&](const plan_entry& entry) {
    const bool found = entry.rate > 0;
    const auto figure = [found](double x) { return found ? json::value(x) : json::value(); };
    return json::object{{"roles", entry.roles},
                        {"step_tokens_max", entry.step_tokens},
                        {"requests_per_s", entry.rate},
                        {"bounded", entry.bounded},
                        {"settled", entry.settled},
                        {"attainment", figure(entry.attainment)},
                        {"prefill_p99_ms", figure(entry.ttft_p99_ms)},
                        {"decode_p99_ms", figure(entry.tpot_p99_ms)},
                        {"flags", flags_of(options, entry)}};
  };
  json::array list;
  for (const auto& entry : plan) list.push_back(object_of(entry));
  return json::serialize(json::object{{"instances", options.sim.instances},
                                      {"pipeline_parallel", options.sim.settings.instances.pipeline_parallel},
                                      {"profile", options.sim.profile},
                                      {"policy", options.sim.policy},
                                      {"slo_ttft_ms", number(options.sim.load.ttft_ms)},
                                      {"slo_tpot_ms", number(options.sim.load.tpot_ms)},
                                      {"attainment", options.attainment},
                                      {"seed", options.sim.load.seed},
                                      {"interrupted", interrupted},
                                      {"plan", std::move(list)}});
}

} // namespace

expected<std::vector<plan_entry>, bench_error>
make_plan(const plan_options& options, const std::function<void(std::size_t done, std::size_t of)>& told,
          const std::function<bool()>& goes_on) {
  const auto wrong = [](std::string what) { return unexpected(bench_error{2, std::move(what)}); };
  const auto& sim = options.sim;
  if (!sim.load.ttft_ms && !sim.load.tpot_ms)
    return wrong("a plan is made for objectives: --slo-ttft, --slo-tpot or both");
  if (sim.instances > plan_instances_max)
    return wrong(fmt::format("a plan is for {} instances at most; parts of a larger cluster can be planned alone",
                             plan_instances_max));
  if (!(options.attainment >= 0.01 && options.attainment <= 1) || !(options.seconds >= 1 && options.seconds <= 86'400))
    return wrong("--attainment is a share from 0.01 to 1, and --seconds from 1 to 86400"); // CLI11 lets NaN pass
  if (sim.settings.scaling.mode != protocols::scaling_mode::off)
    return wrong("a plan is for so many instances: --scaling off");
  if (options.sim.central)
    return wrong("--central-scheduler is nothing that godwit serve could be told; leave it out of a plan");
  const auto own = load_own_policies(sim.settings);
  if (!own) return wrong(own.error());
  const auto bundle = find_bundle(sim.policy, *own);
  if (!bundle) return wrong("--policy: " + bundle.error());
  const auto migration = sim.migration_told ? sim.settings.scheduler.migration : bundle->migration;
  auto plan = entries_of(options, migration != protocols::migration_policy::never);
  double first = sim.instances;
  for (std::size_t i = 0; i < plan.size(); ++i) {
    measurement one(options, goes_on, plan[i]);
    if (auto error = one.run(first)) return unexpected(std::move(*error));
    if (one.interrupted()) {
      plan.resize(i);
      break;
    }
    if (plan[i].rate > 0 && plan[i].bounded) first = plan[i].rate; // the next one is most likely near
    if (told) told(i + 1, plan.size());
  }
  std::ranges::stable_sort(plan, std::greater{}, &plan_entry::rate); // of equals the simpler one
  return plan;
}

int run_plan(const plan_options& options, std::ostream& out, std::ostream& err,
             const std::function<void(std::size_t done, std::size_t of)>& told, const std::function<bool()>& goes_on) {
  const auto plan = make_plan(options, told, goes_on);
  if (!plan) {
    err << "godwit: " << plan.error().message << '\n';
    return plan.error().exit_code;
  }
  const bool whole = !goes_on || goes_on();
  if (!whole) err << "godwit: interrupted; " << counted(plan->size(), "way") << " tried\n";
  if (plan->empty()) return 1;
  out << (options.sim.json ? to_json(options, *plan, !whole) + "\n" : to_table(options, *plan)) << std::flush;
  return plan->front().rate > 0 && whole ? 0 : 1;
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
  for (const auto* sought : sought_by_plans) command->get_option(sought)->group(""); // it is not to be given
  command->add_option("--attainment", f->plan.attainment, "The share of the requests that has to meet the objectives")
      ->type_name("SHARE")
      ->check(between(0.01, 1.0))
      ->capture_default_str();
  command->add_option("--step-tokens", f->plan.step_tokens, "To be tried for --llumlet-step-tokens-max")
      ->delimiter(',')
      ->type_name("N,...")
      ->check(CLI::Range(1U, 1'000'000U))
      ->default_str("256,512,1024,2048");
  command
      ->add_option("--seconds", f->plan.seconds,
                   "Of arrivals in each run at least; more where requests take long, and 300 to 50,000 requests")
      ->type_name("S")
      ->check(between(1.0, 86'400.0))
      ->capture_default_str();
  command->callback([f, command, &result] {
    for (const auto* sought : sought_by_plans)
      if (command->count(sought) > 0) throw CLI::ValidationError(sought, "a plan looks for the rate");
    note_given(*command, f->sim);
    f->plan.exact_requests = command->count("--requests") > 0;
    result.run = [f] {
      use_huge_pages();
      f->sim.options.tries_roles = true;
      if (!f->sim.gather()) return 2;
      f->plan.sim = f->sim.options;
      const auto& settings = f->plan.sim.settings;
      if (!settings.instances.roles.empty() ||
          settings.llumlet.step_tokens_max != serve_settings{}.llumlet.step_tokens_max) {
        std::cerr << "godwit: a plan looks for instances.roles, and for llumlet.step_tokens_max among --step-tokens\n";
        return 2;
      }
      const bool seen = ::isatty(STDERR_FILENO) == 1;
      const auto tell = [seen](std::size_t done, std::size_t of) {
        if (seen) std::cerr << done << " of " << of << " tried\n";
      };
      signals stop;
      bool stopped = false;
      const auto goes_on = [&] {
        if (!stopped && stop.received()) {
          stopped = true;
          stop.let_go(); // a second one ends the command
        }
        return !stopped;
      };
      return run_plan(f->plan, std::cout, std::cerr, tell, goes_on);
    };
  });
}

} // namespace godwit::main
