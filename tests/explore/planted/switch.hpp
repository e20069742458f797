#pragma once

#include <cstdint>

namespace godwit::explore {

/// True where this planted bug is switched on.
[[nodiscard]] bool planted(std::uint32_t number) noexcept;

} // namespace godwit::explore
