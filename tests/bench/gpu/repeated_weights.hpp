#pragma once

#include <godwit/gpu/model/config.hpp>
#include <godwit/gpu/model/weights.hpp>

#include <cstddef>
#include <map>
#include <string>
#include <vector>

namespace godwit::bench {

/// A model's tensors in bf16, all of them views into one stretch of random numbers: a large model in little memory, for
/// times, which do not depend on the values. Those of draws do: so the last norm's weights are larger, and logits
/// are distributed normally with a deviation of some 4 to 6. Then few tokens have nearly all probability, as with text.
class repeated_weights final : public gpu::model::weights {
public:
  explicit repeated_weights(const gpu::model::config& config);
  [[nodiscard]] const gpu::model::tensor_view* find(std::string_view name) const noexcept override;
  [[nodiscard]] std::uint64_t total_bytes() const noexcept override { return bytes_; }

private:
  void add(const std::string& name, std::vector<std::uint64_t> shape);

  std::map<std::string, gpu::model::tensor_view, std::less<>> views_;
  std::vector<std::byte> numbers_;
  std::vector<std::uint16_t> final_norm_;
  std::uint64_t bytes_ = 0;
};

} // namespace godwit::bench
