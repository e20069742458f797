// Rotary embedding, the KV cache, paged attention. Included inside an unnamed namespace after gemm.inl.

inline constexpr std::uint32_t head_floats_max = 256 + 64;

/// The rotated head, zero from head_size to head_width (Hugging Face's layout: element i turns with element i + half).
GODWIT_INLINE void rotate(const float* x, const rope_tables& rope, std::uint32_t row, std::uint32_t head_width,
                          float* out) {
  const float* cosine = rope.cosine + std::size_t(row) * rope.half_width;
  const float* sine = rope.sine + std::size_t(row) * rope.half_width;
  // Stores run over the end of a half that is no multiple of 16: what follows is written afterwards.
  for (std::uint32_t i = 0; i < rope.half; i += 16)
    store(out + i, fnma(load(x + rope.half + i), load(sine + i), mul(load(x + i), load(cosine + i))));
  for (std::uint32_t i = 0; i < rope.half; i += 16)
    store(out + rope.half + i, fma(load(x + i), load(sine + i), mul(load(x + rope.half + i), load(cosine + i))));
  for (std::uint32_t i = 2 * rope.half; i < head_width; ++i) out[i] = 0;
}

/// The head scaled by 1 / rms, times the weight. What lies behind it in `x` is another head's.
GODWIT_INLINE void norm_head(const float* x, const float* weight, const kv_write_job& job, float* out) {
  const std::uint32_t width = job.kv.head_width;
  __builtin_memcpy(out, x, job.head_size * sizeof(float));
  __builtin_memset(out + job.head_size, 0, (width - job.head_size) * sizeof(float));
  const vec scale = set1(inverse_rms(out, job.head_size, width, job.epsilon));
  for (std::uint32_t i = 0; i < width; i += 16) store(out + i, mul(mul(load(out + i), scale), load(weight + i)));
}

template <class Values> void write_kv(const kv_write_job& job) {
  using element = typename Values::element;
  using queries = typename asking<Values>::values;
  alignas(64) float head[head_floats_max], normed[head_floats_max];
  const std::uint32_t width = job.kv.head_width;
  std::byte* block = job.kv.base + job.block * job.kv.block_stride + job.head * job.kv.head_stride;
  auto* keys = reinterpret_cast<element*>(block);
  auto* values = reinterpret_cast<element*>(block + job.kv.value_offset);
  if (job.slot == 0) {
    // What an earlier owner left must not meet this request's sums, not even multiplied by zero.
    __builtin_memset(keys, 0, job.kv.head_stride);
    __builtin_memset(values, 0, job.kv.head_stride);
  }
  const auto turn = [&](const float* x, const float* weight, std::uint32_t row) {
    if (weight) norm_head(x, weight, job, normed);
    rotate(weight ? normed : x, job.rope, job.first_row + row, width, head);
  };
  for (std::uint32_t row = 0; row < job.rows; ++row) {
    const float* from = job.qkv + row * job.qkv_stride;
    const std::uint32_t slot = job.slot + row;
    for (std::uint32_t g = 0; g < job.group; ++g) {
      turn(from + job.query_column + g * job.head_size, job.query_norm, row);
      const std::uint32_t query_row = job.first_query_row + row * job.group + g;
      for (std::uint32_t d = 0; d < width; d += 16)
        queries::put(static_cast<typename queries::element*>(job.query) +
                         packed_index(query_row, d, job.query_rows, width),
                     load(head + d));
    }
    turn(from + job.key_column, job.key_norm, row);
    for (std::uint32_t d = 0; d < job.head_size; ++d)
      keys[(d / 32 * 16 + d % 32 / 2) * 32 + Values::offset(slot, d % 2)] = Values::narrow(head[d]);
    const float* value = from + job.value_column;
    for (std::uint32_t d = 0; d < job.head_size; ++d)
      values[(slot / 2 * (width / 16) + d / 16) * 32 + Values::offset(d % 16, slot % 2)] = Values::narrow(value[d]);
  }
}

/// Products of attention with vectors. `probability` is what the softmax leaves for `values`: rounded to what V is
/// stored in, beside fp8 to bf16.
template <class Values> struct vector_products {
  using element = typename Values::element;
  using probability = float;
  static constexpr bool wide_queries = true;
  static GODWIT_INLINE void begin(std::uint32_t) {}
  static GODWIT_INLINE void end() {}
  static GODWIT_INLINE void put(probability* p, vec x) {
    if constexpr (sizeof(element) <= 2) {
      alignas(64) std::uint16_t narrow[16];
      store_bf16(narrow, x);
      store(p, load_bf16(narrow));
    } else {
      store(p, x);
    }
  }
  /// scores[row][token] of a block; `q` a tile of widened activations.
  static void scores(const void* q, std::uint32_t rows, const element* of_keys, std::uint32_t width, float* out) {
    const auto* a = static_cast<const float*>(q);
    const auto* keys = reinterpret_cast<const std::byte*>(of_keys);
    std::uint32_t r = 0;
    for (; r + 4 <= rows; r += 4)
      product_block<Values, 4, 1, false>(a + r * 32, rows * 32, keys, 0, width / 32, out + r * softmax_tokens,
                                         softmax_tokens);
    for (; r < rows; ++r)
      product_block<Values, 1, 1, false>(a + r * 32, rows * 32, keys, 0, width / 32, out + r * softmax_tokens,
                                         softmax_tokens);
  }
  template <int Rows>
  static GODWIT_INLINE void value_rows(const probability* p, const element* const* blocks, std::uint32_t count,
                                       std::uint32_t width, float* sums) {
    for (std::uint32_t d = 0; d < width; d += 16) {
      vec sum[Rows];
#pragma GCC unroll 16
      for (int r = 0; r < Rows; ++r) sum[r] = load(sums + r * width + d);
      for (std::uint32_t b = 0; b < count; ++b) {
        vec even[Rows], odd[Rows];
#pragma GCC unroll 16
        for (int r = 0; r < Rows; ++r) even[r] = odd[r] = zero();
#pragma GCC unroll 2
        for (int pair = 0; pair < 8; ++pair) {
          vec first, second;
          Values::pair(blocks[b] + (pair * (width / 16) + d / 16) * 32, first, second);
#pragma GCC unroll 16
          for (int r = 0; r < Rows; ++r) {
            even[r] = fma(set1(p[b * 256 + r * 16 + pair * 2]), first, even[r]);
            odd[r] = fma(set1(p[b * 256 + r * 16 + pair * 2 + 1]), second, odd[r]);
          }
        }
#pragma GCC unroll 16
        for (int r = 0; r < Rows; ++r) sum[r] = add(sum[r], add(even[r], odd[r]));
      }
#pragma GCC unroll 16
      for (int r = 0; r < Rows; ++r) store(sums + r * width + d, sum[r]);
    }
  }
  /// sums[row][d] += probabilities[block][row][token] * V, block after block.
  static void values(const probability* p, std::uint32_t rows, const element* const* blocks, std::uint32_t count,
                     std::uint32_t width, float* sums) {
    std::uint32_t r = 0;
    for (; r + 4 <= rows; r += 4) value_rows<4>(p + r * 16, blocks, count, width, sums + r * width);
    for (; r < rows; ++r) value_rows<1>(p + r * 16, blocks, count, width, sums + r * width);
  }
};

/// Up to 16 query rows and what is known of them so far.
struct query_rows {
  const void* query = nullptr; ///< packed, as Products want it
  std::uint32_t first = 0;     ///< row of the request's queries
  std::uint32_t count = 0;
  float* sums = nullptr;    ///< [count][head width]: probabilities times V, scaled as the highest score demands
  float* highest = nullptr; ///< score
  float* total = nullptr;   ///< of the probabilities
};

/// Turns scores into probabilities, row by row, for one group of positions.
template <class Products>
GODWIT_INLINE void soften(const attention_job& job, const query_rows& tile, std::uint32_t group, std::uint32_t count,
                          float* scores, typename Products::probability* probabilities) {
  const std::uint32_t width = job.kv.head_width;
  const vec none = set1(-__builtin_inff()), scale = set1(job.scale);
  for (std::uint32_t r = 0; r < tile.count; ++r) {
    const int position = int(job.first_position + (tile.first + r) / job.group);
    const int start = int(group * softmax_tokens);
    const int end = position + 1 - start; // first lane not seen
    const int begin = job.window ? position + 1 - int(job.window) - start : 0;
    float* row = scores + r * softmax_tokens;
    auto* p = probabilities + r * 16;
    if (end <= 0 || begin >= int(softmax_tokens)) {
      for (std::uint32_t b = 0; b < count; ++b) Products::put(p + b * 256, zero());
      continue;
    }
    vec top = none;
    for (std::uint32_t b = 0; b < count; ++b) {
      vec s = mul(load(row + b * 16), scale);
      const int lane = int(b * 16);
      if (end - lane < 16) s = keep_first(s, end - lane, none);
      if (begin - lane > 0) s = keep_first(none, begin - lane, s);
      store(row + b * 16, s);
      top = max(top, s);
    }
    const float before = tile.highest[r], here = reduce_max(top);
    const float now = before > here ? before : here;
    vec sum = zero();
    for (std::uint32_t b = 0; b < count; ++b) {
      const vec e = exponential(sub(load(row + b * 16), set1(now)));
      sum = add(sum, e);
      Products::put(p + b * 256, e);
    }
    const float added = reduce_add(sum);
    if (now == before) {
      tile.total[r] = tile.total[r] + added;
      continue;
    }
    alignas(64) float shrink[16];
    store(shrink, exponential(set1(before - now)));
    tile.total[r] = __builtin_fmaf(tile.total[r], shrink[0], added);
    tile.highest[r] = now;
    float* sums = tile.sums + r * width;
    for (std::uint32_t d = 0; d < width; d += 16) store(sums + d, mul(load(sums + d), set1(shrink[0])));
  }
}

/// Softmax over groups of 128 positions with a running maximum. A masked position has probability zero and adds exactly
/// nothing, and the groups lie at fixed positions, so a row's result does not depend on the rows beside it. All rows go
/// through one group before the next, so that its K and V come from the cache.
template <class Values, class Products, class Activations> void attend(const attention_job& job) {
  using element = typename Values::element;
  const std::uint32_t width = job.kv.head_width;
  float* scores = job.scratch;
  auto* probabilities = reinterpret_cast<typename Products::probability*>(scores + 16 * softmax_tokens);
  float* sums = scores + 2 * 16 * softmax_tokens;
  float* wide = sums + query_rows_max * width;
  float* highest = wide + query_rows_max * width;
  float* total = highest + query_rows_max;
  for (std::uint32_t r = 0; r < job.rows; ++r) {
    // A sink is the first that the softmax knows of; its probability meets no value.
    highest[r] = job.sinks ? job.sinks[(job.first_query_row + r) % job.group] : -__builtin_inff();
    total[r] = highest[r] == -__builtin_inff() ? 0.0F : 1.0F;
    for (std::uint32_t d = 0; d < width; d += 16) store(sums + r * width + d, zero());
  }
  using asked = typename asking<Values>::values::element;
  const auto* query = static_cast<const asked*>(job.query);
  constexpr bool widened = Products::wide_queries && sizeof(asked) == 2;
  if constexpr (widened)
    for (std::uint32_t i = 0; i < job.rows * width; i += 16) store(wide + i, load_bf16(query + i));

  const auto position_of = [&](std::uint32_t row) {
    return job.first_position + (job.first_query_row + row) / job.group;
  };
  const std::uint32_t blocks = position_of(job.rows - 1) / 16 + 1;
  const auto first_seen = [&](std::uint32_t position) {
    return job.window && position + 1 > job.window ? position + 1 - job.window : 0;
  };
  std::uint32_t configured = 0;
  for (std::uint32_t group = first_seen(position_of(0)) / softmax_tokens; group * 8 < blocks; ++group) {
    const std::uint32_t count = blocks - group * 8 < 8 ? blocks - group * 8 : 8;
    const element *keys[8], *values[8];
    for (std::uint32_t b = 0; b < count; ++b) {
      const std::byte* block =
          job.kv.base + job.blocks[group * 8 + b] * job.kv.block_stride + job.head * job.kv.head_stride;
      keys[b] = reinterpret_cast<const element*>(block);
      values[b] = reinterpret_cast<const element*>(block + job.kv.value_offset);
    }
    for (std::uint32_t top = 0; top < job.rows; top += 16) {
      query_rows tile;
      tile.first = job.first_query_row + top;
      tile.count = job.rows - top < 16 ? job.rows - top : 16;
      tile.sums = sums + top * width;
      tile.highest = highest + top;
      tile.total = total + top;
      if constexpr (widened)
        tile.query = wide + top * width;
      else
        tile.query = query + top * width;
      const std::uint32_t last = position_of(top + tile.count - 1);
      if (last / softmax_tokens < group) continue; // all before the group
      if (first_seen(position_of(top)) / softmax_tokens > group) continue;
      const std::uint32_t seen = last / 16 + 1 - group * 8, some = seen < count ? seen : count;
      if (configured != tile.count) Products::begin(configured = tile.count);
      for (std::uint32_t b = 0; b < some; ++b)
        Products::scores(tile.query, tile.count, keys[b], width, scores + b * 16);
      soften<Products>(job, tile, group, some, scores, probabilities);
      Products::values(probabilities, tile.count, values, some, width, tile.sums);
    }
  }
  Products::end();
  for (std::uint32_t r = 0; r < job.rows; ++r) {
    const std::uint32_t query_row = job.first_query_row + r;
    const std::uint32_t token = query_row / job.group, head = job.head * job.group + query_row % job.group;
    const vec shares = set1(1.0F / total[r]);
    for (std::uint32_t d = 0; d < width; d += 16) store(sums + r * width + d, mul(load(sums + r * width + d), shares));
    put_activations<Activations>(job.out, job.out_rows, job.out_width, job.first_out_row + token, head * job.head_size,
                                 sums + r * width, job.head_size);
  }
}
