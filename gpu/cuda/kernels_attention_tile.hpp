#pragma once

#include "cuda/kernels_common.hpp"

#include <cmath>

// One warp's part of attention: 16 query rows against some keys and values in shared memory, with tensor cores.
//
// In all of this, lane l speaks for query rows l / 4 and l / 4 + 8 of the 16, as the fragments of mma.m16n8k16 demand.
// Scores are in units of log 2, so that 2^x serves.

namespace godwit::gpu::cuda::attention {

inline constexpr std::uint32_t query_rows = 16;

/// What a lane knows of its two rows so far.
template <int Size> struct row_state {
  float top[2];            ///< highest score; minus infinity: none yet
  float total[2];          ///< of the probabilities of this lane's keys
  float sums[Size / 8][4]; ///< probabilities times V, as fragments of D

  GODWIT_DEVICE void clear() {
    GODWIT_UNROLL
    for (int r = 0; r < 2; ++r) {
      top[r] = -INFINITY;
      total[r] = 0;
    }
    GODWIT_UNROLL
    for (int i = 0; i < Size / 8; ++i) GODWIT_UNROLL
    for (int k = 0; k < 4; ++k) sums[i][k] = 0;
  }
};

/// Elements from one key (or value) to the next in shared memory: eight rows lie in eight different banks of 16 bytes.
template <int Size> inline constexpr int key_stride = Size + 8;
template <class Type, int Size> inline constexpr std::size_t key_bytes = key_stride<Size> * sizeof(Type);

/// The 16 query rows as fragments of A.
template <int Size> struct query_fragments { std::uint32_t words[Size / 16][4]; };

/// Which positions a lane's two rows see, and what all of the tile's rows see.
struct sight {
  int position[2];   ///< the last one seen; -1: there is no such row
  int window = 0;    ///< 0: all before
  int all_after = 0; ///< every row that is one sees positions [all_after, all_before]
  int all_before = -1;
};

/// Where a tile of 16 query rows lies: rows of one slice (token x query head), for one kv head.
struct query_tile {
  attention_slice slice;
  std::uint32_t kv_head = 0;
  std::uint32_t group = 1; ///< query heads of a kv head
  std::uint32_t first = 0; ///< row of the slice's rows * group
  std::uint32_t count = 0; ///< rows that are there, of `size`

  [[nodiscard]] GODWIT_DEVICE std::uint32_t token(std::uint32_t row) const { return (first + row) / group; }
  [[nodiscard]] GODWIT_DEVICE std::uint32_t head(std::uint32_t row) const {
    return kv_head * group + (first + row) % group;
  }
  [[nodiscard]] GODWIT_DEVICE std::uint32_t position(std::uint32_t row) const {
    return slice.first_position + token(row);
  }
  /// Index of the row's head among [rows][heads].
  [[nodiscard]] GODWIT_DEVICE std::uint64_t place(std::uint32_t row, std::uint32_t heads) const {
    return std::uint64_t{slice.first_row + token(row)} * heads + head(row);
  }
  [[nodiscard]] GODWIT_DEVICE std::uint32_t last_position() const { return position(count - 1); }
  [[nodiscard]] GODWIT_DEVICE std::uint32_t first_seen(std::uint32_t window) const {
    return window != 0 && position(0) + 1 > window ? position(0) + 1 - window : 0;
  }
};

/// The sight of the warp's 16 rows, which begin at `row` of the tile.
GODWIT_DEVICE sight sight_of(const query_tile& tile, std::uint32_t row, std::uint32_t window) {
  sight result;
  GODWIT_UNROLL
  for (int r = 0; r < 2; ++r) {
    const std::uint32_t mine = row + simt::lane() / 4 + r * 8;
    result.position[r] = mine < tile.count ? static_cast<int>(tile.position(mine)) : -1;
  }
  result.window = static_cast<int>(window);
  if (row < tile.count) { // what rows that are none see does not matter
    const std::uint32_t end = row + query_rows < tile.count ? row + query_rows : tile.count;
    const int last = static_cast<int>(tile.position(end - 1));
    result.all_before = static_cast<int>(tile.position(row));
    result.all_after = window != 0 ? last - static_cast<int>(window) + 1 : 0;
  }
  return result;
}

template <class Type, int Size>
GODWIT_DEVICE void load_queries(const attention_job& job, const query_tile& tile, std::uint32_t row,
                                query_fragments<Size>& to) {
  const std::uint32_t t = simt::lane() % 4;
  GODWIT_UNROLL
  for (int r = 0; r < 2; ++r) {
    const std::uint32_t mine = row + simt::lane() / 4 + r * 8;
    const auto* from = reinterpret_cast<const std::uint32_t*>(
        static_cast<const Type*>(job.queries) + (mine < tile.count ? tile.place(mine, job.heads) : 0) * Size);
    GODWIT_UNROLL
    for (int k = 0; k < Size / 16; ++k) {
      to.words[k][r] = mine < tile.count ? from[k * 8 + t] : 0;
      to.words[k][r + 2] = mine < tile.count ? from[k * 8 + t + 4] : 0;
    }
  }
}

/// Takes `Keys` (a multiple of 16) keys, the first of them at `position`, into the state.
template <class Type, int Size, int Keys>
GODWIT_DEVICE void absorb(row_state<Size>& state, const query_fragments<Size>& queries, const Type* keys,
                          const Type* values, int position, const sight& seen, float scale) {
  constexpr int stride = key_stride<Size>;
  const int lane = static_cast<int>(simt::lane()), t = lane % 4;
  float scores[Keys / 8][4];
  GODWIT_UNROLL
  for (int pair = 0; pair < Keys / 16; ++pair) {
    float even[4] = {0, 0, 0, 0}, odd[4] = {0, 0, 0, 0};
    // matrices: keys 0-7 and 8-15, each with the first and the second eight elements of 16
    const Type* from = keys + (pair * 16 + lane % 8 + lane / 16 * 8) * stride + lane / 8 % 2 * 8;
    GODWIT_UNROLL
    for (int k = 0; k < Size / 16; ++k) {
      std::uint32_t r[4];
      simt::load_matrices(r, from + k * 16);
      const std::uint32_t first[2] = {r[0], r[1]}, second[2] = {r[2], r[3]};
      simt::multiply_add<Type>(even, queries.words[k], first);
      simt::multiply_add<Type>(odd, queries.words[k], second);
    }
    GODWIT_UNROLL
    for (int i = 0; i < 4; ++i) {
      scores[2 * pair][i] = simt::mul(even[i], scale);
      scores[2 * pair + 1][i] = simt::mul(odd[i], scale);
    }
  }
  if (position + Keys - 1 > seen.all_before || position < seen.all_after) {
    GODWIT_UNROLL
    for (int n = 0; n < Keys / 8; ++n) GODWIT_UNROLL
    for (int i = 0; i < 4; ++i) {
      const int key = position + n * 8 + t * 2 + i % 2, own = seen.position[i / 2];
      if (key > own || (seen.window != 0 && key + seen.window <= own)) scores[n][i] = -INFINITY;
    }
  }
  float shrink[2];
  GODWIT_UNROLL
  for (int r = 0; r < 2; ++r) {
    float top = -INFINITY;
    GODWIT_UNROLL
    for (int n = 0; n < Keys / 8; ++n) top = fmaxf(top, fmaxf(scores[n][2 * r], scores[n][2 * r + 1]));
    top = fmaxf(top, simt::shuffle_xor(top, 1));
    top = fmaxf(top, simt::shuffle_xor(top, 2));
    const float now = fmaxf(state.top[r], top);
    const float base = now == -INFINITY ? 0.0F : now; // minus infinity less itself is nothing one can use
    shrink[r] = simt::power_of_two(simt::add(state.top[r], -base));
    state.top[r] = now;
    float sum = 0;
    GODWIT_UNROLL
    for (int n = 0; n < Keys / 8; ++n) GODWIT_UNROLL
    for (int i = 2 * r; i < 2 * r + 2; ++i) {
      scores[n][i] = simt::power_of_two(simt::add(scores[n][i], -base));
      sum = simt::add(sum, scores[n][i]);
    }
    state.total[r] = simt::fma(state.total[r], shrink[r], sum);
  }
  GODWIT_UNROLL
  for (int d = 0; d < Size / 8; ++d) GODWIT_UNROLL
  for (int i = 0; i < 4; ++i) state.sums[d][i] = simt::mul(state.sums[d][i], shrink[i / 2]);
  GODWIT_UNROLL
  for (int pair = 0; pair < Keys / 16; ++pair) {
    const std::uint32_t shares[4] = {simt::pack<Type>(scores[2 * pair][0], scores[2 * pair][1]),
                                     simt::pack<Type>(scores[2 * pair][2], scores[2 * pair][3]),
                                     simt::pack<Type>(scores[2 * pair + 1][0], scores[2 * pair + 1][1]),
                                     simt::pack<Type>(scores[2 * pair + 1][2], scores[2 * pair + 1][3])};
    // matrices: keys 0-7 and 8-15, of the first and then of the second eight elements
    const Type* from = values + (pair * 16 + lane % 16) * stride + lane / 16 * 8;
    GODWIT_UNROLL
    for (int d = 0; d < Size / 16; ++d) {
      std::uint32_t r[4];
      simt::load_transposed(r, from + d * 16);
      const std::uint32_t first[2] = {r[0], r[1]}, second[2] = {r[2], r[3]};
      simt::multiply_add<Type>(state.sums[2 * d], shares, first);
      simt::multiply_add<Type>(state.sums[2 * d + 1], shares, second);
    }
  }
}

/// The lane's totals become its rows'.
template <int Size> GODWIT_DEVICE void complete(row_state<Size>& state) {
  GODWIT_UNROLL
  for (int r = 0; r < 2; ++r) {
    state.total[r] = simt::add(state.total[r], simt::shuffle_xor(state.total[r], 1));
    state.total[r] = simt::add(state.total[r], simt::shuffle_xor(state.total[r], 2));
  }
}

/// A row's result so far, or that of some of its positions; `Count` of its elements.
template <int Count> struct share {
  float top = -INFINITY;
  float total = 0;
  float sums[Count] = {};

  /// In turn, positions rising; nothing (top minus infinity) changes nothing.
  GODWIT_DEVICE void add(float other_top, float other_total, const float (&other)[Count]) {
    const float now = fmaxf(top, other_top), base = now == -INFINITY ? 0.0F : now;
    const float mine = simt::power_of_two(simt::add(top, -base));
    const float theirs = simt::power_of_two(simt::add(other_top, -base));
    top = now;
    total = simt::add(simt::mul(total, mine), simt::mul(other_total, theirs));
    GODWIT_UNROLL
    for (int i = 0; i < Count; ++i) sums[i] = simt::add(simt::mul(sums[i], mine), simt::mul(other[i], theirs));
  }
};

} // namespace godwit::gpu::cuda::attention
