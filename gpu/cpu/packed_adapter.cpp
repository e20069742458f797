#include "cpu/packed_adapter.hpp"

#include "cpu/matrix_source.hpp"
#include "cpu/packing.hpp"

#include <algorithm>
#include <span>
#include <utility>

namespace godwit::gpu::cpu {

namespace {

using model::low_rank_update;
using model::projection;
using tensor_parallel::range;

/// Values in the type of the model's weights, which is what panels are packed from.
class rounded_rows {
public:
  rounded_rows(storage kind, std::uint32_t depth) : kind_(kind), depth_(depth), bytes_(lanes * row_bytes()) {}

  void clear() { std::ranges::fill(bytes_, std::byte{}); }
  void put(std::uint32_t row, std::uint32_t column, model::data_type type, const std::byte* from, std::uint32_t count) {
    const auto size = bytes_of(type);
    for (std::uint32_t i = 0; i < count; ++i)
      narrow(kind_, widen(type, from + i * size), bytes_.data() + row * row_bytes() + (column + i) * bytes_of(kind_));
  }
  void pack(std::byte* to) const {
    source_row rows[lanes];
    for (std::uint32_t row = 0; row < lanes; ++row) rows[row] = {bytes_.data() + row * row_bytes(), type_of(kind_)};
    pack_panel(kind_, rows, depth_, to);
  }

private:
  [[nodiscard]] std::size_t row_bytes() const noexcept { return std::size_t{depth_} * bytes_of(kind_); }
  storage kind_;
  std::uint32_t depth_;
  std::vector<std::byte> bytes_;
};

/// One of the matrices that a product computes together.
struct product_part {
  const low_rank_update* update = nullptr;
  range outputs; ///< of this device
  std::uint32_t first_rank = 0;
};

class adapter_packer {
public:
  adapter_packer(const packed_model& model, const model::adapter& from) : model_(model), from_(from) {}

  void lay_out(memory_layout& space, packed_adapter& out) {
    out.layers.clear();
    out.layers.resize(model_.layers.size()); // of this stage
    const auto [queries, keys, inner, vocabulary] = tensor_parallel::part_of(model_.whole, model_.part);
    const range hidden{0, model_.config.hidden};
    for (std::size_t i = 0; i < out.layers.size(); ++i) {
      const auto& layer = model_.layers[i];
      const auto of = [&](projection which) {
        return &from_.layers[model_.stage.first + i][static_cast<std::size_t>(which)];
      };
      const auto take = [&](layer_product which, std::vector<product_part> parts, const packed_matrix& matrix,
                            range inputs, bool interleaved) {
        auto& to = out.layers[i][static_cast<std::size_t>(which)];
        to = product(space, std::move(parts), matrix, inputs, interleaved);
        out.ranks_max = std::max(out.ranks_max, to.up.depth);
      };
      take(layer_product::qkv,
           {{of(projection::query), queries}, {of(projection::key), keys}, {of(projection::value), keys}}, layer.qkv,
           hidden, false);
      take(layer_product::output, {{of(projection::output), hidden}}, layer.output, queries, false);
      take(layer_product::gate_up, {{of(projection::gate), inner}, {of(projection::up), inner}}, layer.mlp.gate_up,
           hidden, true);
      take(layer_product::down, {{of(projection::down), hidden}}, layer.mlp.down, inner, false);
    }
  }

private:
  /// `beside`: the model's matrix; `inputs`: what of them meets this device's activations.
  adapter_product product(memory_layout& space, std::vector<product_part> parts, const packed_matrix& beside,
                          range inputs, bool interleaved) const {
    adapter_product out;
    std::uint32_t ranks = 0;
    for (auto& part : parts) {
      part.first_rank = ranks;
      ranks += part.update->rank;
    }
    if (ranks == 0) return out;
    const auto kind = model_.weights;
    const std::uint32_t depth = round_up(ranks, tile_depth);
    out.down.depth = beside.depth;
    out.down.panels = (ranks + lanes - 1) / lanes;
    out.up.depth = depth;
    out.up.panels = beside.panels;
    const std::size_t down_panel = std::size_t{out.down.depth} * lanes * bytes_of(kind);
    const std::size_t up_panel = std::size_t{depth} * lanes * bytes_of(kind);
    std::byte* const down = space.take(out.down.panels * down_panel);
    std::byte* const up = space.take(out.up.panels * up_panel);
    out.down.data = down;
    out.up.data = up;
    if (down == nullptr) return out;
    out.scale.resize(depth);
    for (const auto& part : parts)
      std::fill_n(out.scale.begin() + part.first_rank, part.update->rank, part.update->scale);

    rounded_rows rows_down(kind, inputs.count);
    for (std::uint32_t panel = 0; panel < out.down.panels; ++panel) {
      rows_down.clear();
      for (const auto& part : parts)
        for (std::uint32_t rank = 0; rank < part.update->rank; ++rank) {
          const auto column = part.first_rank + rank;
          if (column / lanes != panel) continue;
          const tensor_rows a{&part.update->a, 0, part.update->rank, inputs.first};
          rows_down.put(column % lanes, 0, part.update->a.type, a.row(rank), inputs.count);
        }
      rows_down.pack(down + panel * down_panel);
    }

    matrix_source columns; // of the model's matrix, to tell whose each is
    columns.interleaved = interleaved;
    for (const auto& part : parts) columns.parts.push_back({nullptr, part.outputs.first, part.outputs.count, 0});
    rounded_rows rows_up(kind, depth);
    for (std::uint32_t panel = 0; panel < out.up.panels; ++panel) {
      rows_up.clear();
      for (std::uint32_t i = 0; i < lanes; ++i) {
        const auto [which, row] = columns.locate(std::uint64_t{panel} * lanes + i);
        if (which >= parts.size() || row >= parts[which].outputs.count || parts[which].update->rank == 0) continue;
        const auto& part = parts[which];
        const tensor_rows b{&part.update->b, part.outputs.first, part.outputs.count, 0};
        rows_up.put(i, part.first_rank, part.update->b.type, b.row(row), part.update->rank);
      }
      rows_up.pack(up + panel * up_panel);
    }
    return out;
  }

  const packed_model& model_;
  const model::adapter& from_;
};

} // namespace

std::uint64_t adapter_bytes(const packed_model& model, const model::adapter& from) {
  packed_adapter out;
  memory_layout measured(nullptr);
  adapter_packer(model, from).lay_out(measured, out);
  return measured.used();
}

std::shared_ptr<const packed_adapter> pack_adapter(const packed_model& model, const model::adapter& from) {
  auto out = std::make_shared<packed_adapter>();
  out->bytes = adapter_bytes(model, from);
  host_memory_pool memory(0);
  out->memory = memory.allocate(out->bytes, "an adapter");
  memory_layout placed(out->memory.data());
  adapter_packer(model, from).lay_out(placed, *out);
  return out;
}

} // namespace godwit::gpu::cpu
