#include <godwit/gpu/model/fingerprint.hpp>

#include "model/tensor_list.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <string_view>

namespace godwit::gpu::model {

namespace {

constexpr std::uint64_t page_bytes = 4096;
constexpr std::uint64_t pages = 16;

/// The finaliser of splitmix64 over words of eight bytes.
class hasher {
public:
  void word(std::uint64_t x) noexcept {
    x = (state_ ^ x) + 0x9E3779B97F4A7C15ULL;
    x = (x ^ (x >> 30U)) * 0xBF58476D1CE4E5B9ULL;
    x = (x ^ (x >> 27U)) * 0x94D049BB133111EBULL;
    state_ = x ^ (x >> 31U);
  }
  void bytes(const void* data, std::uint64_t size) noexcept {
    const auto* from = static_cast<const std::byte*>(data);
    word(size);
    for (; size > 0;) {
      std::uint64_t x = 0;
      const auto part = std::min<std::uint64_t>(size, sizeof x);
      std::memcpy(&x, from, part);
      if constexpr (std::endian::native == std::endian::big) x = __builtin_bswap64(x);
      word(x);
      from += part;
      size -= part;
    }
  }
  void text(std::string_view s) noexcept { bytes(s.data(), s.size()); }
  void number(double x) noexcept { word(std::bit_cast<std::uint64_t>(x)); }
  [[nodiscard]] std::uint64_t value() const noexcept { return state_; }

private:
  std::uint64_t state_ = 0;
};

void add(hasher& h, const config& c) {
  h.word(static_cast<std::uint64_t>(c.kind));
  for (const std::uint32_t x : {c.vocabulary, c.hidden, c.intermediate, c.layers, c.heads, c.kv_heads, c.head_size,
                                c.positions_max, c.rope.original_positions})
    h.word(x);
  h.word(static_cast<std::uint64_t>(c.rope.scaling));
  for (const double x :
       {c.rms_norm_epsilon, c.rope.theta, c.rope.factor, c.rope.low_frequency_factor, c.rope.high_frequency_factor})
    h.number(x);
  for (const bool x : {c.tied_embeddings, c.qkv_bias, c.qk_norm, c.output_bias, c.mlp_bias}) h.word(x ? 1 : 0);
  h.word(c.sliding_window ? std::uint64_t{*c.sliding_window} + 1 : 0);
  h.word(c.eos.size()); // the planner ends answers there
  for (const auto id : c.eos) h.word(static_cast<std::uint32_t>(id));
}

void add(hasher& h, const tensor_view& t) {
  h.word(static_cast<std::uint64_t>(t.type));
  h.word(t.shape.size());
  for (const auto dimension : t.shape) h.word(dimension);
  h.word(t.bytes);
  if (t.data == nullptr || t.bytes <= page_bytes * pages) {
    h.bytes(t.data, t.data == nullptr ? 0 : t.bytes);
    return;
  }
  for (std::uint64_t i = 0; i < pages; ++i) {
    const auto at = (t.bytes - page_bytes) / (pages - 1) * i;
    h.bytes(t.data + (i + 1 < pages ? at : t.bytes - page_bytes), page_bytes);
  }
}

} // namespace

std::string fingerprint(const config& configuration, const weights& tensors) {
  hasher h;
  add(h, configuration);
  for (const auto& need : tensors_of(configuration)) {
    h.text(need.name);
    if (const auto* tensor = tensors.find(need.name)) add(h, *tensor);
  }
  std::string out(16, '0');
  auto rest = h.value();
  for (auto digit = out.rbegin(); digit != out.rend(); ++digit, rest >>= 4U) *digit = "0123456789abcdef"[rest & 15U];
  return out;
}

} // namespace godwit::gpu::model
