#pragma once

#include <CLI/CLI.hpp>
#include <spdlog/fmt/fmt.h>

#include <string>

namespace godwit::main {

/// A number from `least` to `most`. CLI::Range lets pass what is no number, since it is neither below nor above.
inline CLI::Validator between(double least, double most) {
  return CLI::Validator(
      [least, most](const std::string& text) {
        double x = 0;
        if (CLI::detail::lexical_cast(text, x) && x >= least && x <= most) return std::string();
        return fmt::format("Value {} not in range [{:g} - {:g}]", text, least, most);
      },
      fmt::format("FLOAT in [{:g} - {:g}]", least, most));
}

} // namespace godwit::main
