#include "cpu/forward_pass.hpp"

#include "cpu/packing.hpp"

#include <godwit/gpu/model/sampler.hpp>

#include <algorithm>
#include <cstring>
#include <exception>
#include <span>
#include <utility>

namespace godwit::gpu::cpu {

forward_pass::forward_pass(engine_parts parts, step_plan plan)
    : parts_(parts), plan_(std::move(plan)), routing_(parts.model.config.mixture, plan_.rows),
      group_(parts.model.config.heads / parts.model.config.kv_heads), activation_(activations_for(parts.model.weights)),
      scale_(model::attention_scale(parts.model.config)), drawn_(draws() ? plan_.sampled : 0),
      scores_(draws() ? plan_.scored : 0) {
  // Slices are referred to by address, which a move of the plan may have kept or not.
  for (std::size_t i = 0; i < plan_.slices.size(); ++i) plan_.slices[i].slice = &plan_.input.slices[i];
}

void forward_pass::run(team::member& self, std::uint32_t first, std::uint32_t last,
                       const std::atomic<bool>& cancelled) {
  if (first == 0) {
    if (!begin(self)) return;
    self.barrier();
  }
  for (std::uint32_t index = first; index < last; ++index) {
    if (!layer(self, index)) return;
    if (self.index() == 0) stop_ = cancelled.load(std::memory_order_relaxed);
    self.barrier();
    if (stop_) return;
  }
  if (last == parts_.model.config.layers) finish(self);
}

bool forward_pass::receive(team::member& self) {
  if (self.index() == 0) {
    try {
      handed_ = parts_.before->take(plan_.input.step, plan_.rows);
    } catch (const std::exception& failure) {
      error_ = failure.what();
      failed_ = true;
    }
  }
  self.barrier();
  return !failed_;
}

bool forward_pass::send(team::member& self) {
  const std::size_t hidden = parts_.model.config.hidden, width = parts_.model.width;
  if (self.index() == 0) {
    try {
      handed_ = parts_.after->empty(std::uint64_t{plan_.rows} * hidden * sizeof(float));
      handed_->step = plan_.input.step;
      handed_->rows = plan_.rows;
    } catch (const std::exception& failure) {
      error_ = failure.what();
      failed_ = true;
    }
  }
  self.barrier();
  if (failed_) return false;
  share(self, plan_.rows, [&](std::uint32_t row) {
    std::memcpy(handed_->data() + row * hidden, parts_.memory.residual + row * width, hidden * sizeof(float));
  });
  self.barrier();
  if (self.index() == 0) parts_.after->put(std::move(handed_));
  return true;
}

bool forward_pass::begin(team::member& self) {
  if (parts_.before != nullptr && !receive(self)) return false;
  const auto& copies = plan_.input.copies;
  const auto& model = parts_.model;
  const std::uint32_t layers = model.config.layers;
  // Copies of one layer in their order, since a block may be filled by one and read by the next.
  if (!copies.empty()) {
    share(self, layers, [&](std::uint32_t layer) {
      for (const auto& copy : copies) parts_.kv.copy(layer, copy.from.value(), copy.to.value());
    });
    self.barrier();
  }
  share(self, static_cast<std::uint32_t>(plan_.pieces.size()), [&](std::uint32_t i) {
    const auto& piece = plan_.pieces[i];
    const auto& planned = plan_.slices[piece.slice];
    for (std::uint32_t t = piece.first_token; t < piece.first_token + piece.tokens; ++t) {
      const std::size_t row = planned.first_row + t;
      float* x = parts_.memory.residual + row * model.width;
      if (handed_)
        std::memcpy(x, handed_->data() + row * model.config.hidden, model.config.hidden * sizeof(float));
      else
        model.embed(planned.slice->tokens[t], x);
      std::fill(x + model.config.hidden, x + model.width, 0.0F);
      const auto position = planned.slice->first_position + t;
      const std::size_t at = row * parts_.memory.half_width;
      parts_.angles.at(position, parts_.memory.cosine + at, parts_.memory.sine + at);
      if (parts_.window_angles != nullptr)
        parts_.window_angles->at(position, parts_.memory.window_cosine + at, parts_.memory.window_sine + at);
      // Columns that no kernel writes but norms read.
      if (model.config.post_norms) {
        float* const sum = parts_.memory.partial + row * model.width;
        std::fill(sum + round_up(model.config.hidden, lanes), sum + model.width, 0.0F);
      }
    }
  });
  // Columns that no kernel writes but products read.
  if (self.index() == 0) {
    const auto& c = model.config;
    if (model.attention_width != c.heads * c.head_size)
      std::memset(parts_.memory.attended, 0, std::size_t{plan_.rows} * model.attention_width * bytes_of(activation_));
    if (c.mixture.experts == 0 && model.mlp_width != round_up(c.intermediate, lanes))
      std::memset(parts_.memory.inner, 0, std::size_t{plan_.rows} * model.mlp_width * bytes_of(activation_));
  }
  return true;
}

const std::byte* forward_pass::tile_of(const adapter_rows& adapted, std::uint32_t tile, const std::byte* a,
                                       std::uint32_t depth, const adapter_scratch& own) const {
  const auto rows = std::span{adapted.rows}.subspan(std::size_t{tile} * lanes);
  const auto tall = std::min(lanes, static_cast<std::uint32_t>(rows.size()));
  const auto tall_of = [&](std::uint32_t row) { return std::min(lanes, plan_.rows - row / lanes * lanes); };
  const std::size_t value = bytes_of(activation_);
  const auto first = rows.front();
  if (first % lanes == 0 && rows[tall - 1] == first + tall - 1 && tall_of(first) == tall)
    return a + std::size_t{first} * depth * value;
  gather_tile(activation_, a, plan_.rows, depth, rows.first(tall), own.tile);
  return own.tile;
}

const adapter_product& forward_pass::product_of(const adapter_rows& adapted, adapted_product what) const {
  const auto& home = parts_.model.layers[what.layer].home;
  return (*adapted.adapter)[home.part]->layers[home.layer][static_cast<std::size_t>(what.which)];
}

void forward_pass::lower(team::member& self, adapted_product what, const std::byte* a) const {
  const auto own = parts_.memory.adapter_of_thread(self.index());
  const std::size_t value = bytes_of(activation_);
  std::uint32_t count = 0;
  const auto of = [&](const adapter_rows& adapted) -> const adapter_product& { return product_of(adapted, what); };
  const auto tiles = [](const adapter_rows& adapted) {
    return pieces(static_cast<std::uint32_t>(adapted.rows.size()), lanes);
  };
  for (const auto& adapted : plan_.adapted) count += tiles(adapted) * of(adapted).down.panels;
  share(self, count, [&](std::uint32_t piece) {
    const auto* adapted = plan_.adapted.data();
    for (; piece >= tiles(*adapted) * of(*adapted).down.panels; ++adapted)
      piece -= tiles(*adapted) * of(*adapted).down.panels;
    const auto& added = of(*adapted);
    const std::uint32_t tile = piece / added.down.panels, panel = piece % added.down.panels;
    gemm_job job;
    job.a = tile_of(*adapted, tile, a, added.down.depth, own);
    job.rows = std::min(lanes, static_cast<std::uint32_t>(adapted->rows.size()) - tile * lanes);
    job.depth = added.down.depth;
    job.w = added.down.data + std::size_t{panel} * added.down.depth * lanes * bytes_of(parts_.model.weights);
    job.panels = 1;
    job.y = own.y;
    job.y_stride = lanes;
    job.scratch = own.gemm;
    parts_.kernels.gemm(parts_.model.weights, job);
    std::byte* const to = parts_.memory.lowered + (std::size_t{adapted->first} * parts_.memory.lowered_depth +
                                                   std::size_t{tile} * lanes * added.up.depth) *
                                                      value;
    const bool last = panel + 1 == added.down.panels; // which has the padding, too
    const std::uint32_t first = panel * lanes, end = last ? added.up.depth : first + lanes;
    for (std::uint32_t row = 0; row < job.rows; ++row)
      for (std::uint32_t rank = first; rank < end; ++rank) {
        const std::size_t at = (std::size_t{rank / tile_depth} * job.rows + row) * tile_depth + rank % tile_depth;
        const float sum = rank < first + lanes ? own.y[row * lanes + rank - first] * added.scale[rank] : 0.0F;
        narrow(activation_, sum, to + at * value);
      }
  });
  self.barrier();
}

void forward_pass::raise(adapted_product what, std::uint32_t row, const gemm_job& job, std::uint32_t first,
                         const adapter_scratch& own) const {
  const std::size_t value = bytes_of(activation_);
  for (const auto& adapted : plan_.adapted) {
    const auto& up = product_of(adapted, what).up;
    if (up.depth == 0) continue;
    const auto begin = adapted.rows.begin();
    const auto from = static_cast<std::uint32_t>(std::lower_bound(begin, adapted.rows.end(), row) - begin);
    const auto end = static_cast<std::uint32_t>(std::lower_bound(begin, adapted.rows.end(), row + job.rows) - begin);
    if (from == end) continue;
    const std::byte* const lowered =
        parts_.memory.lowered + std::size_t{adapted.first} * parts_.memory.lowered_depth * value;
    for (auto tile = from / lanes * lanes; tile < end; tile += lanes) {
      gemm_job more;
      more.a = lowered + std::size_t{tile} * up.depth * value;
      more.rows = std::min(lanes, static_cast<std::uint32_t>(adapted.rows.size()) - tile);
      more.depth = up.depth;
      more.w = up.data + std::size_t{first} * up.depth * lanes * bytes_of(parts_.model.weights);
      more.panels = job.panels;
      more.y = own.y;
      more.y_stride = panels_per_piece * lanes;
      more.scratch = own.gemm;
      parts_.kernels.gemm(parts_.model.weights, more);
      for (auto i = std::max(from, tile); i < std::min(end, tile + lanes); ++i)
        parts_.kernels.add(job.y + (adapted.rows[i] - row) * job.y_stride, job.y_stride,
                           own.y + (i - tile) * more.y_stride, more.y_stride, nullptr, 1, job.panels * lanes);
    }
  }
}

rounded_rows forward_pass::round(team::member& self, const std::byte* a, std::uint32_t rows,
                                 std::uint32_t depth) const {
  const std::uint32_t units = rows * (depth / tile_depth);
  if (rows <= private_rows_max) {
    const auto own = rounded_in(parts_.memory.of_thread(self.index()).rounded, rows, depth);
    parts_.kernels.round(activation_, a, units, own);
    return own;
  }
  constexpr std::uint32_t units_per_piece = 128;
  const auto to = rounded_in(parts_.memory.rounded, rows, depth);
  share(self, pieces(units, units_per_piece), [&](std::uint32_t i) {
    const std::uint32_t first = i * units_per_piece;
    parts_.kernels.round(activation_, a + std::size_t{first} * tile_depth * bytes_of(activation_),
                         std::min(units_per_piece, units - first), to.from(first));
  });
  self.barrier();
  return to;
}

template <class Use>
void forward_pass::product(team::member& self, const packed_matrix& w, const std::byte* a, std::uint32_t rows,
                           std::optional<adapted_product> adapted, const Use& use) const {
  if (plan_.adapted.empty()) adapted.reset();
  if (adapted) lower(self, *adapted, a);
  const auto rounded = w.rounds() ? round(self, a, rows, w.depth) : rounded_rows{};
  const auto own = parts_.memory.of_thread(self.index());
  bool read = false; // by this thread, the same rows
  share(self, pieces(w.panels, panels_per_piece), [&](std::uint32_t i) {
    const std::uint32_t first = i * panels_per_piece;
    gemm_job job;
    job.panels = std::min(panels_per_piece, w.panels - first);
    job.y = own.y;
    job.y_stride = panels_per_piece * lanes;
    job.scratch = own.gemm;
    job.decoded = own.decoded;
    job.fetch_ahead = fetch_ahead_;
    job.read = std::exchange(read, true) && rows <= parts_.memory.gemm_rows();
    for (std::uint32_t row = 0; row < rows; row += parts_.memory.gemm_rows()) {
      job.rows = std::min(parts_.memory.gemm_rows(), rows - row);
      job.a = a + std::size_t{row} * w.depth * bytes_of(activation_);
      job.rounded = rounded.from(std::size_t{row} * (w.depth / tile_depth));
      w.multiply(job, first, job.panels, parts_.kernels.gemm);
      if (adapted) raise(*adapted, row, job, first, parts_.memory.adapter_of_thread(self.index()));
      use(row, job.rows, first, job.panels, own.y, job.y_stride);
    }
  });
}

template <class Operation> bool forward_pass::meet(team::member& self, const Operation& operation) {
  self.barrier();
  if (self.index() == 0) {
    error_ = operation(*parts_.group);
    failed_ = !error_.empty();
  }
  self.barrier();
  return !failed_;
}

bool forward_pass::sum_parts(team::member& self, const float* bias, std::uint32_t columns, const float* post_norm) {
  const std::size_t width = parts_.model.width;
  float* const partial = parts_.memory.partial;
  const auto sum = [&](collective::communicator& all) { return all.all_reduce({partial, plan_.rows * width}); };
  if (parts_.group == nullptr)
    self.barrier();
  else if (!meet(self, sum))
    return false;
  if (post_norm != nullptr) {
    share(self, plan_.rows, [&](std::uint32_t row) {
      add_normed_job job;
      job.to = parts_.memory.residual + row * width;
      job.from = partial + row * width;
      job.stride = width;
      job.bias = bias;
      job.columns = columns;
      job.weight = post_norm;
      job.hidden = parts_.model.config.hidden;
      job.width = parts_.model.width;
      job.epsilon = static_cast<float>(parts_.model.config.rms_norm_epsilon);
      job.rows = 1;
      parts_.kernels.add_normed(job);
    });
    return true;
  }
  constexpr std::uint32_t rows_per_piece = 4;
  share(self, pieces(plan_.rows, rows_per_piece), [&](std::uint32_t i) {
    const std::uint32_t row = i * rows_per_piece;
    parts_.kernels.add(parts_.memory.residual + row * width, width, partial + row * width, width, bias,
                       std::min(rows_per_piece, plan_.rows - row), columns);
  });
  return true;
}

bool forward_pass::add_product(team::member& self, const packed_matrix& w, const std::byte* a, adapted_product what,
                               const float* post_norm) {
  const std::size_t width = parts_.model.width;
  if (parts_.group != nullptr || post_norm != nullptr) {
    float* partial = parts_.memory.partial;
    product(self, w, a, plan_.rows, what,
            [&](std::uint32_t row, std::uint32_t rows, std::uint32_t panel, std::uint32_t panels, const float* y,
                std::size_t stride) {
              parts_.kernels.copy(partial + row * width + panel * lanes, width, y, stride, nullptr, rows,
                                  panels * lanes);
            });
    return sum_parts(self, w.bias, w.panels * lanes, post_norm);
  }
  product(self, w, a, plan_.rows, what,
          [&](std::uint32_t row, std::uint32_t rows, std::uint32_t panel, std::uint32_t panels, const float* y,
              std::size_t stride) {
            parts_.kernels.add(parts_.memory.residual + row * width + panel * lanes, width, y, stride,
                               w.bias != nullptr ? w.bias + panel * lanes : nullptr, rows, panels * lanes);
          });
  return true;
}

const std::byte* forward_pass::norm(team::member& self, const float* weight) {
  const auto& model = parts_.model;
  norm_job job;
  job.x = parts_.memory.residual;
  job.x_stride = model.width;
  job.weight = weight;
  job.hidden = model.config.hidden;
  job.width = model.width;
  job.epsilon = static_cast<float>(model.config.rms_norm_epsilon);
  job.rows = plan_.rows;
  if (plan_.rows <= private_rows_max) {
    std::byte* out = parts_.memory.of_thread(self.index()).normed;
    job.out = out;
    job.last = plan_.rows;
    parts_.kernels.norm(activation_, job);
    return out;
  }
  constexpr std::uint32_t rows_per_piece = 4;
  job.out = parts_.memory.normed;
  share(self, pieces(plan_.rows, rows_per_piece), [&](std::uint32_t i) {
    job.first = i * rows_per_piece;
    job.last = std::min(plan_.rows, job.first + rows_per_piece);
    parts_.kernels.norm(activation_, job);
  });
  self.barrier();
  return parts_.memory.normed;
}

std::byte* forward_pass::queries_of(const planned_slice& slice, std::uint32_t head) const {
  const std::size_t width = round_up(parts_.model.config.head_size, tile_depth);
  const std::size_t row = std::size_t{head} * plan_.rows + slice.first_row;
  return parts_.memory.queries + row * group_ * width * bytes_of(queries_for(parts_.kv.kind()));
}

void forward_pass::write_piece(const block_piece& piece, std::uint32_t head, std::uint32_t layer) const {
  const auto& c = parts_.model.config;
  const auto& planned = plan_.slices[piece.slice];
  const std::uint32_t position = planned.slice->first_position + piece.first_token;
  kv_write_job job;
  job.first_row = planned.first_row + piece.first_token;
  job.qkv_stride = parts_.memory.qkv_stride;
  job.qkv = parts_.memory.qkv + job.first_row * job.qkv_stride;
  job.group = group_;
  job.head = head;
  job.head_size = c.head_size;
  job.query_column = head * group_ * c.head_size;
  job.key_column = (c.heads + head) * c.head_size;
  job.value_column = (c.heads + c.kv_heads + head) * c.head_size;
  job.rows = piece.tokens;
  job.query_norm = parts_.model.layers[layer].query_norm;
  job.key_norm = parts_.model.layers[layer].key_norm;
  job.epsilon = static_cast<float>(c.rms_norm_epsilon);
  job.rope = {parts_.memory.cosine, parts_.memory.sine, c.head_size / 2, parts_.memory.half_width};
  if (parts_.model.layers[layer].window_rope) {
    job.rope.cosine = parts_.memory.window_cosine;
    job.rope.sine = parts_.memory.window_sine;
  }
  job.kv = parts_.kv.layer(layer);
  job.block = planned.blocks[position / lanes];
  job.slot = position % lanes;
  job.query = queries_of(planned, head);
  job.query_rows = planned.rows * group_;
  job.first_query_row = piece.first_token * group_;
  parts_.kernels.kv_write(parts_.kv.kind(), job);
}

void forward_pass::attend_rows(const thread_scratch& own, const query_piece& piece, std::uint32_t head,
                               std::uint32_t layer) const {
  const auto& c = parts_.model.config;
  const auto& planned = plan_.slices[piece.slice];
  attention_job job;
  job.kv = parts_.kv.layer(layer);
  job.query = queries_of(planned, head) +
              std::size_t{piece.first_query_row} * job.kv.head_width * bytes_of(queries_for(parts_.kv.kind()));
  job.rows = piece.rows;
  job.blocks = planned.blocks.data();
  job.head = head;
  job.group = group_;
  job.first_query_row = piece.first_query_row;
  job.first_position = planned.slice->first_position;
  job.window = parts_.model.layers[layer].window;
  job.head_size = c.head_size;
  job.scale = scale_;
  if (const auto* sinks = parts_.model.layers[layer].sinks) job.sinks = sinks + std::size_t{head} * group_;
  job.out = parts_.memory.attended;
  job.out_rows = plan_.rows;
  job.out_width = parts_.model.attention_width;
  job.first_out_row = planned.first_row;
  job.scratch = own.attention;
  parts_.kernels.attention(parts_.kv.kind(), activation_, job);
}

void forward_pass::attention(team::member& self, std::uint32_t layer) {
  const std::uint32_t heads = parts_.model.config.kv_heads;
  const auto own = parts_.memory.of_thread(self.index());
  const auto count = static_cast<std::uint32_t>(plan_.query_pieces.size());
  if (plan_.decodes_only) {
    // One token a slice: a head's KV is read by the thread that wrote it.
    const std::uint32_t tiles = pieces(group_, query_rows_max);
    share(self, static_cast<std::uint32_t>(plan_.slices.size()) * heads, [&](std::uint32_t i) {
      write_piece(plan_.pieces[i / heads], i % heads, layer);
      for (std::uint32_t t = 0; t < tiles; ++t)
        attend_rows(own, plan_.query_pieces[i / heads * tiles + t], i % heads, layer);
    });
    return self.barrier();
  }
  share(self, static_cast<std::uint32_t>(plan_.pieces.size()) * heads,
        [&](std::uint32_t i) { write_piece(plan_.pieces[i / heads], i % heads, layer); });
  self.barrier();
  // Last rows first, which see the most, so that threads end together.
  share(self, count * heads,
        [&](std::uint32_t i) { attend_rows(own, plan_.query_pieces[count - 1 - i / heads], i % heads, layer); });
  self.barrier();
}

bool forward_pass::layer(team::member& self, std::uint32_t index) {
  const auto& w = parts_.model.layers[index];
  auto& memory = parts_.memory;

  const std::byte* a = norm(self, w.attention_norm);
  product(self, w.qkv, a, plan_.rows, adapted_product{index, layer_product::qkv},
          [&](std::uint32_t row, std::uint32_t rows, std::uint32_t panel, std::uint32_t panels, const float* y,
              std::size_t stride) {
            parts_.kernels.copy(memory.qkv + std::size_t{row} * memory.qkv_stride + panel * lanes, memory.qkv_stride, y,
                                stride, w.qkv.bias != nullptr ? w.qkv.bias + panel * lanes : nullptr, rows,
                                panels * lanes);
          });
  self.barrier();
  attention(self, index);
  if (!add_product(self, w.output, memory.attended, {index, layer_product::output}, w.attention_post_norm))
    return false;
  self.barrier();

  a = norm(self, w.mlp_norm);
  if (!w.experts.empty()) {
    product(self, w.router, a, plan_.rows, std::nullopt,
            [&](std::uint32_t row, std::uint32_t rows, std::uint32_t panel, std::uint32_t panels, const float* y,
                std::size_t stride) {
              parts_.kernels.copy(
                  memory.router + std::size_t{row} * memory.router_stride + panel * lanes, memory.router_stride, y,
                  stride, w.router.bias != nullptr ? w.router.bias + panel * lanes : nullptr, rows, panels * lanes);
            });
    self.barrier();
    return mixture(self, w, a);
  }
  product(self, w.mlp.gate_up, a, plan_.rows, adapted_product{index, layer_product::gate_up},
          [&](std::uint32_t row, std::uint32_t rows, std::uint32_t panel, std::uint32_t panels, const float* y,
              std::size_t stride) {
            auto job = gated_by(parts_.model.config);
            job.y = y;
            job.y_stride = stride;
            job.bias = w.mlp.gate_up.bias != nullptr ? w.mlp.gate_up.bias + panel * lanes : nullptr;
            job.panels = panels;
            job.first_row = row;
            job.y_rows = rows;
            job.out = memory.inner;
            job.rows = plan_.rows;
            job.width = parts_.model.mlp_width;
            job.first_column = panel / 2 * lanes;
            parts_.kernels.swiglu(activation_, job);
          });
  self.barrier();
  return add_product(self, w.mlp.down, memory.inner, {index, layer_product::down}, w.mlp_post_norm);
}

void forward_pass::finish(team::member& self) {
  if (parts_.after != nullptr) {
    send(self);
    return;
  }
  const auto count = static_cast<std::uint32_t>(plan_.logits.size());
  for (std::uint32_t first = 0; first < count; first += logits_rows_max)
    if (!logits_group(self, first, std::min(logits_rows_max, count - first))) return;
}

bool forward_pass::gather_logits(team::member& self, std::uint32_t rows) {
  const auto& model = parts_.model;
  auto& memory = parts_.memory;
  const std::size_t width = model.vocabulary_width(), part = rows * width;
  const auto gather = [&](collective::communicator& all) {
    return all.all_gather({memory.own_logits, part}, {memory.all_logits, part * model.part.degree});
  };
  if (!meet(self, gather)) return false;
  if (!draws()) return true;
  share(self, rows, [&](std::uint32_t i) {
    float* row = memory.logits + std::size_t{i} * memory.logits_stride;
    for (std::uint32_t rank = 0; rank < model.part.degree; ++rank) {
      const auto there = model.vocabulary_of(rank);
      std::memcpy(row + there.first, memory.all_logits + rank * part + i * width, there.count * sizeof(float));
    }
  });
  self.barrier();
  return true;
}

bool forward_pass::logits_group(team::member& self, std::uint32_t first, std::uint32_t rows) {
  const auto& model = parts_.model;
  auto& memory = parts_.memory;
  const std::uint32_t vocabulary = model.config.vocabulary;
  norm_job norm;
  norm.x = memory.last;
  norm.x_stride = model.width;
  norm.weight = model.final_norm;
  norm.hidden = model.config.hidden;
  norm.width = model.width;
  norm.epsilon = static_cast<float>(model.config.rms_norm_epsilon);
  norm.out = memory.last_normed;
  norm.rows = rows;
  share(self, rows, [&](std::uint32_t i) {
    std::memcpy(memory.last + std::size_t{i} * model.width,
                memory.residual + std::size_t{plan_.logits[first + i].row} * model.width, model.width * sizeof(float));
    norm.first = i;
    norm.last = i + 1;
    parts_.kernels.norm(activation_, norm);
  });
  self.barrier();
  const bool divided = parts_.group != nullptr;
  float* out = divided ? memory.own_logits : memory.logits;
  const std::size_t out_stride = divided ? model.vocabulary_width() : memory.logits_stride;
  product(self, model.head, memory.last_normed, rows, std::nullopt,
          [&](std::uint32_t row, std::uint32_t some, std::uint32_t panel, std::uint32_t panels, const float* y,
              std::size_t stride) {
            parts_.kernels.copy(out + std::size_t{row} * out_stride + panel * lanes, out_stride, y, stride, nullptr,
                                some, panels * lanes);
          });
  if (!divided)
    self.barrier();
  else if (!gather_logits(self, rows))
    return false;
  if (!draws()) return true;
  const auto values = [&](std::uint32_t i) {
    return std::span<float>(memory.logits + std::size_t{i} * memory.logits_stride, vocabulary);
  };
  if (parts_.tap && self.index() == 0)
    for (std::uint32_t i = 0; i < rows; ++i) {
      const auto& place = plan_.logits[first + i];
      const auto& planned = plan_.slices[place.slice];
      parts_.tap(
          {plan_.input.step, place.slice, planned.slice->first_position + place.row - planned.first_row, values(i)});
    }
  if (parts_.tap) self.barrier();
  const auto before = static_cast<std::uint32_t>(std::count_if(plan_.logits.begin(), plan_.logits.begin() + first,
                                                               [](const auto& place) { return place.samples; }));
  share(self, rows, [&](std::uint32_t i) {
    const auto& place = plan_.logits[first + i];
    const auto& of = plan_.slices[place.slice];
    if (place.scored != logits_place::no_score)
      scores_[place.scored] = model::score(values(i), of.slice->scored[place.row - of.first_row], of.slice->scores_top);
    if (!place.samples) return;
    const auto sample = before + static_cast<std::uint32_t>(
                                     std::count_if(plan_.logits.begin() + first, plan_.logits.begin() + first + i,
                                                   [](const auto& other) { return other.samples; }));
    const auto& slice = *of.slice;
    try {
      auto& sampler = parts_.samplers[self.index()];
      drawn_[sample] = place.draw == 0 ? sampler(values(i), slice) : sampler(values(i), slice.drawn_at(place.draw));
    } catch (const std::exception& failed) {
      drawn_[sample] = protocols::sampled_token{protocols::no_token}; // its request's end, not the step's
      const std::lock_guard lock(undrawn_mutex_);
      undrawn_.emplace(sample, failed.what());
    }
  });
  self.barrier();
  return true;
}

} // namespace godwit::gpu::cpu
