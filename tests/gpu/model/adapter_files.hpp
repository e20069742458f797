#pragma once

#include <godwit/gpu/model/adapter.hpp>

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <utility>
#include <vector>

namespace godwit::gpu::model::tests {

/// An adapter with its values at hand, as PEFT would write it.
struct made_adapter {
  struct update {
    std::uint32_t rank = 0;
    std::vector<float> a; ///< [rank][inputs]
    std::vector<float> b; ///< [outputs][rank]
  };
  std::map<std::pair<std::uint32_t, projection>, update> updates; ///< by layer
  data_type type = data_type::f32;
  double alpha = 8;
  bool by_root = false;
  std::string more; ///< fields of the configuration, each with a comma behind it

  /// What is added to the matrix, [outputs][inputs].
  [[nodiscard]] std::vector<double> added(std::uint32_t layer, projection which) const;
  [[nodiscard]] std::string config_text() const;
  [[nodiscard]] std::vector<std::byte> tensors() const;
  void write(const std::filesystem::path& directory) const;
};

/// Of some projections of all layers, with ranks `rank`, `rank` + 1 ... in turn where `ranks_differ`. Values are such
/// that the type holds them.
[[nodiscard]] made_adapter random_adapter_of(const config& model, const std::vector<projection>& which,
                                             std::uint32_t rank, unsigned seed, data_type type = data_type::f32,
                                             bool ranks_differ = false);
[[nodiscard]] inline std::vector<projection> all_projections() {
  return {projection::query, projection::key, projection::value, projection::output,
          projection::gate,  projection::up,  projection::down};
}

} // namespace godwit::gpu::model::tests
