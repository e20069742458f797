#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <set>

namespace godwit::transport::ucx {

/// UCX 1.13 keeps whoever connects to its ports and says nothing, and tells nobody before the first word. So whoever
/// does that again and again takes all descriptors of the process, and nobody else gets in.

/// Ports at which this process waits for connections over TCP.
[[nodiscard]] std::set<std::uint16_t> listening_ports();

/// More than half of the descriptors that the process may have are in use, of those with low numbers, which UCX takes.
[[nodiscard]] bool descriptors_run_short();

/// Ends connections to `ports` of this process that are older than `age` and over which not even the first number of
/// UCX's own words has come. UCX finds them ended by the other side. Returns how many. Needs no descriptor; to be
/// called where none is closed meanwhile (`run_on_async_thread`), since it goes by their numbers.
std::size_t end_silent(const std::set<std::uint16_t>& ports, std::chrono::milliseconds age);

} // namespace godwit::transport::ucx
