#pragma once

#include "main/settings.hpp"
#include "main/start_error.hpp"

#include <cstddef>
#include <optional>

namespace godwit::main {

/// About as many threads as a process with these settings runs: those of its actors, its devices and its connections.
[[nodiscard]] std::size_t threads_of(const serve_settings& settings);

/// Starts so many threads at once, and ends them. A process that is short of threads (ulimit -u, pids.max of its
/// container) learns it where it can still say so: of the libraries below, some end the process where they get none.
[[nodiscard]] std::optional<start_error> check_threads(std::size_t count);

} // namespace godwit::main
