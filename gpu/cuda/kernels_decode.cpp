#include "cuda/kernels_attention_split.hpp"
#include "cuda/kernels_attention_tile.hpp"

#include <algorithm>

// Attention of few query rows over many positions. Each of a block's four warps takes every fourth KV block of 16
// tokens (the block's index modulo four says whose it is), with its own ring of background copies, so that no warp
// waits for another until a part of the positions is done.

namespace godwit::gpu::cuda {

namespace attention {

inline constexpr std::uint32_t decode_warps = 4;
inline constexpr std::uint32_t decode_threads = decode_warps * simt::warp_size;
/// KV blocks under way for a warp, the one it works on included. Three, or two where the device's shared memory is too
/// small for three: how far ahead blocks are fetched changes nothing in what is computed.
inline constexpr int stages_wanted = 3, stages_least = 2;

template <class Type, int Size> inline constexpr std::size_t stage_bytes = 2 * block_tokens* key_bytes<Type, Size>;
/// The rings; afterwards, in the same place, what the warps found.
template <class Type, int Size, int Stages>
inline constexpr std::size_t ring_bytes = stage_bytes<Type, Size>* decode_warps* Stages;
/// Floats from one row to the next of what the warps found: no two lanes meet in a bank.
template <int Size> inline constexpr std::size_t found_stride = Size + 8;
template <int Size>
inline constexpr std::size_t found_bytes = (found_stride<Size> + 2) * decode_warps* query_rows * sizeof(float);

/// One KV block, K and V, into a stage. Tokens behind `last` become zeros: there lies what an earlier owner left.
template <class Type, int Size>
GODWIT_DEVICE void fetch_block(const attention_job& job, std::uint32_t kv_head, std::uint32_t block,
                               std::uint32_t position, std::uint32_t last, Type* stage) {
  const auto* from = reinterpret_cast<const Type*>(static_cast<const std::byte*>(job.kv.base) +
                                                   std::uint64_t{block} * job.kv.block_stride) +
                     std::uint64_t{kv_head} * block_tokens * Size;
  const std::uint64_t to_values = std::uint64_t{job.kv.kv_heads} * block_tokens * Size;
  constexpr std::uint32_t in_row = Size / 8, chunks = block_tokens * in_row;
  GODWIT_UNROLL
  for (std::uint32_t i = 0; i < chunks / simt::warp_size; ++i) {
    const std::uint32_t chunk = i * simt::warp_size + simt::lane();
    const std::uint32_t token = chunk / in_row, column = chunk % in_row * 8;
    const bool there = position + token <= last;
    simt::copy16(stage + token * key_stride<Size> + column, from + chunk * 8, there);
    simt::copy16(stage + (block_tokens + token) * key_stride<Size> + column, from + to_values + chunk * 8, there);
  }
}

/// This warp's KV blocks of one part of the positions.
template <class Type, int Size, int Stages>
GODWIT_DEVICE void absorb_part(const attention_job& job, const query_tile& tile, const sight& seen,
                               const query_fragments<Size>& queries, std::uint32_t begin, std::uint32_t end, Type* ring,
                               row_state<Size>& state) {
  const std::uint32_t last = tile.slice.first_position + tile.slice.rows - 1, last_seen = tile.last_position();
  const std::uint32_t after = tile.first_seen(job.window) / block_tokens;
  std::uint32_t block = begin / block_tokens;
  if (block < after) block = after;
  block += (simt::warp() + decode_warps - block % decode_warps) % decode_warps;
  const std::uint32_t stop = (end < last_seen + 1 ? end + block_tokens - 1 : last_seen + block_tokens) / block_tokens;
  const std::uint32_t* table = job.block_table + tile.slice.first_block;
  const float scale = simt::mul(job.scale, 1.44269504088896341F);
  constexpr std::uint32_t stage_elements = stage_bytes<Type, Size> / sizeof(Type);

  std::uint32_t ahead = block; // what is fetched next
  std::uint32_t id = ahead < stop ? table[ahead] : 0;
  const auto fetch = [&](int stage) {
    if (ahead < stop) {
      const std::uint32_t now = id;
      if (ahead + decode_warps < stop) id = table[ahead + decode_warps];
      fetch_block<Type, Size>(job, tile.kv_head, now, ahead * block_tokens, last, ring + stage * stage_elements);
    }
    ahead += decode_warps;
    simt::commit_copies();
  };
  GODWIT_UNROLL
  for (int stage = 0; stage < Stages - 1; ++stage) fetch(stage);
  int stage = 0;
  for (; block < stop; block += decode_warps) {
    fetch(stage == 0 ? Stages - 1 : stage - 1);
    simt::wait_copies<Stages - 1>();
    simt::sync_warp();
    const Type* keys = ring + stage * stage_elements;
    absorb<Type, Size, block_tokens>(state, queries, keys, keys + block_tokens * key_stride<Size>,
                                     static_cast<int>(block * block_tokens), seen, scale);
    simt::sync_warp();
    stage = stage == Stages - 1 ? 0 : stage + 1;
  }
  simt::wait_copies<0>();
}

/// Eight threads a row; thread k of a row has its elements k, k + 8, ...
inline constexpr std::uint32_t threads_per_row = decode_threads / query_rows;

/// Blocks of threads that a multiprocessor has registers for: as many as have shared memory there on an H100, which is
/// what decode_places counts with.
template <int Size> inline constexpr int held_at_once = Size <= 64 ? 4 : Size <= 80 ? 3 : 2;

template <class Type, int Size, int Stages>
GODWIT_KERNEL(decode_threads, held_at_once<Size>)
decode(attention_job job, part_places places) {
  query_tile tile;
  const auto index = simt::block_index();
  tile.slice = job.slices[index.z];
  tile.group = job.heads / job.kv.kv_heads;
  tile.kv_head = index.x % job.kv.kv_heads;
  tile.first = (simt::grid_size().x - 1 - index.x) / job.kv.kv_heads * query_rows; // those that see most go first
  const std::uint32_t rows = tile.slice.rows * tile.group;
  if (tile.first >= rows) return;
  tile.count = rows - tile.first < query_rows ? rows - tile.first : query_rows;
  const part_plan plan = plan_parts(job.split, tile.first_seen(job.window), tile.last_position());

  auto* ring =
      reinterpret_cast<Type*>(simt::shared()) + simt::warp() * (Stages * stage_bytes<Type, Size> / sizeof(Type));
  auto* found = reinterpret_cast<float*>(simt::shared());               // [warp][row][found_stride]
  float* ends = found + decode_warps * query_rows * found_stride<Size>; // [warp][row][2]

  query_fragments<Size> queries;
  load_queries<Type, Size>(job, tile, 0, queries);
  const sight seen = sight_of(tile, 0, job.window);
  const std::uint32_t row = simt::thread_index() / threads_per_row, piece = simt::thread_index() % threads_per_row;
  share<Size / threads_per_row> whole; // of the parts so far, where one block does them all
  for (std::uint32_t part = plan.first + (index.y + job.split.parts - plan.first % job.split.parts) % job.split.parts;
       part < plan.last; part += job.split.parts) {
    row_state<Size> state;
    state.clear();
    absorb_part<Type, Size, Stages>(job, tile, seen, queries, plan.begin(part), plan.end(part), ring, state);
    complete(state);
    simt::sync_block(); // the rings are read
    {
      const std::uint32_t g = simt::lane() / 4, t = simt::lane() % 4;
      GODWIT_UNROLL
      for (int r = 0; r < 2; ++r) {
        const std::uint32_t mine = simt::warp() * query_rows + g + r * 8;
        GODWIT_UNROLL
        for (int d = 0; d < Size / 8; ++d) {
          found[mine * found_stride<Size> + d * 8 + t * 2] = state.sums[d][2 * r];
          found[mine * found_stride<Size> + d * 8 + t * 2 + 1] = state.sums[d][2 * r + 1];
        }
        if (t == 0) {
          ends[mine * 2] = state.top[r];
          ends[mine * 2 + 1] = state.total[r];
        }
      }
    }
    simt::sync_block();
    share<Size / threads_per_row> one;
    for (std::uint32_t w = 0; w < decode_warps; ++w) {
      const std::uint32_t of = w * query_rows + row;
      float sums[Size / threads_per_row];
      GODWIT_UNROLL
      for (std::uint32_t i = 0; i < Size / threads_per_row; ++i)
        sums[i] = found[of * found_stride<Size> + i * threads_per_row + piece];
      one.add(ends[of * 2], ends[of * 2 + 1], sums);
    }
    simt::sync_block(); // the rings may be filled again
    if (job.split.parts == 1) {
      whole.add(one.top, one.total, one.sums);
    } else if (row < tile.count) {
      const std::uint64_t at = places.at(index.z, job.heads, tile.head(row), part);
      GODWIT_UNROLL
      for (std::uint32_t i = 0; i < Size / threads_per_row; ++i)
        places.sums[at * Size + i * threads_per_row + piece] = one.sums[i];
      if (piece == 0) {
        places.ends[at * 2] = one.top;
        places.ends[at * 2 + 1] = one.total;
      }
    }
  }
  if (job.split.parts != 1 || row >= tile.count) return;
  auto* out = static_cast<Type*>(job.out) + tile.place(row, job.heads) * Size;
  const float scale = simt::div(1.0F, whole.total);
  GODWIT_UNROLL
  for (std::uint32_t i = 0; i < Size / threads_per_row; ++i)
    out[i * threads_per_row + piece] = simt::narrow<Type>(simt::mul(whole.sums[i], scale));
}

/// Puts the parts of a row together, positions rising. A thread an element.
template <class Type, int Size> GODWIT_KERNEL(128, 1) combine(attention_job job, part_places places) {
  const auto index = simt::block_index();
  const attention_slice slice = job.slices[index.y];
  if (slice.rows == 0) return;
  const std::uint32_t i = simt::thread_index(), head = index.x;
  query_tile tile;
  tile.slice = slice;
  tile.count = 1;
  const part_plan plan = plan_parts(job.split, tile.first_seen(job.window), tile.last_position());
  if (i >= Size) return;
  share<1> whole;
  constexpr std::uint32_t at_once = 16; // loads under way; the order stays
  for (std::uint32_t part = plan.first; part < plan.last; part += at_once) {
    float sums[at_once][1], tops[at_once], totals[at_once];
    GODWIT_UNROLL
    for (std::uint32_t u = 0; u < at_once; ++u) {
      if (part + u >= plan.last) continue;
      const std::uint64_t at = places.at(index.y, job.heads, head, part + u);
      sums[u][0] = places.sums[at * Size + i];
      tops[u] = places.ends[at * 2];
      totals[u] = places.ends[at * 2 + 1];
    }
    GODWIT_UNROLL
    for (std::uint32_t u = 0; u < at_once; ++u)
      if (part + u < plan.last) whole.add(tops[u], totals[u], sums[u]);
  }
  static_cast<Type*>(job.out)[(std::uint64_t{slice.first_row} * job.heads + head) * Size + i] =
      simt::narrow<Type>(simt::mul(whole.sums[0], simt::div(1.0F, whole.total)));
}

namespace {

/// Every device that is served has so much for a block: 99 KiB, of compute capability 8.6, 8.9 and 12.0.
constexpr std::size_t least_shared_bytes = 99U << 10U;

template <class Type, int Size, int Stages>
constexpr std::size_t launch_shared_bytes = std::max(ring_bytes<Type, Size, Stages>, found_bytes<Size>);

std::uint32_t parts_stride(const attention_job& job) {
  return job.split.tokens != 0 ? pieces(job.positions_max, job.split.tokens) : job.split.parts;
}

template <class Type, int Size, int Stages> void launch_staged(driver_stream& stream, const attention_job& job) {
  const std::uint32_t tiles = pieces(std::uint64_t{job.slice_rows_max} * (job.heads / job.kv.kv_heads), query_rows);
  require(job.split.parts < 65536 && job.slices_count < 65536, "too many parts or slices at once");
  part_places places{job.scratch, nullptr, parts_stride(job)};
  if (job.split.parts > 1)
    places.ends = job.scratch + std::uint64_t{job.slices_count} * job.heads * places.stride * Size;
  constexpr std::size_t bytes = launch_shared_bytes<Type, Size, Stages>;
  simt::launch(stream, "decode", &decode<Type, Size, Stages>,
               {tiles * job.kv.kv_heads, job.split.parts, job.slices_count}, decode_threads, bytes, job, places);
  if (job.split.parts > 1)
    simt::launch(stream, "combine", &combine<Type, Size>, {job.heads, job.slices_count, 1},
                 pieces(Size, simt::warp_size) * simt::warp_size, 0, job, places);
}

/// Calls `use` with the number of stages for which a device has the shared memory, as a type.
template <class Type, int Size, class Use> auto with_stages(std::uint32_t shared_bytes_max, const Use& use) {
  constexpr std::size_t wanted = launch_shared_bytes<Type, Size, stages_wanted>;
  if constexpr (wanted > least_shared_bytes)
    if (wanted > shared_bytes_max) return use(std::integral_constant<int, stages_least>{});
  return use(std::integral_constant<int, stages_wanted>{});
}

template <class Type, int Size> void launch_sized(driver_stream& stream, const attention_job& job) {
  with_stages<Type, Size>(stream.shared_bytes_max(),
                          [&](auto stages) { launch_staged<Type, Size, decltype(stages)::value>(stream, job); });
}

} // namespace

} // namespace attention

std::uint64_t decode_shared_bytes(std::uint32_t head_size, std::uint32_t shared_bytes_max) {
  std::uint64_t bytes = 0;
  attention::with_size(head_size, [&](auto size) {
    constexpr int elements = decltype(size)::value;
    attention::with_stages<simt::bf16, elements>(shared_bytes_max, [&](auto stages) {
      bytes = attention::launch_shared_bytes<simt::bf16, elements, decltype(stages)::value>;
    });
  });
  return bytes;
}

std::uint64_t attention_scratch_bytes(const attention_job& job) noexcept {
  if (job.split.parts <= 1) return 0;
  return std::uint64_t{job.slices_count} * job.heads * attention::parts_stride(job) * (job.kv.head_size + 2) *
         sizeof(float);
}

void launch_decode(driver_stream& stream, const attention_job& job) {
  if (job.slices_count == 0) return;
  require(job.kv.kv_heads != 0 && job.heads % job.kv.kv_heads == 0, "kv heads divide the heads");
  require(job.split.parts != 0 && job.split.tokens % attention::part_unit == 0,
          "parts have a multiple of 64 positions");
  require(job.split.parts == 1 || (job.slice_rows_max == 1 && job.scratch != nullptr),
          "only slices of one row are divided, and that needs scratch");
  with_type(job.type, [&](auto type) {
    attention::with_size(job.kv.head_size, [&](auto size) {
      attention::launch_sized<decltype(type), decltype(size)::value>(stream, job);
    });
  });
}

} // namespace godwit::gpu::cuda
