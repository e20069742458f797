#include "trace/merge_clocks.hpp"

#include "trace/clock_line.hpp"
#include "trace/file_format.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <numeric>
#include <optional>
#include <unordered_map>
#include <utility>

namespace godwit::runtime::trace {

namespace {

constexpr auto unbounded = std::numeric_limits<std::int64_t>::max();

using format::bounded;

struct id_hash {
  std::size_t operator()(const event_id& id) const noexcept {
    return static_cast<std::size_t>((id.number + id.process * 0x9E3779B97F4A7C15ULL) * 0xD6E8FEB86659FD93ULL >> 8U);
  }
};

/// How long messages took from one group to another by their two clocks: the least.
struct link {
  std::int64_t least = unbounded;
  void add(std::int64_t taken) noexcept { least = std::min(least, taken); }
};

/// Places one group after the other against those that are placed, the best known next.
class aligner {
public:
  aligner(recording& of, const clock_groups& groups, const std::vector<crossing>& messages)
      : of_(of), groups_(groups), messages_(groups.count), lines_(groups.count), placed_(groups.count),
        wall_(groups.count) {
    for (const auto& each : messages) {
      const ends seen{group_of(each.sent), group_of(each.delivery), of.at(of.events[each.sent]), queued(each.delivery)};
      if (seen.from == seen.to) continue;
      messages_[seen.from].push_back(seen);
      messages_[seen.to].push_back(seen);
      links_[{seen.from, seen.to}].add(seen.received - seen.sent);
    }
    for (std::size_t p = 0; p < of.processes.size(); ++p) {
      const auto& process = of.processes[p];
      const auto group = groups.of[p];
      if (group == no_group || wall_[group] || process.started_unix_ns == 0) continue;
      if (format::in_range(process.started_unix_ns)) wall_[group] = process.started_unix_ns - process.offset_ns;
    }
  }

  void run() {
    if (groups_.count < 2) return;
    placed_[0] = true;
    for (std::uint32_t n = 1; n < groups_.count; ++n) place(next());
    const auto before = of_.processes;
    for (std::size_t p = 0; p < before.size(); ++p)
      if (groups_.of[p] != no_group)
        of_.processes[p].offset_ns = bounded(before[p].offset_ns + lines_[groups_.of[p]].first());
    for (auto& e : of_.events) {
      const auto& line = lines_[groups_.of[e.id.process]];
      if (line.straight()) continue;
      for (auto* time : {&e.queued_ns, &e.begin_ns, &e.end_ns})
        *time = bounded(line(*time + before[e.id.process].offset_ns) - of_.processes[e.id.process].offset_ns);
    }
  }

private:
  // The group whose messages with placed ones went there and back the fastest; else one with messages in one direction;
  // else any. What a message took there and back does not depend on clocks.
  [[nodiscard]] std::uint32_t next() const {
    std::uint32_t best = 0;
    std::pair<int, std::int64_t> best_rank{4, 0};
    const auto consider = [&](std::uint32_t group, int kind, std::int64_t taken) {
      if (std::pair{kind, taken} < best_rank) best = group, best_rank = {kind, taken};
    };
    for (const auto& [groups, there] : links_) {
      const auto [from, to] = groups;
      if (placed_[from] == placed_[to]) continue;
      const auto back = links_.find({to, from});
      const auto both = back != links_.end();
      consider(placed_[from] ? to : from, both ? 1 : 2, both ? std::midpoint(there.least, back->second.least) : 0);
    }
    for (std::uint32_t g = 0; g < groups_.count && best_rank.first == 4; ++g)
      if (!placed_[g]) consider(g, 3, 0);
    return best;
  }

  void place(std::uint32_t group) {
    // what is added to its times: at least, at most, so that no message arrives before it was sent
    auto least = -unbounded;
    auto most = unbounded;
    std::vector<clock_bound> bounds;
    for (const auto& each : messages_[group]) {
      if (!placed_[each.from] && !placed_[each.to]) continue;
      const auto arrives = each.to == group;
      const auto add =
          arrives ? lines_[each.from](each.sent) - each.received : lines_[each.to](each.received) - each.sent;
      bounds.push_back({arrives ? each.received : each.sent, bounded(add), !arrives});
      if (arrives)
        least = std::max(least, bounds.back().add);
      else
        most = std::min(most, bounds.back().add);
    }
    if (least == -unbounded || most == unbounded) {
      guess(group, least, most);
    } else if (least <= most) {
      lines_[group] = clock_line(std::midpoint(least, most));
    } else {
      lines_[group] = clock_line::through(std::move(bounds));
      const auto drift = std::llround(lines_[group].parts_of_a_million());
      of_.remarks.push_back("the clock of process " + name(group) + " drifts against others, by " +
                            std::to_string(drift) + " parts in a million; its times were stretched");
    }
    placed_[group] = true;
  }

  void guess(std::uint32_t group, std::int64_t least, std::int64_t most) {
    const auto one_way = least != -unbounded || most != unbounded;
    const auto walls = wall_[group] && wall_[0];
    auto add = !one_way ? 0 : least != -unbounded ? least : most; // as if the fastest message had taken no time
    if (walls) add = std::clamp(bounded(*wall_[group] - *wall_[0]), least, most);
    lines_[group] = clock_line(add);
    of_.remarks.push_back("the clock of process " + name(group) + " is a guess: " +
                          (one_way ? "messages with others went one way only" : "no messages with others") +
                          (walls ? "; its wall clock was believed" : "; its wall clock is not known"));
  }

  [[nodiscard]] std::uint32_t group_of(std::size_t event) const { return groups_.of[of_.events[event].id.process]; }
  [[nodiscard]] std::int64_t queued(std::size_t event) const {
    const auto& e = of_.events[event];
    return e.queued_ns + of_.processes[e.id.process].offset_ns;
  }
  [[nodiscard]] std::string name(std::uint32_t group) const {
    const auto found = std::find(groups_.of.begin(), groups_.of.end(), group) - groups_.of.begin();
    const auto& process = of_.processes[static_cast<std::size_t>(found)];
    return process.name.empty() ? std::to_string(found) : process.name;
  }

  /// A message between two groups, by their two clocks.
  struct ends {
    std::uint32_t from;
    std::uint32_t to;
    std::int64_t sent;
    std::int64_t received;
  };
  recording& of_;
  const clock_groups& groups_;
  std::vector<std::vector<ends>> messages_; // by group; each is in two
  std::map<std::pair<std::uint32_t, std::uint32_t>, link> links_;
  std::vector<clock_line> lines_;
  std::vector<bool> placed_;
  std::vector<std::optional<std::int64_t>> wall_; // at 0 of the group's time
};

} // namespace

std::vector<crossing> crossings(const recording& of) {
  std::unordered_map<event_id, std::size_t, id_hash> sent;
  for (std::size_t i = 0; i < of.events.size(); ++i)
    if (of.events[i].kind == event_kind::sent && of.events[i].id) sent.try_emplace(of.events[i].id, i);
  std::vector<crossing> found;
  for (std::size_t i = 0; i < of.events.size(); ++i) {
    const auto& e = of.events[i];
    if (e.kind != event_kind::delivery || !e.cause || e.cause.process == e.id.process) continue;
    if (const auto by = sent.find(e.cause); by != sent.end()) found.push_back({by->second, i});
  }
  return found;
}

void align_clocks(recording& of, const clock_groups& groups, const std::vector<crossing>& messages) {
  aligner(of, groups, messages).run();
}

} // namespace godwit::runtime::trace
