#include "cuda/kernels_attention_split.hpp"
#include "cuda/kernels_attention_tile.hpp"

// Attention of a prompt's chunk: a block of threads takes 64 query rows of one kv head, 16 a warp, and goes over the
// positions in tiles of 64 keys, which all four warps read; the next tile is copied while one is worked on. Tiles lie
// at multiples of 64.

namespace godwit::gpu::cuda {

namespace attention {

inline constexpr std::uint32_t prefill_warps = 4;
inline constexpr std::uint32_t prefill_threads = prefill_warps * simt::warp_size;
inline constexpr std::uint32_t prefill_rows = prefill_warps * query_rows;
inline constexpr int prefill_keys = 64;
template <class Type, int Size>
inline constexpr std::size_t prefill_stage_bytes = 2 * prefill_keys* key_bytes<Type, Size>;

/// Keys and values at positions first .. first + 63 into a stage; zeros behind `last`.
template <class Type, int Size>
GODWIT_DEVICE void fetch_keys(const attention_job& job, const query_tile& tile, std::uint32_t first, std::uint32_t last,
                              Type* stage) {
  const std::uint32_t* table = job.block_table + tile.slice.first_block;
  constexpr std::uint32_t in_row = Size / 8, chunks = prefill_keys * in_row;
  const std::uint64_t to_values = std::uint64_t{job.kv.kv_heads} * block_tokens * Size;
  GODWIT_UNROLL
  for (std::uint32_t i = 0; i < chunks / prefill_threads; ++i) {
    const std::uint32_t chunk = i * prefill_threads + simt::thread_index();
    const std::uint32_t token = chunk / in_row, column = chunk % in_row * 8, position = first + token;
    const bool there = position <= last;
    const std::uint32_t block = there ? table[position / block_tokens] : 0;
    const auto* from = reinterpret_cast<const Type*>(static_cast<const std::byte*>(job.kv.base) +
                                                     std::uint64_t{block} * job.kv.block_stride) +
                       (std::uint64_t{tile.kv_head} * block_tokens + position % block_tokens) * Size + column;
    simt::copy16(stage + token * key_stride<Size> + column, from, there);
    simt::copy16(stage + (prefill_keys + token) * key_stride<Size> + column, from + to_values, there);
  }
}

template <class Type, int Size> GODWIT_KERNEL(prefill_threads, 2) prefill(attention_job job) {
  const auto index = simt::block_index();
  query_tile tile;
  tile.slice = job.slices[index.z];
  tile.group = job.heads / job.kv.kv_heads;
  tile.kv_head = index.y;
  tile.first = (simt::grid_size().x - 1 - index.x) * prefill_rows; // those that see most go first
  const std::uint32_t rows = tile.slice.rows * tile.group;
  if (tile.first >= rows) return;
  tile.count = rows - tile.first < prefill_rows ? rows - tile.first : prefill_rows;

  const std::uint32_t row = simt::warp() * query_rows;
  query_fragments<Size> queries;
  load_queries<Type, Size>(job, tile, row, queries);
  const sight seen = sight_of(tile, row, job.window);
  const bool works = row < tile.count;
  const std::uint32_t end_row = row + query_rows < tile.count ? row + query_rows : tile.count;
  const std::uint32_t from = works ? tile.position(row) : 0, to = works ? tile.position(end_row - 1) : 0;
  const float scale = simt::mul(job.scale, 1.44269504088896341F);

  auto* stages = reinterpret_cast<Type*>(simt::shared());
  constexpr std::uint32_t stage_elements = prefill_stage_bytes<Type, Size> / sizeof(Type);
  const std::uint32_t last = tile.slice.first_position + tile.slice.rows - 1, last_seen = tile.last_position();
  std::uint32_t key = tile.first_seen(job.window) / prefill_keys * prefill_keys;
  row_state<Size> state;
  state.clear();
  fetch_keys<Type, Size>(job, tile, key, last, stages);
  simt::commit_copies();
  for (std::uint32_t stage = 0; key <= last_seen; key += prefill_keys, stage ^= 1U) {
    if (key + prefill_keys <= last_seen)
      fetch_keys<Type, Size>(job, tile, key + prefill_keys, last, stages + (stage ^ 1U) * stage_elements);
    simt::commit_copies();
    simt::wait_copies<1>();
    simt::sync_block();
    const bool before = job.window != 0 && key + prefill_keys + job.window <= from + 1; // nobody sees so far back
    if (works && key <= to && !before) {
      const Type* keys = stages + stage * stage_elements;
      absorb<Type, Size, prefill_keys>(state, queries, keys, keys + prefill_keys * key_stride<Size>,
                                       static_cast<int>(key), seen, scale);
    }
    simt::sync_block();
  }
  if (!works) return;
  complete(state);
  const std::uint32_t g = simt::lane() / 4, t = simt::lane() % 4;
  GODWIT_UNROLL
  for (int r = 0; r < 2; ++r) {
    const std::uint32_t mine = row + g + r * 8;
    if (mine >= tile.count) continue;
    auto* out = reinterpret_cast<std::uint32_t*>(static_cast<Type*>(job.out) + tile.place(mine, job.heads) * Size);
    const float share = simt::div(1.0F, state.total[r]);
    GODWIT_UNROLL
    for (int d = 0; d < Size / 8; ++d)
      out[d * 4 + t] =
          simt::pack<Type>(simt::mul(state.sums[d][2 * r], share), simt::mul(state.sums[d][2 * r + 1], share));
  }
}

} // namespace attention

void launch_prefill(driver_stream& stream, const attention_job& job) {
  if (job.slices_count == 0) return;
  require(job.kv.kv_heads != 0 && job.heads % job.kv.kv_heads == 0, "kv heads divide the heads");
  require(job.kv.kv_heads < 65536 && job.slices_count < 65536, "too many heads or slices at once");
  const std::uint32_t tiles =
      pieces(std::uint64_t{job.slice_rows_max} * (job.heads / job.kv.kv_heads), attention::prefill_rows);
  with_type(job.type, [&](auto type) {
    attention::with_size(job.kv.head_size, [&](auto size) {
      using element = decltype(type);
      constexpr int width = decltype(size)::value;
      simt::launch(stream, "prefill", &attention::prefill<element, width>, {tiles, job.kv.kv_heads, job.slices_count},
                   attention::prefill_threads, 2 * attention::prefill_stage_bytes<element, width>, job);
    });
  });
}

} // namespace godwit::gpu::cuda
