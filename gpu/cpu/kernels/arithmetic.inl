// What the other .inl files share: exp, the scale of a norm, access to packed tensors. Included inside an unnamed
// namespace after a vector header.

/// e^x with 1e-7 relative error for x in [-87, 88]; 0 below, e^88 above. Cody and Waite's reduction and the polynomial
/// of Cephes' expf, all in fused multiply-adds, so that every instruction set gives the same bits.
GODWIT_INLINE vec exponential(vec x) {
  const vec lowest = set1(-87.0F);
  const vec clamped = min(max(x, lowest), set1(88.0F));
  const vec rounding = set1(12582912.0F); // 1.5 * 2^23: adding it rounds to whole numbers
  const vec n = sub(fma(clamped, set1(1.44269504088896341F), rounding), rounding);
  const vec r = fnma(n, set1(-2.12194440e-4F), fnma(n, set1(0.693359375F), clamped));
  vec p = set1(1.9875691500e-4F);
  p = fma(p, r, set1(1.3981999507e-3F));
  p = fma(p, r, set1(8.3334519073e-3F));
  p = fma(p, r, set1(4.1665795894e-2F));
  p = fma(p, r, set1(1.6666665459e-1F));
  p = fma(p, r, set1(5.0000001201e-1F));
  p = add(fma(p, mul(r, r), r), set1(1.0F));
  return select_below(x, lowest, zero(), scale_by_power(p, n));
}

/// 1 / sqrt(mean of the squares + epsilon) of `size` numbers; zeros follow up to `width`, a multiple of 32.
GODWIT_INLINE float inverse_rms(const float* x, std::uint32_t size, std::uint32_t width, float epsilon) {
  vec first = zero(), second = zero();
  for (std::uint32_t i = 0; i < width; i += 32) {
    const vec a = load(x + i), b = load(x + i + 16);
    first = fma(a, a, first);
    second = fma(b, b, second);
  }
  const float mean = reduce_add(add(first, second)) / float(size);
  return 1.0F / __builtin_sqrtf(mean + epsilon);
}

/// Weights, keys and values as the kernels read them: 32 stored values give 16 for an even and 16 for an odd k.
///
/// A tile is 16 columns of 32 k, a unit what two k of its columns take.
struct bf16_values {
  using element = std::uint16_t;
  static constexpr std::size_t unit_bytes = 64, tile_bytes = 1024;
  static GODWIT_INLINE void tile_pair(const std::byte* tile, int which, vec& even, vec& odd) {
    pair(reinterpret_cast<const element*>(tile) + which * 32, even, odd);
  }
  static GODWIT_INLINE void put_pair(element* p, vec even, vec odd) { store_pair(p, even, odd); }
  static GODWIT_INLINE void pair(const element* p, vec& even, vec& odd) { load_pair(p, even, odd); }
  static GODWIT_INLINE element narrow(float x) { return narrow_bf16(x); }
  static GODWIT_INLINE std::uint32_t offset(std::uint32_t column, std::uint32_t odd) { return column * 2 + odd; }
  static GODWIT_INLINE void put(element* p, vec x) { store_bf16(p, x); }
  static GODWIT_INLINE vec get(const element* p) { return load_bf16(p); }
};
struct f16_values {
  using element = std::uint16_t;
  static constexpr std::size_t unit_bytes = 64, tile_bytes = 1024;
  static GODWIT_INLINE void tile_pair(const std::byte* tile, int which, vec& even, vec& odd) {
    pair(reinterpret_cast<const element*>(tile) + which * 32, even, odd);
  }
  static GODWIT_INLINE void pair(const element* p, vec& even, vec& odd) {
    even = load_f16(p);
    odd = load_f16(p + 16);
  }
};
struct f32_values {
  using element = float;
  static constexpr std::size_t unit_bytes = 128, tile_bytes = 2048;
  static GODWIT_INLINE void tile_pair(const std::byte* tile, int which, vec& even, vec& odd) {
    pair(reinterpret_cast<const element*>(tile) + which * 32, even, odd);
  }
  static GODWIT_INLINE void put_pair(element* p, vec even, vec odd) {
    store(p, even);
    store(p + 16, odd);
  }
  static GODWIT_INLINE void pair(const element* p, vec& even, vec& odd) {
    even = load(p);
    odd = load(p + 16);
  }
  static GODWIT_INLINE element narrow(float x) { return x; }
  static GODWIT_INLINE std::uint32_t offset(std::uint32_t column, std::uint32_t odd) { return odd * 16 + column; }
  static GODWIT_INLINE void put(element* p, vec x) { store(p, x); }
  static GODWIT_INLINE vec get(const element* p) { return load(p); }
};

/// Floats of eight bits, as K and V may be.
struct fp8_values {
  using element = std::uint8_t;
  static constexpr std::size_t unit_bytes = 32, tile_bytes = 512;
  static GODWIT_INLINE void pair(const element* p, vec& even, vec& odd) {
    even = load_e4m3(p);
    odd = load_e4m3(p + 16);
  }
  static GODWIT_INLINE void tile_pair(const std::byte* tile, int which, vec& even, vec& odd) {
    pair(reinterpret_cast<const element*>(tile) + which * 32, even, odd);
  }
  /// To the nearest, ties to even; beyond the largest, 448, that one, also of what is no number: none is kept.
  static GODWIT_INLINE element narrow(float x) {
    const std::uint32_t bits = bits_of(x), size = bits & 0x7fffffffU;
    std::uint32_t code = 0;
    if (size < bits_of(0x1p-6F)) { // units of 2^-9; adding rounds to whole numbers
      code = bits_of(float_of_bits(size) * 0x1p9F + 0x1p23F) - bits_of(0x1p23F);
    } else {
      code = ((size + 0x7ffffU + (size >> 20 & 1U)) >> 20) - 960U;
      if (code > 0x7eU) code = 0x7eU;
    }
    return element(code | (bits >> 24 & 0x80U));
  }
  static GODWIT_INLINE std::uint32_t offset(std::uint32_t column, std::uint32_t odd) { return odd * 16 + column; }
};

/// What queries are that meet such keys.
template <class Values> struct asking { using values = Values; };
template <> struct asking<fp8_values> { using values = bf16_values; };

/// Weights in codes (enum coding), as what they mean: `Meant` is bf16_values, for which they are rounded, or
/// f32_values.
template <coding Code, class Meant> struct coded_values {
  static constexpr coded_layout layout = layout_of(Code);
  static constexpr std::size_t tile_bytes = layout.bytes(), unit_bytes = layout.pair_bytes();
  static GODWIT_INLINE vec meant(vec code, vec scale) {
    if constexpr (sizeof(typename Meant::element) == 2) return round_bf16(mul(code, scale));
    return mul(code, scale);
  }
  static GODWIT_INLINE void tile_pair(const std::byte* tile, int which, vec& even, vec& odd) {
    const vec scale = load(reinterpret_cast<const float*>(tile));
    const auto* codes =
        reinterpret_cast<const std::uint8_t*>(tile) + layout.codes_at() + std::size_t(which) * unit_bytes;
    if constexpr (Code == coding::int4) {
      const vec none = load_int8(reinterpret_cast<const std::int8_t*>(tile) + layout.zeros_at());
      load_int4(codes, even, odd);
      even = sub(even, none);
      odd = sub(odd, none);
    } else if constexpr (Code == coding::fp4) {
      load_fp4(codes, even, odd);
    } else if constexpr (Code == coding::int8) {
      even = load_int8(reinterpret_cast<const std::int8_t*>(codes));
      odd = load_int8(reinterpret_cast<const std::int8_t*>(codes) + 16);
    } else {
      even = load_e4m3(codes);
      odd = load_e4m3(codes + 16);
    }
    even = meant(even, scale);
    odd = meant(odd, scale);
  }
};

/// Index of (row, column) in packed activations of `rows` rows.
GODWIT_INLINE std::size_t packed_index(std::uint32_t row, std::uint32_t column, std::uint32_t rows,
                                       std::uint32_t width) {
  const std::uint32_t tile = row / 16, left = rows - tile * 16, tall = left < 16 ? left : 16;
  return std::size_t(tile) * 16 * width + std::size_t(column / 32) * tall * 32 + (row % 16) * 32 + column % 32;
}

/// Puts `count` values at (row, column) of packed activations; whole vectors where the column is aligned.
template <class Values>
GODWIT_INLINE void put_activations(void* out, std::uint32_t rows, std::uint32_t width, std::uint32_t row,
                                   std::uint32_t column, const float* values, std::uint32_t count) {
  auto* to = static_cast<typename Values::element*>(out);
  std::uint32_t i = 0;
  if (column % 16 == 0)
    for (; i + 16 <= count; i += 16) Values::put(to + packed_index(row, column + i, rows, width), load(values + i));
  for (; i < count; ++i) to[packed_index(row, column + i, rows, width)] = Values::narrow(values[i]);
}

/// How far ahead of the reader weights are fetched, in bytes, where that is of use; found by measuring
/// (docs/design/kernels.md).
inline constexpr std::size_t prefetch_bytes = 4096;

/// Tiles that are done for all rows before the next ones, so that activations of many rows stay in the second-level
/// cache: 32 KB for 8 rows.
inline constexpr std::uint32_t tiles_per_pass = 32;
/// Fewer rows stay there anyway, and each pass reads and writes the sums once more.
inline constexpr std::uint32_t rows_for_passes = 17;
