#include "trace/recording_builder.hpp"

#include <algorithm>
#include <functional>
#include <numeric>

namespace godwit::runtime::trace {

namespace {

constexpr std::size_t remarks_max = 32;
constexpr std::size_t facts_max = 1000; // of a process
// What a node of a map and its share of the table take, roughly.
constexpr std::size_t node_bytes = 96;
// They take no memory, but whoever reads them time; a file of nothing else ends some day.
constexpr std::size_t unknown_bytes = 8;

// A process takes any of 0 .. 2^32-1 for its number; so many are enough for any simulation.
constexpr std::size_t processes_max = std::size_t{1} << 20U;

} // namespace

bool recording_builder::take(std::size_t bytes) noexcept {
  if (full_) return false;
  memory_ += bytes;
  full_ = memory_ > limits_.memory_bytes_max;
  return !full_;
}

std::uint32_t recording_builder::process(std::uint64_t number, trace::process&& said) {
  const auto known = processes_.find(number);
  if (known != processes_.end()) {
    auto& p = made_.processes[known->second];
    if (!said.name.empty() && take(said.name.size())) p.name = std::move(said.name);
    if (said.key != 0) p.key = said.key;
    if (said.started_unix_ns != 0) p.started_unix_ns = said.started_unix_ns;
    if (said.offset_ns != 0) p.offset_ns = said.offset_ns;
    return known->second;
  }
  if (made_.processes.size() >= processes_max) full_ = true;
  if (!take(sizeof said + said.name.size() + node_bytes) && !made_.processes.empty()) return 0;
  const auto index = static_cast<std::uint32_t>(made_.processes.size());
  made_.processes.push_back(std::move(said));
  processes_.emplace(number, index);
  return index;
}

std::uint32_t recording_builder::name(std::string_view text) {
  if (text.empty()) return 0;
  if (const auto found = names_.find(text); found != names_.end()) return found->second;
  if (!take(2 * (text.size() + sizeof(std::string)) + node_bytes)) return 0;
  const auto number = static_cast<std::uint32_t>(made_.names.size());
  made_.names.emplace_back(text);
  names_.emplace(text, number);
  return number;
}

void recording_builder::fact(std::uint32_t process, attribute&& what) {
  auto& facts = made_.processes[process].facts;
  if (!take(sizeof what + what.name.size() + what.value.size())) return;
  auto& places = facts_[process];
  if (const auto same = places.find(what.name); same != places.end()) {
    facts[same->second] = std::move(what);
  } else if (facts.size() < facts_max && take(what.name.size() + 2 * node_bytes)) {
    places.emplace(what.name, static_cast<std::uint32_t>(facts.size()));
    facts.push_back(std::move(what));
  }
}

void recording_builder::unknown() noexcept {
  if (take(unknown_bytes)) ++unknown_;
}

void recording_builder::actor_name(actor_id actor, std::string&& text) {
  if (take(node_bytes + text.size())) made_.actors.insert_or_assign(actor, std::move(text));
}

void recording_builder::add(event&& what) {
  auto bytes = sizeof what + what.content.size() + what.text.size() + what.actors.size() * sizeof(actor_id);
  for (const auto& each : what.attributes) bytes += sizeof each + each.name.size() + each.value.size();
  if (made_.events.size() >= limits_.events_max) full_ = true;
  if (take(bytes)) made_.events.push_back(std::move(what));
}

void recording_builder::remark(std::string text) {
  if (made_.remarks.size() < remarks_max)
    made_.remarks.push_back(std::move(text));
  else
    ++remarks_left_out_;
}

void recording_builder::hole(std::string text) {
  made_.holed = true;
  remark(std::move(text));
}

recording recording_builder::finish() {
  if (remarks_left_out_ != 0) made_.remarks.push_back("and " + std::to_string(remarks_left_out_) + " remarks more");
  for (auto& each : on_all_) made_.remarks.push_back(std::move(each));
  if (unknown_ != 0)
    made_.remarks.push_back(std::to_string(unknown_) + " records are of kinds that a newer godwit wrote; left out");
  if (full_)
    made_.remarks.push_back("only the first " + std::to_string(made_.events.size()) +
                            " events were read: that is the limit for events or memory");
  for (const auto& each : made_.events)
    if (each.kind == event_kind::spawned && each.receiver && each.name != 0)
      made_.actors.try_emplace(each.receiver, made_.names[each.name]);
  sort_events(made_);
  return std::move(made_);
}

void sort_events(recording& of) {
  struct key {
    std::int64_t at;
    event_id id;
    std::size_t index;
    auto operator<=>(const key&) const = default;
  };
  std::vector<key> keys;
  keys.reserve(of.events.size());
  for (const auto& each : of.events) keys.push_back({of.at(each), each.id, keys.size()});
  if (std::is_sorted(keys.begin(), keys.end())) return;
  std::sort(keys.begin(), keys.end());
  // Events are large: each is moved once, along the cycles of the permutation.
  for (std::size_t i = 0; i < keys.size(); ++i) {
    if (keys[i].index == i) continue;
    auto first = std::move(of.events[i]);
    auto to = i;
    while (keys[to].index != i) {
      const auto from = std::exchange(keys[to].index, to);
      of.events[to] = std::move(of.events[from]);
      to = from;
    }
    keys[to].index = to;
    of.events[to] = std::move(first);
  }
}

} // namespace godwit::runtime::trace
