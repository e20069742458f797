#pragma once

#include "cpu/packing.hpp"

#include <godwit/gpu/model/weights.hpp>
#include <godwit/gpu/tensor_parallel.hpp>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <utility>
#include <vector>

/// From tensors of files to packed matrices.
namespace godwit::gpu::cpu {

/// Rows of a tensor (elements, where it is a vector), from one of their columns on.
struct tensor_rows {
  const model::tensor_view* tensor = nullptr;
  std::uint64_t first = 0;
  std::uint64_t count = 0;
  std::uint64_t first_column = 0;

  [[nodiscard]] const std::byte* row(std::uint64_t index) const {
    const std::uint64_t bytes = tensor->bytes / tensor->shape[0];
    const std::uint64_t columns = tensor->shape.size() > 1 ? tensor->shape[1] : 1;
    return tensor->data + (first + index) * bytes + first_column * (bytes / columns);
  }
  /// Values of a row of a matrix that lies in another order.
  void copy_row(std::uint64_t index, std::uint32_t depth, std::byte* to) const {
    const std::size_t size = model::bytes_of(tensor->type), step = tensor->column_step * size;
    const auto* from = tensor->at(first + index, first_column);
    for (std::uint32_t k = 0; k < depth; ++k, from += step, to += size) std::memcpy(to, from, size);
  }
};
[[nodiscard]] inline tensor_rows all_of(const model::tensor_view* tensor) { return {tensor, 0, tensor->shape[0], 0}; }
[[nodiscard]] inline tensor_rows some_of(const model::tensor_view* tensor, tensor_parallel::range rows) {
  return {tensor, rows.first, rows.count, 0};
}

/// Where the rows of a packed matrix come from.
struct matrix_source {
  std::vector<tensor_rows> parts;  ///< one after the other, or
  bool interleaved = false;        ///< panel by panel in turn
  std::vector<tensor_rows> biases; ///< as parts; empty: none

  [[nodiscard]] std::uint64_t rows() const {
    std::uint64_t sum = 0;
    for (const auto& part : parts) sum += part.count;
    return sum;
  }
  /// The part and row that column `column` of the packed panels is; null where it is padding.
  [[nodiscard]] std::pair<std::size_t, std::uint64_t> locate(std::uint64_t column) const {
    if (interleaved) {
      const std::uint64_t panel = column / lanes, part = panel % parts.size();
      return {part, panel / parts.size() * lanes + column % lanes};
    }
    for (std::size_t part = 0; part < parts.size(); ++part) {
      if (column < parts[part].count) return {part, column};
      column -= parts[part].count;
    }
    return {parts.size(), 0};
  }
  /// Null where all rows lie as they are read.
  [[nodiscard]] const tensor_rows* turned_part(std::uint64_t column) const {
    const auto which = locate(column).first;
    return which < parts.size() && !parts[which].tensor->row_major() ? &parts[which] : nullptr;
  }
  [[nodiscard]] source_row row(std::uint64_t column) const {
    const auto [part, row] = locate(column);
    if (part >= parts.size() || row >= parts[part].count) return {};
    return {parts[part].row(row), parts[part].tensor->type};
  }
};

/// Gives out pieces of one allocation; run once to learn the size and once to have the addresses.
class memory_layout {
public:
  explicit memory_layout(std::byte* base) : base_(base) {}
  std::byte* take(std::uint64_t bytes) {
    const std::uint64_t at = used_;
    used_ += (bytes + 4095) / 4096 * 4096;
    return base_ == nullptr ? nullptr : base_ + at;
  }
  [[nodiscard]] std::uint64_t used() const noexcept { return used_; }

private:
  std::byte* base_;
  std::uint64_t used_ = 0;
};

} // namespace godwit::gpu::cpu
