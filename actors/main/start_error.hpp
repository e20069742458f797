#pragma once

#include <string>

namespace godwit::main {

/// Why something cannot be started: one line that says what is wrong and how to mend it.
struct start_error {
  std::string line;
  int exit_code = 1; ///< 2: a setting is wrong, and the same start would fail again
};

/// Of a process whose actors are gone though nothing in it has ended them.
inline constexpr auto* actors_ended_line = "its actors were ended by another process, over the control network; ending";

} // namespace godwit::main
