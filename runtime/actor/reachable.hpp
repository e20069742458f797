#pragma once

#include <godwit/runtime/async/expected.hpp>

#include <chrono>
#include <cstdint>
#include <string>

namespace godwit::runtime::detail {

/// An address of `host` that accepts connections at `port`, as CAF can be given it: of those that the host has the one
/// that does so first. CAF itself connects with a call that cannot be bounded, on the one thread that it has for the
/// network, so that an address that drops packets would hold up all other connections, and the end of the system, for
/// two minutes. Blocks until `deadline` at most, and for the look-up of the name. Errors: `down`, with the system's
/// words.
[[nodiscard]] async::expected<std::string> reachable_address(const std::string& host, std::uint16_t port,
                                                             std::chrono::steady_clock::time_point deadline);

} // namespace godwit::runtime::detail
