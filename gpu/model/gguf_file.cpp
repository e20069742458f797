#include "model/gguf_file.hpp"

#include "model/gguf_blocks.hpp"
#include "model/json_reader.hpp"

#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <utility>

namespace godwit::gpu::model {

/// Reads the header from front to back.
class gguf_cursor {
public:
  gguf_cursor(std::span<const std::byte> bytes, const gguf_file& of) : bytes_(bytes), of_(of) {}

  [[nodiscard]] std::span<const std::byte> take(std::uint64_t count, std::string_view of) {
    if (count > bytes_.size() - at_) of_.fail(of, "goes beyond the end of the file; is it truncated?");
    const auto out = bytes_.subspan(at_, count);
    at_ += count;
    return out;
  }
  template <class T> [[nodiscard]] T take(std::string_view of) {
    T value{};
    std::memcpy(&value, take(sizeof value, of).data(), sizeof value);
    return value;
  }
  [[nodiscard]] std::string_view take_text(std::string_view of) { return as_text(take(take<std::uint64_t>(of), of)); }
  [[nodiscard]] std::size_t at() const noexcept { return at_; }

private:
  std::span<const std::byte> bytes_;
  const gguf_file& of_;
  std::size_t at_ = 0;
};

namespace {

constexpr std::string_view magic = "GGUF";
constexpr std::uint64_t keys_max = 1U << 16U;
constexpr std::uint64_t tensors_max = 1U << 17U;
constexpr std::uint64_t name_bytes_max = 1U << 16U;
constexpr std::uint32_t dimensions_max = 4;
constexpr std::uint64_t alignment_max = 1U << 24U;

enum kind : std::uint32_t {
  u8_kind,
  i8_kind,
  u16_kind,
  i16_kind,
  u32_kind,
  i32_kind,
  f32_kind,
  flag_kind,
  text_kind,
  array_kind,
  u64_kind,
  i64_kind,
  f64_kind
};

/// Of a number or a flag; 0: it is none.
std::uint64_t size_of(std::uint32_t type) {
  constexpr std::array<std::uint8_t, 13> sizes{1, 1, 2, 2, 4, 4, 4, 1, 0, 0, 8, 8, 8};
  return type < sizes.size() ? sizes[type] : 0;
}

template <class T> T read(const std::byte* at) {
  T value{};
  std::memcpy(&value, at, sizeof value);
  return value;
}

std::optional<std::int64_t> integer_at(std::uint32_t type, const std::byte* at) {
  switch (type) {
  case u8_kind:
  case flag_kind:
    return read<std::uint8_t>(at);
  case i8_kind:
    return read<std::int8_t>(at);
  case u16_kind:
    return read<std::uint16_t>(at);
  case i16_kind:
    return read<std::int16_t>(at);
  case u32_kind:
    return read<std::uint32_t>(at);
  case i32_kind:
    return read<std::int32_t>(at);
  case u64_kind:
  case i64_kind:
    return read<std::int64_t>(at); // above 2^63 it is negative, which no count may be
  default:
    return std::nullopt;
  }
}

std::optional<double> number_at(std::uint32_t type, const std::byte* at) {
  if (type == f32_kind) return read<float>(at);
  if (type == f64_kind) return read<double>(at);
  const auto whole = integer_at(type, at);
  return whole ? std::optional(static_cast<double>(*whole)) : std::nullopt;
}

} // namespace

void gguf_file::fail(std::string_view key, const std::string& reason) const {
  throw model_error(name_, in_quotes(key) + " " + reason);
}

gguf_file::gguf_file(std::span<const std::byte> bytes, std::string name) : name_(std::move(name)) {
  if (!as_text(bytes).starts_with(magic)) throw model_error(name_, "is no GGUF file (it does not begin with \"GGUF\")");
  gguf_cursor at(bytes, *this);
  (void)at.take(magic.size(), "header");
  const auto version = at.take<std::uint32_t>("header");
  if (version != 2 && version != 3)
    throw model_error(name_, "is of version " + std::to_string(version) +
                                 (__builtin_bswap32(version) <= 3 ? " (big-endian)" : "") +
                                 " of GGUF; supported: 2 and 3, little-endian");
  const auto tensors = at.take<std::uint64_t>("header"), keys = at.take<std::uint64_t>("header");
  if (keys > keys_max || tensors > tensors_max)
    throw model_error(name_, "says that it has " + std::to_string(keys) + " keys and " + std::to_string(tensors) +
                                 " tensors; at most " + std::to_string(keys_max) + " and " +
                                 std::to_string(tensors_max) + " are read");
  for (std::uint64_t i = 0; i < keys; ++i) {
    const auto key = at.take_text("key " + std::to_string(i));
    if (key.size() > name_bytes_max) fail(key, "has too long a name");
    auto found = read_value(at, key);
    if (!values_.emplace(std::string(key), found).second) fail(key, "is there twice");
  }
  read_tensors(at, tensors, bytes);
}

gguf_file::value gguf_file::read_value(gguf_cursor& at, std::string_view key) const {
  value out;
  out.type = at.take<std::uint32_t>(key);
  if (out.type == text_kind) {
    const auto text = at.take_text(key);
    out.bytes = std::as_bytes(std::span(text));
    return out;
  }
  if (out.type != array_kind) {
    const auto size = size_of(out.type);
    if (size == 0) fail(key, "is of type " + std::to_string(out.type) + ", which is unknown");
    out.bytes = at.take(size, key);
    return out;
  }
  out.element = at.take<std::uint32_t>(key);
  out.count = at.take<std::uint64_t>(key);
  if (out.element != text_kind) {
    const auto size = size_of(out.element);
    if (size == 0) fail(key, "is an array of type " + std::to_string(out.element) + ", which is not supported");
    std::uint64_t bytes = 0;
    if (__builtin_mul_overflow(size, out.count, &bytes)) fail(key, "is too long an array");
    out.bytes = at.take(bytes, key);
    return out;
  }
  const auto* const begin = at.take(0, key).data();
  const auto from = at.at();
  for (std::uint64_t i = 0; i < out.count; ++i) (void)at.take_text(key);
  out.bytes = {begin, at.at() - from};
  return out;
}

void gguf_file::read_tensors(gguf_cursor& at, std::uint64_t count, std::span<const std::byte> file) {
  constexpr std::int64_t usual_alignment = 32;
  const auto alignment = integer("general.alignment").value_or(usual_alignment);
  if (alignment < 1 || static_cast<std::uint64_t>(alignment) > alignment_max ||
      !std::has_single_bit(static_cast<std::uint64_t>(alignment)))
    fail("general.alignment", "must be a power of two of at most " + std::to_string(alignment_max));
  const auto unit = static_cast<std::uint64_t>(alignment);
  struct placed {
    std::string_view name;
    gguf_tensor tensor;
    std::uint64_t at;
  };
  std::vector<placed> all;
  for (std::uint64_t i = 0; i < count; ++i) {
    auto& [name, tensor, offset] = all.emplace_back();
    name = at.take_text("tensor " + std::to_string(i));
    if (name.size() > name_bytes_max) fail(name, "has too long a name");
    const auto dimensions = at.take<std::uint32_t>(name);
    if (dimensions > dimensions_max) fail(name, "has more than " + std::to_string(dimensions_max) + " dimensions");
    tensor.shape.resize(dimensions);
    for (auto size = tensor.shape.rbegin(); size != tensor.shape.rend(); ++size) *size = at.take<std::uint64_t>(name);
    tensor.type = at.take<std::uint32_t>(name);
    offset = at.take<std::uint64_t>(name);
  }
  const auto begin = (at.at() + unit - 1) / unit * unit;
  for (auto& [name, tensor, offset] : all) {
    const auto blocks = block_of(tensor.type);
    std::uint64_t values = 1;
    for (const auto size : tensor.shape)
      if (__builtin_mul_overflow(values, size, &values)) fail(name, "has a shape that overflows");
    if (!blocks) { // whoever asks for it refuses it
      if (!tensors_.emplace(std::string(name), std::move(tensor)).second) fail(name, "is there twice");
      continue;
    }
    const auto row = tensor.shape.empty() ? 1 : tensor.shape.back();
    if (row % blocks->values != 0)
      fail(name, "has rows of " + std::to_string(row) + ", which is no multiple of " + std::to_string(blocks->values) +
                     " as " + std::string(blocks->name) + " has them");
    std::uint64_t bytes = 0;
    if (__builtin_mul_overflow(values / blocks->values, blocks->bytes, &bytes))
      fail(name, "has a shape that overflows");
    if (offset % unit != 0) fail(name, "does not begin at a multiple of general.alignment");
    if (begin > file.size() || offset > file.size() - begin || bytes > file.size() - begin - offset)
      fail(name, "goes beyond the end of the file; is it truncated?");
    tensor.bytes = file.subspan(begin + offset, bytes);
    if (!tensors_.emplace(std::string(name), std::move(tensor)).second) fail(name, "is there twice");
  }
}

const gguf_tensor* gguf_file::find(std::string_view tensor) const noexcept {
  const auto found = tensors_.find(tensor);
  return found == tensors_.end() ? nullptr : &found->second;
}

const gguf_file::value* gguf_file::lookup(std::string_view key) const noexcept {
  const auto found = values_.find(key);
  return found == values_.end() ? nullptr : &found->second;
}

void gguf_file::check_count(std::string_view key, const value& of) const {
  if (of.count > entries_max) fail(key, "has more than " + std::to_string(entries_max) + " entries");
}

bool gguf_file::is_array(std::string_view key) const noexcept {
  const auto* is = lookup(key);
  return is != nullptr && is->type == array_kind;
}

std::optional<std::int64_t> gguf_file::integer(std::string_view key) const {
  const auto* is = lookup(key);
  if (is == nullptr) return std::nullopt;
  const auto whole = integer_at(is->type, is->bytes.data());
  if (!whole) fail(key, "must be an integer");
  return whole;
}

std::optional<double> gguf_file::number(std::string_view key) const {
  const auto* is = lookup(key);
  if (is == nullptr) return std::nullopt;
  const auto value = number_at(is->type, is->bytes.data());
  if (!value || !std::isfinite(*value)) fail(key, "must be a number");
  return value;
}

std::optional<bool> gguf_file::flag(std::string_view key) const {
  const auto* is = lookup(key);
  if (is == nullptr) return std::nullopt;
  if (is->type != flag_kind) fail(key, "must be true or false");
  return is->bytes[0] != std::byte{};
}

std::optional<std::string_view> gguf_file::text(std::string_view key) const {
  const auto* is = lookup(key);
  if (is == nullptr) return std::nullopt;
  if (is->type != text_kind) fail(key, "must be a text");
  return as_text(is->bytes);
}

std::optional<std::vector<std::string_view>> gguf_file::texts(std::string_view key) const {
  const auto* is = lookup(key);
  if (is == nullptr) return std::nullopt;
  if (is->type != array_kind || is->element != text_kind) fail(key, "must be an array of texts");
  check_count(key, *is);
  std::vector<std::string_view> out;
  out.reserve(is->count);
  gguf_cursor at(is->bytes, *this);
  for (std::uint64_t i = 0; i < is->count; ++i) out.push_back(at.take_text(key));
  return out;
}

std::optional<std::vector<double>> gguf_file::numbers(std::string_view key) const {
  const auto* is = lookup(key);
  if (is == nullptr) return std::nullopt;
  const auto size = size_of(is->element);
  if (is->type != array_kind || size == 0) fail(key, "must be an array of numbers");
  check_count(key, *is);
  std::vector<double> out;
  out.reserve(is->count);
  for (std::uint64_t i = 0; i < is->count; ++i) {
    out.push_back(*number_at(is->element, is->bytes.data() + i * size));
    if (!std::isfinite(out.back())) fail(key, "must be an array of finite numbers");
  }
  return out;
}

} // namespace godwit::gpu::model
