#pragma once

#include <godwit/runtime/trace/recording.hpp>

#include <cstddef>
#include <cstdint>
#include <vector>

namespace godwit::runtime::trace {

/// A message between processes, as indices of its `sent` event and of the delivery that this caused.
struct crossing {
  std::size_t sent;
  std::size_t delivery;
};
[[nodiscard]] std::vector<crossing> crossings(const recording& of);

/// Processes of one group share a clock: their offsets differ by what is known. `no_group`: a process without events.
inline constexpr std::uint32_t no_group = 0xffffffff;
struct clock_groups {
  std::vector<std::uint32_t> of; ///< by process
  std::uint32_t count = 0;
};

/// Sets the offsets of all groups so that they agree with that of the first one that has events: in the middle of what
/// messages in both directions allow; by wall clocks, with a remark, where these leave it open.
void align_clocks(recording& of, const clock_groups& groups, const std::vector<crossing>& messages);

/// Moves times so that no message is queued before it was sent: where one is, its process's times are moved on from
/// there, less and less the later. Orders and lengths within a process stay, but for less than one part in a hundred.
void restore_causality(recording& of, const std::vector<crossing>& messages);

} // namespace godwit::runtime::trace
