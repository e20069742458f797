#pragma once

#include <godwit/runtime/async/descriptor.hpp>
#include <godwit/runtime/async/expected.hpp>
#include <godwit/runtime/async/name_resolver.hpp>

#include <chrono>
#include <cstdint>
#include <string>

namespace godwit::runtime::detail {

/// A TCP connection to `host` at `port`: to that of the host's addresses that accepts first. CAF itself connects with a
/// call that cannot be bounded, on the one thread that it has for the network, so that an address that drops packets
/// would hold up all other connections, and the end of the system, for two minutes. Blocks until `deadline` at most.
/// Errors: `down`, with the system's words.
[[nodiscard]] async::expected<async::descriptor> open_connection(const std::string& host, std::uint16_t port,
                                                                 std::chrono::steady_clock::time_point deadline,
                                                                 async::name_resolver& names);

/// The connection, over which the other side, as CAF's do, has begun to speak: CAF drops one that is silent at the next
/// heartbeat, however long the way of the first word. Blocks until `deadline` at most. Errors: `down`.
[[nodiscard]] async::expected<async::descriptor> await_words(async::descriptor connection,
                                                             std::chrono::steady_clock::time_point deadline);

} // namespace godwit::runtime::detail
