#pragma once

#include "main/load_board.hpp"

#include <optional>
#include <string>

namespace godwit::main {

/// What a server says of its load every so often, for whoever reads its log and has no dashboard (vLLM has such a
/// line).
class load_line {
public:
  /// Of the `seconds` since the last call; nothing where nothing was or is to be done.
  [[nodiscard]] std::optional<std::string> next(const load_board::sums& now, double seconds);

private:
  load_board::sums before_;
};

} // namespace godwit::main
