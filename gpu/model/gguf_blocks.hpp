#pragma once

#include "model/coded_matrix.hpp"

#include <godwit/gpu/model/config.hpp>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace godwit::gpu::model {

/// How a type of ggml keeps the values of a row: in blocks of so many.
struct gguf_block {
  std::string_view name; ///< as llama.cpp has it: "Q4_K"
  std::uint64_t values = 1;
  std::uint64_t bytes = 0;
};
/// By ggml's number; absent: it is not known here.
[[nodiscard]] std::optional<gguf_block> block_of(std::uint32_t type) noexcept;

/// What ggml calls it, also where it is not known here: "IQ2_XXS"; else its number.
[[nodiscard]] std::string name_of_type(std::uint32_t type);

/// What its values are as they lie; absent: codes.
[[nodiscard]] std::optional<data_type> plain_type_of(std::uint32_t type) noexcept;

/// A matrix that is kept in codes, of which `bytes` has the rows one after the other. Null: the type is plain, or not
/// known here.
///
/// Q4_0, Q4_1, Q5_0, Q5_1, Q8_0, Q2_K to Q6_K, IQ4_NL, IQ4_XS and MXFP4, as ggml's dequantize_row_* read them, bit by
/// bit.
[[nodiscard]] std::unique_ptr<coded_matrix> make_gguf_matrix(std::uint32_t type, std::uint64_t rows,
                                                             std::uint64_t columns, std::span<const std::byte> bytes);

} // namespace godwit::gpu::model
