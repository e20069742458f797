#include "model/quantization_reader.hpp"

#include <boost/json/array.hpp>

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <optional>
#include <string>
#include <string_view>

namespace godwit::gpu::model {

namespace {

using method_kind = quantization_config::method_kind;

constexpr std::uint32_t block_max = 1U << 20U;
constexpr auto supported = "supported: \"fp8\", \"compressed-tensors\", \"gptq\", \"awq\", \"mxfp4\"";

void refuse_unless(const json_reader& in, std::string_view field, bool supported_one, const std::string& known) {
  if (!supported_one) in.fail(field, "is not supported; supported: " + known);
}

std::uint32_t block_size(const json_reader& in, std::string_view field, std::optional<std::int64_t> whole) {
  if (!whole || *whole < 1 || *whole > block_max) in.fail(field, "must be [rows, columns]");
  return static_cast<std::uint32_t>(*whole);
}

/// [rows, columns], or "128x128"
void read_block(const json_reader& in, std::string_view field, quantization_config& out) {
  const auto* value = in.find(field);
  if (value == nullptr) return;
  std::optional<std::int64_t> rows, columns;
  if (const auto* sizes = value->if_array(); sizes != nullptr && sizes->size() == 2) {
    rows = integer_of((*sizes)[0]);
    columns = integer_of((*sizes)[1]);
  } else if (const auto text = value->is_string() ? in.text(field) : std::nullopt) {
    const auto cross = text->find('x');
    const auto number = [](std::string_view digits) -> std::optional<std::int64_t> {
      std::int64_t read = 0;
      const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), read);
      if (error != std::errc{} || end != digits.data() + digits.size()) return std::nullopt;
      return read;
    };
    if (cross != std::string_view::npos) {
      rows = number(text->substr(0, cross));
      columns = number(text->substr(cross + 1));
    }
  }
  out.block_rows = block_size(in, field, rows);
  out.block_columns = block_size(in, field, columns);
}

/// 0: all columns of a row (-1), or what the shapes say.
std::uint32_t read_group_size(const json_reader& in, std::string_view field) {
  const auto* value = in.find(field);
  const auto whole = value == nullptr ? std::optional<std::int64_t>(-1) : integer_of(*value);
  if (!whole || *whole < -1 || *whole == 0 || *whole > block_max) in.fail(field, "must be -1, or from 1 on");
  return *whole < 0 ? 0 : static_cast<std::uint32_t>(*whole);
}

void read_fp8(const json_reader& in, quantization_config& out) {
  out.method = method_kind::fp8;
  refuse_unless(in, "fmt", in.text("fmt").value_or("e4m3") == "e4m3", "\"e4m3\"");
  read_block(in, "weight_block_size", out);
}

/// What is said of one group of matrices; all groups of a model are read the same way, by their tensors.
void read_group(const json_reader& group, std::string_view format, quantization_config& out) {
  if (!group.has("weights")) return; // of activations or KV only, which are not quantized here
  constexpr std::array formats{"float-quantized", "int-quantized", "naive-quantized", "pack-quantized"};
  const auto own = group.text("format").value_or(format);
  refuse_unless(group, "format", std::ranges::find(formats, own) != formats.end(),
                "\"float-quantized\", \"int-quantized\", \"naive-quantized\", \"pack-quantized\"");
  const auto weights = group.required_object("weights");
  const auto bits = weights.count("num_bits", 1, 64, 8);
  if (weights.text("type").value_or("int") == "float")
    refuse_unless(weights, "num_bits", bits == 8, "8 for floats");
  else
    refuse_unless(weights, "num_bits", bits == 4 || bits == 8, "4 and 8 for integers");
  read_block(weights, "block_structure", out);
  out.group = read_group_size(weights, "group_size");
}

void read_compressed(const json_reader& in, quantization_config& out) {
  out.method = method_kind::compressed;
  const auto groups = in.required_object("config_groups");
  const auto format = in.text("format").value_or("");
  std::optional<std::uint32_t> columns;
  for (const auto& field : groups.fields()) {
    const std::string_view name(field.key().data(), field.key().size());
    read_group(groups.required_object(name), format, out);
    columns = columns.value_or(out.group) == out.group ? out.group : 0;
    out.group = *columns;
  }
  if (const auto sparse = in.object("sparsity_config"))
    refuse_unless(*sparse, "format", sparse->text("format").value_or("dense") == "dense", "\"dense\"");
  if (in.has("transform_config") && !in.required_object("transform_config").fields().empty())
    in.fail("transform_config", "weights that are turned before they are quantized are not supported");
}

void read_gptq(const json_reader& in, quantization_config& out) {
  out.method = method_kind::gptq;
  const auto bits = in.count("bits", 1, 64);
  refuse_unless(in, "bits", bits == 4 || bits == 8, "4, 8");
  const auto format = in.text("checkpoint_format").value_or("gptq");
  refuse_unless(in, "checkpoint_format", format == "gptq" || format == "gptq_v2", "\"gptq\", \"gptq_v2\"");
  refuse_unless(in, "is_marlin_format", !in.flag("is_marlin_format", false), "false");
  out.zeros_less_one = format == "gptq";
  out.group = read_group_size(in, "group_size");
  if (in.has("dynamic")) out.group = 0; // some matrices may have another one
}

void read_awq(const json_reader& in, quantization_config& out) {
  out.method = method_kind::awq;
  const auto* bits = in.has("bits") ? "bits" : "w_bit";
  refuse_unless(in, bits, in.count(bits, 1, 64, 4) == 4, "4");
  std::string version(in.text("version").value_or("gemm"));
  std::ranges::transform(version, version.begin(), [](unsigned char c) { return c < 128 ? std::tolower(c) : c; });
  refuse_unless(in, "version", version == "gemm", "\"gemm\"");
  out.group = read_group_size(in, in.has("group_size") ? "group_size" : "q_group_size");
}

} // namespace

quantization_config read_quantization(const json_reader& config) {
  quantization_config out;
  auto in = config.object("quantization_config");
  if (!in) in = config.object("compression_config"); // as compressed-tensors called it first
  if (!in) return out;
  const auto method = in->required_text("quant_method");
  if (method == "fp8" || method == "fbgemm_fp8")
    read_fp8(*in, out);
  else if (method == "compressed-tensors")
    read_compressed(*in, out);
  else if (method == "gptq")
    read_gptq(*in, out);
  else if (method == "awq")
    read_awq(*in, out);
  else if (method == "mxfp4") // of which nothing else is said but which matrices are not, as the tensors say, too
    out.method = method_kind::mxfp4;
  else
    in->fail("quant_method", in_quotes(method) + " is not supported; " + supported);
  return out;
}

} // namespace godwit::gpu::model
