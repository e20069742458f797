#include "cuda/kernels_common.hpp"

// Embedding, norm, SwiGLU and the joining of columns: a block of threads a row, or more, whatever the batch, so a row's
// bits are its own.

namespace godwit::gpu::cuda {

namespace {

constexpr std::uint32_t row_threads = 256;

template <class Type> GODWIT_KERNEL(row_threads, 1) embed_rows(embedding_job job) {
  const std::uint32_t row = simt::block_index().x;
  const std::uint32_t token = job.tokens[row];
  const Type* from = static_cast<const Type*>(job.table) + std::uint64_t{token} * job.hidden;
  float* to = job.x + std::uint64_t{row} * job.hidden;
  const bool known = token < job.vocabulary;
  for (std::uint32_t i = simt::thread_index(); i < job.hidden; i += row_threads)
    to[i] = known ? simt::widen(from[i]) : 0.0F;
}

/// Sum over the block's threads, in one order; every thread gets it. `parts`: [warps] in shared memory.
GODWIT_DEVICE float sum_of_block(float x, float* parts) {
  x = simt::sum_of_warp(x);
  if (simt::lane() == 0) parts[simt::warp()] = x;
  simt::sync_block();
  float sum = 0;
  for (std::uint32_t i = 0; i < row_threads / simt::warp_size; ++i) sum = simt::add(sum, parts[i]);
  return sum;
}

template <class Type> GODWIT_KERNEL(row_threads, 1) norm_rows(norm_job job) {
  const std::uint32_t row = simt::block_index().x;
  const std::uint32_t from = job.take != nullptr ? job.take[row] : row;
  float* x = job.x + std::uint64_t{from} * job.hidden;
  const float* added = job.add != nullptr ? job.add + std::uint64_t{row} * job.hidden : nullptr;
  const std::uint64_t part = std::uint64_t{job.rows} * job.hidden;
  const auto* bias = static_cast<const Type*>(job.bias);
  const auto* weight = static_cast<const Type*>(job.weight);
  auto* out = static_cast<Type*>(job.out) + std::uint64_t{row} * job.hidden;
  const bool adds = added != nullptr || bias != nullptr;
  float squares = 0;
  // Four at a time; a hidden size that is no multiple of four goes one by one.
  const bool wide = job.hidden % 8 == 0;
  if (wide) {
    for (std::uint32_t i = simt::thread_index() * 4; i < job.hidden; i += row_threads * 4) {
      float v[4];
      simt::load4(x + i, v);
      if (added != nullptr) {
        float more[4];
        simt::load4(added + i, more);
        for (std::uint32_t p = 1; p < job.add_parts; ++p) {
          float next[4];
          simt::load4(added + p * part + i, next);
          for (int k = 0; k < 4; ++k) more[k] = simt::add(more[k], next[k]);
        }
        for (int k = 0; k < 4; ++k) v[k] = simt::add(v[k], more[k]);
      }
      if (bias != nullptr)
        for (int k = 0; k < 4; ++k) v[k] = simt::add(v[k], simt::widen(bias[i + k]));
      if (adds) simt::store4(x + i, v);
      for (int k = 0; k < 4; ++k) squares = simt::fma(v[k], v[k], squares);
    }
  } else {
    for (std::uint32_t i = simt::thread_index(); i < job.hidden; i += row_threads) {
      float v = x[i];
      if (added != nullptr) {
        float more = added[i];
        for (std::uint32_t p = 1; p < job.add_parts; ++p) more = simt::add(more, added[p * part + i]);
        v = simt::add(v, more);
      }
      if (bias != nullptr) v = simt::add(v, simt::widen(bias[i]));
      if (adds) x[i] = v;
      squares = simt::fma(v, v, squares);
    }
  }
  const float sum = sum_of_block(squares, reinterpret_cast<float*>(simt::shared()));
  const float scale = simt::div(1.0F, simt::root(simt::add(simt::div(sum, float(job.hidden)), job.epsilon)));
  // Each thread reads what it wrote itself.
  if (wide) {
    for (std::uint32_t i = simt::thread_index() * 4; i < job.hidden; i += row_threads * 4) {
      float v[4];
      simt::load4(x + i, v);
      std::uint32_t two[2];
      for (int k = 0; k < 4; ++k) v[k] = simt::mul(simt::mul(v[k], scale), simt::widen(weight[i + k]));
      two[0] = simt::pack<Type>(v[0], v[1]);
      two[1] = simt::pack<Type>(v[2], v[3]);
      auto* words = reinterpret_cast<std::uint32_t*>(out + i);
      words[0] = two[0];
      words[1] = two[1];
    }
  } else {
    for (std::uint32_t i = simt::thread_index(); i < job.hidden; i += row_threads)
      out[i] = simt::narrow<Type>(simt::mul(simt::mul(x[i], scale), simt::widen(weight[i])));
  }
}

GODWIT_DEVICE float swish(float gate, float up) {
  return simt::mul(simt::div(gate, simt::add(1.0F, simt::exponential(-gate))), up);
}

template <class Type, class In> GODWIT_KERNEL(row_threads, 1) swiglu_rows(swiglu_job job) {
  const std::uint32_t row = simt::block_index().x;
  const auto* gates = static_cast<const In*>(job.in) + std::uint64_t{row} * 2 * job.intermediate;
  const auto* ups = gates + job.intermediate;
  const auto* bias = static_cast<const Type*>(job.bias);
  auto* out = static_cast<Type*>(job.out) + std::uint64_t{row} * job.intermediate;
  const std::uint32_t first = (simt::block_index().y * row_threads + simt::thread_index()) * 8;
  if (first >= job.intermediate) return;
  if (job.intermediate % 8 == 0) {
    float gate[8], up[8], v[8];
    simt::load8(gates + first, gate);
    simt::load8(ups + first, up);
    GODWIT_UNROLL
    for (int k = 0; k < 8; ++k) {
      gate[k] = simt::within_range<In>(gate[k]);
      up[k] = simt::within_range<In>(up[k]);
    }
    if (bias != nullptr)
      for (int k = 0; k < 8; ++k) {
        gate[k] = simt::add(gate[k], simt::widen(bias[first + k]));
        up[k] = simt::add(up[k], simt::widen(bias[job.intermediate + first + k]));
      }
    GODWIT_UNROLL
    for (int k = 0; k < 8; ++k) v[k] = swish(gate[k], up[k]);
    simt::store16(out + first, simt::narrow8<Type>(v));
    return;
  }
  const std::uint32_t last = first + 8 < job.intermediate ? first + 8 : job.intermediate;
  for (std::uint32_t i = first; i < last; ++i) {
    float gate = simt::within_range<In>(simt::widen(gates[i])), up = simt::within_range<In>(simt::widen(ups[i]));
    if (bias != nullptr) {
      gate = simt::add(gate, simt::widen(bias[i]));
      up = simt::add(up, simt::widen(bias[job.intermediate + i]));
    }
    out[i] = simt::narrow<Type>(swish(gate, up));
  }
}

GODWIT_KERNEL(row_threads, 1) join_columns(join_job job) {
  const std::uint32_t row = simt::block_index().x, part = simt::block_index().z;
  const std::uint32_t first = job.first[part], count = job.first[part + 1] - first;
  const std::uint32_t end = part + 1 == job.parts_count ? job.stride - first : count;
  const float* from = job.parts + (std::uint64_t{part} * job.rows + row) * job.width;
  float* to = job.out + std::uint64_t{row} * job.stride + first;
  for (std::uint32_t i = simt::block_index().y * row_threads + simt::thread_index(); i < end;
       i += simt::grid_size().y * row_threads)
    to[i] = i < count ? from[i] : 0.0F;
}

} // namespace

void launch(driver_stream& stream, const embedding_job& job) {
  if (job.rows == 0) return;
  with_type(job.type, [&](auto type) {
    simt::launch(stream, "embedding", &embed_rows<decltype(type)>, {job.rows, 1, 1}, row_threads, 0, job);
  });
}

void launch(driver_stream& stream, const norm_job& job) {
  if (job.rows == 0) return;
  require(job.take == nullptr || (job.add == nullptr && job.bias == nullptr), "rows are taken or added to, not both");
  require(job.add_parts != 0, "what is added has a part");
  with_type(job.type, [&](auto type) {
    simt::launch(stream, "norm", &norm_rows<decltype(type)>, {job.rows, 1, 1}, row_threads,
                 row_threads / simt::warp_size * sizeof(float), job);
  });
}

void launch(driver_stream& stream, const swiglu_job& job) {
  if (job.rows == 0) return;
  const simt::size3 grid{job.rows, pieces(job.intermediate, row_threads * 8), 1}; // only x may pass 65,535
  with_type(job.type, [&](auto type) {
    using element = decltype(type);
    if (job.in_type == data_type::f32)
      return simt::launch(stream, "swiglu", &swiglu_rows<element, float>, grid, row_threads, 0, job);
    require(job.in_type == job.type, "the input is f32 or of the weights' type");
    simt::launch(stream, "swiglu", &swiglu_rows<element, element>, grid, row_threads, 0, job);
  });
}

void launch(driver_stream& stream, const join_job& job) {
  if (job.rows == 0) return;
  require(job.parts_count != 0 && job.parts_count <= join_job::parts_max, "1 to 64 parts are joined");
  for (std::uint32_t part = 0; part < job.parts_count; ++part)
    require(job.first[part] <= job.first[part + 1] && job.first[part + 1] - job.first[part] <= job.width,
            "parts follow one another and are no wider than their rows");
  require(job.first[job.parts_count] <= job.stride, "all columns have their place");
  simt::launch(stream, "join", &join_columns, {job.rows, pieces(job.width, row_threads * 4), job.parts_count},
               row_threads, 0, job);
}

} // namespace godwit::gpu::cuda
