#pragma once

#include <cstdint>
#include <string_view>

namespace godwit::protocols {

/// Why a migration was refused, or ended without a commit.
enum class migration_reason : std::uint8_t {
  none,                  ///< it committed
  request_unknown,       ///< the request is not here, or not with this epoch
  request_finished,      ///< it ended by itself during the migration
  request_cancelled,     ///< its client went away, or its home took it back
  request_preempted,     ///< it lost its blocks to others
  request_busy,          ///< it is being migrated already
  request_ambiguous,     ///< several requests go by that name (prompts or samples of one call)
  same_instance,         ///< it is there already
  incompatible,          ///< the destination has another model or another KV layout
  no_fabric,             ///< one of the two has no way to move blocks
  no_adapter,            ///< the destination has not the request's adapter, or not in time
  source_busy,           ///< the source has as many migrations as it may
  destination_busy,      ///< the destination has
  destination_full,      ///< no blocks, or no place in the batch
  destination_not_ready, ///< it loads its model, or is not there
  not_converging,        ///< decoding outruns the copy: too many stages
  transfer_failed,       ///< the fabric could not bring the blocks over
  timed_out,             ///< a stage, an answer or a lease took too long
  peer_lost,             ///< the other side died or was cut off
  home_refused,          ///< the request's home does not let it move (any more)
  home_lost,             ///< the request's home is down
  stopped                ///< this side is shutting down, or was told to stop
};
inline constexpr std::uint8_t migration_reasons = static_cast<std::uint8_t>(migration_reason::stopped) + 1;

[[nodiscard]] std::string_view to_string(migration_reason reason) noexcept;

/// How a migration ended, as the source sees it.
enum class migration_outcome : std::uint8_t {
  refused,   ///< never began
  aborted,   ///< the request stayed, or ended by itself; the destination never had it
  committed, ///< the destination owns it
  reclaimed, ///< the commit went unanswered; the home gave the request back to the source
  lost       ///< the commit went unanswered and the home too: the source let go of the request
};
[[nodiscard]] std::string_view to_string(migration_outcome outcome) noexcept;

} // namespace godwit::protocols
