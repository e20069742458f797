#include <godwit/runtime/trace/analysis/check.hpp>

#include <godwit/runtime/trace/analysis/labels.hpp>

#include <algorithm>
#include <map>

namespace godwit::runtime::trace::analysis {

namespace {

constexpr std::size_t faults_max = 100;

/// From when on a process's recording is whole: its threads forget their oldest events one by one.
struct memory {
  std::int64_t whole_from_ns = 0; ///< on the process's own clock
  bool gaps = false;
  bool any = false;
};

std::vector<memory> memories(const index& of) {
  std::map<std::pair<std::uint32_t, std::uint32_t>, std::int64_t> first_end; // by process and thread
  std::vector<memory> out(of.source().processes.size());
  for (position p = 0; p < of.size(); ++p) {
    const auto& e = of[p];
    auto& m = out[e.id.process];
    m.any = true;
    m.gaps = m.gaps || e.kind == event_kind::gap;
    if (e.kind != event_kind::delivery) continue;
    const auto [at, fresh] = first_end.try_emplace({e.id.process, e.thread}, e.end_ns);
    if (!fresh) at->second = std::min(at->second, e.end_ns);
  }
  for (const auto& [key, end] : first_end) {
    auto& m = out[key.first];
    m.whole_from_ns = std::max(m.whole_from_ns, end);
  }
  return out;
}

class checker {
public:
  explicit checker(const index& of, std::int64_t slack_ns) : of_(of), slack_ns_(slack_ns), memories_(memories(of)) {}

  causality run() {
    for (position p = 0; p < of_.size(); ++p) {
      times(p);
      if (of_.cause(p) != nowhere)
        order(p, of_.cause(p));
      else if (of_[p].cause)
        missing(p);
    }
    cycles();
    return std::move(out_);
  }

private:
  void fault(position p, const std::string& what) {
    if (++out_.fault_count > faults_max) return;
    out_.faults.push_back(label(of_.source(), of_[p].id) + " (" + short_name(of_.source(), of_[p]) + ") " + what);
  }

  void times(position p) {
    const auto& e = of_[p];
    if (e.begin_ns < e.queued_ns) fault(p, "was handled before it was queued");
    if (e.end_ns < e.begin_ns) fault(p, "ended before it began");
  }

  void order(position p, position cause) {
    // messages are timed by the processor's counter, spans and beginnings by the clock
    constexpr std::int64_t reading_ns = 1000;
    const auto slack = of_[p].id.process == of_[cause].id.process ? reading_ns : slack_ns_;
    if (of_.queued(p) + slack < of_.begin(cause))
      fault(p, "came before its cause " + label(of_.source(), of_[cause].id));
  }

  // What was made while a lost message was handled was made before that ended, unless it was waited for.
  void missing(position p) {
    const auto& e = of_[p];
    const auto in = e.cause.process;
    if (in >= memories_.size()) return fault(p, "has a cause in no process");
    const auto& m = memories_[in];
    const auto waited = e.outside || e.message == message_kind::timer;
    const auto made_ns = of_.queued(p) - of_.source().processes[in].offset_ns;
    if (!m.any || m.gaps || waited || made_ns <= m.whole_from_ns + slack_ns_)
      ++out_.before;
    else
      ++out_.missing;
  }

  // Walks up from every event until one that is known to reach a root.
  void cycles() {
    enum : std::uint8_t { fresh, on_path, done };
    std::vector<std::uint8_t> state(of_.size(), fresh);
    std::vector<position> path;
    for (position p = 0; p < of_.size(); ++p) {
      auto at = p;
      while (at != nowhere && state[at] == fresh) {
        state[at] = on_path;
        path.push_back(at);
        at = of_.cause(at);
      }
      if (at != nowhere && state[at] == on_path) fault(at, "is its own cause");
      for (const auto seen : path) state[seen] = done;
      path.clear();
    }
  }

  const index& of_;
  std::int64_t slack_ns_;
  std::vector<memory> memories_;
  causality out_;
};

} // namespace

causality check_causality(const index& of, std::int64_t slack_ns) { return checker(of, slack_ns).run(); }

} // namespace godwit::runtime::trace::analysis
