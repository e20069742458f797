#pragma once

#include <godwit/gpu/model/config.hpp>

#include <cstdint>
#include <vector>

namespace godwit::gpu::cpu {

/// Angles of the rotary embedding. Computed with our own sine and cosine, since libm's differ between processors.
class rope_angles {
public:
  explicit rope_angles(const model::config& config) : rope_angles(config.rope, config.head_size) {}
  rope_angles(const model::rope_config& rope, std::uint32_t head_size);
  [[nodiscard]] std::uint32_t half() const noexcept { return static_cast<std::uint32_t>(frequencies_.size()); }
  /// half() cosines and sines of a position, times the configuration's attention_factor.
  void at(std::uint32_t position, float* cosine, float* sine) const noexcept;

private:
  std::vector<float> frequencies_;
  double factor_ = 1;
};

/// Cosine and sine of an angle of up to a million, to 1e-15.
struct cosine_sine {
  double cosine = 1, sine = 0;
};
[[nodiscard]] cosine_sine turn(double angle) noexcept;

} // namespace godwit::gpu::cpu
