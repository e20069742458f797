#pragma once

#include <cstdint>

namespace godwit::transport::http::test {

/// On this thread: so many allocations more succeed, the one behind them fails, and then all succeed again.
void fail_an_allocation(std::uint32_t after) noexcept;
/// Those that have failed, of any thread.
[[nodiscard]] std::uint32_t failed_allocations() noexcept;

} // namespace godwit::transport::http::test
