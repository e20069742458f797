#include <godwit/runtime/trace/analysis/labels.hpp>
#include <godwit/runtime/trace/analysis/stats.hpp>

#include <algorithm>
#include <cmath>
#include <map>
#include <tuple>

namespace godwit::runtime::trace::analysis {

namespace {

struct samples {
  std::vector<std::int64_t> queue;
  std::vector<std::int64_t> handling;
  std::vector<std::int64_t> depth;
  std::uint64_t bytes = 0;
  std::uint64_t failures = 0;
};

struct life {
  std::int64_t from_ns;
  std::int64_t to_ns;
};

std::map<actor_id, life> lives(const index& of) {
  std::map<actor_id, life> out;
  for (position p = 0; p < of.size(); ++p) {
    const auto& e = of[p];
    if (e.kind != event_kind::spawned && e.kind != event_kind::ended && e.kind != event_kind::delivery) continue;
    auto& l = out.try_emplace(e.receiver, life{of.first_ns(), of.last_ns()}).first->second;
    if (e.kind == event_kind::spawned) l.from_ns = of.begin(p);
    if (e.kind == event_kind::ended) l.to_ns = of.end(p);
  }
  return out;
}

} // namespace

summary summarise(std::vector<std::int64_t> values) {
  summary out;
  out.count = values.size();
  if (values.empty()) return out;
  std::sort(values.begin(), values.end());
  const auto rank = [&](double share) {
    const auto at = static_cast<std::size_t>(std::ceil(share * static_cast<double>(values.size())));
    return values[std::max<std::size_t>(at, 1) - 1];
  };
  for (const auto v : values) out.sum = added(out.sum, v);
  out.mean = static_cast<double>(out.sum) / static_cast<double>(values.size());
  out.p50 = rank(0.50);
  out.p99 = rank(0.99);
  out.max = values.back();
  return out;
}

recording_stats stats(const index& of, const std::vector<position>& events) {
  std::map<std::tuple<event_kind, std::uint32_t, message_kind>, samples> types;
  std::map<actor_id, samples> actors;
  for (const auto p : events) {
    const auto& e = of[p];
    if (e.kind != event_kind::delivery && e.kind != event_kind::span) continue;
    // Messages without a type are told apart by their kind: timers, failures.
    auto& type = types[{e.kind, e.name, e.name == 0 ? e.message : message_kind::message}];
    type.handling.push_back(e.end_ns - e.begin_ns);
    if (e.kind == event_kind::span) continue;
    type.queue.push_back(e.begin_ns - e.queued_ns);
    type.bytes += e.bytes;
    type.failures += e.message == message_kind::failure ? 1 : 0;
    auto& actor = actors[e.receiver];
    actor.queue.push_back(e.begin_ns - e.queued_ns);
    actor.handling.push_back(e.end_ns - e.begin_ns);
    actor.depth.push_back(e.depth);
  }
  recording_stats out;
  for (auto& [key, s] : types) {
    auto& t = out.types.emplace_back();
    t.kind = std::get<0>(key);
    t.name = std::get<1>(key) == 0 ? std::string(to_string(std::get<2>(key))) : of.source().names[std::get<1>(key)];
    t.queue_ns = summarise(std::move(s.queue));
    t.handling_ns = summarise(std::move(s.handling));
    t.bytes = s.bytes;
    t.failures = s.failures;
  }
  const auto lived = lives(of);
  for (auto& [who, s] : actors) {
    auto& a = out.actors.emplace_back();
    a.who = who;
    a.messages = s.handling.size();
    const auto& l = lived.at(who);
    a.lived_ns = l.to_ns - l.from_ns;
    a.queue_ns = summarise(std::move(s.queue));
    a.handling_ns = summarise(std::move(s.handling));
    a.busy_ns = a.handling_ns.sum;
    a.depth = summarise(std::move(s.depth));
  }
  // Sums and counts the other way round, and not negated: a sum may be the least that there is.
  std::stable_sort(out.types.begin(), out.types.end(), [](const auto& a, const auto& b) {
    return std::tuple(a.kind, b.handling_ns.sum, b.handling_ns.count) <
           std::tuple(b.kind, a.handling_ns.sum, a.handling_ns.count);
  });
  std::stable_sort(out.actors.begin(), out.actors.end(), [](const auto& a, const auto& b) {
    return std::pair(a.busy_ns, a.messages) > std::pair(b.busy_ns, b.messages);
  });
  return out;
}

} // namespace godwit::runtime::trace::analysis
