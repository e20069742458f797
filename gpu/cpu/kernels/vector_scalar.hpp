// Sixteen floats in plain C++: the definition that the other vector headers follow bit by bit.
// Included inside an unnamed namespace, so that code of one instruction set never leaks into another's object file.
#define GODWIT_INLINE inline __attribute__((always_inline))

struct vec {
  float v[16];
};

#define GODWIT_EACH(expression)                                                                                        \
  vec out;                                                                                                             \
  for (int i = 0; i < 16; ++i) out.v[i] = (expression);                                                                \
  return out

GODWIT_INLINE float float_of_bits(std::uint32_t bits) { return __builtin_bit_cast(float, bits); }
GODWIT_INLINE std::uint32_t bits_of(float value) { return __builtin_bit_cast(std::uint32_t, value); }
GODWIT_INLINE float widen_f16(std::uint16_t half) {
  const std::uint32_t sign = std::uint32_t(half & 0x8000U) << 16;
  const std::uint32_t exponent = (half >> 10) & 31U;
  const std::uint32_t mantissa = half & 0x3ffU;
  if (exponent == 31) return float_of_bits(sign | 0x7f800000U | mantissa << 13);
  if (exponent != 0) return float_of_bits(sign | (exponent + 112) << 23 | mantissa << 13);
  const float magnitude = float(mantissa) * 0x1p-24F; // exact
  return float_of_bits(sign | bits_of(magnitude));
}

GODWIT_INLINE vec zero() { GODWIT_EACH(0.0F); }
GODWIT_INLINE vec set1(float x) { GODWIT_EACH(x); }
GODWIT_INLINE vec load(const float* p) { GODWIT_EACH(p[i]); }
GODWIT_INLINE void store(float* p, vec x) {
  for (int i = 0; i < 16; ++i) p[i] = x.v[i];
}
GODWIT_INLINE vec fma(vec a, vec b, vec c) { GODWIT_EACH(__builtin_fmaf(a.v[i], b.v[i], c.v[i])); }
GODWIT_INLINE vec fnma(vec a, vec b, vec c) { GODWIT_EACH(__builtin_fmaf(-a.v[i], b.v[i], c.v[i])); }
GODWIT_INLINE vec add(vec a, vec b) { GODWIT_EACH(a.v[i] + b.v[i]); }
GODWIT_INLINE vec sub(vec a, vec b) { GODWIT_EACH(a.v[i] - b.v[i]); }
GODWIT_INLINE vec mul(vec a, vec b) { GODWIT_EACH(a.v[i] * b.v[i]); }
GODWIT_INLINE vec div(vec a, vec b) { GODWIT_EACH(a.v[i] / b.v[i]); }
GODWIT_INLINE vec max(vec a, vec b) { GODWIT_EACH(a.v[i] > b.v[i] ? a.v[i] : b.v[i]); }
GODWIT_INLINE vec min(vec a, vec b) { GODWIT_EACH(a.v[i] < b.v[i] ? a.v[i] : b.v[i]); }
/// x < limit ? below : otherwise
GODWIT_INLINE vec select_below(vec x, vec limit, vec below, vec otherwise) {
  GODWIT_EACH(x.v[i] < limit.v[i] ? below.v[i] : otherwise.v[i]);
}
/// x * 2^n for whole n, by the exponent's bits: the result must be a normal number.
GODWIT_INLINE vec scale_by_power(vec x, vec n) {
  GODWIT_EACH(float_of_bits(bits_of(x.v[i]) + (std::uint32_t(std::int32_t(n.v[i])) << 23)));
}
/// Lane i where i < count, `other` elsewhere.
GODWIT_INLINE vec keep_first(vec x, int count, vec other) { GODWIT_EACH(i < count ? x.v[i] : other.v[i]); }
GODWIT_INLINE float reduce_add(vec x) {
  for (int width = 8; width > 0; width /= 2)
    for (int i = 0; i < width; ++i) x.v[i] = x.v[i] + x.v[i + width];
  return x.v[0];
}
GODWIT_INLINE float reduce_max(vec x) {
  for (int width = 8; width > 0; width /= 2)
    for (int i = 0; i < width; ++i) x.v[i] = x.v[i] > x.v[i + width] ? x.v[i] : x.v[i + width];
  return x.v[0];
}

GODWIT_INLINE std::uint16_t narrow_bf16(float value) {
  const std::uint32_t bits = bits_of(value);
  return std::uint16_t((bits + 0x7fffU + ((bits >> 16) & 1U)) >> 16);
}
GODWIT_INLINE float widen_bf16(std::uint16_t value) { return float_of_bits(std::uint32_t(value) << 16); }
GODWIT_INLINE void store_bf16(std::uint16_t* p, vec x) {
  for (int i = 0; i < 16; ++i) p[i] = narrow_bf16(x.v[i]);
}
GODWIT_INLINE vec load_bf16(const std::uint16_t* p) { GODWIT_EACH(widen_bf16(p[i])); }
GODWIT_INLINE void load_pair(const std::uint16_t* p, vec& even, vec& odd) {
  for (int i = 0; i < 16; ++i) {
    even.v[i] = widen_bf16(p[2 * i]);
    odd.v[i] = widen_bf16(p[2 * i + 1]);
  }
}
GODWIT_INLINE vec load_f16(const std::uint16_t* p) { GODWIT_EACH(widen_f16(p[i])); }
/// Two for each of 16 columns, which are bf16: the reverse of load_pair.
GODWIT_INLINE void store_pair(std::uint16_t* p, vec even, vec odd) {
  for (int i = 0; i < 16; ++i) {
    p[2 * i] = std::uint16_t(bits_of(even.v[i]) >> 16);
    p[2 * i + 1] = std::uint16_t(bits_of(odd.v[i]) >> 16);
  }
}
GODWIT_INLINE vec round_bf16(vec x) { GODWIT_EACH(widen_bf16(narrow_bf16(x.v[i]))); }
GODWIT_INLINE vec load_int8(const std::int8_t* p) { GODWIT_EACH(float(p[i])); }
/// Of 16 bytes the lower and the upper four bits.
GODWIT_INLINE void load_int4(const std::uint8_t* p, vec& low, vec& high) {
  for (int i = 0; i < 16; ++i) {
    low.v[i] = float(p[i] & 15U);
    high.v[i] = float(p[i] >> 4);
  }
}
/// Of 16 bytes what the lower and the upper four bits are as floats of so many, in halves.
GODWIT_INLINE void load_fp4(const std::uint8_t* p, vec& low, vec& high) {
  for (int i = 0; i < 16; ++i) {
    low.v[i] = float(fp4_halves[p[i] & 15U]);
    high.v[i] = float(fp4_halves[p[i] >> 4]);
  }
}
/// Sign, four bits of exponent above -7, three of mantissa; below the least exponent one less is implied.
GODWIT_INLINE float widen_e4m3(std::uint8_t code) {
  const std::uint32_t size = code & 127U, sign = std::uint32_t(code & 128U) << 24;
  const float magnitude =
      size < 8 ? float_of_bits((size << 20) + (121U << 23)) - 0x1p-6F : float_of_bits((size << 20) + (120U << 23));
  return float_of_bits(bits_of(magnitude) | sign);
}
GODWIT_INLINE vec load_e4m3(const std::uint8_t* p) { GODWIT_EACH(widen_e4m3(p[i])); }
GODWIT_INLINE void prefetch(const void*) {}

/// Sums of 16 columns, and what 16 columns have of four k: 64 bytes.
struct ints {
  std::int32_t v[16];
};
struct codes {
  std::uint8_t v[64];
};
GODWIT_INLINE ints set1_int(std::int32_t x) {
  ints out;
  for (int i = 0; i < 16; ++i) out.v[i] = x;
  return out;
}
GODWIT_INLINE vec to_floats(ints x) { GODWIT_EACH(float(x.v[i])); }
GODWIT_INLINE codes load_codes(const std::byte* p) {
  codes out;
  for (int i = 0; i < 64; ++i) out.v[i] = std::uint8_t(p[i]);
  return out;
}
GODWIT_INLINE codes low_nibbles(codes x) {
  for (int i = 0; i < 64; ++i) x.v[i] &= 15U;
  return x;
}
GODWIT_INLINE codes high_nibbles(codes x) {
  for (int i = 0; i < 64; ++i) x.v[i] = std::uint8_t(x.v[i] >> 4);
  return x;
}
/// Of codes below 16 what stands there in a table.
GODWIT_INLINE codes looked_up(codes x, const std::int8_t* table) {
  for (int i = 0; i < 64; ++i) x.v[i] = std::uint8_t(table[x.v[i]]);
  return x;
}
/// Adds the products of each column's four codes with the four of a row.
GODWIT_INLINE ints dot_of_bytes(ints sum, codes x, const std::int8_t* four) {
  for (int i = 0; i < 64; ++i) sum.v[i / 4] += std::int32_t(x.v[i]) * four[i % 4];
  return sum;
}
/// The same where all codes are below 32.
GODWIT_INLINE ints dot_of_nibbles(ints sum, codes x, const std::int8_t* four) { return dot_of_bytes(sum, x, four); }
/// Numbers of -127 to 127, to the nearest whole ones, of two equally near the even one; returns their sum.
GODWIT_INLINE std::int32_t put_int8(vec x, std::int8_t* to) {
  std::int32_t sum = 0;
  for (int i = 0; i < 16; ++i) {
    const float whole = (x.v[i] + 0x1.8p23F) - 0x1.8p23F;
    to[i] = std::int8_t(whole);
    sum += to[i];
  }
  return sum;
}

inline constexpr int rows_per_block = 1, panels_per_block = 1, panels_single = 1;
