#pragma once

#include "main/command.hpp"

#include <CLI/CLI.hpp>

#include <cstdint>
#include <ostream>
#include <string>
#include <vector>

namespace godwit::main {

struct place_options {
  std::string model = "default";    ///< a directory, or "default"
  std::vector<std::string> devices; ///< "24GiB@600GB/s": memory, and the rate at which it is read
  std::vector<std::string> links;   ///< "0-1=20us": between two of them, both ways
  double hop_us = 20;               ///< between all others
  std::uint64_t tokens = 16'384;    ///< that the KV cache is to hold
  double device_ms = 0;             ///< what a further device has to save of a token's time
  bool json = false;
};

/// Which devices should have how many of a model's layers (protocols/policy/layer_placement.hpp), and the flags that
/// say so. 0; 1: it does not fit; 2: what was given cannot be understood, or the model not opened.
[[nodiscard]] int place_model(const place_options& options, std::ostream& out, std::ostream& errors);

/// godwit model place DIR --device MEMORY@SPEED ...
void add_place_command(CLI::App& model, command_result& result);

} // namespace godwit::main
