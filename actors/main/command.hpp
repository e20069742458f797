#pragma once

#include <functional>

namespace godwit::main {

/// What a command line asks for, once it is parsed. `run` gives the exit code: 0 done, 1 failed, 2 usage.
struct command_result {
  std::function<int()> run;
};

} // namespace godwit::main
