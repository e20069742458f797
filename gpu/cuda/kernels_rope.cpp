#include "cuda/kernels_common.hpp"

#include <algorithm>

// Norm of the heads and rotary embedding, and the way of keys and values into their blocks.

namespace godwit::gpu::cuda {

namespace {

constexpr std::uint32_t threads_max = 256;
constexpr std::uint32_t head_size_max = 128;

/// What of a value may lie in the cache: NaN and what is infinite in bf16 may not, since rows that do not see a token
/// of their tile multiply its value by a probability of zero, and get NaN. Finite values stay what they are. A row that
/// is NaN has keys that are, too, and so do those who see it end.
GODWIT_DEVICE float cacheable(float x) {
  constexpr float most = 0x1.FEp127F; // bf16's largest; f16's is seen to where it is rounded
  if (x != x) return 0;
  return x > most ? most : x < -most ? -most : x;
}

/// Where a row's numbers come from and go to.
template <class Type, class In> struct rope_row {
  const In* in;
  const Type* bias;
  const float *cosine, *sine;
  Type *queries, *block;
  std::uint32_t query_heads, turned_heads, heads; ///< queries', then keys', then values'
  std::uint32_t half, token;
  bool cached;

  explicit GODWIT_DEVICE rope_row(const rope_job& job) {
    const std::uint32_t row = simt::block_index().x, size = job.kv.head_size, slot = job.slots[row];
    query_heads = job.heads;
    turned_heads = query_heads + job.kv.kv_heads;
    heads = turned_heads + job.kv.kv_heads;
    half = size / 2;
    in = static_cast<const In*>(job.qkv) + std::uint64_t{row} * heads * size;
    bias = static_cast<const Type*>(job.bias);
    cosine = job.cosine + std::uint64_t{job.positions[row]} * half;
    sine = job.sine + std::uint64_t{job.positions[row]} * half;
    queries = static_cast<Type*>(job.queries) + std::uint64_t{row} * job.heads * size;
    block = reinterpret_cast<Type*>(static_cast<std::byte*>(job.kv.base) +
                                    std::uint64_t{slot / block_tokens} * job.kv.block_stride);
    token = slot % block_tokens;
    cached = slot != no_slot;
  }

  /// A pair (i, i + half) of a head, with its bias.
  GODWIT_DEVICE void get(std::uint32_t head, std::uint32_t pair, float& x, float& y) const {
    const std::uint32_t column = head * 2 * half + pair;
    x = simt::within_range<In>(simt::widen(in[column]));
    y = simt::within_range<In>(simt::widen(in[column + half]));
    if (bias != nullptr) {
      x = simt::add(x, simt::widen(bias[column]));
      y = simt::add(y, simt::widen(bias[column + half]));
    }
  }

  /// Turns a pair, unless it is a value's, and stores it.
  GODWIT_DEVICE void put(std::uint32_t head, std::uint32_t pair, float x, float y) const {
    if (head < turned_heads) {
      const float c = cosine[pair], s = sine[pair];
      const float turned = simt::fma(-y, s, simt::mul(x, c));
      y = simt::fma(x, s, simt::mul(y, c));
      x = turned;
    } else {
      x = cacheable(x);
      y = cacheable(y);
    }
    Type* to = queries + head * 2 * half + pair;
    if (head >= query_heads) {
      if (!cached) return;
      // keys of all heads, then values of all heads
      to = block + (std::uint64_t{head - query_heads} * block_tokens + token) * 2 * half + pair;
    }
    to[0] = simt::narrow<Type>(x);
    to[half] = simt::narrow<Type>(y);
  }
};

/// Each thread takes pairs of the row's heads, one after the other.
template <class Type, class In> GODWIT_KERNEL(threads_max, 1) rope_rows(rope_job job) {
  const rope_row<Type, In> row(job);
  const std::uint32_t threads = simt::block_threads(), step = simt::grid_size().y * threads;
  for (std::uint32_t i = simt::block_index().y * threads + simt::thread_index(); i < row.heads * row.half; i += step) {
    float x = 0, y = 0;
    row.get(i / row.half, i % row.half, x, y);
    row.put(i / row.half, i % row.half, x, y);
  }
}

/// The same with normed queries and keys: a warp takes a head, each lane up to two of its pairs.
template <class Type, class In> GODWIT_KERNEL(threads_max, 1) normed_rope_rows(rope_job job) {
  const rope_row<Type, In> row(job);
  constexpr std::uint32_t pairs = head_size_max / 2 / simt::warp_size;
  const std::uint32_t warps = simt::block_threads() / simt::warp_size, step = simt::grid_size().y * warps;
  for (std::uint32_t head = simt::block_index().y * warps + simt::warp(); head < row.heads; head += step) {
    float x[pairs], y[pairs], squares = 0;
    GODWIT_UNROLL
    for (std::uint32_t k = 0; k < pairs; ++k) {
      x[k] = y[k] = 0;
      const std::uint32_t pair = simt::lane() + k * simt::warp_size;
      if (pair < row.half) row.get(head, pair, x[k], y[k]);
      squares = simt::fma(y[k], y[k], simt::fma(x[k], x[k], squares));
    }
    const auto* weight = static_cast<const Type*>(head < row.query_heads ? job.query_norm : job.key_norm);
    const float mean = simt::div(simt::sum_of_warp(squares), float(job.kv.head_size));
    const float scale = simt::div(1.0F, simt::root(simt::add(mean, job.epsilon)));
    GODWIT_UNROLL
    for (std::uint32_t k = 0; k < pairs; ++k) {
      const std::uint32_t pair = simt::lane() + k * simt::warp_size;
      if (pair >= row.half) continue;
      if (head < row.turned_heads) {
        x[k] = simt::mul(simt::mul(x[k], scale), simt::widen(weight[pair]));
        y[k] = simt::mul(simt::mul(y[k], scale), simt::widen(weight[pair + row.half]));
      }
      row.put(head, pair, x[k], y[k]);
    }
  }
}

/// A row's blocks of threads: as many as it has work for where rows are few, so that no thread has to wait for memory
/// again and again while most of the device has nothing to do; fewer where rows fill the device by themselves.
std::uint32_t blocks_of_row(std::uint32_t rows, std::uint32_t most) {
  constexpr std::uint32_t wanted = 1024;
  return std::clamp(wanted / rows, 1U, most);
}

template <class Type, class In> void launch_rows(driver_stream& stream, const rope_job& job) {
  const std::uint32_t heads = job.heads + 2 * job.kv.kv_heads, pairs = heads * job.kv.head_size / 2;
  const std::uint32_t threads = pairs >= threads_max ? threads_max : pieces(pairs, simt::warp_size) * simt::warp_size;
  const bool norms = job.query_norm != nullptr;
  const auto kernel = norms ? &normed_rope_rows<Type, In> : &rope_rows<Type, In>;
  const std::uint32_t most = norms ? pieces(heads, threads / simt::warp_size) : pieces(pairs, threads);
  simt::launch(stream, norms ? "normed rope" : "rope", kernel, {job.rows, blocks_of_row(job.rows, most), 1}, threads, 0,
               job);
}

} // namespace

void launch(driver_stream& stream, const rope_job& job) {
  if (job.rows == 0) return;
  require(job.kv.head_size % 16 == 0 && job.kv.head_size != 0 && job.kv.head_size <= head_size_max,
          "a head has a multiple of 16 elements, at most 128");
  require(job.kv.block_stride % 16 == 0 && job.kv.block_stride >= block_bytes(job.kv.kv_heads, job.kv.head_size),
          "blocks lie in steps of 16 bytes and do not overlap");
  require((job.query_norm != nullptr) == (job.key_norm != nullptr), "queries and keys are normed, or neither");
  with_type(job.type, [&](auto type) {
    using element = decltype(type);
    if (job.in_type == data_type::f32) return launch_rows<element, float>(stream, job);
    require(job.in_type == job.type, "the input is f32 or of the weights' type");
    launch_rows<element, element>(stream, job);
  });
}

} // namespace godwit::gpu::cuda
