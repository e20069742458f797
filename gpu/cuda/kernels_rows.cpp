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
  if (job.hidden % 8 != 0) {
    for (std::uint32_t i = simt::thread_index(); i < job.hidden; i += row_threads)
      to[i] = known ? simt::widen(from[i]) : 0.0F;
    return;
  }
  for (std::uint32_t i = simt::thread_index() * 8; i < job.hidden; i += row_threads * 8) {
    float v[8]{};
    if (known) simt::load8(from + i, v);
    simt::store8(to + i, v);
  }
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

/// Where a row's numbers come from and go to.
template <class Type> struct norm_row {
  float* x;
  const float* added;
  std::uint64_t part; ///< elements from what one device brings to what the next one does
  const Type *bias, *weight;
  Type* out;

  explicit GODWIT_DEVICE norm_row(const norm_job& job) {
    const std::uint32_t row = simt::block_index().x;
    const std::uint64_t begin = std::uint64_t{row} * job.hidden;
    x = job.x + (job.take != nullptr ? std::uint64_t{job.take[row]} * job.hidden : begin);
    added = job.add != nullptr ? job.add + begin : nullptr;
    part = std::uint64_t{job.rows} * job.hidden;
    bias = static_cast<const Type*>(job.bias);
    weight = static_cast<const Type*>(job.weight);
    out = static_cast<Type*>(job.out) + begin;
  }
  [[nodiscard]] GODWIT_DEVICE bool adds() const { return added != nullptr || bias != nullptr; }
};

GODWIT_DEVICE float norm_scale(const norm_job& job, float squares) {
  const float sum = sum_of_block(squares, reinterpret_cast<float*>(simt::shared()));
  return simt::div(1.0F, simt::root(simt::add(simt::div(sum, float(job.hidden)), job.epsilon)));
}

/// A row is read once, by loads that all are under way before the first one is waited for, and stays in registers: a
/// thread has `Groups` groups of eight elements. Hidden sizes are multiples of eight.
template <class Type, int Groups> GODWIT_KERNEL(row_threads, 1) norm_rows(norm_job job) {
  const norm_row<Type> row(job);
  const auto place = [](int group) {
    return (static_cast<std::uint32_t>(group) * row_threads + simt::thread_index()) * 8;
  };
  float v[Groups][8];
  simt::words4 weight[Groups], bias[Groups]; // as they lie in memory
  GODWIT_UNROLL
  for (int g = 0; g < Groups; ++g)
    if (place(g) < job.hidden) {
      simt::load8(row.x + place(g), v[g]);
      weight[g] = simt::load16(row.weight + place(g));
      if (row.bias != nullptr) bias[g] = simt::load16(row.bias + place(g));
    }
  if (row.added != nullptr) {
    float more[Groups][8];
    GODWIT_UNROLL
    for (int g = 0; g < Groups; ++g)
      if (place(g) < job.hidden) simt::load8(row.added + place(g), more[g]);
    for (std::uint32_t p = 1; p < job.add_parts; ++p) {
      GODWIT_UNROLL
      for (int g = 0; g < Groups; ++g)
        if (place(g) < job.hidden) {
          float next[8];
          simt::load8(row.added + p * row.part + place(g), next);
          for (int k = 0; k < 8; ++k) more[g][k] = simt::add(more[g][k], next[k]);
        }
    }
    GODWIT_UNROLL
    for (int g = 0; g < Groups; ++g)
      if (place(g) < job.hidden)
        for (int k = 0; k < 8; ++k) v[g][k] = simt::add(v[g][k], more[g][k]);
  }
  float squares = 0;
  GODWIT_UNROLL
  for (int g = 0; g < Groups; ++g) {
    if (place(g) >= job.hidden) continue;
    if (row.bias != nullptr) {
      float more[8];
      simt::widen8<Type>(bias[g], more);
      for (int k = 0; k < 8; ++k) v[g][k] = simt::add(v[g][k], more[k]);
    }
    if (row.adds()) simt::store8(row.x + place(g), v[g]);
    for (int k = 0; k < 8; ++k) squares = simt::fma(v[g][k], v[g][k], squares);
  }
  const float scale = norm_scale(job, squares);
  GODWIT_UNROLL
  for (int g = 0; g < Groups; ++g) {
    if (place(g) >= job.hidden) continue;
    float factor[8];
    simt::widen8<Type>(weight[g], factor);
    for (int k = 0; k < 8; ++k) v[g][k] = simt::mul(simt::mul(v[g][k], scale), factor[k]);
    simt::store16(row.out + place(g), simt::narrow8<Type>(v[g]));
  }
}

/// Any hidden size, an element at a time.
template <class Type> GODWIT_KERNEL(row_threads, 1) norm_any_rows(norm_job job) {
  const norm_row<Type> row(job);
  float squares = 0;
  for (std::uint32_t i = simt::thread_index(); i < job.hidden; i += row_threads) {
    float v = row.x[i];
    if (row.added != nullptr) {
      float more = row.added[i];
      for (std::uint32_t p = 1; p < job.add_parts; ++p) more = simt::add(more, row.added[p * row.part + i]);
      v = simt::add(v, more);
    }
    if (row.bias != nullptr) v = simt::add(v, simt::widen(row.bias[i]));
    if (row.adds()) row.x[i] = v;
    squares = simt::fma(v, v, squares);
  }
  const float scale = norm_scale(job, squares);
  // Each thread reads what it wrote itself.
  for (std::uint32_t i = simt::thread_index(); i < job.hidden; i += row_threads)
    row.out[i] = simt::narrow<Type>(simt::mul(simt::mul(row.x[i], scale), simt::widen(row.weight[i])));
}

template <class Type> auto norm_kernel(std::uint32_t hidden) {
  constexpr std::uint32_t group = row_threads * 8;
  if (hidden % 8 != 0 || hidden > 8 * group) return &norm_any_rows<Type>;
  if (hidden > 4 * group) return &norm_rows<Type, 8>;
  if (hidden > 2 * group) return &norm_rows<Type, 4>;
  return hidden > group ? &norm_rows<Type, 2> : &norm_rows<Type, 1>;
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
    simt::launch(stream, "norm", norm_kernel<decltype(type)>(job.hidden), {job.rows, 1, 1}, row_threads,
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
