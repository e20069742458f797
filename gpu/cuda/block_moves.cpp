#include "cuda/block_moves.hpp"

#include "cuda/kernels.hpp"

#include <unordered_set>

namespace godwit::gpu::cuda {

std::vector<std::uint32_t> independent_runs(std::span<const protocols::block_copy> copies) {
  std::vector<std::uint32_t> runs;
  std::unordered_set<std::uint32_t> read, written;
  for (const auto& copy : copies) {
    const std::uint32_t from = copy.from.value(), to = copy.to.value();
    if (runs.empty() || written.contains(from) || written.contains(to) || read.contains(to)) {
      runs.push_back(0);
      read.clear();
      written.clear();
    }
    ++runs.back();
    read.insert(from);
    written.insert(to);
  }
  return runs;
}

void move_blocks(driver_stream& to, std::span<const protocols::block_copy> copies, const kv_pool& kv,
                 std::uint32_t layers, const workspace& memory) {
  if (copies.empty()) return;
  auto* pieces = memory.moves.host<move_piece>(0);
  std::uint64_t next = 0;
  for (const auto& copy : copies)
    for (std::uint32_t layer = 0; layer < layers; ++layer)
      pieces[next++] = {kv.block(layer, copy.from.value()), kv.block(layer, copy.to.value())};
  memory.moves.upload(to, 0, next * sizeof(move_piece));
  std::uint64_t first = 0;
  for (const std::uint32_t count : independent_runs(copies)) {
    move_job job;
    job.pieces = memory.moves.device<move_piece>(0) + first;
    job.count = count * layers;
    job.bytes = kv.layer_block_bytes();
    job.thread_blocks = 1024; // nothing else runs beside it
    launch(to, job);
    first += job.count;
  }
}

} // namespace godwit::gpu::cuda
