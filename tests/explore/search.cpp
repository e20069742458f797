#include "explore/search.hpp"

#include "explore/fleet.hpp"
#include "explore/own_policies.hpp"
#include "explore/requests.hpp"
#include "explore/shrink.hpp"

#include <godwit/actors/policy_plugin.hpp>
#include <godwit/runtime/log/file_backend.hpp>

#include <CLI/CLI.hpp>
#include <boost/json.hpp>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iostream>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <tuple>
#include <utility>
#include <vector>

namespace godwit::explore {
namespace {

using steady = std::chrono::steady_clock;

/// The last one that --seed takes.
constexpr std::uint64_t seed_max = ~std::uint64_t{0} >> 1U;

struct arguments {
  std::uint64_t seeds = 1000, first = 1;
  std::optional<std::uint64_t> seed;
  std::vector<std::string> scenarios;
  std::string faults, requests, settings;
  double seconds = 0;
  unsigned jobs = std::max(1U, std::thread::hardware_concurrency());
  unsigned wall_limit = 60;
  unsigned shrink_seconds = 60;
  bool json = false, list = false, list_settings = false, keep_going = false, until_found = false, twice = false;
  std::string events, log_levels, trace;
  std::uint32_t planted = 0;
  std::string policy_plugin, policy_arguments;
};

/// Loads what they name. What is wrong, or nothing.
std::string load_policies(const arguments& a) {
  if (a.policy_plugin.empty())
    return a.policy_arguments.empty() ? "" : "--policy-arguments are of a plug-in; give --policy-plugin FILE, too";
  const auto plugin = actors::policy_plugin::open(a.policy_plugin);
  if (!plugin) return "--policy-plugin: " + plugin.error();
  auto made = plugin->make(a.policy_arguments);
  if (!made) return (made.error().of_arguments ? "--policy-arguments: " : "--policy-plugin: ") + made.error().why;
  use_own_policies(std::move(*made));
  return {};
}

/// The flags by which another run has the same policies.
std::string policy_flags(const arguments& a) {
  const auto quoted = [](const std::string& text) {
    std::string out = "'";
    for (const char c : text) out += c == '\'' ? std::string("'\\''") : std::string(1, c);
    return out + "'";
  };
  if (a.policy_plugin.empty()) return {};
  return " --policy-plugin " + quoted(a.policy_plugin) +
         (a.policy_arguments.empty() ? std::string() : " --policy-arguments " + quoted(a.policy_arguments));
}

/// How often one promise is shrunk; more failures of a kind say nothing new.
constexpr std::size_t shrunk_max = 5;
constexpr std::uint32_t shrink_runs_max = 400;

struct tally {
  std::uint64_t runs = 0, failed = 0, events = 0, answered = 0, errors = 0, migrations = 0, redispatches = 0;
};

std::string seconds_text(double s) {
  char text[32];
  std::snprintf(text, sizeof text, "%.1f", s);
  return text;
}

int usage_error(const std::string& text) {
  std::cerr << "explore: " << text << "\n";
  return 2;
}

/// What happened at all.
std::string list_of(const effects& seen) {
  std::string out;
  for (std::size_t i = 0; i < seen.counts().size(); ++i)
    if (seen.counts()[i] > 0)
      out += (out.empty() ? "" : ", ") + effects::names()[i] + " " + std::to_string(seen.counts()[i]);
  return out.empty() ? "nothing" : out;
}

boost::json::object json_of(const effects& seen) {
  boost::json::object out;
  for (std::size_t i = 0; i < seen.counts().size(); ++i) out[effects::names()[i]] = seen.counts()[i];
  return out;
}

int list_settings(bool json) {
  if (json) {
    boost::json::array all;
    for (const auto& one : knobs()) all.emplace_back(one.name);
    std::cout << boost::json::serialize(boost::json::object{{"settings", all}}) << "\n";
    return 0;
  }
  for (const auto& one : knobs()) std::cout << one.name << "\n";
  return 0;
}

int list(bool json) {
  if (json) {
    boost::json::array all;
    for (const auto& one : recipes()) all.push_back({{"scenario", one.name}, {"what", one.text}});
    std::cout << boost::json::serialize(boost::json::object{{"scenarios", all}}) << "\n";
    return 0;
  }
  for (const auto& one : recipes()) std::cout << one.name << std::string(14 - one.name.size(), ' ') << one.text << "\n";
  return 0;
}

std::string numbers_of(const std::vector<std::pair<std::size_t, bool>>& settings) {
  std::set<std::size_t> numbers;
  for (const auto& one : settings) numbers.insert(one.first);
  return to_string(numbers);
}

/// One run, in this process, for a debugger.
int replay(const arguments& a, const std::string& name) {
  selection keep;
  const auto part = [](const std::string& text, std::optional<std::set<std::size_t>>& to) {
    if (text.empty()) return true;
    to = parse_numbers(text);
    return to.has_value();
  };
  if (!part(a.faults, keep.faults) || !part(a.requests, keep.requests) || !part(a.settings, keep.settings))
    return usage_error("--faults, --requests and --settings take numbers like 0,3-5, or none");
  const auto whole = draw(name, *a.seed);
  for (const auto& [what, chosen, drawn] : {std::tuple{"--faults", &keep.faults, whole.faults.size()},
                                            {"--requests", &keep.requests, whole.requests.size()}})
    if (*chosen && !(*chosen)->empty() && *(*chosen)->rbegin() >= drawn)
      return usage_error(std::string(what) + ": there is no number " + std::to_string(*(*chosen)->rbegin()) + ": " +
                         name + " with seed " + std::to_string(*a.seed) +
                         (drawn == 0 ? " has none" : " has 0 to " + std::to_string(drawn - 1)));
  if (keep.settings)
    for (const auto number : *keep.settings)
      if (std::ranges::find(whole.settings, number, [](const auto& one) { return one.first; }) == whole.settings.end())
        return usage_error("--settings: " + name + " with seed " + std::to_string(*a.seed) + " does not have setting " +
                           std::to_string(number) + " at an extreme; it has " + numbers_of(whole.settings));
  const auto s = select(whole, keep);
  std::ofstream events;
  run_options options;
  if (!a.events.empty()) {
    events.open(a.events);
    if (!events) return usage_error("cannot write " + a.events);
    options.on_event = [&](const runtime::sim::event& e) { events << to_string(e) << "\n"; };
  }
  if (!a.log_levels.empty()) {
    auto filter = runtime::log::level_filter::parse(a.log_levels);
    if (auto* wrong = std::get_if<runtime::log::level_error>(&filter)) return usage_error("--log: " + wrong->message);
    if (auto backend = runtime::log::open_file({}))
      options.log = runtime::log::logger(*std::move(backend), std::get<runtime::log::level_filter>(std::move(filter)));
  }
  std::unique_ptr<runtime::trace::file_writer> record;
  if (!a.trace.empty()) {
    auto made = runtime::trace::file_writer::create(a.trace);
    if (!made) return usage_error("--trace: " + made.error().message);
    record = std::move(*made);
    options.record = record.get();
  }
  if (!a.json) std::cout << "scenario " << s.name << ", seed " << s.seed << "\n" << describe(s);
  // In this process, where a debugger is, only if somebody wants to look on.
  const bool here = options.on_event || options.record || !a.log_levels.empty();
  const auto out = here ? run_here(s, a.twice, options) : run_apart(s, std::chrono::seconds(a.wall_limit), a.twice);
  if (a.json) {
    std::cout << boost::json::serialize(boost::json::object{{"scenario", s.name},
                                                            {"seed", s.seed},
                                                            {"clean", out.broken.empty()},
                                                            {"broken", out.broken},
                                                            {"details", out.details},
                                                            {"hash", std::to_string(out.hash)},
                                                            {"events", out.events},
                                                            {"seen", json_of(out.seen)}})
              << "\n";
  } else {
    std::cout << "  seen: " << list_of(out.seen) << "\n";
    std::cout << "  " << out.answered << " answered, " << out.failed << " with an error, " << out.gone << " left; "
              << out.moves << " moves, " << out.redispatches << " dispatched again; " << out.events << " events, hash "
              << std::hex << out.hash << std::dec << "\n";
    std::cout << (out.broken.empty() ? "clean\n" : "BROKEN: " + out.broken + "\n  " + out.details + "\n");
  }
  std::cout << std::flush;
  int code = out.broken.empty() ? 0 : 1;
  const auto not_written = [&code](const std::string& what) {
    std::cerr << "explore: " << what << '\n';
    code = 1;
  };
  if (events.is_open() && !events.flush()) not_written("cannot write all events to " + a.events);
  if (record) {
    const auto closed = record->close();
    if (!closed) not_written("cannot write all of the trace to " + a.trace + ": " + closed.error().message);
  }
  return code;
}

/// SIGINT or SIGTERM has come. A second one ends the process as usual.
volatile std::sig_atomic_t interrupted = 0;

void listen_to_signals() {
  struct sigaction act {};
  act.sa_handler = [](int) {
    interrupted = 1;
    std::signal(SIGINT, SIG_DFL);
    std::signal(SIGTERM, SIG_DFL);
  };
  act.sa_flags = SA_RESTART; // of what the processes write; poll() returns all the same
  sigaction(SIGINT, &act, nullptr);
  sigaction(SIGTERM, &act, nullptr);
}

class search {
public:
  search(const arguments& a, std::vector<std::string> names) : arguments_(a), names_(std::move(names)) {}

  int run() {
    fleet_options fleet;
    fleet.processes = arguments_.jobs;
    fleet.wall_limit = std::chrono::seconds(arguments_.wall_limit);
    fleet.stop = [] { return interrupted != 0; };
    run_fleet(
        fleet, [this] { return next(); }, [this](const scenario& s, const outcome& what) { return note(s, what); });
    const auto took = elapsed();
    ended_early_ = interrupted != 0;
    report(took);
    return failures_.empty() && !ended_early_ ? 0 : 1;
  }

private:
  struct failure {
    scenario first;
    outcome what;
    std::uint64_t times = 1;
  };

  double elapsed() const { return std::chrono::duration<double>(steady::now() - began_).count(); }

  std::optional<scenario> next() {
    if (arguments_.seconds > 0 ? elapsed() > arguments_.seconds : given_ >= arguments_.seeds) return std::nullopt;
    if (given_ > seed_max - arguments_.first) return std::nullopt;
    const auto number = given_++;
    return draw(names_[number % names_.size()], arguments_.first + number);
  }

  bool note(const scenario& s, const outcome& what) {
    auto& sum = sums_[s.name];
    ++sum.runs;
    sum.events += what.events;
    sum.answered += what.answered;
    sum.errors += what.failed;
    sum.migrations += what.moves;
    sum.redispatches += what.redispatches;
    seen_.add(what.seen);
    if (what.broken.empty()) return true;
    ++sum.failed;
    const auto known = std::find_if(failures_.begin(), failures_.end(), [&](const auto& f) {
      return f.first.name == s.name && (same_failure(what, f.what) || same_failure(f.what, what));
    });
    if (known != failures_.end()) {
      ++known->times;
      return true;
    }
    failures_.push_back({s, what});
    found_after_ = elapsed();
    if (arguments_.until_found) return false;
    return arguments_.keep_going || failures_.size() < shrunk_max;
  }

  void report(double took) {
    tally all;
    for (const auto& [name, sum] : sums_) {
      all.runs += sum.runs;
      all.failed += sum.failed;
      all.events += sum.events;
      all.answered += sum.answered;
      all.errors += sum.errors;
      all.migrations += sum.migrations;
      all.redispatches += sum.redispatches;
      if (!arguments_.json)
        std::cout << name << std::string(14 - name.size(), ' ') << sum.runs << " seeds, " << sum.failed << " broken; "
                  << sum.answered << " requests answered, " << sum.errors << " with an error; " << sum.migrations
                  << " moved, " << sum.redispatches << " dispatched again; " << sum.events << " events\n";
    }
    const auto rate = took > 0 ? static_cast<double>(all.runs) * 60 / took : 0;
    boost::json::array broken;
    for (const auto& f : failures_) broken.push_back(tell(f));
    if (arguments_.json) {
      boost::json::object out{{"seeds", all.runs},        {"broken", all.failed},
                              {"clean", all.failed == 0}, {"seconds", took},
                              {"seeds_per_minute", rate}, {"events", all.events},
                              {"answered", all.answered}, {"errors", all.errors},
                              {"moved", all.migrations},  {"dispatched_again", all.redispatches},
                              {"seen", json_of(seen_)},   {"failures", broken}};
      if (!failures_.empty()) out["found_after_s"] = found_after_;
      if (ended_early_) out["interrupted"] = true;
      std::cout << boost::json::serialize(out) << "\n";
    } else {
      std::cout << "seen: " << list_of(seen_) << "\n";
      std::cout << all.runs << " seeds in " << seconds_text(took) << " s (" << static_cast<std::uint64_t>(rate)
                << " a minute), " << all.failed << " broken" << (ended_early_ ? "; interrupted" : "") << "\n";
    }
  }

  /// Shrinks it, and prints all that somebody needs who mends it.
  boost::json::object tell(const failure& f) {
    const auto limit = std::chrono::seconds(std::min(20U, arguments_.wall_limit));
    const auto end = steady::now() + std::chrono::seconds(arguments_.shrink_seconds);
    const bool twice = f.what.broken == same_promise;
    const bool alone = same_failure(run_apart(f.first, limit, twice), f.what);
    const auto small = shrink(f.first, f.what, shrink_runs_max, [limit, end, twice](const scenario& s) {
      // Runs that hang take long to leave out; who interrupts has seen enough.
      return steady::now() < end && interrupted == 0 ? run_apart(s, limit, twice) : outcome{};
    });
    // What was taken for a hang by this limit is one by no other.
    const auto flag = f.what.broken == ends_promise ? " --wall-limit " + std::to_string(limit.count())
                      : twice                       ? std::string(" --twice")
                                                    : std::string();
    const auto flags = flag + policy_flags(arguments_);
    const auto line = replay_line(small.smallest, f.first) + flags, whole = replay_line(f.first, f.first) + flags;
    if (!arguments_.json) {
      std::cout << "\nBROKEN: " << f.what.broken << " (" << f.times << " of the seeds of " << f.first.name << ")\n  "
                << small.what.details << "\n"
                << (small.what.details == f.what.details ? "" : "  whole: " + f.what.details + "\n")
                << (alone ? "" : "  not broken where it runs alone: other runs in the same process matter\n")
                << describe(small.smallest) << "  again: " << line << "\n  whole: " << whole << "\n\n";
    }
    return {{"promise", f.what.broken},
            {"details", small.what.details},
            {"details_whole", f.what.details},
            {"scenario", f.first.name},
            {"seed", f.first.seed},
            {"times", f.times},
            {"alone", alone},
            {"hash", std::to_string(small.what.hash)},
            {"replay", line},
            {"replay_whole", whole}};
  }

  const arguments& arguments_;
  std::vector<std::string> names_;
  steady::time_point began_ = steady::now();
  std::uint64_t given_ = 0;
  std::map<std::string, tally> sums_;
  effects seen_;
  std::vector<failure> failures_;
  double found_after_ = 0;
  bool ended_early_ = false; ///< by a signal
};

} // namespace

int explore(int argc, char** argv, const planted_bugs& bugs) {
  arguments a;
  CLI::App app{"Searches for faults: clusters of the production actors on virtual time, to which bad things happen.",
               "explore"};
  auto* seeds = app.add_option("--seeds", a.seeds, "how many scenarios");
  seeds->check(CLI::Range(std::uint64_t{1}, std::uint64_t{1} << 40))->capture_default_str();
  auto* first = app.add_option("--first", a.first, "the first seed; the others follow");
  first->check(CLI::Range(std::uint64_t{0}, seed_max))->capture_default_str();
  auto* seconds = app.add_option("--seconds", a.seconds, "instead of --seeds: until so many seconds are over");
  seconds->check(CLI::PositiveNumber)->check([](const std::string& text) {
    return std::isfinite(std::strtod(text.c_str(), nullptr)) ? std::string() : text + " is no number of seconds";
  });
  app.add_option("--scenario", a.scenarios, "only these; default: all in turn. --list shows them");
  app.add_option("--seed", a.seed, "run one scenario with this seed, once, and say what happened")
      ->check(CLI::Range(std::uint64_t{0}, seed_max));
  app.add_option("--faults", a.faults, "with --seed: only these faults, as 0,3-5 or none");
  app.add_option("--requests", a.requests, "with --seed: only these requests");
  app.add_option("--settings", a.settings, "with --seed: only these settings at their extremes");
  app.add_flag("--twice", a.twice, "with --seed: run it two times, which must do the same");
  app.add_option("--events", a.events, "with --seed: write every delivery to this file");
  app.add_option("--trace", a.trace, "with --seed: record every message, with content, in this file for godwit trace");
  app.add_option("--log", a.log_levels, "with --seed: log of the actors to standard error, at these levels (debug)");
  auto* jobs = app.add_option("--jobs", a.jobs, "processes at a time; default: one for each processor");
  jobs->check(CLI::Range(1, 1024));
  app.add_option("--wall-limit", a.wall_limit, "seconds of real time after which a run counts as hanging")
      ->check(CLI::Range(1, 86'400))
      ->capture_default_str()
      ->take_last(); // the line that shows a hang again has one
  auto* shrink_seconds =
      app.add_option("--shrink-seconds", a.shrink_seconds, "seconds of real time to make a broken scenario smaller");
  shrink_seconds->check(CLI::Range(0, 86'400))->capture_default_str();
  auto* keep_going = app.add_flag("--keep-going", a.keep_going, "do not end after five different failures");
  auto* until_found = app.add_flag("--until-found", a.until_found, "end after the first failure");
  app.add_flag("--list", a.list, "list the scenarios");
  app.add_flag("--list-settings", a.list_settings,
               "list the settings that are drawn at their extremes, by their numbers");
  app.add_flag("--json", a.json, "one JSON object on standard output");
  app.add_option("--policy-plugin", a.policy_plugin, "scheduling policies of your own, which all clusters have");
  app.add_option("--policy-arguments", a.policy_arguments, "a text for them");
  if (bugs.count > 0)
    app.add_option("--planted", a.planted, "switch this planted bug on")->check(CLI::Range(1U, bugs.count));
  try {
    app.parse(argc, argv);
  } catch (const CLI::CallForHelp& help) {
    return app.exit(help);
  } catch (const CLI::ParseError& wrong) {
    return usage_error(std::string(wrong.what()) + " (see --help)");
  }
  if (a.list) return list(a.json);
  if (a.list_settings) return list_settings(a.json);
  if (!a.seed) listen_to_signals();
  (void)calm_answers(); // before there are bugs, policies of somebody, and processes
  if (auto wrong = load_policies(a); !wrong.empty()) return usage_error(wrong);
  if (bugs.plant != nullptr) bugs.plant(a.planted);
  std::vector<std::string> names;
  // Swaps keep requests from what most planted bugs need; those of swapping name the scenario.
  const auto known = recipes();
  for (const auto& one : known)
    if (a.planted == 0 || one.name != "swaps") names.push_back(one.name);
  for (const auto& one : a.scenarios)
    if (std::ranges::find(known, one, &recipe::name) == known.end())
      return usage_error("no scenario is called '" + one + "'; --list shows them");
  if (!a.scenarios.empty()) names = a.scenarios;
  if (!a.seed && (a.twice || !(a.faults + a.requests + a.settings + a.events + a.trace + a.log_levels).empty()))
    return usage_error("--faults, --requests, --settings, --twice, --events, --trace and --log need a --seed");
  if (a.seed) {
    for (const auto* of_search : {seeds, first, seconds, jobs, keep_going, until_found, shrink_seconds})
      if (of_search->count() > 0)
        return usage_error(of_search->get_name() + " is for a search; with --seed one scenario runs");
    if (a.scenarios.size() != 1) return usage_error("--seed needs one --scenario");
    return replay(a, names.front());
  }
  if (seeds->count() > 0 && seconds->count() > 0)
    return usage_error("--seeds and --seconds both say when the search ends; give one of them");
  if (a.seconds == 0 && a.seeds - 1 > seed_max - a.first)
    return usage_error("--seeds: from " + std::to_string(a.first) + " on there are " +
                       std::to_string(seed_max - a.first + 1) + " seeds");
  return search(a, names).run();
}

} // namespace godwit::explore
