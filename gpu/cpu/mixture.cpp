#include "cpu/forward_pass.hpp"
#include "cpu/packing.hpp"

#include <algorithm>
#include <cstring>

/// Layers that are mixtures of experts: rows are gathered expert by expert, so that each expert's weights are read once
/// for all that are routed to it, and those of the others not at all.
namespace godwit::gpu::cpu {

namespace {

/// `use(job, row)`: for all rows of an expert, as many at a time as a product may have.
template <class Given, class Use>
void for_rows(gemm_job job, const expert_rows& of, const Given& a, std::uint32_t most, const Use& use) {
  for (std::uint32_t row = 0; row < of.count; row += most) {
    job.rows = std::min(most, of.count - row);
    const std::size_t first = std::size_t{of.first} + row;
    job.a = a.packed + first * job.depth * a.value;
    job.rounded = a.rounded.from(first * (job.depth / tile_depth));
    use(job, row);
  }
}

} // namespace

forward_pass::given_rows forward_pass::given_to(team::member& self, const packed_layer& w,
                                                packed_matrix packed_mlp::*which, const std::byte* a) const {
  const auto wanted = [&](const packed_mlp& expert) { return (expert.*which).rounds(); };
  given_rows given{a, {}, bytes_of(activation_)};
  if (std::ranges::any_of(w.experts, wanted))
    given.rounded =
        round(self, a, static_cast<std::uint32_t>(routing_.rows().size()), (w.experts.front().*which).depth);
  return given;
}

void forward_pass::gather(team::member& self, const std::byte* a) {
  const std::size_t row_bytes = std::size_t{parts_.model.width} * bytes_of(activation_);
  const auto experts = routing_.experts();
  std::uint32_t tiles = 0;
  for (const auto& of : experts) tiles += pieces(of.count, lanes);
  share(self, tiles, [&](std::uint32_t tile) {
    const auto* of = experts.data();
    for (; tile >= pieces(of->count, lanes); ++of) tile -= pieces(of->count, lanes);
    const std::uint32_t first = of->first + tile * lanes, count = std::min(lanes, of->first + of->count - first);
    gather_tile(activation_, a, plan_.rows, parts_.model.width, routing_.rows().subspan(first, count),
                parts_.memory.gathered + first * row_bytes);
  });
  self.barrier();
}

void forward_pass::raise_experts(team::member& self, const packed_layer& w) const {
  const auto& model = parts_.model;
  const std::size_t value = bytes_of(activation_);
  const auto given = given_to(self, w, &packed_mlp::gate_up, parts_.memory.gathered);
  const auto own = parts_.memory.of_thread(self.index());
  const auto experts = routing_.experts();
  const std::uint32_t panels = w.experts.front().gate_up.panels, each = pieces(panels, panels_per_piece);
  const std::uint32_t written = round_up(model.config.intermediate, lanes);
  share(self, static_cast<std::uint32_t>(experts.size()) * each, [&](std::uint32_t i) {
    const auto& of = experts[i / each];
    const auto& matrix = w.experts[of.expert].gate_up;
    const std::uint32_t first = i % each * panels_per_piece;
    gemm_job job;
    job.depth = matrix.depth;
    job.panels = std::min(panels_per_piece, panels - first);
    job.y = own.y;
    job.y_stride = panels_per_piece * lanes;
    job.scratch = own.gemm;
    job.decoded = own.decoded;
    job.fetch_ahead = fetch_ahead_;
    std::byte* const out = parts_.memory.inner + std::size_t{of.first} * model.mlp_width * value;
    for_rows(job, of, given, parts_.memory.gemm_rows(), [&](const gemm_job& some, std::uint32_t row) {
      matrix.multiply(some, first, some.panels, parts_.kernels.gemm);
      auto gated = gated_by(model.config);
      gated.y = some.y;
      gated.y_stride = some.y_stride;
      gated.bias = matrix.bias != nullptr ? matrix.bias + std::size_t{first} * lanes : nullptr;
      gated.panels = some.panels;
      gated.first_row = row;
      gated.y_rows = some.rows;
      gated.out = out;
      gated.rows = of.count;
      gated.width = model.mlp_width;
      gated.first_column = first / 2 * lanes;
      parts_.kernels.swiglu(activation_, gated);
    });
    // Columns that no kernel writes but products read; where they lie depends on who is routed where.
    if (first + job.panels == panels && written != model.mlp_width)
      for (std::uint32_t row = 0; row < of.count; ++row)
        std::memset(out + packed_place(row, written, of.count, model.mlp_width) * value, 0, lanes * value);
  });
  self.barrier();
}

void forward_pass::lower_experts(team::member& self, const packed_layer& w, float* to) const {
  const auto& model = parts_.model;
  const auto given = given_to(self, w, &packed_mlp::down, parts_.memory.inner);
  const auto own = parts_.memory.of_thread(self.index());
  const auto rows = routing_.rows();
  const auto weights = routing_.weights();
  const std::uint32_t panels = w.experts.front().down.panels;
  // All experts of some columns by one thread, so that a row's sum has one order.
  share(self, pieces(panels, panels_per_piece), [&](std::uint32_t i) {
    const std::uint32_t first = i * panels_per_piece;
    for (const auto& of : routing_.experts()) {
      const auto& matrix = w.experts[of.expert].down;
      gemm_job job;
      job.depth = matrix.depth;
      job.panels = std::min(panels_per_piece, panels - first);
      job.y = own.y;
      job.y_stride = panels_per_piece * lanes;
      job.scratch = own.gemm;
      job.decoded = own.decoded;
      job.fetch_ahead = fetch_ahead_;
      for_rows(job, of, given, parts_.memory.gemm_rows(), [&](const gemm_job& some, std::uint32_t row) {
        matrix.multiply(some, first, some.panels, parts_.kernels.gemm);
        for (std::uint32_t r = 0; r < some.rows; ++r) {
          const auto entry = of.first + row + r;
          float* const y = some.y + r * some.y_stride;
          const float* const bias = matrix.bias != nullptr ? matrix.bias + std::size_t{first} * lanes : nullptr;
          for (std::uint32_t c = 0; c < some.panels * lanes; ++c)
            y[c] = (bias != nullptr ? y[c] + bias[c] : y[c]) * weights[entry];
          parts_.kernels.add(to + std::size_t{rows[entry]} * model.width + std::size_t{first} * lanes, model.width, y,
                             some.y_stride, nullptr, 1, some.panels * lanes);
        }
      });
    }
  });
}

bool forward_pass::mixture(team::member& self, const packed_layer& w, const std::byte* a) {
  auto& memory = parts_.memory;
  share(self, plan_.rows, [&](std::uint32_t row) {
    float* const logits = memory.router + std::size_t{row} * memory.router_stride;
    routing_.choose(row, {logits, parts_.model.config.mixture.experts}, memory.router_stride,
                    parts_.kernels.exponential);
  });
  self.barrier();
  if (self.index() == 0) routing_.group();
  self.barrier();
  gather(self, a);
  raise_experts(self, w);
  if (parts_.group == nullptr) {
    lower_experts(self, w, memory.residual);
    return true;
  }
  share(self, plan_.rows, [&](std::uint32_t row) {
    float* const partial = memory.partial + std::size_t{row} * parts_.model.width;
    std::fill(partial, partial + parts_.model.width, 0.0F);
  });
  self.barrier();
  lower_experts(self, w, memory.partial);
  return sum_parts(self, nullptr, w.experts.front().down.panels * lanes, nullptr);
}

} // namespace godwit::gpu::cpu
