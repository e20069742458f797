// Products by sums of codes with tiles of integers. Included in amx.cpp after dot.inl.
//
// A tile's sums are of 32 k, for then come the scales: it is taken out, and vectors do with it what dot.inl does. That
// costs more than the products, so few rows are quicker by VNNI, and so are codes that have scales for each 16 k.

/// More rows than these are quicker by tiles.
inline constexpr std::uint32_t dot_rows_by_vectors = 32;

/// The codes of 32 k of a panel, less their zero: [quad][column][k % 4], the second operand of a tile product.
template <coding Code> GODWIT_INLINE void spread_codes(const std::byte* w, std::int8_t* to) {
  constexpr auto layout = layout_of(Code);
  constexpr int loads = layout.four_bits ? 4 : 8;
  const __m512i none = _mm512_set1_epi8(char(layout.zero));
  const auto put = [&](codes x) {
    _mm512_store_si512(to, _mm512_sub_epi8(x.v, none));
    to += 64;
  };
#pragma GCC unroll 8
  for (int i = 0; i < loads; ++i) {
    const auto* const at = w + layout.codes_at() + std::size_t(i) * 64;
    prefetch(at + prefetch_bytes);
    const auto all = load_codes(at);
    if constexpr (layout.four_bits) {
      put(multiplied<Code>(low_nibbles(all)));
      put(multiplied<Code>(high_nibbles(all)));
    } else {
      put(all);
    }
  }
}

/// Of some rows, each in a register: an array would stay in memory, where tiles are stored meanwhile.
template <int Rows> struct row_sums : row_sums<Rows - 1> { vec last; };
template <> struct row_sums<0> {};

template <int Rows> GODWIT_INLINE void load_sums(row_sums<Rows>& sums, const float* y, std::size_t y_stride) {
  if constexpr (Rows > 0) {
    load_sums<Rows - 1>(sums, y, y_stride);
    sums.last = y == nullptr ? zero() : load(y + (Rows - 1) * y_stride);
  }
}
template <int Rows> GODWIT_INLINE void store_sums(const row_sums<Rows>& sums, float* y, std::size_t y_stride) {
  if constexpr (Rows > 0) {
    store_sums<Rows - 1>(sums, y, y_stride);
    store(y + (Rows - 1) * y_stride, sums.last);
  }
}

/// What a tile of sums adds. `steps`, `totals`: of the first row.
template <bool Offsets, int Rows>
GODWIT_INLINE void add_dots(row_sums<Rows>& sums, const std::int32_t* dots, vec scale, vec offset, const float* steps,
                            const float* totals) {
  if constexpr (Rows > 0) {
    constexpr int row = Rows - 1;
    add_dots<Offsets, row>(sums, dots, scale, offset, steps, totals);
    vec t = mul(to_floats({_mm512_load_si512(dots + row * 16)}), scale);
    if constexpr (Offsets) t = fma(offset, set1(totals[row]), t);
    sums.last = fma(set1(steps[row]), t, sums.last);
  }
}

/// 16 rows of a panel over some tiles. `unit`: of the first row in the first tile.
template <coding Code>
void dot_tile(const rounded_rows& a, std::size_t unit, const std::byte* w, const std::int8_t* codes,
              std::uint32_t tiles, float* y, std::size_t y_stride, bool goes_on) {
  constexpr auto layout = layout_of(Code);
  alignas(64) std::int32_t even[16 * 16], odd[16 * 16]; // two products are under way at a time
  const std::int8_t* const rounded = a.codes + unit * 32;
  const float *const steps = a.steps + unit, *const totals = a.totals + unit;
  row_sums<16> sums;
  load_sums(sums, goes_on ? y : nullptr, y_stride);
  const auto add = [&](std::uint32_t tile, const std::int32_t* dots) __attribute__((always_inline)) {
    const auto* const scales = reinterpret_cast<const float*>(w + tile * layout.bytes());
    const vec scale = load(scales);
    const vec offset = layout.offsets ? load(scales + layout.offsets_at() / sizeof(float)) : zero();
    add_dots<layout.offsets>(sums, dots, scale, offset, steps + tile * 16, totals + tile * 16);
  };
  for (std::uint32_t tile = 0; tile < tiles; tile += 2) {
    _tile_loadd(4, rounded + std::size_t(tile) * 512, 32);
    _tile_loadd(6, codes + std::size_t(tile) * 512, 64);
    _tile_zero(0);
    _tile_dpbssd(0, 4, 6);
    _tile_stored(0, even, 64);
    if (tile + 1 == tiles) {
      add(tile, even);
      break;
    }
    _tile_loadd(5, rounded + std::size_t(tile + 1) * 512, 32);
    _tile_loadd(7, codes + std::size_t(tile + 1) * 512, 64);
    _tile_zero(1);
    _tile_dpbssd(1, 5, 7);
    _tile_stored(1, odd, 64);
    add(tile, even);
    add(tile + 1, odd);
  }
  store_sums(sums, y, y_stride);
}

/// All but the last rows, fewer than 16.
template <coding Code> void dot_by_tiles(const gemm_job& job) {
  constexpr auto layout = layout_of(Code);
  auto* const spread = static_cast<std::int8_t*>(job.decoded);
  const std::uint32_t tiles = job.depth / 32;
  tile_config config;
  for (const int tile : {0, 1}) config.set(tile, 16, 64); // sums
  for (const int tile : {4, 5}) config.set(tile, 16, 32); // activations
  for (const int tile : {6, 7}) config.set(tile, 8, 64);  // weights
  config.use();
  for (std::uint32_t first = 0; first < tiles; first += tiles_per_pass) {
    const std::uint32_t count = tiles - first < tiles_per_pass ? tiles - first : tiles_per_pass;
    for (std::uint32_t panel = 0; panel < job.panels; ++panel) {
      const auto* const w =
          static_cast<const std::byte*>(job.w) + (std::size_t(panel) * tiles + first) * layout.bytes();
      for (std::uint32_t tile = 0; tile < count; ++tile)
        spread_codes<Code>(w + tile * layout.bytes(), spread + std::size_t(tile) * 512);
      __asm__ volatile("" ::: "memory"); // g++ 12's loads of tiles do not say what they read
      for (std::uint32_t top = 0; top + 16 <= job.rows; top += 16)
        dot_tile<Code>(job.rounded, std::size_t(top) * tiles + std::size_t(first) * 16, w, spread, count,
                       job.y + top * job.y_stride + panel * 16, job.y_stride, first != 0);
    }
  }
  _tile_release();
}

void gemm_dot_tiles(storage kind, const gemm_job& job) {
  if (job.rows <= dot_rows_by_vectors || layout_of(job.code).units != 1) return avx512_vnni_isa::gemm(kind, job);
  with_dot(job.code, [&]<coding Code>() {
    if constexpr (layout_of(Code).units == 1) dot_by_tiles<Code>(job);
  });
  auto rest = job;
  const std::uint32_t done = job.rows / 16 * 16;
  rest.rows -= done;
  rest.rounded = job.rounded.from(std::size_t(done) * (job.depth / 32));
  rest.y += done * job.y_stride;
  if (rest.rows != 0) avx512_vnni_isa::gemm(kind, rest);
}
