#include "main/sim_command.hpp"

#include "main/huge_heap.hpp"
#include "main/signals.hpp"
#include "main/sim_flags.hpp"
#include "main/simulate.hpp"

#include <spdlog/fmt/fmt.h>

#include <chrono>
#include <iostream>
#include <memory>
#include <optional>

#include <unistd.h>

namespace godwit::main {

namespace {

/// Ends the run at the first SIGINT or SIGTERM, or where the run that is replayed ended, and tells somebody who looks
/// on how far it is. In a replay signals wait already, and go on to do so.
class listener {
public:
  /// `interrupted` is set where a signal has come.
  listener(std::optional<std::int64_t> end_at_ns, bool& interrupted)
      : end_at_ns_(end_at_ns), interrupted_(interrupted) {}
  listener(const listener&) = delete;
  listener& operator=(const listener&) = delete;
  ~listener() {
    if (!stop_ || end_at_ns_) return;
    bool more = true; // that came after the last look: there is a report all the same
    while (more) more = stop_->received();
    stop_->let_go();
  }
  bool operator()(const actors::sim::run_progress& at) {
    if (end_at_ns_ && at.clock_ns >= *end_at_ns_) return false;
    if (!stop_ && !interrupted_) stop_.emplace(); // not before: until there is a report they end the command as usual
    if (stop_ && stop_->received()) {
      interrupted_ = true;
      if (!end_at_ns_) stop_->let_go(); // a second one ends the command
      stop_.reset();
      return false;
    }
    const auto now = clock::now();
    if (!seen_ || now - told_ < std::chrono::seconds(5)) return true;
    told_ = now;
    std::cerr << fmt::format("{:.0f} virtual s, {} requests ended, {} open\n", static_cast<double>(at.time_ns) * 1e-9,
                             at.ended, at.submitted - at.ended);
    return true;
  }

private:
  using clock = std::chrono::steady_clock;
  const std::optional<std::int64_t> end_at_ns_;
  bool& interrupted_;
  std::optional<signals> stop_;
  const bool seen_ = ::isatty(STDERR_FILENO) == 1;
  clock::time_point told_ = clock::now();
};

int run_and_listen(const sim_options& options) {
  bool interrupted = false;
  auto listens = std::make_shared<listener>(options.end_at_ns, interrupted); // ends with the simulation
  const auto code =
      run_sim(options, std::cout, std::cerr, [listens = std::move(listens)](const auto& at) { return (*listens)(at); });
  return interrupted && options.end_at_ns ? sim_interrupted : code;
}

} // namespace

void add_sim_command(CLI::App& app, command_result& result) {
  auto f = std::make_shared<sim_flags>();
  auto& o = f->options;
  auto* command = app.add_subcommand("sim", "Simulate a cluster: the same actors on virtual time, with a device "
                                            "profile and a workload");
  add_simulation_flags(*command, *f);
  command
      ->add_option("--faults", o.faults,
                   "What goes wrong, and when, on virtual time: crash:instance-0@120s+30s, vanish:..., "
                   "cut:head/instance-2@60s+5s, freeze:instance-1@40s+2s, slow:instance-1x4@10s+60s, random:12/h, "
                   "joined by commas; without +DURATION for good")
      ->type_name("SPEC");
  command
      ->add_option("--window", o.window,
                   "Report of requests that arrive in this time, and of the cluster meanwhile; without TO until the "
                   "last one arrives")
      ->type_name("FROM-[TO]");
  command->add_option("--csv", o.csv, "Write one line per request")->type_name("FILE");
  command
      ->add_option("--samples", o.samples,
                   "Write one line per virtual second (of runs beyond a day: per two, four, ...)")
      ->type_name("FILE");
  command->add_option("--svg", o.svg, "Write plots")->type_name("DIR");
  command->add_option("--record", o.record, "Record every message, for godwit trace (--trace-level content: whole)")
      ->type_name("FILE");
  command->add_option("--end-at-ns", o.end_at_ns)->group(""); // for replays
  command->callback([f, command, &result] {
    note_given(*command, *f);
    result.run = [f] {
      use_huge_pages();
      return f->gather() ? run_and_listen(f->options) : 2;
    };
  });
}

} // namespace godwit::main
