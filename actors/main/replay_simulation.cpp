#include "main/replay_simulation.hpp"

#include "main/command_words.hpp"

#include "main/command.hpp"
#include "main/signals.hpp"
#include "main/sim_command.hpp"
#include "main/sim_recording.hpp"
#include "main/simulate.hpp"

#include <godwit/runtime/trace/analysis/labels.hpp>
#include <godwit/runtime/trace/file.hpp>

#include <CLI/CLI.hpp>

#include <algorithm>
#include <array>
#include <filesystem>
#include <iostream>
#include <limits>
#include <optional>
#include <sstream>
#include <stdexcept>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include <stdlib.h>

namespace godwit::main {

namespace trace = runtime::trace;
using trace::event;
using trace::event_kind;

namespace {

/// The recorded command line, but for its name and what it wrote.
std::vector<std::string> arguments_of(const trace::recording& recorded) {
  constexpr std::array<std::string_view, 4> files{"--record", "--csv", "--samples", "--svg"};
  std::vector<std::string> out;
  bool skip = false;
  if (recorded.processes.empty()) return out;
  for (const auto& fact : recorded.processes.front().facts) { // in order; an argument may be an empty word
    if (!fact.name.starts_with("argument:") || fact.name == "argument:0") continue;
    const auto& argument = fact.value;
    if (std::exchange(skip, false)) continue;
    const auto name = argument.substr(0, argument.find('='));
    if (std::find(files.begin(), files.end(), name) != files.end())
      skip = name == argument;
    else
      out.emplace_back(argument);
  }
  return out;
}

/// Deliveries, beginnings and notes as they were handled: one thread, on which these numbers rise.
std::vector<const event*> in_order(const trace::recording& all) {
  std::vector<const event*> out;
  for (const auto& e : all.events)
    if (e.kind == event_kind::delivery || e.kind == event_kind::spawned || e.kind == event_kind::note)
      out.push_back(&e);
  const auto place = [](const event* e) { return e->first != 0 ? e->first : e->id.number; };
  std::sort(out.begin(), out.end(), [&](const event* a, const event* b) {
    return std::tuple{place(a), a->id} < std::tuple{place(b), b->id};
  });
  return out;
}

/// From the first gap on anything may be missing. And notes are stored after the deliveries that they are of: behind
/// the last one some may be.
void drop_torn_end(const trace::recording& all, std::vector<const event*>& torn) {
  const auto gap = std::ranges::find(all.events, event_kind::gap, &event::kind);
  if (gap != all.events.end()) std::erase_if(torn, [&](const auto* e) { return e->begin_ns >= gap->begin_ns; });
  const auto last = std::find_if(torn.rbegin(), torn.rend(), [](const auto* e) { return e->kind == event_kind::note; });
  if (last != torn.rend()) torn.erase(last.base(), torn.end());
}

bool same(const trace::recording& a, const event& x, const trace::recording& b, const event& y) {
  return x.kind == y.kind && x.message == y.message && x.id == y.id && x.cause == y.cause && x.sender == y.sender &&
         x.receiver == y.receiver && a.name_of(x) == b.name_of(y) && x.begin_ns == y.begin_ns && x.made == y.made &&
         x.resumed == y.resumed && x.request == y.request && x.text == y.text &&
         (x.outside || x.content == y.content) && // a client's number is its process's
         x.attributes == y.attributes;
}

std::string describe(const trace::recording& all, const event& e) {
  return std::to_string(e.begin_ns) + " ns " + trace::analysis::in_words(all, e, all.name_of(e));
}

/// While it lives SIGINT and SIGTERM wait, so that a replay that is interrupted cleans up.
class waiting_signals {
public:
  waiting_signals() = default;
  waiting_signals(const waiting_signals&) = delete;
  waiting_signals& operator=(const waiting_signals&) = delete;
  ~waiting_signals() { signals_.let_go(); }
  [[nodiscard]] bool received() { return signals_.received(); }

private:
  signals signals_;
};

/// A file in a folder of its own, both gone when this is.
class passing_file {
public:
  passing_file() {
    auto made = (std::filesystem::temp_directory_path() / "godwit-replay-XXXXXX").string();
    if (::mkdtemp(made.data()) == nullptr) throw std::runtime_error("cannot make a temporary folder: " + made);
    folder_ = std::move(made);
  }
  passing_file(const passing_file&) = delete;
  passing_file& operator=(const passing_file&) = delete;
  ~passing_file() {
    std::error_code ignored;
    std::filesystem::remove_all(folder_, ignored);
  }
  [[nodiscard]] std::string path() const { return folder_ + "/again.gwt"; }

private:
  std::string folder_;
};

/// Nothing is missing, neither in the middle nor at the end.
bool whole(const trace::recording& all) {
  return all.remarks.empty() &&
         std::ranges::none_of(all.events, [](const auto& e) { return e.kind == event_kind::gap; });
}

/// Where the replay ends, on the world's clock in ns. Of a recording that is not whole, which may lack the fact too:
/// with its last event.
std::string end_of(const trace::recording& recorded) {
  if (const auto interrupted = recorded.fact(0, interrupted_fact); !interrupted.empty())
    return std::string(interrupted);
  if (whole(recorded)) return std::to_string(std::numeric_limits<std::int64_t>::max());
  std::int64_t last = 0;
  for (const auto& e : recorded.events) last = std::max(last, e.begin_ns);
  return std::to_string(last);
}

/// Runs `godwit sim` with these arguments, which name a file that it records into; what it prints goes nowhere. The
/// line says why it could not.
std::optional<start_error> simulate(std::vector<std::string> arguments, const std::string& recorded_into) {
  CLI::App app("godwit", "godwit");
  command_result command;
  add_sim_command(app, command);
  arguments = with_empty_values(app, std::move(arguments));
  std::reverse(arguments.begin(), arguments.end()); // as CLI11 takes them
  try {
    app.parse(std::move(arguments));
  } catch (const CLI::ParseError& wrong) {
    return start_error{std::string("cannot replay: the recorded command is not one of this godwit: ") + wrong.what()};
  }
  const std::ostringstream out, err;
  auto* const screen = std::cout.rdbuf(out.rdbuf());
  auto* const errors = std::cerr.rdbuf(err.rdbuf());
  const auto code = command.run();
  std::cout.rdbuf(screen);
  std::cerr.rdbuf(errors);
  if (code == sim_interrupted) return start_error{"interrupted"};
  // With 1 it may have run, and not all of its requests were answered.
  if (code == 0 || (code == 1 && std::filesystem::exists(recorded_into))) return std::nullopt;
  const auto said = err.str();
  return start_error{"cannot replay: the recorded command failed: " + said.substr(0, said.find('\n'))};
}

} // namespace

protocols::expected<runtime::sim::replay_result, start_error>
replay_simulation(trace::recording recorded, const runtime::sim::replay_limits& limits) {
  if (recorded.fact(0, "version") != GODWIT_VERSION)
    return protocols::unexpected(start_error{"cannot replay: it was recorded by godwit " +
                                             std::string(recorded.fact(0, "version")) +
                                             ", and this is " GODWIT_VERSION});
  if (recorded.holed)
    return protocols::unexpected(
        start_error{"cannot replay: it is damaged, and events are missing: " + recorded.remarks.front()});
  auto arguments = arguments_of(recorded);
  if (arguments.empty() || arguments.front() != "sim")
    return protocols::unexpected(start_error{"cannot replay: the recording does not say how it was made"});
  waiting_signals stop;
  std::optional<passing_file> file(std::in_place);
  arguments.emplace_back("--record");
  arguments.push_back(file->path());
  arguments.emplace_back("--end-at-ns");
  arguments.push_back(end_of(recorded));
  if (auto error = simulate(std::move(arguments), file->path())) return protocols::unexpected(std::move(*error));
  const auto again = trace::read_file(file->path());
  file.reset();
  if (!again) return protocols::unexpected(start_error{"cannot replay: " + again.error().message});
  if (stop.received()) return protocols::unexpected(start_error{"interrupted"});
  const bool to_its_end = whole(recorded);
  if (to_its_end && !whole(*again))
    return protocols::unexpected(start_error{"cannot replay: what came again could not be recorded whole; is there "
                                             "room in the folder for temporary files?"});

  runtime::sim::replay_result out;
  auto was = in_order(recorded);
  if (!to_its_end) drop_torn_end(recorded, was);
  const auto is = in_order(*again);
  for (std::size_t i = 0; i < std::max(was.size(), is.size()); ++i) {
    if (i >= was.size() && !to_its_end) return out; // it was recorded no further
    if (i >= was.size() || i >= is.size() || !same(recorded, *was[i], *again, *is[i])) {
      out.difference = i >= was.size()  ? "it went on after the recording's end"
                       : i >= is.size() ? "it ended before the recording"
                                        : "the runs part";
      out.recorded = i < was.size() ? describe(recorded, *was[i]) : "nothing";
      out.replayed = i < is.size() ? describe(*again, *is[i]) : "nothing";
      out.at = i < was.size() ? was[i]->id : is[i]->id;
      return out;
    }
    const auto& e = *was[i];
    if (e.kind == event_kind::delivery && limits.stop_before && limits.stop_before(e, recorded.name_of(e))) return out;
    (e.kind == event_kind::note ? out.notes : out.handled) += 1;
    out.at = e.id;
    if (limits.until && e.id == limits.until) return out;
  }
  out.complete = true;
  return out;
}

} // namespace godwit::main
