#pragma once

#include "model/coded_matrix.hpp"

#include <godwit/gpu/model/config.hpp>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace godwit::gpu::model {

/// A tensor of a file, of whatever type. Valid while the file is mapped.
struct stored_tensor {
  std::string_view type; ///< as in the file: "I32"
  std::span<const std::uint64_t> shape;
  std::span<const std::byte> bytes;
};
/// Finds it by its name; absent: there is none.
using stored_lookup = std::function<std::optional<stored_tensor>(std::string_view name)>;

struct found_matrix {
  std::unique_ptr<coded_matrix> matrix; ///< null: the files do not keep it in codes
  std::vector<std::string> names;       ///< of the tensors that it is made of, or that are said to go with it
};

/// The matrix of a linear layer (its name without ".weight") as files quantized in this way keep it. Layouts, each as
/// the tools that write it have it:
///
/// * fp8 (DeepSeek, Qwen): `weight` F8_E4M3, `weight_scale_inv` by blocks, or `weight_scale`.
/// * compressed (vLLM's compressed-tensors): `weight` F8_E4M3 or I8, or `weight_packed` I32 along the columns, lowest
///   bits first; `weight_scale` for all, by rows, by groups of columns or by blocks; `weight_zero_point`;
///   `weight_g_idx`.
/// * gptq (AutoGPTQ, GPTQModel): `qweight` I32 [columns / n][rows], `qzeros` I32 [groups][rows / n], `scales`
///   [groups][rows], `g_idx` [columns].
/// * awq (AutoAWQ's gemm): `qweight` I32 [columns][rows / 8], `qzeros` I32 [groups][rows / 8], `scales`
///   [groups][rows], eight rows in the order 0, 2, 4, 6, 1, 3, 5, 7 from the lowest bits on.
///
/// Throws model_error where a tensor is missing or has not the type and shape that go with the others.
[[nodiscard]] found_matrix find_coded(const quantization_config& by, const std::string& layer, std::uint64_t rows,
                                      std::uint64_t columns, const stored_lookup& find, const std::string& file);

/// The floats of four bits that gpt-oss's files have of some rows of all experts of a layer (quant_method "mxfp4"):
/// NAME_blocks [experts][rows][columns / 32][16], of two values a byte with the first in the lower bits, and
/// NAME_scales [experts][rows][columns / 32], of which a byte e means 2^(e - 127).
struct mxfp4_experts {
  stored_tensor blocks, scales;
  std::uint64_t rows = 0, columns = 0; ///< of an expert
};
/// Absent: the files have no such codes. Throws model_error where they are not of that type and shape.
[[nodiscard]] std::optional<mxfp4_experts> find_mxfp4(const std::string& name, std::uint64_t experts,
                                                      std::uint64_t rows, std::uint64_t columns,
                                                      const stored_lookup& find, const std::string& file);
/// `count` rows of an expert, from `first` on every `step`.
struct strided_rows {
  std::uint64_t first = 0, step = 1, count = 0;
};
[[nodiscard]] std::unique_ptr<coded_matrix> mxfp4_matrix_of(const mxfp4_experts& all, std::uint64_t expert,
                                                            strided_rows rows);

} // namespace godwit::gpu::model
