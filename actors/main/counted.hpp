#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace godwit::main {

/// "1 instance", "2 instances".
[[nodiscard]] inline std::string counted(std::uint64_t number, std::string_view what) {
  return std::to_string(number) + " " + std::string(what) + (number == 1 ? "" : "s");
}

} // namespace godwit::main
