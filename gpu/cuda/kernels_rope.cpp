#include "cuda/kernels_common.hpp"

// Rotary embedding, and the way of keys and values into their blocks.

namespace godwit::gpu::cuda {

namespace {

constexpr std::uint32_t threads_max = 256;

/// What of a value may lie in the cache: NaN and what is infinite in bf16 may not, since rows that do not see a token
/// of their tile multiply its value by a probability of zero, and get NaN. Finite values stay what they are. A row that
/// is NaN has keys that are, too, and so do those who see it end.
GODWIT_DEVICE float cacheable(float x) {
  constexpr float most = 0x1.FEp127F; // bf16's largest; f16's is seen to where it is rounded
  if (x != x) return 0;
  return x > most ? most : x < -most ? -most : x;
}

/// A block of threads a row; each thread takes pairs (i, i + half) of the row's heads, one after the other.
template <class Type, class In> GODWIT_KERNEL(threads_max, 1) rope_rows(rope_job job) {
  const std::uint32_t row = simt::block_index().x;
  const std::uint32_t size = job.kv.head_size, half = size / 2;
  const std::uint32_t all_heads = job.heads + 2 * job.kv.kv_heads;
  const auto* in = static_cast<const In*>(job.qkv) + std::uint64_t{row} * all_heads * size;
  const auto* bias = static_cast<const Type*>(job.bias);
  const float* cosine = job.cosine + std::uint64_t{job.positions[row]} * half;
  const float* sine = job.sine + std::uint64_t{job.positions[row]} * half;
  auto* queries = static_cast<Type*>(job.queries) + std::uint64_t{row} * job.heads * size;
  const std::uint32_t slot = job.slots[row];
  auto* block = reinterpret_cast<Type*>(static_cast<std::byte*>(job.kv.base) +
                                        std::uint64_t{slot / block_tokens} * job.kv.block_stride);
  const std::uint32_t token = slot % block_tokens;
  for (std::uint32_t i = simt::thread_index(); i < all_heads * half; i += simt::block_threads()) {
    const std::uint32_t head = i / half, pair = i % half, column = head * size + pair;
    float x = simt::within_range<In>(simt::widen(in[column]));
    float y = simt::within_range<In>(simt::widen(in[column + half]));
    if (bias != nullptr) {
      x = simt::add(x, simt::widen(bias[column]));
      y = simt::add(y, simt::widen(bias[column + half]));
    }
    if (head < job.heads + job.kv.kv_heads) {
      const float c = cosine[pair], s = sine[pair];
      const float turned = simt::fma(-y, s, simt::mul(x, c));
      y = simt::fma(x, s, simt::mul(y, c));
      x = turned;
    } else {
      x = cacheable(x);
      y = cacheable(y);
    }
    Type* to = queries + column;
    if (head >= job.heads) {
      if (slot == no_slot) continue;
      // keys of all heads, then values of all heads
      to = block + (std::uint64_t{head - job.heads} * block_tokens + token) * size + pair;
    }
    to[0] = simt::narrow<Type>(x);
    to[half] = simt::narrow<Type>(y);
  }
}

} // namespace

void launch(driver_stream& stream, const rope_job& job) {
  if (job.rows == 0) return;
  require(job.kv.head_size % 16 == 0 && job.kv.head_size != 0 && job.kv.head_size <= 128,
          "a head has a multiple of 16 elements, at most 128");
  require(job.kv.block_stride % 16 == 0 && job.kv.block_stride >= block_bytes(job.kv.kv_heads, job.kv.head_size),
          "blocks lie in steps of 16 bytes and do not overlap");
  const std::uint32_t pairs = (job.heads + 2 * job.kv.kv_heads) * job.kv.head_size / 2;
  const std::uint32_t threads = pairs >= threads_max ? threads_max : pieces(pairs, simt::warp_size) * simt::warp_size;
  with_type(job.type, [&](auto type) {
    using element = decltype(type);
    if (job.in_type == data_type::f32)
      return simt::launch(stream, "rope", &rope_rows<element, float>, {job.rows, 1, 1}, threads, 0, job);
    require(job.in_type == job.type, "the input is f32 or of the weights' type");
    simt::launch(stream, "rope", &rope_rows<element, element>, {job.rows, 1, 1}, threads, 0, job);
  });
}

} // namespace godwit::gpu::cuda
