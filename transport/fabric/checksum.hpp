#pragma once

#include <cstddef>
#include <cstdint>

namespace godwit::transport {

/// A sum that finds damage, not malice.
[[nodiscard]] std::uint64_t checksum(const std::byte* data, std::size_t bytes, std::uint64_t seed) noexcept;

} // namespace godwit::transport
