#pragma once

#include <cstdint>

namespace godwit::bench {

/// How often any thread of the process has allocated memory so far.
[[nodiscard]] std::uint64_t allocations() noexcept;

} // namespace godwit::bench
