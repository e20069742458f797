#pragma once

#include "cpu/host_memory.hpp"
#include "cpu/kernels/table.hpp"

#include <godwit/gpu/cpu/packed_model.hpp>

#include "cpu/packing.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace godwit::gpu::cpu {

struct packed_matrix {
  /// Panels that are kept in one way: the files may have queries and values in different codes.
  struct piece {
    const std::byte* data = nullptr;
    std::uint32_t first = 0; ///< panel
    storage kind = storage::bf16;
    coding code = coding::none; ///< not none: kept in codes, which mean weights of that kind

    [[nodiscard]] std::size_t panel_bytes(std::uint32_t depth) const noexcept {
      return code == coding::none ? std::size_t{depth} * lanes * bytes_of(kind)
                                  : depth / tile_depth * coded_tile_bytes(code);
    }
  };
  static constexpr std::size_t pieces_max = 3;

  std::array<piece, pieces_max> all_pieces;
  std::uint32_t count = 0;     ///< of the pieces; 0: there is no matrix
  const float* bias = nullptr; ///< null: none; one for each column of the panels
  std::uint32_t panels = 0;
  std::uint32_t depth = 0; ///< multiple of 32

  [[nodiscard]] std::span<const piece> pieces() const noexcept { return std::span(all_pieces).first(count); }
  /// Products with some of its panels; the job has the rest. `multiply(kind, job)` may be called several times.
  template <class Multiply>
  void multiply(gemm_job job, std::uint32_t first, std::uint32_t some, const Multiply& with) const {
    float* const y = job.y;
    const bool read = job.read && one_way();
    job.depth = depth;
    for (auto at = first; at < first + some; at += job.panels) {
      std::size_t which = 0;
      while (which + 1 < count && all_pieces[which + 1].first <= at) ++which;
      const auto& in = all_pieces[which];
      const auto end = which + 1 < count ? all_pieces[which + 1].first : panels;
      job.w = in.data + (at - in.first) * in.panel_bytes(depth);
      job.code = in.code;
      job.panels = std::min(end, first + some) - at;
      job.y = y + std::size_t{at - first} * lanes;
      job.read = read || (at != first && one_way());
      with(in.kind, job);
    }
  }
  /// Whether there are codes that are multiplied with rounded activations.
  [[nodiscard]] bool rounds() const noexcept {
    return std::ranges::any_of(pieces(), [](const piece& one) { return rounds_activations(one.code); });
  }
  /// Whether all products read the activations in the same way.
  [[nodiscard]] bool one_way() const noexcept {
    return std::ranges::all_of(pieces(), [&](const piece& one) {
      return one.kind == all_pieces[0].kind && rounds_activations(one.code) == rounds_activations(all_pieces[0].code);
    });
  }
};

/// An MLP: the layer's only one, or an expert.
struct packed_mlp {
  packed_matrix gate_up; ///< panels gate, up, gate, up ...
  packed_matrix down;    ///< the bias of an expert is of one part of the model only, where sums are of several
};

/// Where a layer's KV and its part of an adapter are: with the part of the model that it was packed for, whichever
/// stage computes it now.
struct layer_home {
  std::uint32_t part = 0;  ///< rank, or stage
  std::uint32_t layer = 0; ///< of that part's
};

struct packed_layer {
  packed_matrix qkv; ///< columns: query heads, key heads, value heads
  packed_matrix output;
  packed_mlp mlp;       ///< empty: a mixture of experts
  packed_matrix router; ///< a column for each expert
  std::vector<packed_mlp> experts;
  const float* attention_norm = nullptr;
  const float* query_norm = nullptr; ///< of a head, padded to a multiple of 32; null: none
  const float* key_norm = nullptr;
  const float* sinks = nullptr; ///< a score for each query head; null: none
  const float* mlp_norm = nullptr;
  const float* attention_post_norm = nullptr; ///< of what attention adds; null: it is not normed
  const float* mlp_post_norm = nullptr;
  std::uint32_t window = 0; ///< positions that are seen; 0: all before
  bool window_rope = false; ///< turns by the rope of the layers with a window
  layer_home home;
};

/// Copies share the memory.
class packed_model {
public:
  model::config whole;
  model::config config; ///< with the heads, the intermediate size and the layers of this part, and the whole vocabulary
  tensor_parallel::place part;
  pipeline::stage stage;
  storage weights = storage::bf16; ///< of the matrices that are not kept in codes, and of adapters
  bool coded = false;              ///< some matrices are
  bool rounding = false;           ///< some of these have activations rounded
  std::uint32_t width = 0;         ///< hidden, padded to a multiple of 32
  std::uint32_t attention_width = 0;
  std::uint32_t mlp_width = 0;
  std::vector<packed_layer> layers;
  packed_matrix head; ///< empty, like the final norm, where the last layers are another stage's
  const float* final_norm = nullptr;
  const std::byte* embeddings = nullptr; ///< row-major; null: packed, or the first layers are another stage's
  packed_matrix table;                   ///< of embeddings in codes; empty: they are row-major, or the head's rows
  model::data_type embedding_type = model::data_type::bf16;
  float embedding_scale = 1; ///< embeddings are multiplied by it
  std::uint64_t bytes = 0;
  std::vector<std::uint64_t> layer_bytes;                 ///< of these
  std::shared_ptr<const allocation> memory;               ///< of what was packed for this part of the model
  std::vector<std::shared_ptr<const allocation>> lenders; ///< of layers that have moved here

  /// Whether this device has a step's tokens.
  [[nodiscard]] bool draws() const noexcept { return part.rank == 0 && stage.ends(); }
  /// Logits of a row that each part brings to the gathering: as many as the largest part has.
  [[nodiscard]] std::uint32_t vocabulary_width() const noexcept;
  [[nodiscard]] tensor_parallel::range vocabulary_of(std::uint32_t rank) const noexcept;
  /// The embedding of a token, widened and scaled.
  void embed(protocols::token_id token, float* out) const noexcept;
};

} // namespace godwit::gpu::cpu
