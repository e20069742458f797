#pragma once

#include <cstdint>

/// Bugs planted into a second build of the actors (planted/bugs.txt), to see that the search finds them.
namespace godwit::explore {

/// How many there are; 0 in the build of the production actors.
[[nodiscard]] std::uint32_t planted_count() noexcept;
/// Switches one on; 0: none.
void plant(std::uint32_t number) noexcept;

} // namespace godwit::explore
