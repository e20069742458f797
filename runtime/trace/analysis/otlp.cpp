#include <godwit/runtime/trace/analysis/exports.hpp>

#include <godwit/runtime/trace/analysis/labels.hpp>
#include <godwit/runtime/trace/analysis/requests.hpp>

#include "trace/analysis/piece_writer.hpp"
#include "trace/analysis/starts.hpp"

#include <godwit/protocols/trace_context.hpp>
#include <godwit/runtime/message.hpp>

#include <algorithm>
#include <map>

#include <spdlog/fmt/fmt.h>

namespace godwit::runtime::trace::analysis {

namespace {

// Numbers of OTLP 1.x (opentelemetry-proto, trace.proto); its JSON mapping wants enums as numbers.
enum class span_kind : int { internal = 1, server = 2, producer = 4, consumer = 5 };
constexpr int status_error = 2;

/// Spreads bits; a bijection, so that different numbers stay different (the finaliser of MurmurHash3).
std::uint64_t mix(std::uint64_t x) {
  x ^= x >> 33U;
  x *= 0xFF51AFD7ED558CCDULL;
  x ^= x >> 33U;
  x *= 0xC4CEB9FE1A85EC53ULL;
  return x ^ (x >> 33U);
}

std::string hex(std::uint64_t x) { return fmt::format("{:016x}", x == 0 ? 1 : x); }

class otlp_writer {
public:
  otlp_writer(const index& of, const std::vector<position>& events, const otlp_options& options, const sink& out)
      : of_(of), events_(events), options_(options), sink_(out), chosen_(of.size()) {
    for (const auto p : events) chosen_[p] = true;
    const auto& processes = of.source().processes;
    const auto run = processes.empty() ? 0 : run_of(processes.front());
    for (const auto& process : processes) keys_.push_back(process.key ^ run);
  }

  void run() {
    find_traces();
    std::vector<position> spans;
    for (const auto p : events_) {
      if (is_span(p) || (of_[p].kind == event_kind::note && host(p) == nowhere)) spans.push_back(p);
      if (of_[p].kind == event_kind::note && host(p) != nowhere) notes_[host(p)].push_back(p);
    }
    std::stable_sort(spans.begin(), spans.end(),
                     [this](position a, position b) { return of_[a].id.process < of_[b].id.process; });
    const auto most = options_.spans_max == 0 ? std::max<std::size_t>(spans.size(), 1) : options_.spans_max;
    for (std::size_t i = 0; i == 0 || i < spans.size(); i += most)
      if (!write(std::span(spans).subspan(i, std::min(most, spans.size() - i)))) return;
  }

private:
  /// The processes of all simulations have the same keys; in a collector their spans must not be each other's. The
  /// first process alone says which simulation it is.
  [[nodiscard]] static std::uint64_t run_of(const process& first) {
    std::string run;
    for (const auto& fact : first.facts) {
      if (fact.name == "command" && fact.value != "sim" && fact.value != "explore") return 0;
      if (fact.name.starts_with("argument:") || fact.name == "scenario" || fact.name == "seed")
        (run += fact.value) += '\0';
    }
    return run.empty() ? 0 : runtime::detail::fnv1a(run);
  }
  [[nodiscard]] bool is_span(position p) const {
    const auto kind = of_[p].kind;
    return kind == event_kind::delivery || kind == event_kind::span || kind == event_kind::sent;
  }
  /// The span that a note is an event of.
  [[nodiscard]] position host(position note) const {
    const auto cause = cause_past_starts(of_, note);
    return cause != nowhere && chosen_[cause] && is_span(cause) ? cause : nowhere;
  }

  void find_traces() {
    traces_.resize(of_.size());
    for (position p = 0; p < of_.size(); ++p) {
      if (!is_http(p)) continue;
      // What the answer named is what the client may look for.
      const auto told = protocols::parse_traceparent(attribute_of(of_[p], "answered"));
      const auto client = protocols::parse_traceparent(attribute_of(of_[p], "traceparent"));
      if (told) told_[p] = told->parent;
      if (client) parents_[p] = client->parent;
      if (!told && !client) continue;
      traces_[p] = client ? client->trace : told->trace;
      for (const auto id : numbers_in(attribute_of(of_[p], "request"))) clients_[id] = traces_[p];
      if (of_[p].request != 0) clients_[of_[p].request] = traces_[p];
    }
    for (const auto root : of_.roots()) spread(root);
    for (position p = 0; p < of_.size(); ++p) // a broken file's cycles have no root
      if (traces_[p].empty()) traces_[p] = own_trace(p);
  }

  void spread(position root) {
    std::vector<position> todo{root};
    while (!todo.empty()) {
      const auto p = todo.back();
      todo.pop_back();
      const auto cause = of_.cause(p);
      if (traces_[p].empty()) traces_[p] = trace_below(p, cause);
      for (const auto effect : of_.effects(p)) todo.push_back(effect);
    }
  }

  // What is about none or several, like the steps of a batch, leaves the trace of the request that it came from.
  [[nodiscard]] std::string trace_below(position p, position cause) const {
    if (const auto about = request_of(p); about != 0) return trace_of(about);
    if (cause != nowhere && (request_of(cause) == 0 || is_http(cause))) return traces_[cause];
    return own_trace(p);
  }

  [[nodiscard]] bool is_http(position p) const {
    return of_[p].kind == event_kind::span && of_.source().name_of(of_[p]) == "http.request";
  }

  [[nodiscard]] std::uint64_t request_of(position p) const {
    if (of_.about(p) != 0) return of_.about(p);
    const auto named = numbers_in(attribute_of(of_[p], "request"));
    return named.empty() ? 0 : named.front();
  }
  [[nodiscard]] std::string trace_of(std::uint64_t request) const {
    if (const auto found = clients_.find(request); found != clients_.end()) return found->second;
    return hex(mix(keys_.front())) + hex(mix(request));
  }
  [[nodiscard]] std::string own_trace(position p) const { return hex(mix(~key(p))) + hex(mix(of_[p].id.number)); }
  [[nodiscard]] std::uint64_t key(position p) const { return keys_[of_[p].id.process]; }
  [[nodiscard]] std::string span_id(position p) const {
    if (const auto found = told_.find(p); found != told_.end()) return found->second;
    return hex(mix(mix(key(p)) ^ of_[p].id.number));
  }

  bool write(std::span<const position> spans) {
    if (options_.spans_max == 0) return write(spans, sink_);
    std::string whole;
    const sink collect = [&whole](std::string_view piece) {
      whole += piece;
      return true;
    };
    return write(spans, collect) && sink_(whole);
  }

  bool write(std::span<const position> spans, const sink& to) {
    piece_writer out(to);
    out.raw("{\"resourceSpans\":[");
    for (std::size_t i = 0; i < spans.size();) {
      const auto process = of_[spans[i]].id.process;
      out.raw(i == 0 ? "" : ",");
      resource(out, process);
      for (auto first = true; i < spans.size() && of_[spans[i]].id.process == process; ++i, first = false) {
        out.raw(first ? "" : ",");
        span(out, spans[i]);
        if (!out.pass_on()) return false;
      }
      out.raw("]}]}");
    }
    out.raw("]}\n");
    return out.flush();
  }

  static void attribute(piece_writer& out, std::string_view name, std::string_view value) {
    out.raw("{\"key\":").string(name).raw(",\"value\":{\"stringValue\":").string(value).raw("}}");
  }
  /// int64 is a string in protobuf's JSON.
  static void attribute(piece_writer& out, std::string_view name, std::int64_t value) {
    out.raw("{\"key\":").string(name).raw(",\"value\":{\"intValue\":\"").number(value).raw("\"}}");
  }

  void resource(piece_writer& out, std::uint32_t process) {
    const auto& p = of_.source().processes[process];
    out.raw("{\"resource\":{\"attributes\":[");
    attribute(out, "service.name", options_.service_name);
    attribute(out.raw(","), "service.instance.id", p.name);
    for (const auto& fact : p.facts) attribute(out.raw(","), "godwit." + fact.name, fact.value);
    out.raw("]},\"scopeSpans\":[{\"scope\":{\"name\":\"godwit.trace\"},\"spans\":[");
  }

  [[nodiscard]] std::string unix_ns(std::int64_t ns) const {
    return std::to_string(std::max<std::int64_t>(0, of_.source().processes.front().started_unix_ns + ns));
  }

  [[nodiscard]] span_kind kind_of(position p) const {
    if (is_http(p)) return span_kind::server;
    if (of_[p].kind == event_kind::sent) return span_kind::producer;
    const auto& e = of_[p];
    const auto remote = e.kind == event_kind::delivery && e.sender && e.sender.process != e.id.process;
    return remote ? span_kind::consumer : span_kind::internal;
  }

  void span(piece_writer& out, position p) {
    const auto& e = of_[p];
    out.raw("{\"traceId\":\"").raw(traces_[p]).raw("\",\"spanId\":\"").raw(span_id(p)).raw("\"");
    auto cause = cause_past_starts(of_, p);
    if (cause != nowhere && !(chosen_[cause] && is_span(cause))) cause = nowhere;
    const auto same = cause != nowhere && traces_[cause] == traces_[p];
    if (const auto client = parents_.find(p); client != parents_.end())
      out.raw(",\"parentSpanId\":\"").raw(client->second).raw("\"");
    else if (same)
      out.raw(",\"parentSpanId\":\"").raw(span_id(cause)).raw("\"");
    out.raw(",\"name\":").string(short_name(of_.source(), e));
    out.raw(",\"kind\":").number(static_cast<int>(kind_of(p)));
    out.raw(",\"startTimeUnixNano\":\"").raw(unix_ns(of_.begin(p)));
    out.raw("\",\"endTimeUnixNano\":\"").raw(unix_ns(of_.end(p))).raw("\",\"attributes\":[");
    attributes(out, p);
    out.raw("]");
    if (const auto notes = notes_.find(p); notes != notes_.end()) events(out, notes->second);
    if (cause != nowhere && !same)
      out.raw(",\"links\":[{\"traceId\":\"")
          .raw(traces_[cause])
          .raw("\",\"spanId\":\"")
          .raw(span_id(cause))
          .raw("\"}]");
    // By the semantic conventions what a client did wrong is no error of the server's.
    const auto status = is_http(p) ? attribute_of(e, "status") : std::string_view();
    const auto error = status.starts_with('4') ? std::string_view() : std::string_view(attribute_of(e, "error"));
    const bool failed_at_server = status.starts_with('5');
    if ((e.kind == event_kind::delivery && e.message == message_kind::failure) || !error.empty() || failed_at_server) {
      out.raw(",\"status\":{\"code\":").number(status_error);
      if (!error.empty()) out.raw(",\"message\":").string(error);
      out.raw("}");
    }
    out.raw("}");
  }

  void attributes(piece_writer& out, position p) {
    const auto& e = of_[p];
    const auto& r = of_.source();
    attribute(out, "godwit.event", label(r, e.id));
    if (of_.about(p) != 0) attribute(out.raw(","), "godwit.request", std::to_string(of_.about(p)));
    if (e.kind == event_kind::delivery || e.kind == event_kind::sent) {
      attribute(out.raw(","), "godwit.type", r.name_of(e));
      attribute(out.raw(","), "godwit.kind", to_string(e.message));
      attribute(out.raw(","), "godwit.sender", label(r, e.sender));
      attribute(out.raw(","), "godwit.receiver", label(r, e.receiver));
      attribute(out.raw(","), "godwit.bytes", std::int64_t{e.bytes});
    }
    if (e.kind == event_kind::delivery) {
      attribute(out.raw(","), "godwit.queue_ns", e.begin_ns - e.queued_ns);
      attribute(out.raw(","), "godwit.depth", std::int64_t{e.depth});
    }
    if (!e.text.empty()) attribute(out.raw(","), "godwit.content", e.text);
    for (const auto& a : e.attributes) attribute(out.raw(","), a.name, a.value);
  }

  void events(piece_writer& out, const std::vector<position>& notes) {
    out.raw(",\"events\":[");
    for (std::size_t i = 0; i < notes.size(); ++i) {
      out.raw(i == 0 ? "" : ",").raw("{\"timeUnixNano\":\"").raw(unix_ns(of_.begin(notes[i]))).raw("\",\"name\":");
      out.string(of_.source().name_of(of_[notes[i]])).raw(",\"attributes\":[");
      auto first = true;
      for (const auto& a : of_[notes[i]].attributes) {
        attribute(out.raw(first ? "" : ","), a.name, a.value);
        first = false;
      }
      out.raw("]}");
    }
    out.raw("]");
  }

  const index& of_;
  const std::vector<position>& events_;
  const otlp_options& options_;
  const sink& sink_;
  std::vector<bool> chosen_;
  std::vector<std::uint64_t> keys_; ///< by process
  std::vector<std::string> traces_;
  std::map<std::uint64_t, std::string> clients_; ///< traces that clients began, by model request
  std::map<position, std::string> parents_;      ///< their spans
  std::map<position, std::string> told_;         ///< ours, as answers name them
  std::map<position, std::vector<position>> notes_;
};

} // namespace

void to_otlp(const index& of, const std::vector<position>& events, const otlp_options& options, const sink& out) {
  otlp_writer(of, events, options, out).run();
}

} // namespace godwit::runtime::trace::analysis
