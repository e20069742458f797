#pragma once

#include <cstdint>

namespace godwit::main {

/// Nanoseconds as people and JSON get them: divided, so that whole milliseconds are whole.
inline double seconds(std::int64_t ns) { return static_cast<double>(ns) / 1e9; }
inline double ms(std::int64_t ns) { return static_cast<double>(ns) / 1e6; }

} // namespace godwit::main
