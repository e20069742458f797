#include "cuda/launches.hpp"

#include "cuda/kernels.hpp"

namespace godwit::gpu::cuda {

namespace {

/// One row of padding: a token at position 0 that no block keeps, slices without rows, a row that draws nothing.
void put_padding(driver_stream& to, const workspace& memory, bool draws) {
  const auto put = [&to](const area& in, std::size_t section, std::uint8_t value, std::size_t bytes) {
    to.fill(in.device<std::byte>(section), value, bytes);
  };
  put(memory.input, workspace::tokens, 0, sizeof(std::uint32_t));
  put(memory.input, workspace::positions, 0, sizeof(std::uint32_t));
  static_assert(no_slot == 0xFFFF'FFFFU);
  put(memory.input, workspace::slots, 0xFF, sizeof(std::uint32_t));
  put(memory.input, workspace::single_slices, 0, sizeof(attention_slice));
  put(memory.input, workspace::long_slices, 0, sizeof(attention_slice));
  put(memory.draws, workspace::take, 0, sizeof(std::uint32_t));
  if (draws) put(memory.draws, workspace::rows, 0, sizeof(sampling_row));
}

void move_once(driver_stream& to, const workspace& memory) {
  *memory.moves.host<move_piece>(0) = {memory.normed, memory.attended};
  memory.moves.upload(to, 0, sizeof(move_piece));
  move_job job;
  job.pieces = memory.moves.device<move_piece>(0);
  job.count = 1;
  job.bytes = 16;
  launch(to, job);
}

} // namespace

void launches::load(driver_stream& to) const {
  const bool draws = model_.draws();
  put_padding(to, memory_, draws);
  for (const std::uint32_t positions : {1U, model_.config.positions_max}) { // in one part, and in several
    const auto shape = shape_of_padding(model_, positions, deterministic_);
    if (model_.stage.begins()) embed(to, shape);
    layer(to, shape, 0);
    if (model_.router_rows > 0)
      for (const auto tile_rows : {expert_gemm_job::few, expert_gemm_job::many})
        mixture(to, shape, model_.layers.front(), tile_rows);
    close(to, shape);
  }
  if (model_.stage.ends()) logits(to, 0, 1);
  if (draws && model_.divided()) join_logits(to, 1);
  if (draws) draw(to, 0, 1);
  move_once(to, memory_); // which copies of KV do as well
  // A library has a kernel of its own for many a number of rows; our own kernels are told apart by powers of two.
  const auto next = [this](std::uint32_t rows) { return deterministic_ ? rows * 2 : product_rows(rows + 1); };
  for (const auto& one : trials())
    for (std::uint32_t rows = 1; rows <= one.job.rows; rows = next(rows)) product(to, one.job, rows);
  if (model_.router_rows == 0) return;
  auto router = router_of(model_.layers.front());
  for (router.rows = 1; router.rows <= memory_.rows_room(); router.rows *= 2) launch_fixed(to, router);
}

} // namespace godwit::gpu::cuda
