#pragma once

#include "main/settings.hpp"

#include <godwit/gpu/model/rounding.hpp>

#include <CLI/CLI.hpp>

#include <string>

namespace godwit::main {

/// --device auto|cpu|cuda, for commands that are not told by settings. `chosen` must outlive the parsing; its value is
/// the default.
void add_device_option(CLI::App& to, device_choice& chosen, const std::string& doc);

/// --quantization none|int8|int4|q8_0|q4_0, likewise.
void add_quantization_option(CLI::App& to, gpu::model::rounding& chosen);

} // namespace godwit::main
