#pragma once

#include <godwit/protocols/messages/load.hpp>

#include <cstdint>
#include <limits>

/// Virtual usage and freeness (Llumnix, OSDI '24, section 4.4, Algorithm 1). Blocks of 16 tokens throughout.
namespace godwit::protocols {

/// Sum of the virtual usages of an instance's requests but for the fake one of a terminating instance, whose usage is
/// infinite: what running requests hold, what the head of line demands, and the headroom of execution priorities.
[[nodiscard]] std::uint64_t virtual_usage(const load_report& load) noexcept;

/// F = (M - sum of virtual usages) / B: how many more blocks each running request can have, so that 16 F is how many
/// more steps the batch can run. The edge cases, decided here:
/// * B = 0: as B = 1. An idle instance has F = M, the most that its pool can give to the next request.
/// * Negative: not divided. What is missing does not become less because many share in it.
/// * Terminating (the fake request): minus infinity.
[[nodiscard]] double freeness(const load_report& load) noexcept;
/// The same of an instance as it would be with so many blocks and running requests more, or less.
[[nodiscard]] double freeness(const load_report& load, std::int64_t blocks_more, std::int64_t running_more) noexcept;

/// Whether requests have left anything of the pool, kept free as headroom or not.
[[nodiscard]] bool has_memory_left(const load_report& load) noexcept;

/// Beyond all that pools of this world can say.
inline constexpr double freeness_bound = 1e12;
/// For messages and people: within +-freeness_bound. What is not a number becomes the lower end.
[[nodiscard]] double finite(double freeness) noexcept;

inline constexpr double no_freeness = -std::numeric_limits<double>::infinity();

} // namespace godwit::protocols
