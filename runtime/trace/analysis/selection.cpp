#include <godwit/runtime/trace/analysis/selection.hpp>

#include <godwit/runtime/trace/analysis/labels.hpp>
#include <godwit/runtime/trace/analysis/requests.hpp>

#include <algorithm>
#include <numeric>
#include <set>

namespace godwit::runtime::trace::analysis {

namespace {

bool is_number(std::string_view text) {
  return !text.empty() && text.find_first_not_of("0123456789") == std::string_view::npos;
}

bool is_meant(const std::string& wanted, const std::string& name, actor_id who) {
  if (is_number(wanted)) return who && wanted == std::to_string(who.id);
  // `llumlet 1` is not `llumlet 12`
  const auto numbered = wanted.find_first_of("*?@") == std::string::npos &&
                        is_number(std::string_view(wanted).substr(wanted.find_last_not_of("0123456789") + 1));
  return numbered ? name.substr(0, name.find('@')) == wanted : matches(wanted, name);
}

/// What is compared once a name, and not once an event.
struct prepared {
  std::vector<bool> names;
  std::vector<bool> processes;
  std::set<actor_id> actors;
};

std::set<actor_id> actors_of(const index& of) {
  std::set<actor_id> out;
  for (const auto& [who, name] : of.source().actors) out.insert(who);
  for (position p = 0; p < of.size(); ++p) {
    out.insert(of[p].sender);
    out.insert(of[p].receiver);
  }
  return out;
}

prepared prepare(const index& of, const selection& wanted) {
  prepared out;
  const auto& r = of.source();
  for (const auto& name : r.names)
    out.names.push_back(wanted.type.empty() || matches(wanted.type, name) || matches(wanted.type, short_type(name)));
  for (std::size_t i = 0; i < r.processes.size(); ++i)
    out.processes.push_back(wanted.process.empty() || matches(wanted.process, r.processes[i].name) ||
                            wanted.process == std::to_string(i));
  if (wanted.actor.empty()) return out;
  for (const auto& who : actors_of(of))
    if (is_meant(wanted.actor, label(r, who), who)) out.actors.insert(who);
  return out;
}

template <class T> bool among(const std::vector<T>& wanted, T one) {
  return wanted.empty() || std::find(wanted.begin(), wanted.end(), one) != wanted.end();
}

bool carries_message(const event& e) { return e.kind == event_kind::delivery || e.kind == event_kind::sent; }

bool passes(const index& of, position p, const selection& wanted, const prepared& known) {
  const auto& e = of[p];
  if (!known.names[e.name] || !known.processes[e.id.process] || !among(wanted.kinds, e.kind)) return false;
  if (!wanted.messages.empty() && (!carries_message(e) || !among(wanted.messages, e.message))) return false;
  if (!wanted.actor.empty() && !known.actors.contains(e.sender) && !known.actors.contains(e.receiver)) return false;
  if (wanted.from_ns && of.end(p) - of.first_ns() < *wanted.from_ns) return false;
  if (wanted.to_ns && of.begin(p) - of.first_ns() > *wanted.to_ns) return false;
  if (wanted.queue_min_ns > 0 && e.begin_ns - e.queued_ns < wanted.queue_min_ns) return false;
  return wanted.handling_min_ns <= 0 || e.end_ns - e.begin_ns >= wanted.handling_min_ns;
}

} // namespace

std::vector<position> select(const index& of, const selection& wanted) {
  const auto known = prepare(of, wanted);
  std::vector<position> from;
  if (wanted.request) {
    from = events_of(of, *wanted.request);
  } else {
    from.resize(of.size());
    std::iota(from.begin(), from.end(), position{0});
  }
  std::erase_if(from, [&](position p) { return !passes(of, p, wanted, known); });
  std::sort(from.begin(), from.end(), [&of](position a, position b) { return of.before(a, b); });
  return from;
}

std::optional<event_kind> parse_event_kind(std::string_view text) noexcept {
  for (std::uint8_t i = 0; i < event_kinds; ++i)
    if (to_string(static_cast<event_kind>(i)) == text) return static_cast<event_kind>(i);
  return std::nullopt;
}

std::optional<message_kind> parse_message_kind(std::string_view text) noexcept {
  for (std::uint8_t i = 0; i < message_kinds; ++i)
    if (to_string(static_cast<message_kind>(i)) == text) return static_cast<message_kind>(i);
  return std::nullopt;
}

} // namespace godwit::runtime::trace::analysis
