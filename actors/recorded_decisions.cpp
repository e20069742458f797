#include "recorded_decisions.hpp"

#include <godwit/protocols/policy/freeness.hpp>

#include <algorithm>
#include <cstdio>
#include <optional>
#include <span>
#include <utility>

namespace godwit::actors {

namespace trace = runtime::trace;
using attributes = std::vector<trace::attribute>;

namespace {

/// Of a large cluster the rest is counted: the flight recorder is always on, and a decision must stay cheap. Reports
/// are messages, and recorded as such.
constexpr std::size_t loads_max = 16;
constexpr std::size_t requests_max = 1024;

std::string text(double x) {
  char out[32];
  std::snprintf(out, sizeof out, "%.6g", x);
  return out;
}

std::string text(const protocols::load_report& load) {
  auto out = std::to_string(load.instance.value()) + ": freeness " +
             text(protocols::finite(protocols::freeness(load))) + " running " + std::to_string(load.running) +
             " waiting " + std::to_string(load.waiting);
  if (!load.ready) out += " not ready";
  if (load.terminating) out += " terminating";
  if (load.role != protocols::instance_role::mixed) out += " for " + std::string(to_string(load.role));
  return out;
}

/// "0: freeness 12.5 running 3 waiting 0; 1: ...", and `chosen` in any case.
std::string text(const std::vector<protocols::load_report>& loads, std::optional<protocols::instance_id> chosen = {}) {
  std::string out;
  const auto shown = std::min(loads.size(), loads_max);
  for (std::size_t i = 0; i < shown; ++i) out += (i == 0 ? "" : "; ") + text(loads[i]);
  auto more = loads.size() - shown;
  const auto behind = std::span(loads).subspan(shown);
  if (const auto it = std::ranges::find(behind, chosen, [](const auto& l) { return std::optional{l.instance}; });
      chosen && it != behind.end()) {
    out += "; " + text(*it);
    --more;
  }
  if (more > 0) out += "; and " + std::to_string(more) + " more";
  return out;
}

std::string text(const std::vector<protocols::migration_pair>& pairs) {
  std::string out;
  for (const auto& pair : pairs)
    out +=
        (out.empty() ? "" : " ") + std::to_string(pair.source.value()) + ">" + std::to_string(pair.destination.value());
  return out;
}

/// Not one that an instance has made up to measure its device.
bool is_somebodys(const protocols::step_slice& slice) {
  return protocols::home_of(slice.request) != protocols::nobodys_home;
}

std::string requests_of(const protocols::step_input& input) {
  std::string out;
  for (const auto& slice : std::span(input.slices).first(std::min(input.slices.size(), requests_max)))
    if (is_somebodys(slice)) out += (out.empty() ? "" : " ") + std::to_string(slice.request.value());
  return out;
}

/// 0: it is for several.
std::uint64_t only_request(const protocols::step_input& input) {
  const bool alone = input.slices.size() == 1 && is_somebodys(input.slices.front());
  return alone ? input.slices.front().request.value() : 0;
}

/// The HTTP span, which has it too, is stored when it ends: a dump may be about one that does not.
void add_client(attributes& to, std::string_view client_id) {
  constexpr std::size_t bytes_max = 256; // a recording should not grow with what clients send
  if (!client_id.empty()) to.emplace_back("client_id", std::string(client_id.substr(0, bytes_max)));
}

} // namespace

void note_dispatch(const dispatch_query& query, const dispatch_decision& chosen,
                   const std::vector<protocols::load_report>& loads) {
  if (!trace::recording_here()) return;
  attributes out{{"tokens", std::to_string(query.prompt_tokens)},
                 {"priority", std::to_string(query.priority)},
                 {"execution_level", std::to_string(query.execution_level)},
                 {"loads", text(loads, chosen.found ? std::optional{chosen.instance} : std::nullopt)}};
  if (chosen.found) {
    out.emplace_back("chosen", std::to_string(chosen.instance.value()));
    out.emplace_back("policy", chosen.why.policy);
    out.emplace_back("score", text(chosen.why.score));
    out.emplace_back("runner_up", text(chosen.why.runner_up));
    out.emplace_back("candidates", std::to_string(chosen.why.candidates));
    out.emplace_back("prefix_tokens", std::to_string(chosen.why.prefix_tokens));
    out.emplace_back("ttft_ms", text(static_cast<double>(chosen.why.ttft_ns) / 1e6));
  } else {
    out.emplace_back("chosen", chosen.overloaded ? "none: every queue is full"
                               : chosen.late     ? "none: none is expected to meet its objectives"
                               : chosen.stale    ? "none: reports are old, or the policy failed"
                                                 : "none: no instance takes requests");
  }
  trace::note("decision.dispatch", std::move(out), query.request.value());
}

void note_pairing(std::uint64_t round, protocols::migration_policy policy,
                  const std::vector<protocols::migration_pair>& before,
                  const std::vector<protocols::migration_pair>& now, const std::vector<protocols::load_report>& loads) {
  if (now == before || !trace::recording_here()) return;
  trace::note("decision.pairing", {{"policy", std::string(to_string(policy))},
                                   {"round", std::to_string(round)},
                                   {"loads", text(loads)},
                                   {"before", text(before)},
                                   {"chosen", text(now)}});
}

void note_scaling(const protocols::scaling_decision& decision, const std::vector<protocols::load_report>& loads) {
  if (!trace::recording_here()) return;
  attributes out{{"chosen", std::string(to_string(decision.what))},
                 {"why", decision.why},
                 {"dry", decision.dry ? "true" : "false"},
                 {"loads", text(loads)}};
  if (decision.what != protocols::scaling_decision::kind::out)
    out.emplace_back("instance", std::to_string(decision.instance.value()));
  trace::note("decision.scaling", std::move(out));
}

void note_roles(const protocols::role_decision& decision, const std::vector<protocols::load_report>& loads) {
  if (!trace::recording_here()) return;
  std::string instances;
  for (const auto id : decision.instances) instances += (instances.empty() ? "" : " ") + std::to_string(id.value());
  trace::note("decision.roles", {{"chosen", std::string(to_string(decision.to))},
                                 {"instances", std::move(instances)},
                                 {"why", decision.why},
                                 {"loads", text(loads)}});
}

void note_accepted(protocols::request_id request, std::string_view client_id) {
  if (!trace::recording_here()) return;
  std::vector<trace::attribute> out{{"request", std::to_string(request.value())}};
  add_client(out, client_id);
  trace::note("request.accepted", std::move(out), request.value());
}

void note_ownership(protocols::request_id request, protocols::epoch epoch, std::string_view what,
                    protocols::instance_id instance, std::string_view client_id) {
  if (!trace::recording_here()) return;
  std::vector<trace::attribute> out{{"request", std::to_string(request.value())},
                                    {"epoch", std::to_string(epoch.value())},
                                    {"what", std::string(what)},
                                    {"instance", std::to_string(instance.value())}};
  add_client(out, client_id);
  trace::note("ownership", std::move(out), request.value());
}

trace::span begin_step_span(protocols::instance_id instance, const protocols::step_input& input) {
  if (!trace::recording_here()) return {};
  std::size_t prefill = 0, decode = 0, drafted = 0;
  for (const auto& slice : input.slices) {
    // One token that is not the first of its request is decoded; so is the last of a prompt cut so that it is alone.
    if (slice.tokens.size() - slice.drafted == 1 && slice.first_position > 0)
      ++decode;
    else
      prefill += slice.tokens.size();
    drafted += slice.drafted + slice.drafts_wanted;
  }
  auto out = trace::begin_span("device.step", only_request(input));
  out.add("instance", std::to_string(instance.value()));
  out.add("prefill_tokens", std::to_string(prefill));
  out.add("decode_tokens", std::to_string(decode));
  if (drafted > 0) out.add("draft_tokens", std::to_string(drafted));
  out.add("requests", requests_of(input));
  return out;
}

trace::span begin_part_span(std::uint32_t device, const protocols::step_input& input) {
  if (!trace::recording_here()) return {};
  auto out = trace::begin_span("device.part", only_request(input));
  out.add("device", std::to_string(device));
  out.add("tokens", std::to_string(input.tokens()));
  out.add("requests", requests_of(input));
  return out;
}

} // namespace godwit::actors
