#include "trace/file_format.hpp"
#include "trace/merge_clocks.hpp"

#include <algorithm>
#include <string>
#include <unordered_map>
#include <utility>

namespace godwit::runtime::trace {

namespace {

constexpr auto value_max = 2 * format::time_max; // of a time with its offset
constexpr unsigned fading = 7;                   // a move becomes less by one part in 2^7 of the time that goes by
constexpr std::size_t circles_max = 1000;

/// How one process's times are moved: from each knot on by so much, fading.
class bend {
public:
  void add(std::int64_t from, std::int64_t by) { knots_.push_back({from, std::min(by, value_max)}); }
  [[nodiscard]] std::int64_t operator()(std::int64_t time) const {
    const auto after = std::upper_bound(knots_.begin(), knots_.end(), time,
                                        [](std::int64_t t, const knot& each) { return t < each.from; });
    if (after == knots_.begin()) return time;
    const auto& last = *std::prev(after);
    return std::min(time + std::max<std::int64_t>(last.by - ((time - last.from) >> fading), 0), value_max);
  }
  [[nodiscard]] bool straight() const noexcept { return knots_.empty(); }

private:
  struct knot {
    std::int64_t from;
    std::int64_t by;
  };
  std::vector<knot> knots_; // rising
};

/// One end of a message, on its process's line of time.
struct point {
  std::int64_t at;
  bool sent;
  std::size_t message;
  friend bool operator<(const point& a, const point& b) noexcept {
    // what arrives first: its move is that of all else at this moment
    return std::pair(a.at, a.sent) < std::pair(b.at, b.sent);
  }
};

/// Goes along all lines at once, each as far as the senders of what it receives have come.
class walker {
public:
  walker(recording& of, const std::vector<crossing>& messages)
      : of_(of), lines_(of.processes.size()), sent_at_(messages.size()), sent_(messages.size()) {
    for (std::size_t m = 0; m < messages.size(); ++m) {
      const auto& sent = of.events[messages[m].sent];
      const auto& delivery = of.events[messages[m].delivery];
      lines_[sent.id.process].points.push_back({of.at(sent), true, m});
      lines_[delivery.id.process].points.push_back(
          {delivery.queued_ns + of.processes[delivery.id.process].offset_ns, false, m});
    }
    for (auto& line : lines_) std::sort(line.points.begin(), line.points.end());
  }

  void run() {
    std::vector<std::size_t> ready(lines_.size());
    for (std::size_t p = 0; p < ready.size(); ++p) ready[p] = p;
    for (std::size_t circles = 0; circles <= circles_max; ++circles) {
      while (!ready.empty()) {
        const auto p = ready.back();
        ready.pop_back();
        advance(p, ready);
      }
      const auto stuck = earliest_stuck();
      if (stuck == lines_.size()) return apply();
      // Effects before their causes on every line: no clock makes that right. The earliest one is let pass.
      ++lines_[stuck].next;
      ++passed_;
      ready.push_back(stuck);
    }
    apply();
  }

private:
  struct timeline {
    std::vector<point> points;
    std::size_t next = 0;
    bend moved;
    std::size_t moves = 0;
    std::int64_t most = 0;
  };

  void advance(std::size_t p, std::vector<std::size_t>& ready) {
    auto& line = lines_[p];
    for (; line.next < line.points.size(); ++line.next) {
      const auto& here = line.points[line.next];
      const auto now = line.moved(here.at);
      if (here.sent) {
        sent_[here.message] = true;
        sent_at_[here.message] = now;
        if (const auto waiting = waiting_.find(here.message); waiting != waiting_.end()) {
          ready.push_back(waiting->second);
          waiting_.erase(waiting);
        }
        continue;
      }
      if (!sent_[here.message]) {
        waiting_[here.message] = p;
        return;
      }
      if (now >= sent_at_[here.message]) continue;
      line.most = std::max(line.most, sent_at_[here.message] - now);
      ++line.moves;
      line.moved.add(here.at, sent_at_[here.message] - here.at);
    }
  }

  [[nodiscard]] std::size_t earliest_stuck() const {
    auto found = lines_.size();
    for (std::size_t p = 0; p < lines_.size(); ++p) {
      const auto& line = lines_[p];
      if (line.next == line.points.size()) continue;
      if (found == lines_.size() || line.points[line.next].at < lines_[found].points[lines_[found].next].at) found = p;
    }
    return found;
  }

  void apply() {
    for (auto& e : of_.events) {
      const auto& moved = lines_[e.id.process].moved;
      if (moved.straight()) continue;
      const auto offset = of_.processes[e.id.process].offset_ns;
      for (auto* time : {&e.queued_ns, &e.begin_ns, &e.end_ns}) *time = format::bounded(moved(*time + offset) - offset);
    }
    for (std::size_t p = 0; p < lines_.size(); ++p) {
      const auto& line = lines_[p];
      if (line.moves == 0) continue;
      const auto& name = of_.processes[p].name;
      of_.remarks.push_back(std::to_string(line.moves) + " messages to process " +
                            (name.empty() ? std::to_string(p) : name) + " arrived before they were sent, by up to " +
                            std::to_string((line.most + 999) / 1000) + " us; its times were moved on from there");
    }
    if (passed_ != 0)
      of_.remarks.push_back(
          std::to_string(passed_) +
          " messages cannot have arrived when they did: effects lie before their causes in several processes");
  }

  recording& of_;
  std::vector<timeline> lines_;
  std::vector<std::int64_t> sent_at_;
  std::vector<bool> sent_;
  std::unordered_map<std::size_t, std::size_t> waiting_; // for a message to be sent: the line
  std::size_t passed_ = 0;
};

} // namespace

void restore_causality(recording& of, const std::vector<crossing>& messages) {
  const auto early = [&of](const crossing& message) {
    const auto& delivery = of.events[message.delivery];
    return delivery.queued_ns + of.processes[delivery.id.process].offset_ns < of.at(of.events[message.sent]);
  };
  if (std::any_of(messages.begin(), messages.end(), early)) walker(of, messages).run();
}

} // namespace godwit::runtime::trace
