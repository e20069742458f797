#if defined(__x86_64__)
#include "cpu/kernels/entries.hpp"

#include <immintrin.h>

// AMX computes a tile product in the order that is the definition for all others: for each 32 k a chain of fused
// multiply-adds over the even k, one over the odd k, their sum added to the accumulator.
namespace godwit::gpu::cpu {
namespace {
#include "cpu/kernels/vector_avx512.hpp"

#include "cpu/kernels/arithmetic.inl"

#include "cpu/kernels/dot.inl"

#include "cpu/kernels/gemm.inl"

#include "cpu/kernels/attention.inl"

using bf16 = std::uint16_t;

struct alignas(64) tile_config {
  std::uint8_t palette = 1;
  std::uint8_t start_row = 0;
  std::uint8_t reserved[14] = {};
  std::uint16_t row_bytes[16] = {};
  std::uint8_t rows[16] = {};

  void set(int tile, std::uint32_t tile_rows, std::uint32_t bytes) {
    rows[tile] = std::uint8_t(tile_rows);
    row_bytes[tile] = std::uint16_t(bytes);
  }
  void use() const {
    __asm__ volatile("" ::"r"(this) : "memory"); // g++ 12's intrinsic says that it reads the first eight bytes only
    _tile_loadconfig(this);
  }
};

#include "cpu/kernels/amx_dot.inl"

// ---- matrix products -----------------------------------------------------------------------------------------------

/// k that are done before the next columns: the activations of 256 rows stay in the second-level cache.
inline constexpr std::uint32_t depth_per_pass = 1024;

GODWIT_INLINE void prefetch_tile(const bf16* w) {
  const char* ahead = reinterpret_cast<const char*>(w) + 2 * prefetch_bytes;
#pragma GCC unroll 16
  for (int line = 0; line < 1024; line += 64) _mm_prefetch(ahead + line, _MM_HINT_T0);
}

/// Up to 16 rows: bound by reading the weights, so four panels at once.
void few_rows(const gemm_job& job) {
  tile_config config;
  for (int tile = 0; tile < 5; ++tile) config.set(tile, job.rows, 64);
  for (int tile = 5; tile < 8; ++tile) config.set(tile, 16, 64);
  config.use();
  const auto* a = static_cast<const bf16*>(job.a);
  const auto* w = static_cast<const bf16*>(job.w);
  const std::size_t panel = std::size_t(job.depth) * 16, a_step = job.rows * 32;
  const std::size_t y_bytes = job.y_stride * sizeof(float);
  const std::uint32_t tiles = job.depth / 32;
  std::uint32_t done = 0;
  for (; done + 4 <= job.panels; done += 4) {
    const bf16* b = w + done * panel;
    float* y = job.y + done * 16;
    _tile_zero(0);
    _tile_zero(1);
    _tile_zero(2);
    _tile_zero(3);
    for (std::uint32_t k = 0; k < tiles; ++k, b += 512) {
      prefetch_tile(b);
      prefetch_tile(b + panel);
      prefetch_tile(b + 2 * panel);
      prefetch_tile(b + 3 * panel);
      _tile_loadd(4, a + k * a_step, 64);
      _tile_loadd(5, b, 64);
      _tile_dpbf16ps(0, 4, 5);
      _tile_loadd(6, b + panel, 64);
      _tile_dpbf16ps(1, 4, 6);
      _tile_loadd(7, b + 2 * panel, 64);
      _tile_dpbf16ps(2, 4, 7);
      _tile_loadd(5, b + 3 * panel, 64);
      _tile_dpbf16ps(3, 4, 5);
    }
    _tile_stored(0, y, y_bytes);
    _tile_stored(1, y + 16, y_bytes);
    _tile_stored(2, y + 32, y_bytes);
    _tile_stored(3, y + 48, y_bytes);
  }
  for (; done < job.panels; ++done) {
    const bf16* b = w + done * panel;
    _tile_zero(0);
    for (std::uint32_t k = 0; k < tiles; ++k) {
      prefetch_tile(b + k * 512);
      _tile_loadd(4, a + k * a_step, 64);
      _tile_loadd(5, b + k * 512, 64);
      _tile_dpbf16ps(0, 4, 5);
    }
    _tile_stored(0, job.y + done * 16, y_bytes);
  }
  _tile_release();
}

/// Some k of 32 rows (two tiles, the second may be shorter or absent) and one or two panels.
struct piece {
  const bf16 *upper = nullptr, *lower = nullptr; ///< activations; lower null: one tile
  std::size_t upper_step = 0, lower_step = 0;
  const bf16 *left = nullptr, *right = nullptr; ///< weights; right null: one panel
  float *y_upper = nullptr, *y_lower = nullptr;
  std::size_t y_bytes = 0;
  std::uint32_t tiles = 0;
};

template <bool Lower, bool Right> GODWIT_INLINE void run(const piece& p, bool first) {
  if (first) {
    _tile_zero(0);
    if constexpr (Right) _tile_zero(1);
    if constexpr (Lower) _tile_zero(2);
    if constexpr (Lower && Right) _tile_zero(3);
  } else {
    _tile_loadd(0, p.y_upper, p.y_bytes);
    if constexpr (Right) _tile_loadd(1, p.y_upper + 16, p.y_bytes);
    if constexpr (Lower) _tile_loadd(2, p.y_lower, p.y_bytes);
    if constexpr (Lower && Right) _tile_loadd(3, p.y_lower + 16, p.y_bytes);
  }
  for (std::uint32_t k = 0; k < p.tiles; ++k) {
    _tile_loadd(4, p.upper + k * p.upper_step, 64);
    _tile_loadd(6, p.left + k * 512, 64);
    _tile_dpbf16ps(0, 4, 6);
    if constexpr (Lower) {
      _tile_loadd(5, p.lower + k * p.lower_step, 64);
      _tile_dpbf16ps(2, 5, 6);
    }
    if constexpr (Right) {
      _tile_loadd(7, p.right + k * 512, 64);
      _tile_dpbf16ps(1, 4, 7);
      if constexpr (Lower) _tile_dpbf16ps(3, 5, 7);
    }
  }
  _tile_stored(0, p.y_upper, p.y_bytes);
  if constexpr (Right) _tile_stored(1, p.y_upper + 16, p.y_bytes);
  if constexpr (Lower) _tile_stored(2, p.y_lower, p.y_bytes);
  if constexpr (Lower && Right) _tile_stored(3, p.y_lower + 16, p.y_bytes);
}

void many_rows(const gemm_job& job) {
  const auto* a = static_cast<const bf16*>(job.a);
  const auto* w = static_cast<const bf16*>(job.w);
  const std::size_t panel = std::size_t(job.depth) * 16, a_tile = std::size_t(job.depth) * 16;
  std::uint32_t configured = 0;
  for (std::uint32_t k = 0; k < job.depth; k += depth_per_pass) {
    const std::uint32_t depth = job.depth - k < depth_per_pass ? job.depth - k : depth_per_pass;
    for (std::uint32_t n = 0; n < job.panels; n += 2) {
      const bool right = n + 1 < job.panels;
      for (std::uint32_t top = 0; top < job.rows; top += 32) {
        const std::uint32_t left_rows = job.rows - top;
        const std::uint32_t upper = left_rows < 16 ? left_rows : 16;
        const std::uint32_t lower = left_rows <= 16 ? 0 : left_rows - 16 < 16 ? left_rows - 16 : 16;
        if (configured != upper * 32 + lower) {
          tile_config config;
          for (const int tile : {0, 1, 4}) config.set(tile, upper, 64);
          for (const int tile : {2, 3, 5}) config.set(tile, lower ? lower : 1, 64);
          for (const int tile : {6, 7}) config.set(tile, 16, 64);
          config.use();
          configured = upper * 32 + lower;
        }
        piece p;
        p.upper = a + (top / 16) * a_tile + std::size_t(k / 32) * upper * 32;
        p.upper_step = upper * 32;
        p.lower = a + (top / 16 + 1) * a_tile + std::size_t(k / 32) * lower * 32;
        p.lower_step = lower * 32;
        p.left = w + n * panel + std::size_t(k) * 16;
        p.right = p.left + panel;
        p.y_upper = job.y + top * job.y_stride + n * 16;
        p.y_lower = p.y_upper + 16 * job.y_stride;
        p.y_bytes = job.y_stride * sizeof(float);
        p.tiles = depth / 32;
        if (lower != 0 && right)
          run<true, true>(p, k == 0);
        else if (lower != 0)
          run<true, false>(p, k == 0);
        else if (right)
          run<false, true>(p, k == 0);
        else
          run<false, false>(p, k == 0);
      }
    }
  }
  _tile_release();
}

void gemm(storage kind, const gemm_job& job) {
  if (rounds_activations(job.code)) return gemm_dot_tiles(kind, job);
  // One row gains nothing from tiles: it waits for memory, and plain loads keep more streams going.
  if (kind != storage::bf16 || job.rows == 1) return avx512_isa::gemm(kind, job);
  const auto by_tiles = [](const gemm_job& one) { one.rows <= 16 ? few_rows(one) : many_rows(one); };
  if (job.code == coding::none) return by_tiles(job);
  with_codes<bf16_values>(job.code, [&]<class Values>() { product_decoded<Values, bf16_values>(job, by_tiles); });
}

// ---- attention -----------------------------------------------------------------------------------------------------

struct tile_products {
  using element = bf16;
  using probability = bf16;
  static constexpr bool wide_queries = false;

  static void begin(std::uint32_t rows) {
    tile_config config;
    for (int tile = 0; tile < 4; ++tile) config.set(tile, rows, 64); // sums
    config.set(4, rows, 64);                                         // queries
    config.set(5, 16, 64);                                           // keys: 16 pairs of d x 16 tokens
    config.set(6, rows, 32);                                         // probabilities of 16 tokens
    config.set(7, 8, 64);                                            // values: 8 pairs of tokens x 16 d
    config.use();
  }
  static void end() { _tile_release(); }
  static GODWIT_INLINE void put(probability* p, vec x) { store_bf16(p, x); }

  static GODWIT_INLINE void scores(const void* query, std::uint32_t rows, const element* keys, std::uint32_t width,
                                   float* out) {
    const auto* q = static_cast<const bf16*>(query);
    _tile_zero(0);
    for (std::uint32_t k = 0; k < width / 32; ++k) {
      _tile_loadd(4, q + k * rows * 32, 64);
      _tile_loadd(5, keys + k * 512, 64);
      _tile_dpbf16ps(0, 4, 5);
    }
    _tile_stored(0, out, softmax_tokens * sizeof(float));
  }
  static GODWIT_INLINE void values(const probability* p, std::uint32_t, const element* const* blocks,
                                   std::uint32_t count, std::uint32_t width, float* sums) {
    const std::size_t sum_bytes = width * sizeof(float), value_bytes = width / 16 * 64;
    for (std::uint32_t d = 0; d < width; d += 32) { // the width is a multiple of 32
      _tile_loadd(0, sums + d, sum_bytes);
      _tile_loadd(1, sums + d + 16, sum_bytes);
      for (std::uint32_t b = 0; b < count; ++b) {
        _tile_loadd(6, p + b * 256, 32);
        _tile_loadd(7, blocks[b] + d * 2, value_bytes);
        _tile_dpbf16ps(0, 6, 7);
        _tile_loadd(7, blocks[b] + d * 2 + 32, value_bytes);
        _tile_dpbf16ps(1, 6, 7);
      }
      _tile_stored(0, sums + d, sum_bytes);
      _tile_stored(1, sums + d + 16, sum_bytes);
    }
  }
};

void attention(storage kv, storage activations, const attention_job& job) {
  if (kv != storage::bf16) return avx512_isa::attention(kv, activations, job);
  if (activations == storage::bf16)
    attend<bf16_values, tile_products, bf16_values>(job);
  else
    attend<bf16_values, tile_products, f32_values>(job);
}

} // namespace

const kernel_table amx_kernels{isa::amx,
                               gemm,
                               avx512_isa::round,
                               avx512_isa::norm,
                               avx512_isa::swiglu,
                               avx512_isa::kv_write,
                               attention,
                               avx512_isa::add,
                               avx512_isa::copy,
                               avx512_isa::add_normed,
                               avx512_isa::exponential_of};

} // namespace godwit::gpu::cpu
#endif
