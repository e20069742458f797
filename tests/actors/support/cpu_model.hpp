#pragma once

#include <godwit/gpu/cpu/cpu_executor.hpp>
#include <godwit/gpu/model/model_directory.hpp>

#include <memory>

namespace godwit::test {

/// The embedded default model, loaded and packed once for a test program. `packed` is null in a build without it.
struct cpu_model {
  gpu::model::model_directory directory;
  std::shared_ptr<const gpu::cpu::packed_model> packed;
};
[[nodiscard]] inline const cpu_model& embedded_cpu_model() {
  static const auto loaded = [] {
    cpu_model out;
    auto files = gpu::model::embedded_model();
    if (!files) return out;
    auto opened = gpu::model::open_model(files);
    if (!opened) return out;
    out.directory = std::move(*opened);
    out.packed = gpu::cpu::pack_model(out.directory.configuration, *out.directory.tensors, 2);
    return out;
  }();
  return loaded;
}

} // namespace godwit::test
