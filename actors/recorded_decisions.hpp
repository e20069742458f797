#pragma once

#include <godwit/actors/interfaces.hpp>
#include <godwit/protocols/batching/step.hpp>
#include <godwit/protocols/messages/load.hpp>
#include <godwit/protocols/policy/pairing.hpp>
#include <godwit/protocols/policy/role_balance.hpp>
#include <godwit/protocols/policy/scaling.hpp>
#include <godwit/runtime/trace/recorder.hpp>

#include <string>
#include <string_view>
#include <vector>

/// What decisions and devices leave in recordings (docs/tracing.md). Nothing is done where nobody records.
namespace godwit::actors {

/// `decision.dispatch`: the loads that were looked at, and what was chosen.
void note_dispatch(const dispatch_query& query, const dispatch_decision& chosen,
                   const std::vector<protocols::load_report>& loads);
/// `decision.pairing`: where the pairs of a round are not those of the round before.
void note_pairing(std::uint64_t round, protocols::migration_policy policy,
                  const std::vector<protocols::migration_pair>& before,
                  const std::vector<protocols::migration_pair>& now, const std::vector<protocols::load_report>& loads);
/// `decision.scaling`.
void note_scaling(const protocols::scaling_decision& decision, const std::vector<protocols::load_report>& loads);
/// `decision.roles`.
void note_roles(const protocols::role_decision& decision, const std::vector<protocols::load_report>& loads);
/// `request.accepted`: its home has taken it. Whoever waits for an instance is found by it.
void note_accepted(protocols::request_id request, std::string_view client_id);
/// `ownership`: how that of a request changed at its home.
void note_ownership(protocols::request_id request, protocols::epoch epoch, std::string_view what,
                    protocols::instance_id instance, std::string_view client_id = {});

/// `device.step`, from now until it ends.
[[nodiscard]] runtime::trace::span begin_step_span(protocols::instance_id instance, const protocols::step_input& input);
/// `device.part`: what one of several devices has of a step.
[[nodiscard]] runtime::trace::span begin_part_span(std::uint32_t device, const protocols::step_input& input);

} // namespace godwit::actors
