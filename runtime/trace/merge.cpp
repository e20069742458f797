#include "trace/file_format.hpp"
#include "trace/merge_clocks.hpp"
#include "trace/recording_builder.hpp"

#include <godwit/runtime/trace/file.hpp>

#include <algorithm>
#include <tuple>
#include <unordered_map>
#include <utility>

namespace godwit::runtime::trace {

namespace {

/// Takes part after part into one recording whose numbers are its own.
class merger {
public:
  /// What does not change from one reading of a process's memory to the next, as times do that are counted in ticks of
  /// a processor.
  using what = std::tuple<event_id, event_kind, message_kind, std::uint32_t, actor_id>;

  merger() { made_.names.emplace_back(); }

  void take(recording&& part) {
    const auto known = made_.processes.size();
    std::vector<std::uint32_t> processes;
    processes.reserve(part.processes.size());
    for (auto& each : part.processes) processes.push_back(process(each));
    place(part, processes);
    const bool shares = std::ranges::any_of(processes, [known](auto p) { return p < known; });
    const auto there = shares ? numbers_of(processes) : std::vector<what>();
    std::vector<std::uint32_t> names;
    names.reserve(part.names.size());
    for (auto& each : part.names) names.push_back(name(std::move(each)));

    for (auto& [actor, text] : part.actors)
      made_.actors.try_emplace({processes[actor.process], actor.id}, std::move(text));
    made_.events.reserve(made_.events.size() + part.events.size());
    const auto map = [&](auto& id) { id.process = id == std::decay_t<decltype(id)>{} ? 0 : processes[id.process]; };
    for (auto& e : part.events) {
      e.id.process = processes[e.id.process];
      map(e.cause);
      map(e.sender);
      map(e.receiver);
      for (auto& actor : e.actors) map(actor);
      e.name = names[e.name];
      if (!there.empty() && is_message(e) && std::ranges::binary_search(there, what_of(e))) continue;
      made_.events.push_back(std::move(e));
    }
    made_.holed = made_.holed || part.holed;
    for (auto& each : part.remarks) made_.remarks.push_back(std::move(each));
    part = {};
  }

  recording finish() {
    const auto messages = crossings(made_);
    align_clocks(made_, numbered(), messages);
    restore_causality(made_, messages);
    sort_events(made_);
    const auto twice = std::unique(made_.events.begin(), made_.events.end());
    made_.events.erase(twice, made_.events.end());
    if (shared_) tell_of_two_runs();
    return std::move(made_);
  }

private:
  static what what_of(const event& e) { return {e.id, e.kind, e.message, e.name, e.receiver}; }
  static bool is_message(const event& e) {
    return e.id.number != 0 && (e.kind == event_kind::delivery || e.kind == event_kind::sent);
  }
  /// Of the messages that are there already of these processes, where some are known from an earlier part; sorted.
  [[nodiscard]] std::vector<what> numbers_of(const std::vector<std::uint32_t>& processes) const {
    std::vector<bool> wanted(made_.processes.size());
    for (const auto p : processes) wanted[p] = true;
    std::vector<what> out;
    for (const auto& e : made_.events)
      if (is_message(e) && wanted[e.id.process]) out.push_back(what_of(e));
    std::sort(out.begin(), out.end());
    return out;
  }

  std::uint32_t process(process& said) {
    const auto fresh = static_cast<std::uint32_t>(made_.processes.size());
    const auto which = said.key == 0 ? fresh : keys_.try_emplace(said.key, fresh).first->second;
    if (which == fresh) {
      made_.processes.push_back(said);
      made_.processes.back().offset_ns = 0;
      group_.push_back(no_group);
      return fresh;
    }
    shared_ = true;
    auto& known = made_.processes[which];
    if (known.name.empty()) known.name = said.name;
    if (known.started_unix_ns == 0) known.started_unix_ns = said.started_unix_ns;
    for (auto& fact : said.facts)
      if (std::none_of(known.facts.begin(), known.facts.end(), [&](const auto& f) { return f.name == fact.name; }))
        known.facts.push_back(std::move(fact));
    return which;
  }

  // Two parts of one process have the same events under the same numbers. All simulations have one key: theirs may be
  // two runs, whose events nobody could tell apart in what is made of them.
  void tell_of_two_runs() {
    std::vector<what> all;
    all.reserve(made_.events.size());
    for (const auto& e : made_.events)
      if (e.kind != event_kind::gap && e.id.number != 0) all.push_back(what_of(e));
    std::sort(all.begin(), all.end());
    all.erase(std::unique(all.begin(), all.end()), all.end());
    std::vector<std::size_t> events(made_.processes.size());
    for (std::size_t i = 1; i < all.size(); ++i)
      if (std::get<0>(all[i]) == std::get<0>(all[i - 1])) ++events[std::get<0>(all[i]).process];
    for (std::size_t p = 0; p < events.size(); ++p)
      if (events[p] > 0)
        made_.remarks.push_back(
            "process " + (made_.processes[p].name.empty() ? std::to_string(p) : made_.processes[p].name) + " has " +
            std::to_string(events[p]) +
            " numbers that stand for two events each: these are recordings of different runs, which "
            "do not belong together");
  }

  std::uint32_t name(std::string&& text) {
    const auto fresh = static_cast<std::uint32_t>(made_.names.size());
    if (text.empty()) return 0;
    const auto [found, is_fresh] = names_.try_emplace(std::move(text), fresh);
    if (is_fresh) made_.names.push_back(found->first);
    return found->second;
  }

  // All processes with events in one part share its clock; where one is known from an earlier part, that part's too.
  void place(const recording& part, const std::vector<std::uint32_t>& processes) {
    std::vector<bool> has_events(part.processes.size());
    for (const auto& e : part.events) has_events[e.id.process] = true;
    const auto group = groups_++;
    for (std::size_t i = 0; i < has_events.size(); ++i) {
      if (!has_events[i]) continue;
      const auto p = processes[i];
      const auto offset = part.processes[i].offset_ns;
      if (group_[p] == group) continue; // two of this part with one key
      if (group_[p] == no_group) {
        group_[p] = group;
        made_.processes[p].offset_ns = offset;
        continue;
      }
      const auto older = group_[p];
      const auto shift = offset - made_.processes[p].offset_ns; // takes the older group's clock to this part's
      for (std::size_t q = 0; q < group_.size(); ++q) {
        if (group_[q] != older) continue;
        group_[q] = group;
        made_.processes[q].offset_ns = format::bounded(made_.processes[q].offset_ns + shift);
      }
    }
  }

  // Groups in the order of their processes, from 0 on.
  [[nodiscard]] clock_groups numbered() const {
    clock_groups groups{group_, 0};
    std::unordered_map<std::uint32_t, std::uint32_t> numbers;
    for (auto& each : groups.of)
      if (each != no_group) {
        const auto [found, fresh] = numbers.try_emplace(each, groups.count);
        groups.count += fresh ? 1 : 0;
        each = found->second;
      }
    return groups;
  }

  recording made_;
  bool shared_ = false; // two parts are of one process
  std::unordered_map<std::uint64_t, std::uint32_t> keys_;
  std::unordered_map<std::string, std::uint32_t> names_;
  std::vector<std::uint32_t> group_; // by process
  std::uint32_t groups_ = 0;
};

} // namespace

recording merge(std::vector<recording> parts) {
  merger all;
  for (auto& part : parts) all.take(std::move(part));
  return all.finish();
}

} // namespace godwit::runtime::trace
