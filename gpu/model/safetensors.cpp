#include "model/safetensors.hpp"

#include "model/json_reader.hpp"

#include <boost/json/array.hpp>

#include <algorithm>
#include <array>
#include <cstring>

namespace godwit::gpu::model {

namespace {

constexpr std::size_t header_bytes_max = 32U << 20U;
constexpr std::size_t dimensions_max = 8;

/// Every type of the format with its bits; those without a data_type may be in the file (position ids) but not in the
/// model.
struct known_type {
  std::string_view name;
  std::uint64_t bits;
};
constexpr std::array known_types{known_type{"BF16", 16},   known_type{"F16", 16},    known_type{"F32", 32},
                                 known_type{"F64", 64},    known_type{"BOOL", 8},    known_type{"U8", 8},
                                 known_type{"I8", 8},      known_type{"U16", 16},    known_type{"I16", 16},
                                 known_type{"U32", 32},    known_type{"I32", 32},    known_type{"U64", 64},
                                 known_type{"I64", 64},    known_type{"F8_E4M3", 8}, known_type{"F8_E5M2", 8},
                                 known_type{"F8_E8M0", 8}, known_type{"C64", 64}};

std::uint64_t little_endian(std::span<const std::byte> bytes) {
  std::uint64_t value = 0;
  for (std::size_t i = 0; i < 8; ++i) value |= std::to_integer<std::uint64_t>(bytes[i]) << (8 * i);
  return value;
}

std::uint64_t unsigned_of(const json_reader& in, std::string_view field, const boost::json::value& value) {
  const auto whole = integer_of(value);
  if (!whole || *whole < 0) in.fail(field, "must hold integers from 0");
  return static_cast<std::uint64_t>(*whole);
}

struct placed {
  std::uint64_t begin;
  std::uint64_t end;
};

named_tensor read_entry(const json_reader& in, std::string name, std::span<const std::byte> data, placed& place) {
  named_tensor out;
  out.name = std::move(name);

  const auto type = in.required_text("dtype");
  const auto* const known =
      std::find_if(known_types.begin(), known_types.end(), [&](const auto& entry) { return entry.name == type; });
  if (known == known_types.end())
    in.fail("dtype", in_quotes(type) + " is unknown; supported: \"BF16\", \"F16\", \"F32\"");

  const auto* shape = in.array("shape");
  if (!shape) in.fail("shape", "is missing");
  if (shape->size() > dimensions_max)
    in.fail("shape", "has more than " + std::to_string(dimensions_max) + " dimensions");
  std::uint64_t elements = 1;
  for (const auto& dimension : *shape) {
    out.view.shape.push_back(unsigned_of(in, "shape", dimension));
    if (__builtin_mul_overflow(elements, out.view.shape.back(), &elements)) in.fail("shape", "overflows");
  }
  std::uint64_t bytes = 0;
  if (__builtin_mul_overflow(elements, known->bits / 8, &bytes)) in.fail("shape", "overflows");

  const auto* offsets = in.array("data_offsets");
  if (!offsets || offsets->size() != 2) in.fail("data_offsets", "must be [begin, end]");
  place.begin = unsigned_of(in, "data_offsets", (*offsets)[0]);
  place.end = unsigned_of(in, "data_offsets", (*offsets)[1]);
  if (place.begin > place.end || place.end > data.size())
    in.fail("data_offsets",
            "lies outside the file (" + std::to_string(data.size()) + " bytes of data); is it truncated?");
  if (place.end - place.begin != bytes)
    in.fail("data_offsets", "spans " + std::to_string(place.end - place.begin) + " bytes, but shape and dtype need " +
                                std::to_string(bytes));

  if (type == "BF16")
    out.view.type = data_type::bf16;
  else if (type == "F16")
    out.view.type = data_type::f16;
  else if (type == "F32")
    out.view.type = data_type::f32;
  else
    out.unsupported = type;
  out.view.data = data.data() + place.begin;
  out.view.bytes = bytes;
  return out;
}

void refuse_overlaps(std::vector<placed> places, std::uint64_t data_bytes, const std::string& file) {
  std::sort(places.begin(), places.end(),
            [](const placed& a, const placed& b) { return a.begin != b.begin ? a.begin < b.begin : a.end < b.end; });
  std::uint64_t reached = 0;
  for (const auto& place : places) {
    if (place.begin != reached)
      throw model_error(file, "data_offsets: tensors overlap or leave a hole at byte " + std::to_string(reached));
    reached = place.end;
  }
  if (reached != data_bytes)
    throw model_error(file, "data_offsets: " + std::to_string(data_bytes - reached) + " bytes belong to no tensor");
}

} // namespace

std::vector<named_tensor> read_safetensors(std::span<const std::byte> bytes, const std::string& file) {
  if (bytes.size() < 8)
    throw model_error(file, "is too short for a safetensors file (" + std::to_string(bytes.size()) + " bytes)");
  const auto header_bytes = little_endian(bytes);
  if (header_bytes > header_bytes_max)
    throw model_error(file, "header length " + std::to_string(header_bytes) + " is above the limit of " +
                                std::to_string(header_bytes_max) + " bytes; is it a safetensors file?");
  if (header_bytes > bytes.size() - 8)
    throw model_error(file, "header length " + std::to_string(header_bytes) +
                                " is beyond the end of the file; is it truncated?");

  const auto text = as_text(bytes.subspan(8, header_bytes));
  const auto data = bytes.subspan(8 + header_bytes);
  const auto value = parse_json(text, file + " header", header_bytes_max);
  const json_reader in(value, file);

  std::vector<named_tensor> out;
  std::vector<placed> places;
  out.reserve(in.fields().size());
  for (const auto& field : in.fields()) {
    const std::string name(field.key().data(), field.key().size());
    if (name == "__metadata__") continue;
    places.emplace_back();
    const json_reader entry(field.value(), file, in_quotes(name) + ".");
    out.push_back(read_entry(entry, name, data, places.back()));
  }
  refuse_overlaps(std::move(places), data.size(), file);
  return out;
}

} // namespace godwit::gpu::model
