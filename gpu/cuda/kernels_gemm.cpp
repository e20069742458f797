#include "cuda/kernels_common.hpp"

// y = x * w^T with one order of summation, whatever the number of rows.
//
// The order: the depth is cut into eight segments, whose length is a function of the depth alone. Within a segment one
// chain of mma.m16n8k16 from zero, 16 k after 16 k; the k of 32 neighbours are dealt to two of them so that a lane's
// share is 16 contiguous bytes (`multiply_group`). The segments' sums are added in their order. Columns of w are the
// rows of the fragments, tokens their columns, in both kernels:
//   * few rows: a warp a segment, weights from memory straight into registers, four or eight loads of each row under
//   way;
//   * many rows: tiles in shared memory, a ring of background copies.

namespace godwit::gpu::cuda {

namespace fixed {

inline constexpr std::uint32_t segments = 8;
inline constexpr std::uint32_t group_depth = 32;

[[nodiscard]] GODWIT_DEVICE std::uint32_t segment_depth(std::uint32_t depth) {
  return ((depth + segments - 1) / segments + group_depth - 1) / group_depth * group_depth;
}

/// 32 k of 16 columns of w (this lane's 8 of columns g and g + 8) and of 8 tokens (of token g).
template <class Type>
GODWIT_DEVICE void multiply_group(float (&sums)[4], const simt::words4& upper, const simt::words4& lower,
                                  const simt::words4& token) {
  const std::uint32_t a[4] = {upper.x, lower.x, upper.y, lower.y}, b[2] = {token.x, token.y};
  simt::multiply_add<Type>(sums, a, b);
  const std::uint32_t c[4] = {upper.z, lower.z, upper.w, lower.w}, d[2] = {token.z, token.w};
  simt::multiply_add<Type>(sums, c, d);
}

/// The element's end: what is there already, if so wanted, plus the sum.
template <class Out> GODWIT_DEVICE void put(const gemm_job& job, std::uint32_t row, std::uint32_t column, float sum) {
  auto* y = static_cast<Out*>(job.y) + std::uint64_t{row} * job.columns + column;
  *y = simt::narrow<Out>(job.accumulate ? simt::add(simt::widen(*y), sum) : sum);
}

inline constexpr std::uint32_t narrow_threads = segments * simt::warp_size;

/// Rows of y that a block computes, with which matrix of w; x has other rows where `take` says so.
template <class Type> struct few {
  const Type* w;
  std::uint32_t row, end;
  const std::uint32_t* take;
};

/// 16 * High columns for 8 * Tiles rows; a warp has a segment of the depth.
template <class Type, class Out, int Tiles, int High>
GODWIT_DEVICE void multiply_few(const gemm_job& job, const few<Type>& what) {
  constexpr std::uint32_t rows = 8 * Tiles, columns = 16 * High, depth_at_once = Tiles > 1 ? 4 : 8;
  const std::uint32_t g = simt::lane() / 4, t = simt::lane() % 4, segment = simt::warp();
  const std::uint32_t row = what.row, column = simt::block_index().y * columns;
  const std::uint32_t length = segment_depth(job.depth), first = segment * length;
  const std::uint32_t last = first + length < job.depth ? first + length : job.depth;
  const simt::words4 none{0, 0, 0, 0};

  const Type* weights[2 * High];
  bool has[2 * High];
  GODWIT_UNROLL
  for (int i = 0; i < 2 * High; ++i) {
    const std::uint32_t own = column + g + i * 8;
    has[i] = own < job.columns;
    weights[i] = what.w + std::uint64_t{has[i] ? own : 0} * job.depth + t * 8;
  }
  const Type* tokens[Tiles];
  bool is[Tiles];
  GODWIT_UNROLL
  for (int i = 0; i < Tiles; ++i) {
    const std::uint32_t own = row + i * 8 + g;
    is[i] = own < what.end;
    const std::uint32_t from = !is[i] ? 0 : what.take != nullptr ? what.take[own] : own;
    tokens[i] = static_cast<const Type*>(job.x) + std::uint64_t{from} * job.depth + t * 8;
  }
  float sums[High][Tiles][4] = {};
  for (std::uint32_t k = first; k < last; k += group_depth * depth_at_once) {
    // All loads are under way before the first is used. Zeros behind the segment's end: what they add is nothing.
    simt::words4 held[depth_at_once][2 * High], token[depth_at_once][Tiles];
    GODWIT_UNROLL
    for (std::uint32_t u = 0; u < depth_at_once; ++u) {
      const std::uint32_t at = k + u * group_depth;
      const bool there = at < last && at + t * 8 < job.depth;
      GODWIT_UNROLL
      for (int i = 0; i < 2 * High; ++i) held[u][i] = has[i] && there ? simt::load16_once(weights[i] + at) : none;
      GODWIT_UNROLL
      for (int i = 0; i < Tiles; ++i) token[u][i] = is[i] && there ? simt::load16(tokens[i] + at) : none;
    }
    GODWIT_UNROLL
    for (std::uint32_t u = 0; u < depth_at_once; ++u) GODWIT_UNROLL
    for (int h = 0; h < High; ++h) GODWIT_UNROLL
    for (int i = 0; i < Tiles; ++i) multiply_group<Type>(sums[h][i], held[u][2 * h], held[u][2 * h + 1], token[u][i]);
  }
  auto* all = reinterpret_cast<float*>(simt::shared()); // [segment][row][column]
  GODWIT_UNROLL
  for (int h = 0; h < High; ++h) GODWIT_UNROLL
  for (int i = 0; i < Tiles; ++i) GODWIT_UNROLL
  for (int k = 0; k < 4; ++k)
    all[(segment * rows + i * 8 + t * 2 + k % 2) * columns + h * 16 + g + k / 2 * 8] = sums[h][i][k];
  simt::sync_block();
  for (std::uint32_t i = simt::thread_index(); i < rows * columns; i += narrow_threads) {
    float sum = all[i];
    for (std::uint32_t s = 1; s < segments; ++s) sum = simt::add(sum, all[s * rows * columns + i]);
    if (row + i / columns < what.end && column + i % columns < job.columns)
      put<Out>(job, row + i / columns, column + i % columns, sum);
  }
}

template <class Type, class Out, int Tiles, int High>
GODWIT_KERNEL(narrow_threads, Tiles > 2 ? 1 : 2)
few_rows(gemm_job job) {
  // Neighbouring blocks share their columns of w.
  multiply_few<Type, Out, Tiles, High>(
      job, {static_cast<const Type*>(job.w), simt::block_index().x * 8 * Tiles, job.rows, nullptr});
}

/// Of one expert's entries.
template <class Type, class Out, int Tiles, int High>
GODWIT_KERNEL(narrow_threads, Tiles > 2 ? 1 : 2)
expert_rows(expert_gemm_job job) {
  const expert_tile tile = job.tiles[simt::block_index().x];
  if (tile.count == 0) return; // fewer than there could be
  const auto& product = job.product;
  const auto* w = static_cast<const Type*>(product.w) + std::uint64_t{tile.expert} * product.columns * product.depth;
  multiply_few<Type, Out, Tiles, High>(product, {w, tile.first, tile.first + tile.count, job.take});
}

inline constexpr std::uint32_t wide_threads = 256;
inline constexpr int wide_stages = 4;

/// What eight warps share of a tile: `Across` of them side by side over the columns, 8 / Across over the rows; a warp
/// has 16 * High columns and 32 rows.
template <int Across, int High> struct tile_shape {
  static constexpr std::uint32_t columns = Across * High * 16;
  static constexpr std::uint32_t rows = 8 / Across * 32;
  static constexpr std::uint32_t stage_elements = (columns + rows) * group_depth;
};

/// 32 k of `Count` rows of a matrix into [row][32]; zeros outside of it.
template <class Type, std::uint32_t Count>
GODWIT_DEVICE void fetch_rows(const Type* from, std::uint32_t first, std::uint32_t count, std::uint32_t k,
                              std::uint32_t depth, Type* to) {
  GODWIT_UNROLL
  for (std::uint32_t i = 0; i < (Count * 4 + wide_threads - 1) / wide_threads; ++i) {
    const std::uint32_t chunk = i * wide_threads + simt::thread_index(), row = first + chunk / 4;
    if (Count * 4 % wide_threads != 0 && chunk >= Count * 4) break;
    const std::uint32_t at = k + chunk % 4 * 8;
    const bool there = row < count && at < depth;
    simt::copy16(to + chunk * 8, from + (there ? std::uint64_t{row} * depth + at : 0), there);
  }
}

template <class Type, class Out, int Across, int High> GODWIT_KERNEL(wide_threads, 1) many_rows(gemm_job job) {
  using shape = tile_shape<Across, High>;
  const std::uint32_t g = simt::lane() / 4, t = simt::lane() % 4;
  // Neighbouring blocks share their columns of w.
  const std::uint32_t row = simt::block_index().x * shape::rows, column = simt::block_index().y * shape::columns;
  auto* ring = reinterpret_cast<Type*>(simt::shared());
  const std::uint32_t groups = (job.depth + group_depth - 1) / group_depth;
  const std::uint32_t of_segment = segment_depth(job.depth) / group_depth;
  const auto fetch = [&](std::uint32_t group) {
    if (group < groups) {
      Type* stage = ring + group % wide_stages * shape::stage_elements;
      fetch_rows<Type, shape::columns>(static_cast<const Type*>(job.w), column, job.columns, group * group_depth,
                                       job.depth, stage);
      fetch_rows<Type, shape::rows>(static_cast<const Type*>(job.x), row, job.rows, group * group_depth, job.depth,
                                    stage + shape::columns * group_depth);
    }
    simt::commit_copies();
  };
  const std::uint32_t own_column = simt::warp() % Across * High * 16, own_row = simt::warp() / Across * 32;

  float whole[High][4][4] = {}, sums[High][4][4] = {};
  const auto end_segment = [&](bool is_first) {
    GODWIT_UNROLL
    for (int h = 0; h < High; ++h) GODWIT_UNROLL
    for (int n = 0; n < 4; ++n) GODWIT_UNROLL
    for (int k = 0; k < 4; ++k) {
      whole[h][n][k] = is_first ? sums[h][n][k] : simt::add(whole[h][n][k], sums[h][n][k]);
      sums[h][n][k] = 0;
    }
  };
  GODWIT_UNROLL
  for (int stage = 0; stage < wide_stages - 1; ++stage) fetch(stage);
  std::uint32_t left = of_segment, segment = 0;
  for (std::uint32_t group = 0; group < groups; ++group) {
    simt::wait_copies<wide_stages - 2>();
    simt::sync_block(); // the group is there for all, and the one before it is read
    fetch(group + wide_stages - 1);
    const Type* stage = ring + group % wide_stages * shape::stage_elements;
    const Type* tokens = stage + shape::columns * group_depth + own_row * group_depth;
    simt::words4 token[4];
    GODWIT_UNROLL
    for (int n = 0; n < 4; ++n) token[n] = simt::load16(tokens + (n * 8 + g) * group_depth + t * 8);
    GODWIT_UNROLL
    for (int h = 0; h < High; ++h) {
      const Type* weights = stage + (own_column + h * 16 + g) * group_depth + t * 8;
      const simt::words4 upper = simt::load16(weights), lower = simt::load16(weights + 8 * group_depth);
      GODWIT_UNROLL
      for (int n = 0; n < 4; ++n) multiply_group<Type>(sums[h][n], upper, lower, token[n]);
    }
    if (--left == 0) {
      end_segment(segment++ == 0);
      left = of_segment;
    }
  }
  simt::wait_copies<0>();
  // What the other kernel adds of segments that are empty is zero.
  if (left != of_segment) end_segment(segment == 0);
  GODWIT_UNROLL
  for (int h = 0; h < High; ++h) {
    const auto each = [&](const auto& use) {
      GODWIT_UNROLL
      for (int n = 0; n < 4; ++n) GODWIT_UNROLL
      for (int k = 0; k < 4; ++k) {
        const std::uint32_t to_row = row + own_row + n * 8 + t * 2 + k % 2;
        const std::uint32_t to_column = column + own_column + h * 16 + g + k / 2 * 8;
        if (to_row < job.rows && to_column < job.columns)
          use(static_cast<Out*>(job.y) + std::uint64_t{to_row} * job.columns + to_column, n, k);
      }
    };
    float before[4][4] = {}; // all on their way before the first is added to
    if (job.accumulate) each([&](const Out* y, int n, int k) { before[n][k] = simt::widen(*y); });
    each([&](Out* y, int n, int k) {
      *y = simt::narrow<Out>(job.accumulate ? simt::add(before[n][k], whole[h][n][k]) : whole[h][n][k]);
    });
  }
}

namespace {

/// Up to so many rows the kernel for few rows reads the weights once or twice.
constexpr std::uint32_t few_rows_max = 64;
/// Tiles that keep a large GPU's processors busy; smaller ones serve where there would be fewer.
constexpr std::uint32_t tiles_wanted = 132;

template <class Type, class Out, int Tiles, int High> void launch_few(driver_stream& stream, const gemm_job& job) {
  constexpr std::uint32_t rows = 8 * Tiles, columns = 16 * High;
  simt::launch(stream, "fixed product, few rows", &few_rows<Type, Out, Tiles, High>,
               {pieces(job.rows, rows), pieces(job.columns, columns), 1}, narrow_threads,
               std::size_t{segments} * rows * columns * sizeof(float), job);
}

template <class Type, class Out, int Tiles, int High>
void launch_experts(driver_stream& stream, const expert_gemm_job& job) {
  constexpr std::uint32_t rows = 8 * Tiles, columns = 16 * High;
  simt::launch(stream, "fixed product of experts", &expert_rows<Type, Out, Tiles, High>,
               {job.tiles_count, pieces(job.product.columns, columns), 1}, narrow_threads,
               std::size_t{segments} * rows * columns * sizeof(float), job);
}

template <class Type, class Out> void launch_experts(driver_stream& stream, const expert_gemm_job& job) {
  if (job.tile_rows == expert_gemm_job::few) return launch_experts<Type, Out, 1, 1>(stream, job);
  launch_experts<Type, Out, 4, 2>(stream, job);
}

template <class Type, class Out, int Across, int High> void launch_many(driver_stream& stream, const gemm_job& job) {
  using shape = tile_shape<Across, High>;
  simt::launch(stream, "fixed product", &many_rows<Type, Out, Across, High>,
               {pieces(job.rows, shape::rows), pieces(job.columns, shape::columns), 1}, wide_threads,
               wide_stages * shape::stage_elements * sizeof(Type), job);
}

template <class Type, class Out> void launch_typed(driver_stream& stream, const gemm_job& job) {
  if (job.rows <= 8) return launch_few<Type, Out, 1, 1>(stream, job);
  if (job.rows <= 16) return launch_few<Type, Out, 2, 1>(stream, job);
  if (job.rows <= few_rows_max) return launch_few<Type, Out, 4, 2>(stream, job);
  if (std::uint64_t{pieces(job.rows, 128)} * pieces(job.columns, 96) >= tiles_wanted)
    return launch_many<Type, Out, 2, 3>(stream, job);
  launch_many<Type, Out, 4, 1>(stream, job);
}

} // namespace

} // namespace fixed

void launch_fixed(driver_stream& stream, const gemm_job& job) {
  if (job.rows == 0 || job.columns == 0) return;
  require(job.columns % 8 == 0 && job.depth % 8 == 0, "a product has multiples of 8 columns and of 8 in depth");
  require(job.columns <= (job.rows <= fixed::few_rows_max ? 16 : 64) * 65535U, "too many columns"); // a grid's second
  require(!job.accumulate || job.y_type == data_type::f32, "only sums in f32 are added to");
  with_type(job.type, [&](auto type) {
    using element = decltype(type);
    if (job.y_type == data_type::f32) return fixed::launch_typed<element, float>(stream, job);
    require(job.y_type == job.type, "the result is f32 or of the weights' type");
    fixed::launch_typed<element, element>(stream, job);
  });
}

void launch_fixed(driver_stream& stream, const expert_gemm_job& job) {
  const auto& product = job.product;
  if (job.tiles_count == 0 || product.columns == 0) return;
  require(product.columns % 8 == 0 && product.depth % 8 == 0, "a product has multiples of 8 columns and of 8 in depth");
  require(product.columns <= 16 * 65535U, "too many columns");
  require(!product.accumulate, "experts' products are not added to");
  require(job.tile_rows == expert_gemm_job::few || job.tile_rows == expert_gemm_job::many, "tiles of 8 or of 32 rows");
  with_type(product.type, [&](auto type) {
    using element = decltype(type);
    if (product.y_type == data_type::f32) return fixed::launch_experts<element, float>(stream, job);
    require(product.y_type == product.type, "the result is f32 or of the weights' type");
    fixed::launch_experts<element, element>(stream, job);
  });
}

} // namespace godwit::gpu::cuda
