#include "cpu/packed_model.hpp"

#include "cpu/coded_panels.hpp"
#include "cpu/device.hpp"
#include "cpu/matrix_source.hpp"
#include "cpu/model_tensors.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <functional>
#include <span>
#include <stdexcept>
#include <utility>

namespace godwit::gpu::cpu {

namespace {

using model::tensor_view;

// Parts are whole tiles and panels where the model is not tiny.
static_assert(tensor_parallel::inner_unit == tile_depth && tensor_parallel::vocabulary_unit == lanes);

/// Packs a model: `lay_out` decides where everything lies, `tasks` fill it, each a few hundred kilobytes.
class packer {
public:
  packer(packed_model& model, const model_tensors& tensors) : model_(model), tensors_(tensors) {}

  void lay_out(memory_layout& space) {
    tasks_.clear();
    model_.layers.clear();
    model_.layer_bytes.clear();
    const auto& c = model_.config; // of this part
    const auto [queries, keys, inner, vocabulary] = tensor_parallel::part_of(model_.whole, model_.part);
    for (const auto& t : std::span(tensors_.layers).subspan(model_.stage.first, c.layers)) {
      packed_layer layer;
      const auto before = space.used();
      layer.home = {model_.part.rank + model_.stage.index, static_cast<std::uint32_t>(model_.layers.size())};
      const auto number = model_.stage.first + static_cast<std::uint32_t>(model_.layers.size());
      layer.window = model::window_of(model_.whole, number);
      layer.window_rope = model::has_window_rope(model_.whole, number);
      layer.attention_norm = norm(space, t.attention_norm, model_.width);
      matrix_source qkv{{some_of(t.query, queries), some_of(t.key, keys), some_of(t.value, keys)}, false, {}};
      if (c.qkv_bias)
        qkv.biases = {some_of(t.query_bias, queries), some_of(t.key_bias, keys), some_of(t.value_bias, keys)};
      layer.qkv = matrix(space, qkv, c.hidden);
      if (c.qk_norm) {
        layer.query_norm = norm(space, t.query_norm, round_up(c.head_size, tile_depth));
        layer.key_norm = norm(space, t.key_norm, round_up(c.head_size, tile_depth));
      }
      layer.output = matrix(space, columns_of(t.output, queries, t.output_bias), queries.count);
      if (c.post_norms) layer.attention_post_norm = norm(space, t.attention_post_norm, model_.width);
      if (c.sinks) layer.sinks = sinks(space, t.sinks, queries);
      layer.mlp_norm = norm(space, t.mlp_norm, model_.width);
      const bool biased = c.mixture.biased;
      if (c.mixture.experts == 0)
        layer.mlp = mlp(space, {t.gate, t.up, t.down, t.gate_bias, t.up_bias, t.down_bias}, inner);
      else
        layer.router = matrix(space, {{all_of(t.router)}, false, some_if(biased, {t.router_bias})}, c.hidden);
      for (auto expert : t.experts) {
        if (model_.part.rank != 0) expert.down_bias = nullptr; // of the sum, which has it once
        layer.experts.push_back(mlp(space, expert, inner));
      }
      if (c.post_norms) layer.mlp_post_norm = norm(space, t.mlp_post_norm, model_.width);
      model_.layers.push_back(layer);
      model_.layer_bytes.push_back(space.used() - before);
    }
    if (model_.stage.ends()) {
      model_.final_norm = norm(space, tensors_.final_norm, model_.width);
      const auto* head = tensors_.head != nullptr ? tensors_.head : tensors_.embeddings;
      model_.head = matrix(space, {{some_of(head, vocabulary)}, false, {}}, c.hidden);
    }
    const bool in_head = tensors_.head == nullptr && model_.part.degree == 1 && model_.stage.ends();
    if (!model_.stage.begins() || in_head) return;
    if (tensors_.embeddings->coded != nullptr)
      model_.table = matrix(space, {{all_of(tensors_.embeddings)}, false, {}}, c.hidden);
    else
      copy_embeddings(space);
  }

  [[nodiscard]] const std::vector<std::function<void()>>& tasks() const noexcept { return tasks_; }

private:
  /// All rows, of which only some columns meet what this part has computed. The bias belongs to the sum.
  static matrix_source columns_of(const tensor_view* tensor, tensor_parallel::range columns, const tensor_view* bias) {
    matrix_source source{{{tensor, 0, tensor->shape[0], columns.first}}, false, {}};
    if (bias != nullptr) source.biases = {all_of(bias)};
    return source;
  }

  static std::vector<tensor_rows> some_if(bool wanted, std::initializer_list<const tensor_view*> tensors) {
    std::vector<tensor_rows> out;
    for (const auto* tensor : tensors)
      if (wanted) out.push_back(all_of(tensor));
    return out;
  }

  packed_mlp mlp(memory_layout& space, const expert_tensors& t, tensor_parallel::range inner) {
    matrix_source gate_up{{some_of(t.gate, inner), some_of(t.up, inner)}, true, {}};
    if (t.gate_bias != nullptr) gate_up.biases = {some_of(t.gate_bias, inner), some_of(t.up_bias, inner)};
    packed_mlp out;
    out.gate_up = matrix(space, gate_up, model_.config.hidden);
    out.down = matrix(space, columns_of(t.down, inner, t.down_bias), inner.count);
    return out;
  }

  packed_matrix matrix(memory_layout& space, const matrix_source& source, std::uint32_t depth) {
    packed_matrix out;
    out.depth = round_up(depth, tile_depth);
    for (const auto& some : pieces_of(source)) {
      auto& in = out.all_pieces[out.count++];
      in.first = out.panels;
      out.panels += piece(space, some, depth, in);
    }
    if (!source.biases.empty()) out.bias = bias(space, source, out.panels * lanes);
    return out;
  }

  /// Parts that are kept in the same way, where others are not and each begins with a panel of its own.
  static std::vector<matrix_source> pieces_of(const matrix_source& source) {
    std::vector<matrix_source> out;
    for (const auto& part : source.parts) {
      const matrix_source one{{part}, false, {}};
      if (!out.empty() && coding_of(out.back()) == coding_of(one)) {
        out.back().parts.push_back(part);
        continue;
      }
      if (!out.empty() && out.back().rows() % lanes != 0) return {source};
      out.push_back(one);
    }
    if (source.interleaved || out.size() == 1 || out.size() > packed_matrix::pieces_max) return {source};
    return out;
  }

  /// Lays out some panels; returns how many.
  std::uint32_t piece(memory_layout& space, const matrix_source& source, std::uint32_t depth,
                      packed_matrix::piece& out) {
    const std::uint64_t rows = source.interleaved
                                   ? source.parts.size() * ((source.parts[0].count + lanes - 1) / lanes * lanes)
                                   : source.rows();
    const auto panels = static_cast<std::uint32_t>((rows + lanes - 1) / lanes);
    const auto in_codes = [](const tensor_rows& part) { return part.tensor->coded != nullptr; };
    const bool coded = std::ranges::any_of(source.parts, in_codes);
    out.code = coded ? coding_of(source) : coding::none;
    // Codes do not mean f16: as f32 nothing is rounded, and the activations are the same.
    out.kind = out.code != coding::none && model_.weights == storage::f16 ? storage::f32 : model_.weights;
    model_.coded = model_.coded || out.code != coding::none;
    model_.rounding = model_.rounding || rounds_activations(out.code);
    const std::uint64_t panel = out.panel_bytes(round_up(depth, tile_depth));
    std::byte* data = space.take(panels * panel);
    out.data = data;
    constexpr std::uint32_t panels_per_task = 8;
    for (std::uint32_t first = 0; data != nullptr && first < panels; first += panels_per_task)
      tasks_.emplace_back([=, kind = out.kind, code = out.code, last = std::min(panels, first + panels_per_task)] {
        for (std::uint32_t p = first; p < last; ++p) fill_panel(source, coded, code, kind, p, depth, data + p * panel);
      });
    return panels;
  }

  /// `coded`: some rows of the source are in codes, which the panel keeps, `code`, or has the meaning of.
  static void fill_panel(const matrix_source& source, bool coded, coding code, storage kind, std::uint32_t panel,
                         std::uint32_t depth, std::byte* to) {
    const auto column = std::uint64_t{panel} * lanes;
    if (code != coding::none) {
      coded_row rows[lanes];
      for (std::uint32_t c = 0; c < lanes; ++c) rows[c] = coded_row_of(source, column + c);
      return pack_coded_panel(code, rows, depth, to);
    }
    source_row rows[lanes];
    const auto turned = [&](std::uint32_t c) { return source.turned_part(column + c); };
    bool copied = coded;
    for (std::uint32_t c = 0; c < lanes; ++c) copied = copied || turned(c) != nullptr;
    std::vector<std::byte> decoded(copied ? std::size_t{lanes} * depth * sizeof(float) : 0);
    std::vector<float> room;
    for (std::uint32_t c = 0; c < lanes; ++c) {
      auto* const own = decoded.data() + (copied ? std::size_t{c} * depth * sizeof(float) : 0);
      const auto from = coded ? coded_row_of(source, column + c) : coded_row{};
      const auto* const part = turned(c);
      if (from.of != nullptr) {
        decode_row(from, kind, depth, room, own);
        rows[c] = {own, type_of(kind)};
      } else if (const auto row = source.locate(column + c).second; part != nullptr && row < part->count) {
        part->copy_row(row, depth, own);
        rows[c] = {own, part->tensor->type};
      } else {
        rows[c] = source.row(column + c);
      }
    }
    pack_panel(kind, rows, depth, to);
  }

  /// A norm's weights, padded with zeros.
  const float* norm(memory_layout& space, const tensor_view* tensor, std::uint32_t width) {
    auto* to = reinterpret_cast<float*>(space.take(std::uint64_t{width} * sizeof(float)));
    if (to == nullptr) return to;
    widen_values(tensor->type, tensor->data, to, tensor->shape[0]);
    for (std::uint64_t i = 0; model_.config.norms_less_one && i < tensor->shape[0]; ++i) to[i] += 1.0F;
    return to;
  }

  const float* sinks(memory_layout& space, const tensor_view* tensor, tensor_parallel::range queries) {
    const auto size = model_.config.head_size, heads = queries.count / size;
    auto* to = reinterpret_cast<float*>(space.take(std::uint64_t{heads} * sizeof(float)));
    if (to != nullptr) widen_values(tensor->type, all_of(tensor).row(queries.first / size), to, heads);
    return to;
  }

  const float* bias(memory_layout& space, const matrix_source& source, std::uint32_t columns) {
    auto* to = reinterpret_cast<float*>(space.take(std::uint64_t{columns} * sizeof(float)));
    for (std::uint32_t column = 0; to != nullptr && column < columns; ++column) {
      const auto [part, row] = source.locate(column);
      if (part >= source.biases.size() || row >= source.biases[part].count) continue;
      to[column] = widen(source.biases[part].tensor->type, source.biases[part].row(row));
    }
    return to;
  }

  void copy_embeddings(memory_layout& space) {
    const auto& from = *tensors_.embeddings;
    std::byte* to = space.take(from.bytes);
    model_.embeddings = to;
    model_.embedding_type = from.type;
    constexpr std::uint64_t piece = 1 << 20;
    for (std::uint64_t at = 0; to != nullptr && at < from.bytes; at += piece)
      tasks_.emplace_back(
          [=, data = from.data, bytes = std::min(piece, from.bytes - at)] { std::memcpy(to + at, data + at, bytes); });
  }

  packed_model& model_;
  const model_tensors& tensors_;
  std::vector<std::function<void()>> tasks_;
};

} // namespace

void packed_model::embed(protocols::token_id token, float* out) const noexcept {
  const auto row = static_cast<std::uint32_t>(token);
  if (embeddings == nullptr) {
    const auto& from = table.count > 0 ? table : head;
    const auto& in = from.all_pieces[0]; // of one tensor there is one
    if (in.code != coding::none)
      unpack_coded_row(in.code, in.kind, in.data, row, config.hidden, out);
    else
      unpack_row(in.kind, in.data, row, config.hidden, out);
  } else {
    const std::uint64_t bytes_per_row =
        std::uint64_t{config.hidden} * (embedding_type == model::data_type::f32 ? 4 : 2);
    widen_values(embedding_type, embeddings + row * bytes_per_row, out, config.hidden);
  }
  if (embedding_scale == 1.0F) return;
  for (std::uint32_t i = 0; i < config.hidden; ++i) out[i] *= embedding_scale;
}

std::uint32_t packed_model::vocabulary_width() const noexcept {
  return round_up(vocabulary_of(0).count, lanes); // the first part is the largest
}

tensor_parallel::range packed_model::vocabulary_of(std::uint32_t rank) const noexcept {
  return tensor_parallel::part_of(whole, {rank, part.degree}).vocabulary;
}

namespace {

/// As transformers has it: the factor is of the embeddings' type.
float embedding_scale_of(const model::config& config, const model_tensors& tensors) {
  if (!config.scaled_embeddings) return 1.0F;
  const auto type = storage_of(tensors.embeddings->type);
  std::byte rounded[sizeof(float)];
  narrow(type, std::sqrt(static_cast<float>(config.hidden)), rounded);
  return widen(tensors.embeddings->type, rounded);
}

} // namespace

std::shared_ptr<const packed_model> pack_model(const model::config& config, const model::weights& weights,
                                               std::uint32_t threads, tensor_parallel::place part,
                                               const std::atomic<bool>* stop, pipeline::stage stage) {
  const model_tensors tensors = find_tensors(config, weights);
  if (auto wrong = tensor_parallel::refuse_degree(config, part.degree); !wrong.empty()) throw std::runtime_error(wrong);
  if (part.degree > 1 && stage.stages > 1)
    throw std::runtime_error("a model is divided by its heads or by its layers, not by both");
  auto model = std::make_shared<packed_model>();
  model->whole = config;
  model->part = part;
  model->stage = stage;
  model->config = config;
  model->config.layers = stage.layers_of(config.layers);
  model->config.heads = config.heads / part.degree;
  model->config.kv_heads = config.kv_heads / part.degree;
  model->config.intermediate = tensor_parallel::part_of(config, part).inner.count;
  model->weights = tensors.kind;
  model->embedding_scale = embedding_scale_of(config, tensors);
  model->width = round_up(config.hidden, tile_depth);
  model->attention_width = round_up(model->config.heads * config.head_size, tile_depth);
  model->mlp_width = round_up(model->config.intermediate, tile_depth);

  packer work(*model, tensors);
  memory_layout measured(nullptr);
  work.lay_out(measured);
  model->bytes = measured.used();
  host_memory_pool memory(0);
  model->memory = std::make_shared<const allocation>(memory.allocate(model->bytes, "the model's weights"));
  memory_layout placed(model->memory->data());
  work.lay_out(placed);

  team workers(threads == 0 ? usable_threads() : threads);
  const auto& tasks = work.tasks();
  const auto stopped = [stop] { return stop != nullptr && stop->load(std::memory_order_relaxed); };
  workers.run([&](team::member& self) {
    for (std::uint32_t i = self.next(); i < tasks.size() && !stopped(); i = self.next()) tasks[i]();
  });
  if (stopped()) throw std::runtime_error("the loading of the model was stopped");
  return model;
}

std::vector<std::shared_ptr<const packed_model>> pack_shards(const model::config& config, const model::weights& weights,
                                                             std::uint32_t degree, std::uint32_t threads,
                                                             const std::atomic<bool>* stop) {
  std::vector<std::shared_ptr<const packed_model>> shards;
  for (std::uint32_t rank = 0; rank < degree; ++rank)
    shards.push_back(pack_model(config, weights, threads, {rank, degree}, stop));
  return shards;
}

std::vector<std::shared_ptr<const packed_model>> pack_stages(const model::config& config, const model::weights& weights,
                                                             std::span<const pipeline::stage> stages,
                                                             std::uint32_t threads, const std::atomic<bool>* stop) {
  std::vector<std::shared_ptr<const packed_model>> all;
  for (const auto& one : stages) all.push_back(pack_model(config, weights, threads, {}, stop, one));
  return all;
}

std::uint64_t packed_bytes(const packed_model& model) noexcept { return model.bytes; }
const model::config& config_of(const packed_model& model) noexcept { return model.whole; }

} // namespace godwit::gpu::cpu
