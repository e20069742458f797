#pragma once

#include <godwit/protocols/messages/ids.hpp>
#include <godwit/protocols/messages/migration.hpp>
#include <godwit/protocols/migration/destination.hpp>
#include <godwit/protocols/migration/source.hpp>
#include <godwit/runtime/trace/recorder.hpp>

#include <cstdint>
#include <string_view>

/// What migrations leave in recordings (docs/tracing.md). Nothing is done where nobody records.
namespace godwit::actors {

/// `migration.source`: what happened, and the phase before and after it.
void note_state(protocols::migration_id migration, protocols::request_id request,
                protocols::migration_source::phase from, protocols::migration_source::phase to,
                const protocols::migration_source::event& what);
/// `migration.destination`.
void note_state(protocols::migration_id migration, protocols::request_id request,
                protocols::migration_destination::phase from, protocols::migration_destination::phase to,
                const protocols::migration_destination::event& what);

/// One `fabric.transfer`, from now until it ends.
struct recorded_transfer {
  std::string_view direction; ///< "out" or "in"
  protocols::instance_id peer;
  std::uint64_t transfer = 0; ///< its key
  std::uint32_t stage = 0;
  std::uint32_t blocks = 0;
  std::uint64_t bytes = 0;
};
[[nodiscard]] runtime::trace::span begin_transfer_span(protocols::request_id request, const recorded_transfer& what);

} // namespace godwit::actors
