#include "main/request_story.hpp"

#include "main/migration_json.hpp"
#include "main/units.hpp"

#include <boost/json.hpp>
#include <spdlog/fmt/fmt.h>

namespace godwit::main {

namespace json = boost::json;
using protocols::migration_cause;
using protocols::request_event;

namespace {

std::string plural(std::uint64_t n, const char* what) { return fmt::format("{} {}{}", n, what, n == 1 ? "" : "s"); }

/// What a policy's score counts; empty: it counts nothing.
std::string score_of(const std::string& policy, double score) {
  if (policy == "freeness") return fmt::format("F {:.2f}", score);
  if (policy == "infaas") return fmt::format("{:.1f} % of its KV blocks used", 100 * score);
  if (policy == "cache_aware") return fmt::format("cost {:.0f}", score);
  if (policy == "ttft") return fmt::format("{:.1f} ms to its first token", score);
  if (policy == "least_requests" || policy == "power_of_two") return fmt::format("{:.0f} requests", score);
  return {};
}

std::string why(const protocols::dispatch_reason& d) {
  if (d.policy == "bypass") return fmt::format("in turn among {}: the scheduler is away", d.candidates);
  if (d.policy == "retry")
    return fmt::format("in turn among {}: the chosen one had no place in its queue", d.candidates);
  auto out = fmt::format("policy {}", d.policy);
  if (const auto score = score_of(d.policy, d.score); !score.empty()) {
    out += ": " + score;
    if (d.candidates > 1) out += fmt::format(", the next best {}", score_of(d.policy, d.runner_up));
  }
  out += fmt::format("; {}", plural(d.candidates, "candidate"));
  if (d.blocks > 0) out += fmt::format(", it demands {}", plural(d.blocks, "block"));
  if (d.prefix_tokens > 0) out += fmt::format(", and was sent the first {} tokens before", d.prefix_tokens);
  if (d.ttft_ns > 0 && d.policy != "ttft")
    out += fmt::format("; {:.1f} ms to its first token expected", static_cast<double>(d.ttft_ns) / 1e6);
  return out;
}

std::string why(const migration_cause& c) {
  const auto numbers = [&] {
    return fmt::format(" (round {}: F {:.2f} -> {:.2f} at the source, {:.2f} -> {:.2f} at the destination)", c.round,
                       c.source_before, c.source_after, c.destination_before, c.destination_after);
  };
  switch (c.what) {
  case migration_cause::kind::manual:
    return "by hand";
  case migration_cause::kind::freeness:
    return "for freeness" + numbers();
  case migration_cause::kind::defrag:
    return "to make room for the head of the line" + numbers();
  case migration_cause::kind::drain:
    // A source that drains has no freeness.
    return fmt::format("because the source drains (round {}: F {:.2f} -> {:.2f} at the destination)", c.round,
                       c.destination_before, c.destination_after);
  case migration_cause::kind::handoff:
    return "as its prompt was computed, and the source is for prefill" + numbers();
  }
  return {};
}

std::string tell(const protocols::migration_report& m) {
  const bool known = m.epoch != protocols::epoch{}; // where it was
  auto out = fmt::format("{}{} to {}{} {}", m.committed() ? "moved" : "not moved",
                         known ? fmt::format(" from instance {}", m.source.value()) : "", known ? "" : "instance ",
                         m.destination.value(), why(m.cause));
  if (!m.committed()) out += fmt::format(": {} ({})", to_string(m.outcome), to_string(m.reason));
  if (m.committed() && m.stages == 0) out += "; it waited, so there was nothing to copy";
  if (m.stages > 0)
    out += fmt::format("; {}, {}{}, {:.1f} MiB, stall {:.2f} ms, {:.1f} ms in all", plural(m.stages, "stage"),
                       plural(m.blocks, "block"), m.known == 0 ? "" : fmt::format(" ({} were there)", m.known),
                       static_cast<double>(m.bytes) / (1 << 20), ms(m.stall_ns), ms(m.duration_ns));
  return out;
}

std::string tell(const request_event& e) {
  switch (e.what) {
  case request_event::kind::dispatched:
    return fmt::format("dispatched to instance {} (epoch {}): {}", e.instance.value(), e.epoch.value(),
                       why(e.dispatch));
  case request_event::kind::lost:
    return fmt::format("lost by instance {} (epoch {})", e.instance.value(), e.epoch.value());
  case request_event::kind::migrated:
    return tell(e.migration);
  }
  return {};
}

std::string_view name_of(request_event::kind kind) {
  switch (kind) {
  case request_event::kind::dispatched:
    return "dispatched";
  case request_event::kind::lost:
    return "lost";
  case request_event::kind::migrated:
    return "migrated";
  }
  return "unknown";
}

json::object object_of(const request_event& e) {
  json::object out{{"event", std::string(name_of(e.what))}, {"at_ms", ms(e.at_ns)}, {"epoch", e.epoch.value()}};
  if (e.what == request_event::kind::migrated) {
    out["migration"] = migration_json(e.migration);
    return out;
  }
  out["instance"] = e.instance.value();
  if (e.what == request_event::kind::dispatched)
    out["why"] = json::object{{"policy", e.dispatch.policy},       {"score", e.dispatch.score},
                              {"runner_up", e.dispatch.runner_up}, {"candidates", e.dispatch.candidates},
                              {"kv_blocks", e.dispatch.blocks},    {"prefix_tokens", e.dispatch.prefix_tokens}};
  return out;
}

std::string state_of(const protocols::request_history& h) {
  if (h.ended) return fmt::format("ended ({}) after {:.1f} ms", h.outcome, ms(h.age_ns));
  if (!h.owned) return fmt::format("open for {:.1f} ms, on no instance", ms(h.age_ns));
  return fmt::format("open for {:.1f} ms, on instance {} (epoch {})", ms(h.age_ns), h.instance.value(),
                     h.epoch.value());
}

} // namespace

std::string request_story(const protocols::request_history& h) {
  auto out = fmt::format("request {}{}: {}\n{} prompt + {} answer tokens, priority {}, execution priority {}\n",
                         h.request.value(), h.client_id.empty() ? "" : " (" + h.client_id + ")", state_of(h),
                         h.prompt_tokens, h.answer_tokens, h.priority, h.execution_priority);
  if (!h.namesakes.empty()) {
    out += "others of this name:";
    for (const auto other : h.namesakes) out += fmt::format(" {}", other.value());
    out += '\n';
  }
  if (h.events_dropped > 0) out += fmt::format("{} before these are forgotten\n", plural(h.events_dropped, "event"));
  for (const auto& e : h.events) out += fmt::format("{:>12.1f} ms  {}\n", ms(e.at_ns), tell(e));
  return out;
}

std::string request_story_json(const protocols::request_history& h) {
  json::array namesakes;
  for (const auto other : h.namesakes) namesakes.push_back(other.value());
  json::array events;
  for (const auto& e : h.events) events.push_back(object_of(e));
  return json::serialize(json::object{{"id", h.request.value()},
                                      {"client_id", h.client_id},
                                      {"namesakes", std::move(namesakes)},
                                      {"outcome", h.ended ? json::value(h.outcome) : json::value()},
                                      {"instance", h.owned ? json::value(h.instance.value()) : json::value()},
                                      {"epoch", h.epoch.value()},
                                      {"priority", h.priority},
                                      {"execution_priority", h.execution_priority},
                                      {"prompt_tokens", h.prompt_tokens},
                                      {"answer_tokens", h.answer_tokens},
                                      {"age_ms", ms(h.age_ns)},
                                      {"events_dropped", h.events_dropped},
                                      {"events", std::move(events)}});
}

} // namespace godwit::main
