#pragma once

#include <godwit/gpu/model/config.hpp>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace godwit::gpu::model {

class coded_matrix;

/// A tensor as it lies in the file: row-major, little-endian. Valid while its `weights` lives.
///
/// A matrix that lies in another order (gpt-oss's experts lie column by column) says how far apart its values are.
/// A matrix that is kept in codes (docs/serving.md, "Quantized weights") has no `data`: `coded` says what it means.
/// `type` is then that of the tensors around it, and `bytes` what it would take in that.
struct tensor_view {
  data_type type = data_type::f32;
  std::vector<std::uint64_t> shape;
  const std::byte* data = nullptr;
  std::uint64_t bytes = 0;
  const coded_matrix* coded = nullptr;
  /// Values from one row to the next and from one column to the next; 0: it is row-major, without gaps.
  std::uint64_t row_step = 0, column_step = 0;

  [[nodiscard]] bool row_major() const noexcept { return column_step == 0; }
  /// Of a matrix that is not in codes.
  [[nodiscard]] const std::byte* at(std::uint64_t row, std::uint64_t column) const noexcept {
    const auto values = row_major() ? row * shape.back() + column : row * row_step + column * column_step;
    return data + values * bytes_of(type);
  }
};

/// The tensors of a model by their Hugging Face names. Implemented over memory-mapped safetensors files, the embedded
/// model and, for tests, tensors in memory.
class weights {
public:
  virtual ~weights() = default;
  /// Null where there is no such tensor.
  [[nodiscard]] virtual const tensor_view* find(std::string_view name) const noexcept = 0;
  [[nodiscard]] virtual std::uint64_t total_bytes() const noexcept = 0;
};

} // namespace godwit::gpu::model
