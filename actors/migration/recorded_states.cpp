#include "migration/recorded_states.hpp"

#include <array>
#include <string>
#include <utility>
#include <variant>

namespace godwit::actors {

namespace trace = runtime::trace;
using protocols::migration_destination;
using protocols::migration_source;

namespace {

// In the order of their declarations.
constexpr std::array<std::string_view, std::variant_size_v<migration_source::event>> source_events{
    "prepared", "opened", "refused",         "reserved", "copied",    "copy_failed", "looked",
    "parked",   "gone",   "commit_answered", "settled",  "peer_lost", "stop",        "timed_out"};
constexpr std::array<std::string_view, 10> source_phases{"preparing", "opening",   "reserving",  "copying",  "looking",
                                                         "parking",   "extending", "committing", "settling", "ended"};
static_assert(source_phases.size() == static_cast<std::size_t>(migration_source::phase::ended) + 1);
constexpr std::array<std::string_view, std::variant_size_v<migration_destination::event>> destination_events{
    "asked_room", "room",          "landed",          "committed",   "closed",
    "adoption",   "abort_ordered", "transfer_failed", "source_lost", "lease_expired"};
constexpr std::array<std::string_view, 6> destination_phases{"receiving", "closing", "adopting",
                                                             "aborting",  "adopted", "aborted"};
static_assert(destination_phases.size() == static_cast<std::size_t>(migration_destination::phase::aborted) + 1);

void note(std::string_view name, protocols::migration_id migration, protocols::request_id request,
          std::string_view from, std::string_view to, std::string_view event) {
  trace::note(name,
              {{"migration", std::to_string(migration.value())},
               {"from", std::string(from)},
               {"to", std::string(to)},
               {"event", std::string(event)}},
              request.value());
}

} // namespace

void note_state(protocols::migration_id migration, protocols::request_id request, migration_source::phase from,
                migration_source::phase to, const migration_source::event& what) {
  if (!trace::recording_here()) return;
  note("migration.source", migration, request, source_phases[static_cast<std::size_t>(from)],
       source_phases[static_cast<std::size_t>(to)], source_events[what.index()]);
}

void note_state(protocols::migration_id migration, protocols::request_id request, migration_destination::phase from,
                migration_destination::phase to, const migration_destination::event& what) {
  if (!trace::recording_here()) return;
  note("migration.destination", migration, request, destination_phases[static_cast<std::size_t>(from)],
       destination_phases[static_cast<std::size_t>(to)], destination_events[what.index()]);
}

trace::span begin_transfer_span(protocols::request_id request, const recorded_transfer& what) {
  if (!trace::recording_here()) return {};
  auto out = trace::begin_span("fabric.transfer", request.value());
  out.add("direction", std::string(what.direction));
  out.add("peer", std::to_string(what.peer.value()));
  out.add("transfer", std::to_string(what.transfer));
  out.add("stage", std::to_string(what.stage));
  out.add("blocks", std::to_string(what.blocks));
  out.add("bytes", std::to_string(what.bytes));
  return out;
}

} // namespace godwit::actors
