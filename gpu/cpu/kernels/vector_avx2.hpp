// Sixteen floats in two AVX2 registers; lane by lane the same as vector_scalar.hpp.
// Included inside an unnamed namespace.
#define GODWIT_INLINE inline __attribute__((always_inline))

struct vec {
  __m256 a, b;
};

GODWIT_INLINE float float_of_bits(std::uint32_t bits) { return __builtin_bit_cast(float, bits); }
GODWIT_INLINE std::uint32_t bits_of(float value) { return __builtin_bit_cast(std::uint32_t, value); }

GODWIT_INLINE vec zero() { return {_mm256_setzero_ps(), _mm256_setzero_ps()}; }
GODWIT_INLINE vec set1(float x) { return {_mm256_set1_ps(x), _mm256_set1_ps(x)}; }
GODWIT_INLINE vec load(const float* p) { return {_mm256_loadu_ps(p), _mm256_loadu_ps(p + 8)}; }
GODWIT_INLINE void store(float* p, vec x) {
  _mm256_storeu_ps(p, x.a);
  _mm256_storeu_ps(p + 8, x.b);
}
GODWIT_INLINE vec fma(vec x, vec y, vec z) { return {_mm256_fmadd_ps(x.a, y.a, z.a), _mm256_fmadd_ps(x.b, y.b, z.b)}; }
GODWIT_INLINE vec fnma(vec x, vec y, vec z) {
  return {_mm256_fnmadd_ps(x.a, y.a, z.a), _mm256_fnmadd_ps(x.b, y.b, z.b)};
}
GODWIT_INLINE vec add(vec x, vec y) { return {_mm256_add_ps(x.a, y.a), _mm256_add_ps(x.b, y.b)}; }
GODWIT_INLINE vec sub(vec x, vec y) { return {_mm256_sub_ps(x.a, y.a), _mm256_sub_ps(x.b, y.b)}; }
GODWIT_INLINE vec mul(vec x, vec y) { return {_mm256_mul_ps(x.a, y.a), _mm256_mul_ps(x.b, y.b)}; }
GODWIT_INLINE vec div(vec x, vec y) { return {_mm256_div_ps(x.a, y.a), _mm256_div_ps(x.b, y.b)}; }
GODWIT_INLINE vec max(vec x, vec y) { return {_mm256_max_ps(x.a, y.a), _mm256_max_ps(x.b, y.b)}; }
GODWIT_INLINE vec min(vec x, vec y) { return {_mm256_min_ps(x.a, y.a), _mm256_min_ps(x.b, y.b)}; }
GODWIT_INLINE vec select_below(vec x, vec limit, vec below, vec otherwise) {
  return {_mm256_blendv_ps(otherwise.a, below.a, _mm256_cmp_ps(x.a, limit.a, _CMP_LT_OQ)),
          _mm256_blendv_ps(otherwise.b, below.b, _mm256_cmp_ps(x.b, limit.b, _CMP_LT_OQ))};
}
GODWIT_INLINE __m256 scale_half(__m256 x, __m256 n) {
  return _mm256_castsi256_ps(_mm256_add_epi32(_mm256_castps_si256(x), _mm256_slli_epi32(_mm256_cvttps_epi32(n), 23)));
}
GODWIT_INLINE vec scale_by_power(vec x, vec n) { return {scale_half(x.a, n.a), scale_half(x.b, n.b)}; }
GODWIT_INLINE vec keep_first(vec x, int count, vec other) {
  const __m256i low = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7), limit = _mm256_set1_epi32(count);
  const __m256i high = _mm256_add_epi32(low, _mm256_set1_epi32(8));
  return {_mm256_blendv_ps(other.a, x.a, _mm256_castsi256_ps(_mm256_cmpgt_epi32(limit, low))),
          _mm256_blendv_ps(other.b, x.b, _mm256_castsi256_ps(_mm256_cmpgt_epi32(limit, high)))};
}
GODWIT_INLINE float reduce_add(vec x) {
  const __m256 eight = _mm256_add_ps(x.a, x.b);
  const __m128 four = _mm_add_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps(eight, 1));
  const __m128 two = _mm_add_ps(four, _mm_movehl_ps(four, four));
  return _mm_cvtss_f32(_mm_add_ss(two, _mm_shuffle_ps(two, two, 1)));
}
GODWIT_INLINE float reduce_max(vec x) {
  const __m256 eight = _mm256_max_ps(x.a, x.b);
  const __m128 four = _mm_max_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps(eight, 1));
  const __m128 two = _mm_max_ps(four, _mm_movehl_ps(four, four));
  return _mm_cvtss_f32(_mm_max_ss(two, _mm_shuffle_ps(two, two, 1)));
}

GODWIT_INLINE std::uint16_t narrow_bf16(float value) {
  const std::uint32_t bits = bits_of(value);
  return std::uint16_t((bits + 0x7fffU + ((bits >> 16) & 1U)) >> 16);
}
GODWIT_INLINE float widen_bf16(std::uint16_t value) { return float_of_bits(std::uint32_t(value) << 16); }
GODWIT_INLINE __m256i narrow_half(__m256 x) {
  const __m256i bits = _mm256_castps_si256(x);
  const __m256i odd = _mm256_and_si256(_mm256_srli_epi32(bits, 16), _mm256_set1_epi32(1));
  return _mm256_srli_epi32(_mm256_add_epi32(_mm256_add_epi32(bits, _mm256_set1_epi32(0x7fff)), odd), 16);
}
GODWIT_INLINE void store_bf16(std::uint16_t* p, vec x) {
  const __m256i packed = _mm256_packus_epi32(narrow_half(x.a), narrow_half(x.b));
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), _mm256_permute4x64_epi64(packed, 0xd8));
}
GODWIT_INLINE vec load_bf16(const std::uint16_t* p) {
  const __m128i low = _mm_loadu_si128(reinterpret_cast<const __m128i*>(p));
  const __m128i high = _mm_loadu_si128(reinterpret_cast<const __m128i*>(p + 8));
  return {_mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(low), 16)),
          _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(high), 16))};
}
GODWIT_INLINE void load_pair(const std::uint16_t* p, vec& even, vec& odd) {
  const __m256i low = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p));
  const __m256i high = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p + 16));
  const __m256i mask = _mm256_set1_epi32(int(0xffff0000U));
  even = {_mm256_castsi256_ps(_mm256_slli_epi32(low, 16)), _mm256_castsi256_ps(_mm256_slli_epi32(high, 16))};
  odd = {_mm256_castsi256_ps(_mm256_and_si256(low, mask)), _mm256_castsi256_ps(_mm256_and_si256(high, mask))};
}
GODWIT_INLINE vec load_f16(const std::uint16_t* p) {
  return {_mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p))),
          _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p + 8)))};
}
GODWIT_INLINE __m256 pair_half(__m256 even, __m256 odd) {
  return _mm256_or_ps(odd, _mm256_castsi256_ps(_mm256_srli_epi32(_mm256_castps_si256(even), 16)));
}
GODWIT_INLINE void store_pair(std::uint16_t* p, vec even, vec odd) {
  _mm256_storeu_ps(reinterpret_cast<float*>(p), pair_half(even.a, odd.a));
  _mm256_storeu_ps(reinterpret_cast<float*>(p + 16), pair_half(even.b, odd.b));
}
GODWIT_INLINE __m256 round_half(__m256 x) {
  const __m256i bits = _mm256_castps_si256(x);
  const __m256i odd = _mm256_and_si256(_mm256_srli_epi32(bits, 16), _mm256_set1_epi32(1));
  const __m256i rounded = _mm256_add_epi32(_mm256_add_epi32(bits, _mm256_set1_epi32(0x7fff)), odd);
  return _mm256_castsi256_ps(_mm256_and_si256(rounded, _mm256_set1_epi32(int(0xffff0000U))));
}
GODWIT_INLINE vec round_bf16(vec x) { return {round_half(x.a), round_half(x.b)}; }
GODWIT_INLINE vec load_int8(const std::int8_t* p) {
  const __m128i all = _mm_loadu_si128(reinterpret_cast<const __m128i*>(p));
  return {_mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(all)),
          _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(_mm_srli_si128(all, 8)))};
}
GODWIT_INLINE void load_int4(const std::uint8_t* p, vec& low, vec& high) {
  const __m128i all = _mm_loadu_si128(reinterpret_cast<const __m128i*>(p));
  const __m256i a = _mm256_cvtepu8_epi32(all), b = _mm256_cvtepu8_epi32(_mm_srli_si128(all, 8));
  const __m256i mask = _mm256_set1_epi32(15);
  low = {_mm256_cvtepi32_ps(_mm256_and_si256(a, mask)), _mm256_cvtepi32_ps(_mm256_and_si256(b, mask))};
  high = {_mm256_cvtepi32_ps(_mm256_srli_epi32(a, 4)), _mm256_cvtepi32_ps(_mm256_srli_epi32(b, 4))};
}
GODWIT_INLINE vec fp4_of(__m128i nibbles) {
  const __m128i table = _mm_loadu_si128(reinterpret_cast<const __m128i*>(fp4_halves));
  const __m128i all = _mm_shuffle_epi8(table, nibbles);
  return {_mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(all)),
          _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(_mm_srli_si128(all, 8)))};
}
GODWIT_INLINE void load_fp4(const std::uint8_t* p, vec& low, vec& high) {
  const __m128i all = _mm_loadu_si128(reinterpret_cast<const __m128i*>(p)), mask = _mm_set1_epi8(15);
  low = fp4_of(_mm_and_si128(all, mask));
  high = fp4_of(_mm_and_si128(_mm_srli_epi16(all, 4), mask));
}
GODWIT_INLINE __m256 e4m3_half(__m256i codes) {
  const __m256i size = _mm256_and_si256(codes, _mm256_set1_epi32(127));
  const __m256i sign = _mm256_slli_epi32(_mm256_and_si256(codes, _mm256_set1_epi32(128)), 24);
  const __m256i small = _mm256_cmpgt_epi32(_mm256_set1_epi32(8), size);
  // Small ones get an exponent more, of which all but the mantissa is taken off again.
  const __m256i exponent = _mm256_sub_epi32(_mm256_set1_epi32(120 << 23), _mm256_slli_epi32(small, 23));
  const __m256 raised = _mm256_castsi256_ps(_mm256_add_epi32(_mm256_slli_epi32(size, 20), exponent));
  const __m256 magnitude = _mm256_sub_ps(raised, _mm256_and_ps(_mm256_castsi256_ps(small), _mm256_set1_ps(0x1p-6F)));
  return _mm256_or_ps(magnitude, _mm256_castsi256_ps(sign));
}
GODWIT_INLINE vec load_e4m3(const std::uint8_t* p) {
  const __m128i all = _mm_loadu_si128(reinterpret_cast<const __m128i*>(p));
  return {e4m3_half(_mm256_cvtepu8_epi32(all)), e4m3_half(_mm256_cvtepu8_epi32(_mm_srli_si128(all, 8)))};
}
GODWIT_INLINE void prefetch(const void* p) { _mm_prefetch(static_cast<const char*>(p), _MM_HINT_T0); }

struct ints {
  __m256i a, b;
};
struct codes {
  __m256i a, b;
};
GODWIT_INLINE ints set1_int(std::int32_t x) { return {_mm256_set1_epi32(x), _mm256_set1_epi32(x)}; }
GODWIT_INLINE vec to_floats(ints x) { return {_mm256_cvtepi32_ps(x.a), _mm256_cvtepi32_ps(x.b)}; }
GODWIT_INLINE codes load_codes(const std::byte* p) {
  return {_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)),
          _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p + 32))};
}
GODWIT_INLINE codes low_nibbles(codes x) {
  return {_mm256_and_si256(x.a, _mm256_set1_epi8(15)), _mm256_and_si256(x.b, _mm256_set1_epi8(15))};
}
GODWIT_INLINE codes high_nibbles(codes x) {
  return low_nibbles({_mm256_srli_epi16(x.a, 4), _mm256_srli_epi16(x.b, 4)});
}
GODWIT_INLINE codes looked_up(codes x, const std::int8_t* table) {
  const __m256i both = _mm256_broadcastsi128_si256(_mm_loadu_si128(reinterpret_cast<const __m128i*>(table)));
  return {_mm256_shuffle_epi8(both, x.a), _mm256_shuffle_epi8(both, x.b)};
}
GODWIT_INLINE __m256i all_of_four(const std::int8_t* four) {
  std::int32_t word;
  __builtin_memcpy(&word, four, 4);
  return _mm256_set1_epi32(word);
}
/// Sums of four products, times `factor`; of codes below 32, so that no sum of two is too large for 16 bits.
GODWIT_INLINE __m256i four_products(__m256i nibbles, __m256i four, std::int16_t factor) {
  return _mm256_madd_epi16(_mm256_maddubs_epi16(nibbles, four), _mm256_set1_epi16(factor));
}
GODWIT_INLINE ints add_products(ints sum, codes x, const std::int8_t* four, std::int16_t factor) {
  const __m256i row = all_of_four(four);
  return {_mm256_add_epi32(sum.a, four_products(x.a, row, factor)),
          _mm256_add_epi32(sum.b, four_products(x.b, row, factor))};
}
GODWIT_INLINE ints dot_of_nibbles(ints sum, codes x, const std::int8_t* four) { return add_products(sum, x, four, 1); }
GODWIT_INLINE ints dot_of_bytes(ints sum, codes x, const std::int8_t* four) {
  return add_products(add_products(sum, low_nibbles(x), four, 1), high_nibbles(x), four, 16);
}
GODWIT_INLINE std::int32_t put_int8(vec x, std::int8_t* to) {
  const __m256i first = _mm256_cvtps_epi32(x.a), second = _mm256_cvtps_epi32(x.b);
  const __m256i words = _mm256_permute4x64_epi64(_mm256_packs_epi32(first, second), 0xd8);
  _mm_storeu_si128(reinterpret_cast<__m128i*>(to),
                   _mm_packs_epi16(_mm256_castsi256_si128(words), _mm256_extracti128_si256(words, 1)));
  const __m256i eight = _mm256_add_epi32(first, second);
  const __m128i quad = _mm_add_epi32(_mm256_castsi256_si128(eight), _mm256_extracti128_si256(eight, 1));
  const __m128i two = _mm_add_epi32(quad, _mm_shuffle_epi32(quad, 0x4e));
  return _mm_cvtsi128_si32(_mm_add_epi32(two, _mm_shuffle_epi32(two, 0xb1)));
}

// Sixteen registers: two chains and a sum for each of rows x panels, two registers each.
inline constexpr int rows_per_block = 2, panels_per_block = 1, panels_single = 2;
