// Matrix products with vectors. Included inside an unnamed namespace after arithmetic.inl.

/// Rows x Panels outputs. The sums live in registers; each weight is loaded once for all rows. `goes_on`: behind what
/// lies in `y`, of the tiles before.
template <class Values, int Rows, int Panels, bool Stream>
GODWIT_INLINE void product_block(const float* a, std::size_t a_stride, const std::byte* w, std::size_t panel_stride,
                                 std::uint32_t tiles, float* y, std::size_t y_stride, bool goes_on = false) {
  vec sum[Rows][Panels];
#pragma GCC unroll 16
  for (int r = 0; r < Rows; ++r)
#pragma GCC unroll 16
    for (int c = 0; c < Panels; ++c) sum[r][c] = goes_on ? load(y + r * y_stride + c * 16) : zero();
  for (std::uint32_t tile = 0; tile < tiles; ++tile, a += a_stride, w += Values::tile_bytes) {
    vec even[Rows][Panels], odd[Rows][Panels];
#pragma GCC unroll 16
    for (int r = 0; r < Rows; ++r)
#pragma GCC unroll 16
      for (int c = 0; c < Panels; ++c) even[r][c] = odd[r][c] = zero();
#pragma GCC unroll 2
    for (int pair = 0; pair < 16; ++pair)
#pragma GCC unroll 16
      for (int c = 0; c < Panels; ++c) {
        const std::byte* const at = w + c * panel_stride;
        if constexpr (Stream) {
          const std::byte* const ahead = at + pair * Values::unit_bytes + prefetch_bytes;
          if (pair * Values::unit_bytes % 64 == 0) prefetch(ahead);
          if constexpr (Values::unit_bytes > 64) prefetch(ahead + 64);
        }
        vec first, second;
        Values::tile_pair(at, pair, first, second);
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

/// Tiles of a product's depth.
struct tile_range {
  std::uint32_t first = 0;
  std::uint32_t count = 0;
};

template <class Values> constexpr std::size_t panel_bytes(const gemm_job& job) {
  return job.depth / 32 * Values::tile_bytes;
}

/// All rows of one group of panels, which begin with the first of the tiles.
template <class Values, int Panels>
void product_panels(const gemm_job& job, tile_range tiles, const float* a, const std::byte* w, std::size_t panel,
                    float* y) {
  for (std::uint32_t top = 0; top < job.rows; top += 16, a += std::size_t(16) * job.depth) {
    const std::uint32_t tall = job.rows - top < 16 ? job.rows - top : 16;
    const std::size_t stride = std::size_t(tall) * 32;
    const float* const from = a + tiles.first * stride;
    const bool goes_on = tiles.first != 0;
    const auto rows = [&]<int Rows>(std::uint32_t r) {
      // Codes are so few bytes that streams are short; fetched ahead, a few rows read them 1.4 times as fast and more.
      product_block<Values, Rows, Panels, (Values::unit_bytes < 64)>(
          from + r * 32, stride, w, panel, tiles.count, y + (top + r) * job.y_stride, job.y_stride, goes_on);
    };
    std::uint32_t r = 0;
    for (; r + rows_per_block <= tall; r += rows_per_block) rows.template operator()<rows_per_block>(r);
    // What is left over loads each weight once, too.
    if constexpr (rows_per_block > 3)
      if (tall - r == 3) rows.template operator()<3>(r), r += 3;
    if constexpr (rows_per_block > 2)
      if (tall - r == 2) rows.template operator()<2>(r), r += 2;
    for (; r < tall; ++r) rows.template operator()<1>(r);
  }
}

template <class Values> void product_rows(const gemm_job& job, tile_range tiles, const float* a) {
  const auto* w = static_cast<const std::byte*>(job.w) + tiles.first * Values::tile_bytes;
  const std::size_t panel = panel_bytes<Values>(job);
  std::uint32_t done = 0;
  for (; done + panels_per_block <= job.panels; done += panels_per_block)
    product_panels<Values, panels_per_block>(job, tiles, a, w + done * panel, panel, job.y + done * 16);
  if constexpr (panels_per_block > 1)
    for (; done < job.panels; ++done)
      product_panels<Values, 1>(job, tiles, a, w + done * panel, panel, job.y + done * 16);
}

template <class Values, bool Stream> void product_row(const gemm_job& job, const float* a, std::uint32_t tiles) {
  const auto* w = static_cast<const std::byte*>(job.w);
  const std::size_t panel = panel_bytes<Values>(job);
  std::uint32_t done = 0;
  for (; done + panels_single <= job.panels; done += panels_single)
    product_block<Values, 1, panels_single, Stream>(a, 32, w + done * panel, panel, tiles, job.y + done * 16, 0);
  for (; done < job.panels; ++done)
    product_block<Values, 1, 1, Stream>(a, 32, w + done * panel, panel, tiles, job.y + done * 16, 0);
}

template <class Values> void product(const gemm_job& job, const float* a) {
  const std::uint32_t tiles = job.depth / 32;
  if (job.rows > 1) {
    const auto pass = job.rows < rows_for_passes ? tiles : tiles_per_pass;
    for (std::uint32_t first = 0; first < tiles; first += pass)
      product_rows<Values>(job, {first, tiles - first < pass ? tiles - first : pass}, a);
    return;
  }
  // One row is bound by memory: several panels at once are several streams for the prefetchers.
  job.fetch_ahead ? product_row<Values, true>(job, a, tiles) : product_row<Values, false>(job, a, tiles);
}

template <class Values, class Meant> void decode(const std::byte* w, std::size_t tiles, typename Meant::element* to) {
  for (std::size_t tile = 0; tile < tiles; ++tile, w += Values::tile_bytes)
#pragma GCC unroll 2
    for (int pair = 0; pair < 16; ++pair, to += 32) {
      if (pair * Values::unit_bytes % 64 == 0) prefetch(w + pair * Values::unit_bytes + prefetch_bytes);
      vec even, odd;
      Values::tile_pair(w, pair, even, odd);
      Meant::put_pair(to, even, odd);
    }
}

/// Weights in codes, for many rows: they are decoded once for all of them, some panels at a time, which are then
/// multiplied by `as_meant`.
template <class Values, class Meant, class Product> void product_decoded(const gemm_job& job, const Product& as_meant) {
  const auto* w = static_cast<const std::byte*>(job.w);
  const std::size_t panel = panel_bytes<Values>(job);
  auto some = job;
  some.code = coding::none;
  some.w = job.decoded;
  some.fetch_ahead = false;
  for (std::uint32_t done = 0; done < job.panels; done += some.panels, w += some.panels * panel) {
    some.panels = job.panels - done < decoded_panels ? job.panels - done : decoded_panels;
    some.y = job.y + std::size_t(done) * 16;
    decode<Values, Meant>(w, std::size_t(some.panels) * (job.depth / 32),
                          static_cast<typename Meant::element*>(job.decoded));
    as_meant(some);
  }
}

/// The same for vectors: some tiles of a block of panels at a time, which stay in the cache.
template <class Values, class Meant> void product_by_tiles(const gemm_job& job, const float* a) {
  const auto* w = static_cast<const std::byte*>(job.w);
  const std::size_t panel = panel_bytes<Values>(job);
  const std::uint32_t tiles = job.depth / 32;
  const auto block = [&]<int Panels>(tile_range some, std::uint32_t first) {
    const std::size_t decoded = some.count * Meant::tile_bytes;
    auto* const to = static_cast<std::byte*>(job.decoded);
    for (int c = 0; c < Panels; ++c)
      decode<Values, Meant>(w + (first + c) * panel + some.first * Values::tile_bytes, some.count,
                            reinterpret_cast<typename Meant::element*>(to + c * decoded));
    product_panels<Meant, Panels>(job, some, a, to, decoded, job.y + std::size_t(first) * 16);
  };
  for (std::uint32_t first = 0; first < tiles; first += tiles_per_pass) {
    const tile_range some{first, tiles - first < tiles_per_pass ? tiles - first : tiles_per_pass};
    std::uint32_t done = 0;
    for (; done + panels_per_block <= job.panels; done += panels_per_block)
      block.template operator()<panels_per_block>(some, done);
    if constexpr (panels_per_block > 1)
      for (; done < job.panels; ++done) block.template operator()<1>(some, done);
  }
}

/// Calls `act` with the values that the job's codes are.
template <class Meant, class Act> void with_codes(coding code, const Act& act) {
  if (code == coding::int4) return act.template operator()<coded_values<coding::int4, Meant>>();
  if (code == coding::int8) return act.template operator()<coded_values<coding::int8, Meant>>();
  if (code == coding::fp4) return act.template operator()<coded_values<coding::fp4, Meant>>();
  act.template operator()<coded_values<coding::e4m3, Meant>>();
}

/// Weights in codes. What a block of rows reads at once is decoded in registers.
template <class Meant> void gemm_coded(const gemm_job& job, const float* a) {
  with_codes<Meant>(job.code, [&]<class Values>() {
    if (job.rows <= rows_per_block) return product<Values>(job, a);
    product_by_tiles<Values, Meant>(job, a);
  });
}

/// Rows of bf16, widened once, so that a multiply-add takes its activation straight from memory.
[[maybe_unused]] const float* widen_rows(const gemm_job& job) {
  const auto* narrow = static_cast<const std::uint16_t*>(job.a);
  auto* wide = static_cast<float*>(job.scratch);
  if (job.read) return wide;
  const std::size_t count = std::size_t(job.rows) * job.depth;
  for (std::size_t i = 0; i < count; i += 16) store(wide + i, load_bf16(narrow + i));
  return wide;
}

[[maybe_unused]] void gemm_vectors(storage kind, const gemm_job& job) {
  if (rounds_activations(job.code)) return gemm_dot(job);
  const auto* a = kind == storage::bf16 ? widen_rows(job) : static_cast<const float*>(job.a);
  if (job.code != coding::none)
    return kind == storage::bf16 ? gemm_coded<bf16_values>(job, a) : gemm_coded<f32_values>(job, a);
  if (kind == storage::f32) return product<f32_values>(job, a);
  if (kind == storage::f16) return product<f16_values>(job, a);
  product<bf16_values>(job, a);
}
