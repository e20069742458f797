#include "explore/effects.hpp"

#include "explore/scenario.hpp"

#include <algorithm>
#include <cstddef>

namespace godwit::explore {

namespace {

/// Names are unique here, instances alike and all with a fabric; and a home that is lost hears of nothing.
bool may_be(protocols::migration_reason reason) {
  using enum protocols::migration_reason;
  return reason != request_ambiguous && reason != incompatible && reason != no_fabric && reason != home_lost;
}

std::vector<std::string> all_names() {
  std::vector<std::string> out;
  // Faults that struck, and what operators ordered.
  for (auto kind = fault_kind::cut; kind <= fault_kind::role;
       kind = static_cast<fault_kind>(static_cast<std::uint8_t>(kind) + 1))
    out.emplace_back(to_string(kind));
  // Of autoscaling; of its processes.
  for (const auto* what : {"scaling out", "scaling in", "scaling keep", "scaling dry out", "scaling dry in",
                           "process ordered", "process given back", "role changed"})
    out.emplace_back(what);
  // How migrations ended, and why; what moved requests.
  for (auto how = protocols::migration_outcome::refused; how <= protocols::migration_outcome::lost;
       how = static_cast<protocols::migration_outcome>(static_cast<std::uint8_t>(how) + 1))
    out.push_back("migration " + std::string(to_string(how)));
  for (std::uint8_t why = 1; why < protocols::migration_reasons; ++why)
    if (const auto reason = static_cast<protocols::migration_reason>(why); may_be(reason))
      out.push_back("migration " + std::string(to_string(reason)));
  for (const auto* cause : {"manual", "freeness", "defrag", "drain", "handoff"})
    out.push_back(std::string("moved by ") + cause);
  out.emplace_back("blocks were there"); // where a request came to
  // Samples of one prompt: those that came before the first one had a place, and those that went to where it is.
  for (const auto* what : {"sample waited", "sample beside its sibling"}) out.emplace_back(what);
  for (const auto* what : {"lease expired", "waited for a write", "preempted", "dispatched again"})
    out.emplace_back(what);
  for (const auto* what :
       {"KV is loaded", "KV has come", "KV has gone to the store", "KV was needed on its way to the store"})
    out.emplace_back(what);
  for (const auto* what : {"KV has gone to a disk", "KV has come from a disk"}) out.emplace_back(what);
  for (const auto* what : {"swapped out", "swapped in"}) out.emplace_back(what);
  for (const auto* what : {"a draft was right", "a draft was wrong", "a draft model computed"}) out.emplace_back(what);
  out.emplace_back("a pipeline computed");
  out.emplace_back("layers moved");
  out.emplace_back("another front end was asked");
  out.emplace_back("a front end has lost its head");
  for (const auto* what : {"adapter loaded", "adapter evicted", "adapter waits"}) out.emplace_back(what);
  // What clients hear other than their answers.
  for (const auto* what : {"overloaded", "unavailable", "timed out", "rejected", "internal"})
    out.push_back(std::string("error ") + what);
  return out;
}

} // namespace

const std::vector<std::string>& effects::names() {
  static const auto all = all_names();
  return all;
}

effects::effects() : counts_(names().size()) {}

void effects::add(std::string_view name, std::uint64_t times) {
  const auto known = std::find(names().begin(), names().end(), name);
  if (known != names().end()) counts_[static_cast<std::size_t>(known - names().begin())] += times;
}

void effects::add(const effects& more) {
  for (std::size_t i = 0; i < counts_.size(); ++i) counts_[i] += more.counts_[i];
}

std::uint64_t effects::of(std::string_view name) const {
  const auto known = std::find(names().begin(), names().end(), name);
  return known == names().end() ? 0 : counts_[static_cast<std::size_t>(known - names().begin())];
}

} // namespace godwit::explore
