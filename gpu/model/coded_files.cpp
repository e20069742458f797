#include "model/coded_files.hpp"

#include "model/json_reader.hpp"
#include "model/widen.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <utility>

namespace godwit::gpu::model {

namespace {

using method_kind = quantization_config::method_kind;

std::uint32_t word_at(const stored_tensor& tensor, std::uint64_t index) {
  std::uint32_t word = 0;
  std::memcpy(&word, tensor.bytes.data() + index * sizeof word, sizeof word);
  return word;
}
std::uint32_t bits_of(std::uint32_t word, std::uint64_t which, std::uint32_t bits) {
  return word >> (which * bits) & ((1U << bits) - 1U);
}
std::uint64_t parts_of(std::uint64_t whole, std::uint64_t part) { return whole / part + (whole % part != 0 ? 1 : 0); }

std::string in_words(std::string_view type, std::span<const std::uint64_t> shape) {
  std::string text = std::string(type) + " [";
  for (const auto size : shape) text += (text.back() == '[' ? "" : ", ") + std::to_string(size);
  return text + "]";
}

/// Finds the tensors of one matrix, and says what is wrong with them.
class tensors_of_matrix {
public:
  tensors_of_matrix(std::string layer, const stored_lookup& find, const std::string& file)
      : layer_(std::move(layer)), find_(find), file_(file) {}

  [[nodiscard]] std::optional<stored_tensor> find(std::string_view part) {
    auto found = find_(layer_ + "." + std::string(part));
    if (found) names_.push_back(layer_ + "." + std::string(part));
    return found;
  }
  [[nodiscard]] stored_tensor get(std::string_view part) {
    const auto found = find(part);
    if (!found)
      throw model_error(file_, in_quotes(layer_ + "." + std::string(part)) +
                                   " is missing, without which its weights mean nothing (quantization_config)");
    return *found;
  }
  [[nodiscard]] stored_tensor get(std::string_view part, std::string_view type,
                                  std::initializer_list<std::uint64_t> shape) {
    const auto found = get(part);
    if (found.type != type || !std::ranges::equal(found.shape, shape))
      wrong(part, found, in_words(type, std::span(shape.begin(), shape.size())));
    return found;
  }
  [[noreturn]] void wrong(std::string_view part, const stored_tensor& is, const std::string& wanted) const {
    throw model_error(file_, in_quotes(layer_ + "." + std::string(part)) + " is " + in_words(is.type, is.shape) +
                                 ", which should be " + wanted);
  }
  /// Those that may be there and are not wanted: scales of activations and of KV, which are not quantized here.
  void leave(std::initializer_list<std::string_view> parts) {
    for (const auto part : parts) (void)find(part);
  }
  [[nodiscard]] std::vector<std::string> names() && { return std::move(names_); }

private:
  std::string layer_;
  const stored_lookup& find_;
  const std::string& file_;
  std::vector<std::string> names_;
};

/// Numbers of a tensor of floats.
class stored_floats {
public:
  stored_floats() = default;
  stored_floats(const tensors_of_matrix& of, std::string_view part, const stored_tensor& tensor)
      : data_(tensor.bytes.data()) {
    if (tensor.type == "BF16")
      type_ = data_type::bf16;
    else if (tensor.type == "F16")
      type_ = data_type::f16;
    else if (tensor.type == "F32")
      type_ = data_type::f32;
    else
      of.wrong(part, tensor, "BF16, F16 or F32");
  }
  [[nodiscard]] float at(std::uint64_t index) const { return widen(type_, data_ + index * bytes_of(type_)); }

private:
  data_type type_ = data_type::f32;
  const std::byte* data_ = nullptr;
};

/// Scales by blocks of rows and columns.
struct scale_grid {
  stored_floats scales;
  std::uint64_t across = 1; ///< scales of a row
  std::uint64_t block_rows = 1, block_columns = 1;
  [[nodiscard]] std::uint64_t index(std::uint64_t row, std::uint64_t column) const {
    return row / block_rows * across + column / block_columns;
  }
};

/// Groups are of one size, which is what the file says where it says it of all; else they would be read as others.
void check_groups(const quantization_config& by, const tensors_of_matrix& of, std::string_view part,
                  const stored_tensor& scale, std::uint64_t groups, std::uint64_t columns) {
  if (by.group == 0 || groups * by.group == columns || (groups == 1 && by.group >= columns)) return;
  of.wrong(part, scale, "of groups of " + std::to_string(by.group) + " of the " + std::to_string(columns) + " columns");
}

/// By the shape: one for all, one for each row, for groups of columns of each row, or for blocks.
scale_grid grid_of(const quantization_config& by, const tensors_of_matrix& of, std::string_view part,
                   const stored_tensor& scale, std::uint64_t rows, std::uint64_t columns) {
  scale_grid out{stored_floats(of, part, scale), 1, rows, columns};
  const auto shape = scale.shape;
  std::uint64_t count = 1;
  for (const auto size : shape) count *= size; // as many as there are bytes for
  if (count == 1) return out;
  const auto down = shape.front(), across = shape.size() > 1 ? shape[1] : 1;
  const bool flat = !shape.empty() && shape.size() <= 2;
  if (flat && down == rows && (across == 1 || (across > 0 && columns % across == 0))) {
    if (across > 1) check_groups(by, of, part, scale, across, columns);
    out.block_rows = 1;
    out.block_columns = columns / across;
  } else if (flat && by.block_rows > 0 && down == parts_of(rows, by.block_rows) &&
             across == parts_of(columns, by.block_columns)) {
    out.block_rows = by.block_rows;
    out.block_columns = by.block_columns;
  } else {
    of.wrong(part, scale,
             "one scale, one for each of " + std::to_string(rows) + " rows, or for groups or blocks of the " +
                 std::to_string(columns) + " columns");
  }
  out.across = across;
  return out;
}

/// Codes of a byte each, as they lie.
class byte_matrix final : public coded_matrix {
public:
  byte_matrix(shape of, stored_tensor codes, scale_grid grid, stored_tensor scales, std::optional<stored_tensor> zeros)
      : coded_matrix(of), codes_(codes), grid_(grid), scales_(scales), zeros_(zeros) {}
  void codes(std::uint64_t row, std::uint64_t first, std::span<std::uint8_t> out) const override {
    std::memcpy(out.data(), codes_.bytes.data() + row * dimensions().columns + first, out.size());
  }
  [[nodiscard]] unit unit_of(std::uint64_t row, std::uint64_t column) const override {
    const auto at = grid_.index(row, column);
    return {grid_.scales.at(at), zeros_ ? std::to_integer<std::int8_t>(zeros_->bytes[at]) : 0};
  }
  [[nodiscard]] std::vector<std::span<const std::byte>> sources() const override {
    std::vector<std::span<const std::byte>> all{codes_.bytes, scales_.bytes};
    if (zeros_) all.push_back(zeros_->bytes);
    return all;
  }

private:
  stored_tensor codes_;
  scale_grid grid_;
  stored_tensor scales_;
  std::optional<stored_tensor> zeros_;
};

bool all_zero(std::span<const std::byte> bytes) {
  return std::ranges::all_of(bytes, [](std::byte one) { return one == std::byte{}; });
}

std::unique_ptr<coded_matrix> bytes_of_matrix(const quantization_config& by, tensors_of_matrix& tensors,
                                              const stored_tensor& weight, std::uint64_t rows, std::uint64_t columns) {
  const bool integers = weight.type == "I8";
  (void)tensors.get("weight", integers ? "I8" : "F8_E4M3", {rows, columns});
  const auto inverse = tensors.find("weight_scale_inv"); // the scale itself, whatever its name says
  const auto* const name = inverse ? "weight_scale_inv" : "weight_scale";
  const auto scale = inverse ? *inverse : tensors.get("weight_scale");
  const auto grid = grid_of(by, tensors, name, scale, rows, columns);
  const auto zeros = tensors.find("weight_zero_point");
  const bool some = zeros && !all_zero(zeros->bytes);
  if (some && (!integers || zeros->type != "I8" || !std::ranges::equal(zeros->shape, scale.shape)))
    tensors.wrong("weight_zero_point", *zeros, "I8 in the shape of the scales, or of zeros");
  return std::make_unique<byte_matrix>(
      coded_matrix::shape{integers ? coding::int8 : coding::e4m3, rows, columns, grid.block_columns, some}, weight,
      grid, scale, some ? zeros : std::nullopt);
}

/// Which group a column is in: by its number, or as the file says.
class column_groups {
public:
  /// Throws where the file names groups that there are not.
  column_groups(const tensors_of_matrix& of, std::string_view part, const std::optional<stored_tensor>& order,
                std::uint64_t columns, std::uint64_t groups)
      : size_(columns / groups) {
    if (!order) return;
    if (order->type != "I32" || order->shape.size() != 1 || order->shape[0] != columns)
      of.wrong(part, *order, "I32 [" + std::to_string(columns) + "]");
    bool plain = true, within = true, unset = true; // unset: as compressed-tensors leaves it where it did not use it
    for (std::uint64_t column = 0; column < columns; ++column) {
      const auto group = static_cast<std::int32_t>(word_at(*order, column));
      plain = plain && std::cmp_equal(group, column / size_);
      within = within && group >= 0 && std::cmp_less(group, groups);
      unset = unset && group == -1;
    }
    if (!within && !unset) of.wrong(part, *order, "of groups below " + std::to_string(groups));
    if (!plain && !unset) order_ = order;
  }
  [[nodiscard]] std::uint64_t of(std::uint64_t column) const {
    return order_ ? word_at(*order_, column) : column / size_;
  }
  /// 0: each column may have its own.
  [[nodiscard]] std::uint64_t size() const noexcept { return order_ ? 0 : size_; }

private:
  std::uint64_t size_;
  std::optional<stored_tensor> order_;
};

/// Codes of four or eight bits in words of 32: of eight, a zero at 128 counts as 0.
class word_matrix : public coded_matrix {
public:
  struct parts {
    std::uint32_t bits = 4;
    stored_tensor codes, scales;
    std::optional<stored_tensor> zeros, order;
  };
  word_matrix(shape of, parts made_of, stored_floats scale) : coded_matrix(of), parts_(made_of), scale_(scale) {}

  void codes(std::uint64_t row, std::uint64_t first, std::span<std::uint8_t> out) const final {
    const auto back = static_cast<std::uint8_t>(parts_.bits == 8 ? 128 : 0);
    for (std::size_t i = 0; i < out.size(); ++i) out[i] = static_cast<std::uint8_t>(code_at(row, first + i) - back);
  }
  [[nodiscard]] unit unit_of(std::uint64_t row, std::uint64_t column) const final {
    const auto stored = stored_unit(row, column);
    return {stored.scale, stored.zero - (parts_.bits == 8 ? 128 : 0)};
  }
  [[nodiscard]] std::vector<std::span<const std::byte>> sources() const final {
    std::vector<std::span<const std::byte>> all{parts_.codes.bytes, parts_.scales.bytes};
    for (const auto& one : {parts_.zeros, parts_.order})
      if (one) all.push_back(one->bytes);
    return all;
  }

protected:
  [[nodiscard]] virtual std::uint32_t code_at(std::uint64_t row, std::uint64_t column) const = 0;
  [[nodiscard]] virtual unit stored_unit(std::uint64_t row, std::uint64_t column) const = 0;
  [[nodiscard]] std::uint64_t per_word() const noexcept { return 32 / parts_.bits; }

  parts parts_;
  stored_floats scale_;
};

/// compressed-tensors' pack-quantized: codes along the columns, zeros along the rows; both of numbers that are raised
/// by half of their range.
class packed_matrix final : public word_matrix {
public:
  packed_matrix(shape of, parts made_of, stored_floats scale, column_groups groups, std::uint64_t across)
      : word_matrix(of, made_of, scale), groups_(groups), across_(across), words_(parts_of(of.columns, per_word())) {}

private:
  [[nodiscard]] std::uint32_t code_at(std::uint64_t row, std::uint64_t column) const override {
    return bits_of(word_at(parts_.codes, row * words_ + column / per_word()), column % per_word(), parts_.bits);
  }
  [[nodiscard]] unit stored_unit(std::uint64_t row, std::uint64_t column) const override {
    const auto group = groups_.of(column);
    const auto zero = !parts_.zeros ? 1U << (parts_.bits - 1)
                                    : bits_of(word_at(*parts_.zeros, row / per_word() * across_ + group),
                                              row % per_word(), parts_.bits);
    return {scale_.at(row * across_ + group), static_cast<std::int32_t>(zero)};
  }

  column_groups groups_;
  std::uint64_t across_, words_;
};

std::unique_ptr<coded_matrix> packed_of_matrix(const quantization_config& by, tensors_of_matrix& tensors,
                                               const stored_tensor& packed, std::uint64_t rows, std::uint64_t columns) {
  const auto words = packed.shape.size() == 2 ? packed.shape[1] : 0;
  const std::uint32_t bits = words == parts_of(columns, 8) ? 4 : 8;
  const std::uint64_t each = 32 / bits;
  (void)tensors.get("weight_packed", "I32", {rows, parts_of(columns, each)});
  if (const auto shape = tensors.find("weight_shape")) {
    std::array<std::uint64_t, 2> says{};
    if (shape->type == "I64" && shape->bytes.size() == sizeof says)
      std::memcpy(says.data(), shape->bytes.data(), sizeof says);
    if (shape->type == "I32" && shape->bytes.size() == sizeof says / 2) says = {word_at(*shape, 0), word_at(*shape, 1)};
    if (says != std::array{rows, columns})
      tensors.wrong("weight_shape", *shape, "I64 [2] of " + std::to_string(rows) + " and " + std::to_string(columns));
  }
  const auto scale = tensors.get("weight_scale");
  const auto across = scale.shape.size() == 2 ? scale.shape[1] : 1;
  if (scale.shape.empty() || scale.shape.size() > 2 || scale.shape[0] != rows || across == 0 || columns % across != 0)
    tensors.wrong("weight_scale", scale, "of " + std::to_string(rows) + " rows and so many groups as the columns have");
  word_matrix::parts parts{bits, packed, scale, {}, tensors.find("weight_g_idx")};
  check_groups(by, tensors, "weight_scale", scale, across, columns);
  if (tensors.find("weight_zero_point"))
    parts.zeros = tensors.get("weight_zero_point", "I32", {parts_of(rows, each), across});
  const column_groups groups(tensors, "weight_g_idx", parts.order, columns, across);
  const bool zeros = bits == 4 || parts.zeros;
  return std::make_unique<packed_matrix>(
      coded_matrix::shape{bits == 4 ? coding::int4 : coding::int8, rows, columns, groups.size(), zeros}, parts,
      stored_floats(tensors, "weight_scale", scale), groups, across);
}

/// GPTQ's: codes along the columns, zeros along the rows, a row of the tensors for each group.
class gptq_matrix final : public word_matrix {
public:
  gptq_matrix(shape of, parts made_of, stored_floats scale, column_groups groups, bool less_one)
      : word_matrix(of, made_of, scale), groups_(groups), less_one_(less_one) {}

private:
  [[nodiscard]] std::uint32_t code_at(std::uint64_t row, std::uint64_t column) const override {
    return bits_of(word_at(parts_.codes, column / per_word() * dimensions().rows + row), column % per_word(),
                   parts_.bits);
  }
  [[nodiscard]] unit stored_unit(std::uint64_t row, std::uint64_t column) const override {
    const auto group = groups_.of(column);
    const auto words = dimensions().rows / per_word();
    // One was taken off each zero of a word at once, with what that borrows from its neighbour.
    const auto ones = !less_one_ ? 0U : parts_.bits == 4 ? 0x11111111U : 0x01010101U;
    const auto zeros = word_at(*parts_.zeros, group * words + row / per_word()) + ones;
    return {scale_.at(group * dimensions().rows + row),
            static_cast<std::int32_t>(bits_of(zeros, row % per_word(), parts_.bits))};
  }

  column_groups groups_;
  bool less_one_;
};

/// What GPTQ and AWQ have in common: the groups, by the scales.
std::uint64_t groups_of(const quantization_config& by, const tensors_of_matrix& tensors, const stored_tensor& scales,
                        std::uint64_t rows, std::uint64_t columns) {
  const auto groups = scales.shape.size() == 2 && scales.shape[1] == rows ? scales.shape[0] : 0;
  if (groups == 0 || columns % groups != 0)
    tensors.wrong("scales", scales,
                  "of so many groups as the " + std::to_string(columns) + " columns have, by " + std::to_string(rows));
  check_groups(by, tensors, "scales", scales, groups, columns);
  return groups;
}

std::unique_ptr<coded_matrix> gptq_of_matrix(const quantization_config& by, tensors_of_matrix& tensors,
                                             const stored_tensor& codes, std::uint64_t rows, std::uint64_t columns) {
  const std::uint32_t bits = !codes.shape.empty() && codes.shape[0] == columns / 8 ? 4 : 8;
  const std::uint64_t each = 32 / bits;
  if (columns % each != 0 || rows % each != 0)
    tensors.wrong("qweight", codes, "of rows and columns in multiples of " + std::to_string(each));
  (void)tensors.get("qweight", "I32", {columns / each, rows});
  const auto scales = tensors.get("scales");
  const auto count = groups_of(by, tensors, scales, rows, columns);
  word_matrix::parts parts{bits, codes, scales, tensors.get("qzeros", "I32", {count, rows / each}),
                           tensors.find("g_idx")};
  const column_groups groups(tensors, "g_idx", parts.order, columns, count);
  const auto usual = bits == 8 ? (by.zeros_less_one ? 0x7f7f7f7fU : 0x80808080U) : 0U;
  bool zeros = bits == 4;
  for (std::uint64_t i = 0; !zeros && i < count * rows / each; ++i) zeros = word_at(*parts.zeros, i) != usual;
  return std::make_unique<gptq_matrix>(
      coded_matrix::shape{bits == 4 ? coding::int4 : coding::int8, rows, columns, groups.size(), zeros}, parts,
      stored_floats(tensors, "scales", scales), groups, by.zeros_less_one);
}

/// AWQ's: codes and zeros along the rows.
class awq_matrix final : public word_matrix {
public:
  awq_matrix(shape of, parts made_of, stored_floats scale) : word_matrix(of, made_of, scale) {}

private:
  /// Where the code of each of eight rows is in its word.
  static constexpr std::array<std::uint64_t, 8> places{0, 4, 1, 5, 2, 6, 3, 7};
  [[nodiscard]] std::uint32_t at(const stored_tensor& tensor, std::uint64_t line, std::uint64_t row) const {
    return bits_of(word_at(tensor, line * (dimensions().rows / 8) + row / 8), places[row % 8], 4);
  }
  [[nodiscard]] std::uint32_t code_at(std::uint64_t row, std::uint64_t column) const override {
    return at(parts_.codes, column, row);
  }
  [[nodiscard]] unit stored_unit(std::uint64_t row, std::uint64_t column) const override {
    const auto group = column / dimensions().group;
    return {scale_.at(group * dimensions().rows + row), static_cast<std::int32_t>(at(*parts_.zeros, group, row))};
  }
};

std::unique_ptr<coded_matrix> awq_of_matrix(const quantization_config& by, tensors_of_matrix& tensors,
                                            const stored_tensor& codes, std::uint64_t rows, std::uint64_t columns) {
  if (rows % 8 != 0) tensors.wrong("qweight", codes, "of rows in multiples of 8");
  (void)tensors.get("qweight", "I32", {columns, rows / 8});
  const auto scales = tensors.get("scales");
  const auto groups = groups_of(by, tensors, scales, rows, columns);
  const word_matrix::parts parts{4, codes, scales, tensors.get("qzeros", "I32", {groups, rows / 8}), {}};
  return std::make_unique<awq_matrix>(coded_matrix::shape{coding::int4, rows, columns, columns / groups, true}, parts,
                                      stored_floats(tensors, "scales", scales));
}

/// Some rows of an expert.
class mxfp4_matrix final : public coded_matrix {
public:
  static constexpr std::uint64_t group = 32, group_bytes = 16;

  mxfp4_matrix(shape of, std::span<const std::byte> blocks, std::span<const std::byte> scales, strided_rows rows)
      : coded_matrix(of), blocks_(blocks), scales_(scales), rows_(rows) {}
  void codes(std::uint64_t row, std::uint64_t first, std::span<std::uint8_t> out) const override {
    const auto* const from = blocks_.data() + group_of(row, 0) * group_bytes;
    for (std::size_t i = 0; i < out.size(); ++i) {
      const auto two = std::to_integer<std::uint8_t>(from[(first + i) / 2]);
      out[i] = (first + i) % 2 == 0 ? two & 15U : static_cast<std::uint8_t>(two >> 4U);
    }
  }
  [[nodiscard]] unit unit_of(std::uint64_t row, std::uint64_t column) const override {
    const auto exponent = std::to_integer<int>(scales_[group_of(row, column)]);
    return {std::ldexp(1.0F, exponent - 128)}; // of halves
  }
  [[nodiscard]] std::vector<std::span<const std::byte>> sources() const override { return {blocks_, scales_}; }

private:
  [[nodiscard]] std::uint64_t group_of(std::uint64_t row, std::uint64_t column) const {
    return (rows_.first + row * rows_.step) * (dimensions().columns / group) + column / group;
  }

  std::span<const std::byte> blocks_, scales_; ///< of the expert
  strided_rows rows_;
};

} // namespace

std::optional<mxfp4_experts> find_mxfp4(const std::string& name, std::uint64_t experts, std::uint64_t rows,
                                        std::uint64_t columns, const stored_lookup& find, const std::string& file) {
  const auto blocks = find(name + "_blocks"), scales = find(name + "_scales");
  if (!blocks && !scales) return std::nullopt;
  const auto wrong = [&](const char* part, const std::string& why) {
    throw model_error(file, in_quotes(name + part) + why);
  };
  if (!blocks) wrong("_blocks", " is missing, of which there is " + in_quotes(name + "_scales"));
  if (!scales) wrong("_scales", " is missing, without which its weights mean nothing");
  if (columns % mxfp4_matrix::group != 0)
    wrong("_blocks", " is of groups of 32 columns, and config.json makes them " + std::to_string(columns));
  const auto check = [&](const char* part, const stored_tensor& is, const std::vector<std::uint64_t>& shape) {
    if (is.type != "U8" || !std::ranges::equal(is.shape, shape))
      wrong(part, " is " + in_words(is.type, is.shape) + ", which should be " + in_words("U8", shape));
  };
  const auto groups = columns / mxfp4_matrix::group;
  check("_blocks", *blocks, {experts, rows, groups, mxfp4_matrix::group_bytes});
  check("_scales", *scales, {experts, rows, groups});
  return mxfp4_experts{*blocks, *scales, rows, columns};
}

std::unique_ptr<coded_matrix> mxfp4_matrix_of(const mxfp4_experts& all, std::uint64_t expert, strided_rows rows) {
  const auto scales = all.rows * (all.columns / mxfp4_matrix::group);
  return std::make_unique<mxfp4_matrix>(
      coded_matrix::shape{coding::fp4, rows.count, all.columns, mxfp4_matrix::group},
      all.blocks.bytes.subspan(expert * scales * mxfp4_matrix::group_bytes, scales * mxfp4_matrix::group_bytes),
      all.scales.bytes.subspan(expert * scales, scales), rows);
}

found_matrix find_coded(const quantization_config& by, const std::string& layer, std::uint64_t rows,
                        std::uint64_t columns, const stored_lookup& find, const std::string& file) {
  found_matrix out;
  if (by.method == method_kind::none) return out;
  tensors_of_matrix tensors(layer, find, file);
  if (by.method == method_kind::gptq || by.method == method_kind::awq) {
    if (const auto codes = tensors.find("qweight"))
      out.matrix = by.method == method_kind::gptq ? gptq_of_matrix(by, tensors, *codes, rows, columns)
                                                  : awq_of_matrix(by, tensors, *codes, rows, columns);
  } else if (const auto weight = tensors.find("weight")) {
    if (weight->type == "I8" || weight->type == "F8_E4M3")
      out.matrix = bytes_of_matrix(by, tensors, *weight, rows, columns);
  } else if (const auto packed = tensors.find("weight_packed")) {
    out.matrix = packed_of_matrix(by, tensors, *packed, rows, columns);
  }
  if (out.matrix)
    tensors.leave({"input_scale", "input_scale_ub", "input_zero_point", "output_scale", "output_zero_point"});
  out.names = std::move(tensors).names();
  return out;
}

} // namespace godwit::gpu::model
