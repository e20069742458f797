#pragma once

#include "main/settings.hpp"

#include <godwit/gpu/model/config.hpp>
#include <godwit/gpu/pipeline.hpp>

#include <cstdint>
#include <string>
#include <vector>

namespace godwit::main {

/// The devices of an instance, and the flag that says how many.
struct instance_devices {
  std::uint32_t count = 1;
  bool staged = false; ///< each has some of the layers; otherwise its share of every layer
  [[nodiscard]] const char* flag() const noexcept { return staged ? "--pipeline-parallel" : "--tensor-parallel"; }
};
[[nodiscard]] instance_devices devices_of(const serve_settings& settings) noexcept;

/// One line, with the flag, that says why the instances of this model cannot have the devices that the settings ask
/// for. Empty: they can.
[[nodiscard]] std::string refuse_division(const serve_settings& settings, const gpu::model::config& model);

/// The stages of an instance; one where it has no pipeline. Of settings that were not refused.
[[nodiscard]] std::vector<gpu::pipeline::stage> stages_of(const serve_settings& settings,
                                                          const gpu::model::config& model);

} // namespace godwit::main
