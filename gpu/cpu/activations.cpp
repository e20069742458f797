#include "cpu/activations.hpp"

#include "cpu/packing.hpp"

#include <algorithm>
#include <bit>

namespace godwit::gpu::cpu {

namespace {

constexpr std::size_t cache_line = 64;
constexpr std::size_t in_lines(std::size_t bytes) { return (bytes + cache_line - 1) / cache_line * cache_line; }

/// Hands out parts of an allocation; with a null base it only adds up.
class parts {
public:
  explicit parts(std::byte* base) : base_(base) {}
  std::byte* take(std::size_t bytes) {
    // An odd number of lines between parts, so that rows of different parts do not all meet in one set of a cache.
    const std::size_t at = used_;
    used_ += in_lines(bytes) + 3 * cache_line;
    return base_ == nullptr ? nullptr : base_ + at;
  }
  [[nodiscard]] std::size_t used() const noexcept { return used_; }

private:
  std::byte* base_;
  std::size_t used_ = 0;
};

} // namespace

activations::activations(memory_pool& memory, const packed_model& model, storage kv, isa kind, std::uint32_t threads)
    : memory_(memory), model_(model), kv_(kv), threads_(threads) {
  tiles_ = kind == isa::amx && model.weights == storage::bf16;
  gemm_rows_ = tiles_ ? gemm_rows_max : 64;
  const auto& c = model.config;
  qkv_stride = model.layers.front().qkv.panels * lanes;
  router_stride = model.layers.front().router.panels * lanes;
  half_width = round_up(c.head_size / 2, lanes);
  logits_stride = round_up(model.config.vocabulary, lanes);
  deepest_ = std::max({model.width, model.attention_width, model.mlp_width});
  y_bytes_ = in_lines(std::size_t{gemm_rows_} * panels_per_piece * lanes * sizeof(float));
  // Tiles read activations as they are.
  gemm_bytes_ = in_lines(gemm_scratch_bytes(tiles_ ? 1 : gemm_rows_, deepest_));
  attention_bytes_ = in_lines(attention_scratch_floats(round_up(c.head_size, tile_depth)) * sizeof(float));
  normed_bytes_ = in_lines(std::size_t{private_rows_max} * model.width * sizeof(float));
  rounded_bytes_ = model.rounding ? in_lines(rounded_bytes(private_rows_max, deepest_)) : 0;
  const std::size_t decoded = model.coded ? in_lines(decoded_bytes(activations_for(model.weights), deepest_)) : 0;
  scratch_bytes_ =
      y_bytes_ + gemm_bytes_ + attention_bytes_ + normed_bytes_ + rounded_bytes_ + decoded + 5 * cache_line;
  scratch_memory_ = memory.allocate(scratch_bytes_ * threads, "working memory");
}

thread_scratch activations::of_thread(std::uint32_t index) const noexcept {
  std::byte* base = scratch_memory_.data() + index * scratch_bytes_;
  thread_scratch own;
  own.y = reinterpret_cast<float*>(base);
  own.gemm = base + y_bytes_;
  own.attention = reinterpret_cast<float*>(own.gemm + gemm_bytes_);
  own.normed = own.gemm + gemm_bytes_ + attention_bytes_;
  own.rounded = own.normed + normed_bytes_;
  own.decoded = own.rounded + rounded_bytes_;
  return own;
}

adapter_scratch activations::adapter_of_thread(std::uint32_t index) const noexcept {
  std::byte* const base = adapter_memory_.data() + index * adapter_scratch_bytes_;
  adapter_scratch own;
  own.y = reinterpret_cast<float*>(base);
  own.tile = base + in_lines(std::size_t{lanes} * panels_per_piece * lanes * sizeof(float));
  own.gemm = own.tile + adapter_tile_bytes_;
  return own;
}

void activations::reserve_adapted(std::uint32_t rows, std::uint32_t ranks) {
  if (rows <= adapted_rows_ && ranks <= lowered_depth) return;
  const std::uint32_t room = std::max({16U, adapted_rows_, std::bit_ceil(rows)});
  const std::uint32_t depth = std::max(lowered_depth, ranks);
  const std::size_t activation = bytes_of(activations_for(model_.weights));
  const std::size_t y_bytes = in_lines(std::size_t{lanes} * panels_per_piece * lanes * sizeof(float));
  adapter_tile_bytes_ = in_lines(std::size_t{lanes} * deepest_ * activation);
  adapter_scratch_bytes_ = y_bytes + adapter_tile_bytes_ +
                           in_lines(gemm_scratch_bytes(tiles_ ? 1 : lanes, std::max(deepest_, depth))) + 3 * cache_line;
  adapted_rows_ = lowered_depth = 0;
  adapter_memory_ = {};
  adapter_memory_ = memory_.allocate(adapter_scratch_bytes_ * threads_ + std::size_t{room} * depth * activation,
                                     "what adapters add to a step of " + std::to_string(rows) + " tokens");
  lowered = adapter_memory_.data() + adapter_scratch_bytes_ * threads_;
  adapted_rows_ = room;
  lowered_depth = depth;
}

void activations::reserve(std::uint32_t rows, std::uint32_t logits_rows) {
  if (rows > rows_) {
    const std::uint32_t room = std::max(16U, std::bit_ceil(rows));
    const auto& c = model_.config;
    const std::size_t activation = bytes_of(activations_for(model_.weights));
    const auto place = [&](std::byte* base) {
      parts space(base);
      residual = reinterpret_cast<float*>(space.take(std::size_t{room} * model_.width * sizeof(float)));
      // A head that is no multiple of 16 long is read a little beyond its end.
      qkv = reinterpret_cast<float*>(space.take((std::size_t{room} * qkv_stride + 2 * lanes) * sizeof(float)));
      normed = space.take(std::size_t{room} * model_.width * activation);
      queries =
          space.take(std::size_t{room} * c.heads * round_up(c.head_size, tile_depth) * bytes_of(queries_for(kv_)));
      attended = space.take(std::size_t{room} * model_.attention_width * activation);
      const std::size_t routed = std::size_t{room} * std::max(1U, c.mixture.chosen);
      inner = space.take(routed * model_.mlp_width * activation);
      if (model_.rounding)
        rounded = space.take(
            std::max(rounded_bytes(room, deepest_), rounded_bytes(routed, std::max(model_.width, model_.mlp_width))));
      if (c.mixture.experts > 0) {
        router = reinterpret_cast<float*>(space.take(std::size_t{room} * router_stride * sizeof(float)));
        gathered = space.take(routed * model_.width * activation);
      }
      if (model_.part.degree > 1 || c.post_norms)
        partial = reinterpret_cast<float*>(space.take(std::size_t{room} * model_.width * sizeof(float)));
      cosine = reinterpret_cast<float*>(space.take(std::size_t{room} * half_width * sizeof(float)));
      sine = reinterpret_cast<float*>(space.take(std::size_t{room} * half_width * sizeof(float)));
      if (c.window_rope) {
        window_cosine = reinterpret_cast<float*>(space.take(std::size_t{room} * half_width * sizeof(float)));
        window_sine = reinterpret_cast<float*>(space.take(std::size_t{room} * half_width * sizeof(float)));
      }
      return space.used();
    };
    rows_ = 0;
    step_memory_ = {};
    step_memory_ = memory_.allocate(place(nullptr), "a step of " + std::to_string(rows) + " tokens");
    place(step_memory_.data());
    rows_ = room;
  }
  logits_rows = std::min(logits_rows, logits_rows_max);
  if (logits_rows > logits_rows_) {
    const std::uint32_t room = std::bit_ceil(logits_rows);
    const auto place = [&](std::byte* base) {
      parts space(base);
      last = reinterpret_cast<float*>(space.take(std::size_t{room} * model_.width * sizeof(float)));
      last_normed = space.take(std::size_t{room} * model_.width * sizeof(float));
      logits = reinterpret_cast<float*>(space.take(std::size_t{room} * logits_stride * sizeof(float)));
      if (const auto degree = model_.part.degree; degree > 1) {
        const std::size_t part = std::size_t{room} * model_.vocabulary_width() * sizeof(float);
        own_logits = reinterpret_cast<float*>(space.take(part));
        all_logits = reinterpret_cast<float*>(space.take(degree * part));
      }
      return space.used();
    };
    logits_rows_ = 0;
    logits_memory_ = {};
    logits_memory_ = memory_.allocate(place(nullptr), "logits");
    place(logits_memory_.data());
    logits_rows_ = room;
  }
}

} // namespace godwit::gpu::cpu
