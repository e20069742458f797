// Matrix products with vectors. Included inside an unnamed namespace after arithmetic.inl.

/// How far ahead of the reader weights are fetched, in bytes; found by measuring (docs/design/kernels.md).
inline constexpr std::size_t prefetch_bytes = 4096;

/// Rows x Panels outputs. The sums live in registers; each weight is loaded once for all rows.
template <class Values, int Rows, int Panels, bool Stream>
GODWIT_INLINE void product_block(const float* a, std::size_t a_stride, const typename Values::element* w,
                                 std::size_t panel_stride, std::uint32_t tiles, float* y, std::size_t y_stride) {
  vec sum[Rows][Panels];
#pragma GCC unroll 16
  for (int r = 0; r < Rows; ++r)
#pragma GCC unroll 16
    for (int c = 0; c < Panels; ++c) sum[r][c] = zero();
  for (std::uint32_t tile = 0; tile < tiles; ++tile, a += a_stride, w += 512) {
    vec even[Rows][Panels], odd[Rows][Panels];
#pragma GCC unroll 16
    for (int r = 0; r < Rows; ++r)
#pragma GCC unroll 16
      for (int c = 0; c < Panels; ++c) even[r][c] = odd[r][c] = zero();
#pragma GCC unroll 2
    for (int pair = 0; pair < 16; ++pair)
#pragma GCC unroll 16
      for (int c = 0; c < Panels; ++c) {
        const auto* unit = w + c * panel_stride + pair * 32;
        if constexpr (Stream) {
          const char* ahead = reinterpret_cast<const char*>(unit) + prefetch_bytes;
          prefetch(ahead);
          if constexpr (sizeof(*unit) == 4) prefetch(ahead + 64);
        }
        vec first, second;
        Values::pair(unit, first, second);
#pragma GCC unroll 16
        for (int r = 0; r < Rows; ++r) {
          even[r][c] = fma(set1(a[r * 32 + pair * 2]), first, even[r][c]);
          odd[r][c] = fma(set1(a[r * 32 + pair * 2 + 1]), second, odd[r][c]);
        }
      }
#pragma GCC unroll 16
    for (int r = 0; r < Rows; ++r)
#pragma GCC unroll 16
      for (int c = 0; c < Panels; ++c) sum[r][c] = add(sum[r][c], add(even[r][c], odd[r][c]));
  }
#pragma GCC unroll 16
  for (int r = 0; r < Rows; ++r)
#pragma GCC unroll 16
    for (int c = 0; c < Panels; ++c) store(y + r * y_stride + c * 16, sum[r][c]);
}

/// All rows of one group of panels.
template <class Values, int Panels>
void product_panels(const gemm_job& job, const float* a, const typename Values::element* w, float* y) {
  const std::size_t panel = std::size_t(job.depth) * 16;
  const std::uint32_t tiles = job.depth / 32;
  for (std::uint32_t top = 0; top < job.rows; top += 16, a += std::size_t(16) * job.depth) {
    const std::uint32_t tall = job.rows - top < 16 ? job.rows - top : 16;
    std::uint32_t r = 0;
    for (; r + rows_per_block <= tall; r += rows_per_block)
      product_block<Values, rows_per_block, Panels, false>(a + r * 32, tall * 32, w, panel, tiles,
                                                           y + (top + r) * job.y_stride, job.y_stride);
    for (; r < tall; ++r)
      product_block<Values, 1, Panels, false>(a + r * 32, tall * 32, w, panel, tiles, y + (top + r) * job.y_stride,
                                              job.y_stride);
  }
}

template <class Values> void product(const gemm_job& job, const float* a) {
  const auto* w = static_cast<const typename Values::element*>(job.w);
  const std::size_t panel = std::size_t(job.depth) * 16;
  std::uint32_t done = 0;
  if (job.rows == 1) {
    // One row is bound by memory: several panels at once are several streams for the prefetchers.
    for (; done + panels_single <= job.panels; done += panels_single)
      product_block<Values, 1, panels_single, true>(a, 32, w + done * panel, panel, job.depth / 32, job.y + done * 16,
                                                    0);
    for (; done < job.panels; ++done)
      product_block<Values, 1, 1, true>(a, 32, w + done * panel, panel, job.depth / 32, job.y + done * 16, 0);
    return;
  }
  for (; done + panels_per_block <= job.panels; done += panels_per_block)
    product_panels<Values, panels_per_block>(job, a, w + done * panel, job.y + done * 16);
  if constexpr (panels_per_block > 1)
    for (; done < job.panels; ++done) product_panels<Values, 1>(job, a, w + done * panel, job.y + done * 16);
}

[[maybe_unused]] void gemm_vectors(storage kind, const gemm_job& job) {
  if (kind == storage::f32) return product<f32_values>(job, static_cast<const float*>(job.a));
  if (kind == storage::f16) return product<f16_values>(job, static_cast<const float*>(job.a));
  // Widened once, so that a multiply-add takes its activation straight from memory.
  const auto* narrow = static_cast<const std::uint16_t*>(job.a);
  auto* wide = static_cast<float*>(job.scratch);
  const std::size_t count = std::size_t(job.rows) * job.depth;
  for (std::size_t i = 0; i < count; i += 16) store(wide + i, load_bf16(narrow + i));
  product<bf16_values>(job, wide);
}
