#include "cuda/kernels_common.hpp"

// Blocks from here and there into one buffer, and back.

namespace godwit::gpu::cuda {

namespace {

constexpr std::uint32_t move_threads = 256;
constexpr std::uint32_t at_once = 4; ///< loads under way in a thread
constexpr std::uint64_t portion = std::uint64_t{move_threads} * at_once * 16;

/// Portions of all pieces in turn, by a grid of at most as many blocks as there are portions.
GODWIT_KERNEL(move_threads, 1) move_pieces(move_job job) {
  const std::uint64_t portions = (job.bytes + portion - 1) / portion, all = portions * job.count;
  move_piece next = job.pieces[simt::block_index().x / portions];
  for (std::uint64_t i = simt::block_index().x; i < all; i += simt::grid_size().x) {
    const move_piece piece = next;
    // The list may be the host's, which is a microsecond away or two: it is read while a portion is under way.
    if (const auto then = i + simt::grid_size().x; then < all) next = job.pieces[then / portions];
    const std::uint64_t first = i % portions * portion + simt::thread_index() * 16;
    const auto* from = static_cast<const std::byte*>(piece.from);
    auto* to = static_cast<std::byte*>(piece.to);
    simt::words4 held[at_once];
    GODWIT_UNROLL
    for (std::uint32_t k = 0; k < at_once; ++k)
      if (first + k * move_threads * 16 < job.bytes) held[k] = simt::load16_once(from + first + k * move_threads * 16);
    GODWIT_UNROLL
    for (std::uint32_t k = 0; k < at_once; ++k)
      if (first + k * move_threads * 16 < job.bytes) simt::store16(to + first + k * move_threads * 16, held[k]);
  }
}

} // namespace

void launch(driver_stream& stream, const move_job& job) {
  if (job.count == 0 || job.bytes == 0) return;
  require(job.bytes % 16 == 0, "pieces have a multiple of 16 bytes");
  require(job.thread_blocks != 0, "a move needs a block of threads");
  const std::uint64_t portions = (job.bytes + portion - 1) / portion * job.count;
  const auto blocks = static_cast<std::uint32_t>(portions < job.thread_blocks ? portions : job.thread_blocks);
  simt::launch(stream, "move", &move_pieces, {blocks, 1, 1}, move_threads, 0, job);
}

} // namespace godwit::gpu::cuda
