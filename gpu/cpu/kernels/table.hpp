#pragma once

#include <godwit/gpu/cpu/isa.hpp>

#include <cstddef>
#include <cstdint>

/// What the forward pass computes with: one table of functions for each instruction set, all bitwise equal.
///
/// Order of summation, the same everywhere (docs/design/kernels.md): an inner product over k runs in groups of 32 (16
/// for the tokens of a KV block); in each, one chain of fused multiply-adds from zero over the even k and one over the
/// odd k; then sum = sum + (even + odd). Denormals are flushed (the caller sets the mode, `flush_denormals`).
///
/// Only plain data and pointers here: this header is compiled with flags of several instruction sets.
namespace godwit::gpu::cpu {

/// How weights are stored. Activations that meet bf16 weights are bf16, others are f32.
enum class storage : std::uint8_t {
  bf16,
  f16,
  f32,
  fp8 ///< of K and V only: e4m3, which means itself; what meets it is bf16
};

/// Weights that are kept in fewer bits than what they mean, which are multiplied in one of two ways.
///
/// Exactly (int4, int8, e4m3, fp4): they mean (code - zero) * scale, rounded to bf16 where they count as bf16, and not
/// where they count as f32. The kernels multiply what is meant, in the order that holds for it.
///
/// By sums of codes (dot...), as llama.cpp does: the activations are rounded, too, each 32 k of a row to 127 steps of
/// its largest number, a = step * r. For 32 k, or for each half of them, t = scale * (sum of r * (code - zero)), whose
/// sum is of integers and exact; where there are offsets t = fma(offset, sum of r, t); and in rising k
/// y = fma(step, t, y).
enum class coding : std::uint8_t {
  none,
  int4,               ///< codes of 0 to 15, with a zero
  int8,               ///< codes of -128 to 127
  e4m3,               ///< floats of 8 bits
  fp4,                ///< floats of 4 bits in halves, -12 to 12
  dot4,               ///< codes of 0 to 15, whose zero is 8
  dot4_offset,        ///< codes of 0 to 15, with an offset
  dot4_offset_halves, ///< the same, with a scale and an offset for each 16 k
  dot8,               ///< codes of -128 to 127
  dot8_offset,        ///< the same, with an offset
  dot8_halves,        ///< codes of -128 to 127, with a scale for each 16 k
  dot_fp4             ///< floats of 4 bits in halves
};
[[nodiscard]] constexpr bool rounds_activations(coding code) noexcept { return code >= coding::dot4; }

/// Columns of a panel of packed weights, rows of a tile of packed activations, tokens of a KV block.
inline constexpr std::uint32_t lanes = 16;
/// k of a tile.
inline constexpr std::uint32_t tile_depth = 32;
/// Rows that one gemm call may have.
inline constexpr std::uint32_t gemm_rows_max = 256;
/// Query rows that share one pass over K and V.
inline constexpr std::uint32_t query_rows_max = 128;
/// Tokens whose probabilities share one pass of the softmax; positions are grouped by multiples of it.
inline constexpr std::uint32_t softmax_tokens = 128;

/// Packed activations, rounded: for each 32 k of a row, in the order in which they are packed, 32 codes, their step,
/// and the sums of the first and of the other 16.
struct rounded_rows {
  std::int8_t* codes = nullptr;
  float* steps = nullptr;
  float* totals = nullptr;
  std::int32_t* sums = nullptr;

  /// From that unit of 32 k on.
  [[nodiscard, gnu::always_inline]] inline rounded_rows from(std::size_t unit) const noexcept {
    if (codes == nullptr) return {};
    return {codes + unit * tile_depth, steps + unit, totals + unit, sums + unit * 2};
  }
};

/// y[r][c] = sum over k of a[r][k] * w[c][k].
///
/// `a` packed: tiles of up to 16 rows, one after the other, each [depth / 32][rows of the tile][32].
/// `w` packed: panels of 16 columns, each [depth / 32][16 pairs][32]; a pair's 32 values are interleaved (even k, odd k
/// of each column) for bf16, and 16 even ones before 16 odd ones for f16 and f32.
///
/// `w` in codes: panels of 16 columns, each [depth / 32] tiles of `coded_tile_bytes`: 16 scales (f32), or for halves 16
/// of the first 16 k and 16 of the others; the offsets (f32) likewise; for int4 16 zeros (8 bits); then the codes. Of
/// int4, int8, e4m3 and fp4 16 pairs: 16 even codes and 16 odd ones, of four bits 16 bytes with the even one in the
/// lower bits. Of the others 8 quads: four k of a column after another, eight bits with 128 added, or of four bits 4
/// pairs of quads with the first one in the lower bits.
struct gemm_job {
  const void* a = nullptr; ///< for codes that round activations unused: `rounded` has them
  std::uint32_t rows = 0;  ///< at most gemm_rows_max
  std::uint32_t depth = 0; ///< multiple of 32
  const void* w = nullptr; ///< first panel
  coding code = coding::none;
  std::uint32_t panels = 0;
  float* y = nullptr; ///< 64-byte aligned
  std::size_t y_stride = 0;
  rounded_rows rounded;     ///< for codes that round activations: from the first of these rows on
  void* scratch = nullptr;  ///< gemm_scratch_bytes(rows, depth)
  void* decoded = nullptr;  ///< decoded_bytes(storage, depth), for weights in codes
  bool fetch_ahead = false; ///< of one row, in software: see `fetches_ahead`
  bool read = false;        ///< `scratch` has what the call before made of the same `a`, for the same storage and codes
};

/// One token's vectors into the activations' packing: scaled by 1 / rms, times the weight.
struct norm_job {
  const float* x = nullptr;
  std::size_t x_stride = 0;
  const float* weight = nullptr; ///< padded with zeros to `width`
  std::uint32_t hidden = 0;      ///< true width, for the mean
  std::uint32_t width = 0;       ///< multiple of 32; x and weight are zero behind `hidden`
  float epsilon = 0;
  void* out = nullptr; ///< packed activations of `rows` rows
  std::uint32_t rows = 0;
  std::uint32_t first = 0, last = 0; ///< rows to do
};

/// to[r] += from[r], normed: what a product adds, once all of it is there. Scaled and weighted as in a norm_job.
struct add_normed_job {
  float* to = nullptr;
  float* from = nullptr; ///< changed where there is a bias; zero behind `hidden`
  std::size_t stride = 0;
  const float* bias = nullptr; ///< added to `from` first; null: none
  std::uint32_t columns = 0;   ///< of the bias, a multiple of 16
  const float* weight = nullptr;
  std::uint32_t hidden = 0, width = 0;
  float epsilon = 0;
  std::uint32_t rows = 0;
};

/// What an MLP makes of its gate x: x / (1 + e^-x), or x / (1 + e^-2u) with u = sqrt(2 / pi) (x + 0.044715 x^3), which
/// is x (1 + tanh u) / 2; or, as gpt-oss has it, x / (1 + e^-slope x) (up + 1), of an x of at most a limit and an up no
/// farther from 0 than it.
enum class gate_kind : std::uint8_t { silu, gelu_tanh, clamped };

/// gate * up for a piece of columns, into packed activations. y holds panels gate, up, gate, up ...
struct swiglu_job {
  gate_kind gate = gate_kind::silu;
  float limit = 0, slope = 0; ///< of gate_kind::clamped
  const float* y = nullptr;
  std::size_t y_stride = 0;
  const float* bias = nullptr; ///< as y's columns; null: none
  std::uint32_t panels = 0;    ///< of y; even
  std::uint32_t first_row = 0; ///< row of the packed activations that y[0] belongs to
  std::uint32_t y_rows = 0;
  void* out = nullptr;
  std::uint32_t rows = 0; ///< of the packed activations
  std::uint32_t width = 0;
  std::uint32_t first_column = 0; ///< multiple of 16
};

/// One head of some rows: rotates (x, y) by the angle of the row's position.
struct rope_tables {
  const float* cosine = nullptr; ///< [rows][half_width]
  const float* sine = nullptr;
  std::uint32_t half = 0;       ///< head size / 2
  std::uint32_t half_width = 0; ///< padded to a multiple of 16
};

/// Where a layer's KV lies. K of a block: [kv head][head_width / 32][16 pairs of d][16 tokens x 2]; V of a block:
/// [kv head][8 pairs of tokens][head_width / 16][16 d x 2]; pairs as in packed weights, of fp8 as of f32.
struct kv_view {
  std::byte* base = nullptr;    ///< of the layer
  std::size_t block_stride = 0; ///< bytes from a block's K to the next block's
  std::size_t value_offset = 0; ///< bytes from a block's K to its V
  std::size_t head_stride = 0;  ///< bytes of one head
  std::uint32_t head_width = 0; ///< head size, padded to a multiple of 32
};

/// Norms (where there are weights for it) and turns the queries and keys of some rows of one request; puts K and V into
/// one block.
struct kv_write_job {
  const float* qkv = nullptr; ///< first row; K at key_column, V at value_column
  std::size_t qkv_stride = 0;
  std::uint32_t query_column = 0, key_column = 0, value_column = 0;
  std::uint32_t group = 0; ///< query heads that share this kv head
  std::uint32_t head = 0;  ///< kv head
  std::uint32_t head_size = 0;
  std::uint32_t rows = 0;
  const float* query_norm = nullptr; ///< [head_width], zero behind head_size; null: none
  const float* key_norm = nullptr;
  float epsilon = 0;           ///< of the norms
  std::uint32_t first_row = 0; ///< of the rope tables
  rope_tables rope;
  kv_view kv;
  std::uint32_t block = 0;
  std::uint32_t slot = 0; ///< of the first row within the block
  void* query = nullptr;  ///< packed activations (as K is stored; beside fp8 bf16): this request's queries of this kv
                          ///< head, row = token * group + head
  std::uint32_t query_rows = 0;      ///< of the packing
  std::uint32_t first_query_row = 0; ///< of the first row
};

/// Attention of some query rows (token x head of one kv head's group) over a request's blocks.
struct attention_job {
  const void* query = nullptr; ///< packed activations, from a tile on
  std::uint32_t rows = 0;      ///< at most query_rows_max
  const std::uint32_t* blocks = nullptr;
  kv_view kv;
  std::uint32_t head = 0; ///< kv head
  std::uint32_t group = 0;
  std::uint32_t first_query_row = 0; ///< row 0 is this row of the request's queries; multiple of 16
  std::uint32_t first_position = 0;  ///< of the slice
  std::uint32_t window = 0;          ///< 0: all positions
  std::uint32_t head_size = 0;
  float scale = 0;
  const float* sinks = nullptr; ///< of each query head of the group: a score that takes its part of the softmax and
                                ///< has no value; null: none
  void* out = nullptr;          ///< packed activations; columns of query head h at h * head_size
  std::uint32_t out_rows = 0;   ///< of the packing
  std::uint32_t out_width = 0;
  std::uint32_t first_out_row = 0; ///< row of the slice's first token
  float* scratch = nullptr;        ///< attention_scratch_floats(head_width)
};

struct kernel_table {
  isa kind;
  void (*gemm)(storage, const gemm_job&);
  /// Rounds some units of 32 activations, bf16 or f32.
  void (*round)(storage activations, const void* from, std::size_t units, rounded_rows to);
  /// `activations`: bf16 or f32.
  void (*norm)(storage activations, const norm_job&);
  void (*swiglu)(storage activations, const swiglu_job&);
  void (*kv_write)(storage kv, const kv_write_job&);
  void (*attention)(storage kv, storage activations, const attention_job&);
  /// to[r][c] += from[r][c] + bias[c]; columns a multiple of 16.
  void (*add)(float* to, std::size_t to_stride, const float* from, std::size_t from_stride, const float* bias,
              std::uint32_t rows, std::uint32_t columns);
  /// to[r][c] = from[r][c] + bias[c].
  void (*copy)(float* to, std::size_t to_stride, const float* from, std::size_t from_stride, const float* bias,
               std::uint32_t rows, std::uint32_t columns);
  void (*add_normed)(const add_normed_job&);
  /// For tests of the arithmetic: exp of n values, n a multiple of 16.
  void (*exponential)(const float* x, float* y, std::uint32_t n);
};

/// Bytes a thread lends to gemm.
[[nodiscard]] constexpr std::size_t gemm_scratch_bytes(std::uint32_t rows, std::uint32_t depth) noexcept {
  return std::size_t{(rows + lanes - 1) / lanes * lanes} * depth * sizeof(float);
}

/// Bytes of rounded activations.
[[nodiscard]] constexpr std::size_t rounded_bytes(std::size_t rows, std::uint32_t depth) noexcept {
  return rows * (depth / tile_depth) * (tile_depth + 2 * sizeof(float) + 2 * sizeof(std::int32_t));
}
/// Where they are in so many bytes, 64-byte aligned.
[[nodiscard, gnu::always_inline]] inline rounded_rows rounded_in(std::byte* room, std::size_t rows,
                                                                 std::uint32_t depth) noexcept {
  const std::size_t units = rows * (depth / tile_depth);
  auto* const steps = reinterpret_cast<float*>(room + units * tile_depth);
  return {reinterpret_cast<std::int8_t*>(room), steps, steps + units,
          reinterpret_cast<std::int32_t*>(steps + 2 * units)};
}

/// Panels whose codes are read at once for many rows.
inline constexpr std::uint32_t decoded_panels = 4;
/// Bytes a thread lends to gemm for what codes mean, 64-byte aligned.
[[nodiscard]] constexpr std::size_t decoded_bytes(storage kind, std::uint32_t depth) noexcept {
  return std::size_t{decoded_panels} * lanes * depth * (kind == storage::bf16 ? 2 : 4);
}

/// Floats of four bits in halves are no farther from 0; products of theirs are of them with that added.
inline constexpr std::int32_t fp4_most = 12;
inline constexpr std::int8_t fp4_halves[16] = {0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12};
inline constexpr std::int8_t fp4_raised[16] = {12, 13, 14, 15, 16, 18, 20, 24, 12, 11, 10, 9, 8, 6, 4, 0};

/// What a tile in codes has, 16 columns of 32 k.
struct coded_layout {
  bool four_bits = false;
  bool zeros = false, offsets = false;
  std::size_t units = 1; ///< of a column: 2 where there are halves
  std::int32_t zero = 0; ///< of the codes as they lie in quads

  /// Where the offsets are, the zeros, and the codes.
  [[nodiscard]] constexpr std::size_t offsets_at() const noexcept { return units * lanes * sizeof(float); }
  [[nodiscard]] constexpr std::size_t zeros_at() const noexcept { return offsets_at() * (offsets ? 2 : 1); }
  [[nodiscard]] constexpr std::size_t codes_at() const noexcept { return zeros_at() + (zeros ? lanes : 0); }
  /// Codes of a pair.
  [[nodiscard]] constexpr std::size_t pair_bytes() const noexcept { return four_bits ? lanes : 2 * lanes; }
  [[nodiscard]] constexpr std::size_t bytes() const noexcept { return codes_at() + tile_depth / 2 * pair_bytes(); }
};
[[nodiscard]] constexpr coded_layout layout_of(coding code) noexcept {
  switch (code) {
  case coding::int4:
    return {true, true, false, 1, 0};
  case coding::fp4:
    return {true, false, false, 1, 0};
  case coding::dot4:
    return {true, false, false, 1, 8};
  case coding::dot_fp4:
    return {true, false, false, 1, fp4_most};
  case coding::dot4_offset:
    return {true, false, true, 1, 0};
  case coding::dot4_offset_halves:
    return {true, false, true, 2, 0};
  case coding::dot8:
    return {false, false, false, 1, 128};
  case coding::dot8_offset:
    return {false, false, true, 1, 128};
  case coding::dot8_halves:
    return {false, false, false, 2, 128};
  case coding::none:
  case coding::int8:
  case coding::e4m3:
    break;
  }
  return {};
}
/// The byte and the lowest bit in it of column `c`'s code for the k-th k of a tile that lies in quads.
struct quad_place {
  std::size_t byte = 0;
  unsigned bit = 0;
};
[[nodiscard]] constexpr quad_place place_in_quads(bool four_bits, std::uint32_t c, std::uint32_t k) noexcept {
  const std::size_t quad = k / 4, within = std::size_t{c} * 4 + k % 4;
  if (four_bits) return {quad / 2 * 64 + within, static_cast<unsigned>(quad % 2) * 4U};
  return {quad * 64 + within, 0};
}
[[nodiscard]] constexpr std::size_t coded_tile_bytes(coding code) noexcept { return layout_of(code).bytes(); }

/// Floats a thread lends to attention: scores, probabilities, sums, widened queries, highest scores, totals.
[[nodiscard]] constexpr std::size_t attention_scratch_floats(std::uint32_t head_width) noexcept {
  return std::size_t{lanes} * softmax_tokens * 2 + std::size_t{query_rows_max} * (head_width * 2 + 2);
}

extern const kernel_table scalar_kernels;
#if defined(__x86_64__)
extern const kernel_table avx2_kernels;
extern const kernel_table avx512_kernels;
extern const kernel_table avx512_vnni_kernels;
extern const kernel_table amx_kernels;
#endif

} // namespace godwit::gpu::cpu
