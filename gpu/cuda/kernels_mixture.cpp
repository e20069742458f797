#include "cuda/kernels_common.hpp"

#include <limits>

// Layers that are mixtures of experts: which rows go to which expert, and what their experts compute, added up. The
// products between are in kernels_gemm.cpp.

namespace godwit::gpu::cuda {

namespace {

constexpr std::uint32_t choose_warps = 4;
constexpr std::uint32_t group_threads = 256;
constexpr std::uint32_t combine_threads = 256;
constexpr std::uint32_t nobody = ~0U;
constexpr float infinity = std::numeric_limits<float>::infinity();
constexpr float no_number = std::numeric_limits<float>::quiet_NaN();

/// The next expert in the order of a row: of falling logits, of equal ones the first.
struct candidate {
  float logit = 0;
  std::uint32_t expert = nobody;
};

GODWIT_DEVICE bool comes_before(const candidate& a, const candidate& b) {
  if (b.expert == nobody) return a.expert != nobody;
  return a.expert != nobody && (a.logit > b.logit || (a.logit == b.logit && a.expert < b.expert));
}

/// A warp a row.
GODWIT_KERNEL(choose_warps* simt::warp_size, 1) choose_experts(route_job job) {
  const std::uint32_t row = simt::block_index().x * choose_warps + simt::warp();
  if (row >= job.rows) return;
  const float* logits = job.logits + std::uint64_t{row} * job.stride;
  std::uint32_t* experts = job.experts_of + std::uint64_t{row} * job.chosen;
  float* weights = job.weights + std::uint64_t{row} * job.chosen;
  candidate last;
  float highest = 0;
  bool broken = false; // what is no number is the least, and has the row be none
  for (std::uint32_t place = 0; place < job.chosen; ++place) {
    candidate best;
    for (std::uint32_t expert = simt::lane(); expert < job.experts; expert += simt::warp_size) {
      const float logit = logits[expert];
      broken = broken || logit != logit;
      const candidate one{logit == logit ? logit : -infinity, expert};
      if ((place == 0 || comes_before(last, one)) && comes_before(one, best)) best = one;
    }
    for (std::uint32_t mask = simt::warp_size / 2; mask > 0; mask /= 2) {
      const candidate other{simt::shuffle_xor(best.logit, mask), simt::shuffle_xor(best.expert, mask)};
      if (comes_before(other, best)) best = other;
    }
    if (place == 0) highest = best.logit;
    last = best;
    if (simt::lane() == 0) { // into its place, for they are added up in rising order
      std::uint32_t at = place;
      for (; at > 0 && experts[at - 1] > best.expert; --at) {
        experts[at] = experts[at - 1];
        weights[at] = weights[at - 1];
      }
      experts[at] = best.expert;
      weights[at] = simt::exponential(simt::add(best.logit, -highest));
    }
  }
  broken = simt::ballot(broken) != 0;
  float sum = 0;
  if (!job.normed) {
    for (std::uint32_t expert = simt::lane(); expert < job.experts; expert += simt::warp_size)
      sum = simt::add(sum, simt::exponential(simt::add(logits[expert], -highest)));
    sum = simt::sum_of_warp(sum);
  }
  if (simt::lane() != 0) return;
  if (job.normed)
    for (std::uint32_t i = 0; i < job.chosen; ++i) sum = simt::add(sum, weights[i]);
  for (std::uint32_t i = 0; i < job.chosen; ++i) weights[i] = broken ? no_number : simt::div(weights[i], sum);
}

/// One block. A thread has some of the experts, so that nothing depends on who comes first.
GODWIT_KERNEL(group_threads, 1) group_rows(route_job job) {
  auto* first = reinterpret_cast<std::uint32_t*>(simt::shared()); // of each expert, and the end; the last: tiles
  const std::uint32_t entries = job.rows * job.chosen;
  for (std::uint32_t expert = simt::thread_index(); expert < job.experts; expert += group_threads) {
    std::uint32_t count = 0;
    for (std::uint32_t i = 0; i < entries; ++i) count += job.experts_of[i] == expert ? 1 : 0;
    first[expert] = count;
  }
  simt::sync_block();
  if (simt::thread_index() == 0) {
    std::uint32_t at = 0, tiles = 0;
    for (std::uint32_t expert = 0; expert < job.experts; ++expert) {
      const std::uint32_t count = first[expert];
      first[expert] = at;
      for (std::uint32_t done = 0; done < count; done += job.tile_rows)
        job.tiles[tiles++] = {expert, at + done, count - done < job.tile_rows ? count - done : job.tile_rows};
      at += count;
    }
    first[job.experts] = tiles;
  }
  simt::sync_block();
  for (std::uint32_t i = first[job.experts] + simt::thread_index(); i < job.tiles_count; i += group_threads)
    job.tiles[i] = {};
  for (std::uint32_t expert = simt::thread_index(); expert < job.experts; expert += group_threads) {
    std::uint32_t at = first[expert];
    for (std::uint32_t i = 0; i < entries; ++i)
      if (job.experts_of[i] == expert) {
        job.rows_of[at] = i / job.chosen;
        job.entries[i] = at++;
      }
  }
}

/// Eight columns a thread.
template <class In> GODWIT_KERNEL(combine_threads, 1) combine_rows(combine_job job) {
  const std::uint32_t row = simt::block_index().x;
  const std::uint32_t column = (simt::block_index().y * combine_threads + simt::thread_index()) * 8;
  if (column >= job.hidden) return;
  const std::uint64_t own = std::uint64_t{row} * job.chosen;
  float sum[8]{};
  for (std::uint32_t i = 0; i < job.chosen; ++i) {
    float v[8];
    simt::load8(static_cast<const In*>(job.y) + std::uint64_t{job.entries[own + i]} * job.hidden + column, v);
    const float weight = job.weights[own + i];
    GODWIT_UNROLL
    for (int k = 0; k < 8; ++k) sum[k] = simt::add(sum[k], simt::mul(weight, simt::within_range<In>(v[k])));
  }
  float* to = job.to + std::uint64_t{row} * job.hidden + column;
  if (job.accumulate) {
    float before[8];
    simt::load8(to, before);
    GODWIT_UNROLL
    for (int k = 0; k < 8; ++k) sum[k] = simt::add(before[k], sum[k]);
  }
  simt::store8(to, sum);
}

} // namespace

void launch(driver_stream& stream, const route_job& job) {
  if (job.rows == 0) return;
  require(job.chosen > 0 && job.chosen <= job.experts && job.experts <= route_job::experts_max,
          "experts that there are");
  require(job.tile_rows > 0, "tiles have rows");
  simt::launch(stream, "choice of experts", &choose_experts, {pieces(job.rows, choose_warps), 1, 1},
               choose_warps * simt::warp_size, 0, job);
  simt::launch(stream, "grouping by expert", &group_rows, {1, 1, 1}, group_threads,
               (job.experts + std::size_t{1}) * sizeof(std::uint32_t), job);
}

void launch(driver_stream& stream, const combine_job& job) {
  if (job.rows == 0) return;
  require(job.hidden % 8 == 0, "a row has a multiple of 8 columns");
  const simt::size3 grid{job.rows, pieces(job.hidden, combine_threads * 8), 1};
  if (job.y_type == data_type::f32)
    return simt::launch(stream, "sum of experts", &combine_rows<float>, grid, combine_threads, 0, job);
  with_type(job.y_type, [&](auto type) {
    simt::launch(stream, "sum of experts", &combine_rows<decltype(type)>, grid, combine_threads, 0, job);
  });
}

} // namespace godwit::gpu::cuda
