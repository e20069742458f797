// Sixteen floats in one AVX-512 register; lane by lane the same as vector_scalar.hpp.
// Included inside an unnamed namespace.
#define GODWIT_INLINE inline __attribute__((always_inline))

struct vec {
  __m512 v;
};

GODWIT_INLINE float float_of_bits(std::uint32_t bits) { return __builtin_bit_cast(float, bits); }
GODWIT_INLINE std::uint32_t bits_of(float value) { return __builtin_bit_cast(std::uint32_t, value); }

GODWIT_INLINE vec zero() { return {_mm512_setzero_ps()}; }
GODWIT_INLINE vec set1(float x) { return {_mm512_set1_ps(x)}; }
GODWIT_INLINE vec load(const float* p) { return {_mm512_loadu_ps(p)}; }
GODWIT_INLINE void store(float* p, vec x) { _mm512_storeu_ps(p, x.v); }
GODWIT_INLINE vec fma(vec a, vec b, vec c) { return {_mm512_fmadd_ps(a.v, b.v, c.v)}; }
GODWIT_INLINE vec fnma(vec a, vec b, vec c) { return {_mm512_fnmadd_ps(a.v, b.v, c.v)}; }
GODWIT_INLINE vec add(vec a, vec b) { return {_mm512_add_ps(a.v, b.v)}; }
GODWIT_INLINE vec sub(vec a, vec b) { return {_mm512_sub_ps(a.v, b.v)}; }
GODWIT_INLINE vec mul(vec a, vec b) { return {_mm512_mul_ps(a.v, b.v)}; }
GODWIT_INLINE vec div(vec a, vec b) { return {_mm512_div_ps(a.v, b.v)}; }
GODWIT_INLINE vec max(vec a, vec b) { return {_mm512_max_ps(a.v, b.v)}; }
GODWIT_INLINE vec min(vec a, vec b) { return {_mm512_min_ps(a.v, b.v)}; }
GODWIT_INLINE vec select_below(vec x, vec limit, vec below, vec otherwise) {
  return {_mm512_mask_blend_ps(_mm512_cmp_ps_mask(x.v, limit.v, _CMP_LT_OQ), otherwise.v, below.v)};
}
GODWIT_INLINE vec scale_by_power(vec x, vec n) {
  const __m512i shifted = _mm512_slli_epi32(_mm512_cvttps_epi32(n.v), 23);
  return {_mm512_castsi512_ps(_mm512_add_epi32(_mm512_castps_si512(x.v), shifted))};
}
GODWIT_INLINE vec keep_first(vec x, int count, vec other) {
  const unsigned mask = count >= 16 ? 0xffffU : count <= 0 ? 0U : (1U << count) - 1U;
  return {_mm512_mask_blend_ps(static_cast<__mmask16>(mask), other.v, x.v)};
}
GODWIT_INLINE float reduce_add(vec x) {
  const __m256 eight = _mm256_add_ps(_mm512_castps512_ps256(x.v), _mm512_extractf32x8_ps(x.v, 1));
  const __m128 four = _mm_add_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps(eight, 1));
  const __m128 two = _mm_add_ps(four, _mm_movehl_ps(four, four));
  return _mm_cvtss_f32(_mm_add_ss(two, _mm_shuffle_ps(two, two, 1)));
}
GODWIT_INLINE float reduce_max(vec x) {
  const __m256 eight = _mm256_max_ps(_mm512_castps512_ps256(x.v), _mm512_extractf32x8_ps(x.v, 1));
  const __m128 four = _mm_max_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps(eight, 1));
  const __m128 two = _mm_max_ps(four, _mm_movehl_ps(four, four));
  return _mm_cvtss_f32(_mm_max_ss(two, _mm_shuffle_ps(two, two, 1)));
}

GODWIT_INLINE std::uint16_t narrow_bf16(float value) {
  const std::uint32_t bits = bits_of(value);
  return std::uint16_t((bits + 0x7fffU + ((bits >> 16) & 1U)) >> 16);
}
GODWIT_INLINE float widen_bf16(std::uint16_t value) { return float_of_bits(std::uint32_t(value) << 16); }
GODWIT_INLINE void store_bf16(std::uint16_t* p, vec x) {
  const __m512i bits = _mm512_castps_si512(x.v);
  const __m512i odd = _mm512_and_si512(_mm512_srli_epi32(bits, 16), _mm512_set1_epi32(1));
  const __m512i rounded = _mm512_add_epi32(_mm512_add_epi32(bits, _mm512_set1_epi32(0x7fff)), odd);
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), _mm512_cvtepi32_epi16(_mm512_srli_epi32(rounded, 16)));
}
GODWIT_INLINE vec load_bf16(const std::uint16_t* p) {
  const __m512i wide = _mm512_cvtepu16_epi32(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)));
  return {_mm512_castsi512_ps(_mm512_slli_epi32(wide, 16))};
}
GODWIT_INLINE void load_pair(const std::uint16_t* p, vec& even, vec& odd) {
  const __m512i both = _mm512_loadu_si512(p);
  even = {_mm512_castsi512_ps(_mm512_slli_epi32(both, 16))};
  odd = {_mm512_castsi512_ps(_mm512_and_si512(both, _mm512_set1_epi32(int(0xffff0000U))))};
}
GODWIT_INLINE vec load_f16(const std::uint16_t* p) {
  return {_mm512_cvtph_ps(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)))};
}
GODWIT_INLINE void store_pair(std::uint16_t* p, vec even, vec odd) {
  const __m512i low = _mm512_srli_epi32(_mm512_castps_si512(even.v), 16);
  _mm512_storeu_si512(p, _mm512_or_si512(low, _mm512_castps_si512(odd.v)));
}
GODWIT_INLINE vec round_bf16(vec x) {
  const __m512i bits = _mm512_castps_si512(x.v);
  const __m512i odd = _mm512_and_si512(_mm512_srli_epi32(bits, 16), _mm512_set1_epi32(1));
  const __m512i rounded = _mm512_add_epi32(_mm512_add_epi32(bits, _mm512_set1_epi32(0x7fff)), odd);
  return {_mm512_castsi512_ps(_mm512_and_si512(rounded, _mm512_set1_epi32(int(0xffff0000U))))};
}
GODWIT_INLINE vec load_int8(const std::int8_t* p) {
  return {_mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p))))};
}
GODWIT_INLINE void load_int4(const std::uint8_t* p, vec& low, vec& high) {
  const __m512i all = _mm512_cvtepu8_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)));
  low = {_mm512_cvtepi32_ps(_mm512_and_si512(all, _mm512_set1_epi32(15)))};
  high = {_mm512_cvtepi32_ps(_mm512_srli_epi32(all, 4))};
}
GODWIT_INLINE void load_fp4(const std::uint8_t* p, vec& low, vec& high) {
  const __m128i all = _mm_loadu_si128(reinterpret_cast<const __m128i*>(p));
  const __m128i table = _mm_loadu_si128(reinterpret_cast<const __m128i*>(fp4_halves)), mask = _mm_set1_epi8(15);
  const __m128i a = _mm_shuffle_epi8(table, _mm_and_si128(all, mask));
  const __m128i b = _mm_shuffle_epi8(table, _mm_and_si128(_mm_srli_epi16(all, 4), mask));
  low = {_mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(a))};
  high = {_mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(b))};
}
GODWIT_INLINE vec load_e4m3(const std::uint8_t* p) {
  const __m512i codes = _mm512_cvtepu8_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)));
  const __m512i size = _mm512_and_si512(codes, _mm512_set1_epi32(127));
  const __m512i sign = _mm512_slli_epi32(_mm512_and_si512(codes, _mm512_set1_epi32(128)), 24);
  const __mmask16 small = _mm512_cmplt_epi32_mask(size, _mm512_set1_epi32(8));
  // Small ones get an exponent more, of which all but the mantissa is taken off again.
  const __m512i exponent = _mm512_mask_blend_epi32(small, _mm512_set1_epi32(120 << 23), _mm512_set1_epi32(121 << 23));
  const __m512 raised = _mm512_castsi512_ps(_mm512_add_epi32(_mm512_slli_epi32(size, 20), exponent));
  const __m512 magnitude = _mm512_mask_sub_ps(raised, small, raised, _mm512_set1_ps(0x1p-6F));
  return {_mm512_castsi512_ps(_mm512_or_si512(_mm512_castps_si512(magnitude), sign))};
}
GODWIT_INLINE void prefetch(const void* p) { _mm_prefetch(static_cast<const char*>(p), _MM_HINT_T0); }

struct ints {
  __m512i v;
};
struct codes {
  __m512i v;
};
GODWIT_INLINE ints set1_int(std::int32_t x) { return {_mm512_set1_epi32(x)}; }
GODWIT_INLINE vec to_floats(ints x) { return {_mm512_cvtepi32_ps(x.v)}; }
GODWIT_INLINE codes load_codes(const std::byte* p) { return {_mm512_loadu_si512(p)}; }
GODWIT_INLINE codes low_nibbles(codes x) { return {_mm512_and_si512(x.v, _mm512_set1_epi8(15))}; }
GODWIT_INLINE codes high_nibbles(codes x) {
  return {_mm512_and_si512(_mm512_srli_epi16(x.v, 4), _mm512_set1_epi8(15))};
}
GODWIT_INLINE codes looked_up(codes x, const std::int8_t* table) {
  const __m128i once = _mm_loadu_si128(reinterpret_cast<const __m128i*>(table));
  return {_mm512_shuffle_epi8(_mm512_broadcast_i32x4(once), x.v)};
}
GODWIT_INLINE __m512i all_of_four(const std::int8_t* four) {
  std::int32_t word;
  __builtin_memcpy(&word, four, 4);
  return _mm512_set1_epi32(word);
}
#if defined(GODWIT_VNNI)
GODWIT_INLINE ints dot_of_bytes(ints sum, codes x, const std::int8_t* four) {
  return {_mm512_dpbusd_epi32(sum.v, x.v, all_of_four(four))};
}
GODWIT_INLINE ints dot_of_nibbles(ints sum, codes x, const std::int8_t* four) { return dot_of_bytes(sum, x, four); }
#else
GODWIT_INLINE ints dot_of_nibbles(ints sum, codes x, const std::int8_t* four) {
  const __m512i pairs = _mm512_maddubs_epi16(x.v, all_of_four(four)); // at most 2 * 31 * 127
  return {_mm512_add_epi32(sum.v, _mm512_madd_epi16(pairs, _mm512_set1_epi16(1)))};
}
GODWIT_INLINE ints dot_of_bytes(ints sum, codes x, const std::int8_t* four) {
  const __m512i low = _mm512_maddubs_epi16(low_nibbles(x).v, all_of_four(four));
  const __m512i high = _mm512_maddubs_epi16(high_nibbles(x).v, all_of_four(four));
  const __m512i both =
      _mm512_add_epi32(_mm512_madd_epi16(low, _mm512_set1_epi16(1)), _mm512_madd_epi16(high, _mm512_set1_epi16(16)));
  return {_mm512_add_epi32(sum.v, both)};
}
#endif
GODWIT_INLINE std::int32_t put_int8(vec x, std::int8_t* to) {
  const __m512i whole = _mm512_cvtps_epi32(x.v);
  _mm_storeu_si128(reinterpret_cast<__m128i*>(to), _mm512_cvtepi32_epi8(whole));
  return _mm512_reduce_add_epi32(whole);
}

// Thirty-two registers: two chains and a sum for each of rows x panels.
inline constexpr int rows_per_block = 4, panels_per_block = 2, panels_single = 8;
