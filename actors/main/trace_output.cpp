#include "main/trace_output.hpp"

#include <godwit/runtime/trace/analysis/labels.hpp>

#include <spdlog/fmt/fmt.h>

#include <array>
#include <ctime>

namespace godwit::main {

namespace json = boost::json;
namespace trace = runtime::trace;
namespace analysis = runtime::trace::analysis;

using analysis::harmless;
using analysis::label;
using trace::event_kind;

namespace {

bool is_message(const trace::event& e) { return e.kind == event_kind::delivery || e.kind == event_kind::sent; }

} // namespace

std::string event_text(const analysis::index& of, analysis::position p, bool whole) {
  const auto& e = of[p];
  const auto& r = of.source();
  const auto name = analysis::short_name(r, e);
  if (is_message(e)) {
    const auto more = e.kind == event_kind::sent ? ", to another process" : "";
    return fmt::format("{} -> {}  {} ({}{})", label(r, e.sender), label(r, e.receiver), name, to_string(e.message),
                       more);
  }
  if (e.kind == event_kind::gap) return fmt::format("{} events were lost here", e.count);
  if (e.kind == event_kind::spawned || e.kind == event_kind::ended)
    return fmt::format("{}  {}", label(r, e.receiver), to_string(e.kind));
  auto out = fmt::format("{}  {} ({})", label(r, e.sender), name, to_string(e.kind));
  for (const auto& a : e.attributes)
    out +=
        fmt::format(" {}={}", harmless(a.name), whole ? harmless(a.value) : analysis::shortened(harmless(a.value), 60));
  return out;
}

std::string times_text(const analysis::index& of, analysis::position p) {
  const auto& e = of[p];
  if (e.kind == event_kind::delivery)
    return fmt::format("{} queued, {} handled", analysis::duration_text(e.begin_ns - e.queued_ns),
                       analysis::duration_text(e.end_ns - e.begin_ns));
  return e.kind == event_kind::span ? analysis::duration_text(e.end_ns - e.begin_ns) : std::string();
}

std::string offset_text(const analysis::index& of, std::int64_t ns) {
  return fmt::format("+{:.6f} s", static_cast<double>(ns - of.first_ns()) / 1e9);
}

std::string moment_text(std::int64_t unix_ns) {
  if (unix_ns <= 0) return {};
  const auto seconds = static_cast<std::time_t>(unix_ns / 1'000'000'000);
  std::tm parts{};
  if (::gmtime_r(&seconds, &parts) == nullptr) return {};
  std::array<char, 64> text{};
  const auto n = std::strftime(text.data(), text.size(), "%Y-%m-%d %H:%M:%S", &parts);
  return fmt::format("{}.{:03} UTC", std::string_view(text.data(), n), unix_ns / 1'000'000 % 1000);
}

std::string json_text(const json::value& what) { return analysis::valid_utf8(json::serialize(what)); }

json::object event_json(const analysis::index& of, analysis::position p) {
  const auto& e = of[p];
  const auto& r = of.source();
  json::object out{{"id", label(r, e.id)},
                   {"cause", e.cause ? json::value(label(r, e.cause)) : json::value()},
                   {"kind", to_string(e.kind)},
                   {"name", r.name_of(e)},
                   {"process", r.processes[e.id.process].name},
                   {"begin_ns", of.begin(p) - of.first_ns()},
                   {"end_ns", of.end(p) - of.first_ns()}};
  if (of.about(p) != 0) out["request"] = of.about(p);
  if (e.sender || is_message(e)) out["sender"] = label(r, e.sender);
  if (e.receiver) out["receiver"] = label(r, e.receiver);
  if (e.kind == event_kind::gap) out["lost"] = e.count;
  if (is_message(e)) {
    out["message"] = to_string(e.message);
    out["queued_ns"] = of.queued(p) - of.first_ns();
    out["bytes"] = e.bytes;
    if (e.wait != 0) out["wait"] = e.wait;
  }
  if (e.kind == event_kind::delivery) {
    out["depth"] = e.depth;
    out["thread"] = e.thread;
    out["outside"] = e.outside;
    out["resumed"] = e.resumed;
  }
  if (!e.text.empty()) out["content"] = e.text;
  if (!e.attributes.empty()) {
    auto& attributes = out["attributes"].emplace_object();
    for (const auto& a : e.attributes) attributes[a.name] = a.value;
  }
  return out;
}

json::object request_json(const analysis::index& of, const analysis::model_request& r) {
  return {{"request", r.id},
          {"client_id", r.client_id},
          {"target", r.target},
          {"outcome", r.outcome},
          {"begin_ns", r.begin_ns - of.first_ns()},
          {"duration_ns", r.duration_ns()},
          {"events", r.events}};
}

json::object summary_json(const analysis::summary& s) {
  return {{"count", s.count}, {"mean", s.mean}, {"p50", s.p50}, {"p99", s.p99}, {"max", s.max}, {"sum", s.sum}};
}

} // namespace godwit::main
