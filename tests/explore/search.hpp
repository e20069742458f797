#pragma once

#include <cstdint>

namespace godwit::explore {

/// Bugs that are in the actors and can be switched on.
struct planted_bugs {
  std::uint32_t count = 0;
  void (*plant)(std::uint32_t number) noexcept = nullptr; ///< 0: none of them
};

/// The program.
int explore(int argc, char** argv, const planted_bugs& bugs);

} // namespace godwit::explore
