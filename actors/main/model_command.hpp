#pragma once

#include "main/command.hpp"

#include <godwit/gpu/model/config.hpp>

#include <CLI/CLI.hpp>

#include <cstdint>
#include <filesystem>
#include <ostream>
#include <string>

namespace godwit::main {

/// godwit model adapter --out DIR [--model DIR], godwit model random --config NAME --out DIR, godwit model random
/// --list, godwit model show DIR|default, godwit model place DIR (place_command.hpp)
void add_model_command(CLI::App& app, command_result& result);

struct random_model_options {
  std::string config;
  std::filesystem::path out;
  std::uint64_t seed = 0;
  bool force = false; ///< write into a directory that is not empty
};

/// Writes a model with random weights. 0: done; 1: cannot be written, or the directory is not empty; 2: no such name.
[[nodiscard]] int write_random(const random_model_options& options, std::ostream& out, std::ostream& errors);
struct random_adapter_options {
  std::string model = "default"; ///< a directory, or "default"
  std::uint32_t rank = 8;
  std::uint64_t seed = 0;
  std::filesystem::path out;
  bool force = false;
};
/// Writes a made-up adapter of a model. As `write_random`; 2: the model cannot be read, or the rank is none.
[[nodiscard]] int write_random_adapter(const random_adapter_options& options, std::ostream& out, std::ostream& errors);
/// The names that `write_random` knows.
void list_random(std::ostream& out);
/// What the loader makes of a model directory, or of "default", the embedded model. 0, or 1 where it cannot be opened.
[[nodiscard]] int show_model(const std::string& directory, bool as_json, std::ostream& out, std::ostream& errors);

/// Weights and biases; tied embeddings count once.
[[nodiscard]] std::uint64_t parameters_of(const gpu::model::config& c) noexcept;

} // namespace godwit::main
