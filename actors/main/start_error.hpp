#pragma once

#include <string>

namespace godwit::main {

/// Why something cannot be started: one line that says what is wrong and how to mend it.
struct start_error {
  std::string line;
};

} // namespace godwit::main
