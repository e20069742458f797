#include "model/gguf_blocks.hpp"
#include "model/gguf_model.hpp"
#include "model/json_reader.hpp"
#include "model/narrow.hpp"
#include "model/tensor_list.hpp"
#include "model/text_map.hpp"
#include "model/widen.hpp"

#include <algorithm>
#include <cstring>
#include <map>
#include <set>
#include <utility>
#include <vector>

namespace godwit::gpu::model {

namespace {

/// Where the rows of a tensor lie.
struct gguf_place {
  std::string name;
  std::uint64_t rows = 0;  ///< that the whole of it should have
  std::uint64_t first = 0; ///< of those that are meant
  /// Not 0: heads are of so many rows, in which those of the two halves take turns. llama.cpp turns pairs of neighbours
  /// for such models, Hugging Face those of the two halves.
  std::uint64_t head = 0;
  bool of_experts = false; ///< a vector of each expert
};

/// By the names that Hugging Face has.
class places {
public:
  explicit places(const gguf_model& model, const config& c) {
    const auto turned = model.head().text("general.architecture") == "llama" ? std::uint64_t{c.head_size} : 0;
    const auto queries = std::uint64_t{c.heads} * c.head_size, keys = std::uint64_t{c.kv_heads} * c.head_size;
    add("model.embed_tokens.weight", {"token_embd.weight", c.vocabulary});
    add("model.norm.weight", {"output_norm.weight", c.hidden});
    add("lm_head.weight", {"output.weight", c.vocabulary});
    for (std::uint32_t i = 0; i < c.layers; ++i) {
      const auto from = "blk." + std::to_string(i) + ".", to = "model.layers." + std::to_string(i) + ".";
      add(to + "input_layernorm.weight", {from + "attn_norm.weight", c.hidden});
      const auto norms = norms_of(c, i);
      add(norms.mlp, {from + (c.kind == family::gpt_oss ? "post_attention_norm.weight" : "ffn_norm.weight"), c.hidden});
      add(norms.attention_post, {from + "post_attention_norm.weight", c.hidden});
      add(norms.mlp_post, {from + "post_ffw_norm.weight", c.hidden});
      const auto attention = to + "self_attn.", mlp = to + "mlp.";
      if (c.kind == family::phi3) {
        const auto all = queries + 2 * keys, inner = 2 * std::uint64_t{c.intermediate};
        add(attention + "q_proj.weight", {from + "attn_qkv.weight", all});
        add(attention + "k_proj.weight", {from + "attn_qkv.weight", all, queries});
        add(attention + "v_proj.weight", {from + "attn_qkv.weight", all, queries + keys});
        add(mlp + "gate_proj.weight", {from + "ffn_up.weight", inner});
        add(mlp + "up_proj.weight", {from + "ffn_up.weight", inner, c.intermediate});
      }
      for (const auto* part : {".weight", ".bias"}) {
        add(attention + "q_proj" + part, {from + "attn_q" + part, queries, 0, turned});
        add(attention + "k_proj" + part, {from + "attn_k" + part, keys, 0, turned});
        add(attention + "v_proj" + part, {from + "attn_v" + part, keys});
        add(attention + "o_proj" + part, {from + "attn_output" + part, c.hidden});
        add(mlp + "gate_proj" + part, {from + "ffn_gate" + part, c.intermediate});
        add(mlp + "up_proj" + part, {from + "ffn_up" + part, c.intermediate});
        add(mlp + "down_proj" + part, {from + "ffn_down" + part, c.hidden});
      }
      add(attention + "sinks", {from + "attn_sinks.weight", c.heads});
      add(attention + "q_norm.weight", {from + "attn_q_norm.weight", c.head_size});
      add(attention + "k_norm.weight", {from + "attn_k_norm.weight", c.head_size});
      const auto experts = std::uint64_t{c.mixture.experts};
      if (experts == 0) continue;
      for (const auto* part : {".weight", ".bias"})
        add(router_name(c, i) + part, {from + "ffn_gate_inp" + part, experts});
      for (std::uint32_t e = 0; e < experts; ++e) {
        const auto names = names_of_expert(c, i, e);
        const auto expert = [&](const std::string& name, const std::string& in, std::uint64_t rows) {
          const auto alone = from + in + "." + std::to_string(e) + ".weight"; // as older files have them
          if (model.find(alone) != nullptr)
            add(name + ".weight", {alone, rows});
          else
            add(name + ".weight", {from + in + "_exps.weight", experts * rows, e * rows});
          add(name + ".bias", {from + in + "_exps.bias", experts * rows, e * rows, 0, true});
        };
        expert(names.gate, "ffn_gate", c.intermediate);
        expert(names.up, "ffn_up", c.intermediate);
        expert(names.down, "ffn_down", c.hidden);
      }
    }
  }
  [[nodiscard]] const gguf_place& of(const std::string& name) const { return all_.at(name); }

private:
  void add(const std::string& name, gguf_place place) { all_.emplace(name, std::move(place)); } // the first counts

  text_map<gguf_place> all_;
};

/// The row of the file that is row `row` in the order of Hugging Face.
std::uint64_t turned_row(std::uint64_t row, std::uint64_t head) {
  const auto within = row % head, half = head / 2;
  return row - within + within % half * 2 + within / half;
}

/// Rows of heads in the other order.
class turned_rows final : public coded_matrix {
public:
  turned_rows(std::unique_ptr<coded_matrix> whole, std::uint64_t head)
      : coded_matrix(whole->dimensions()), whole_(std::move(whole)), head_(head) {}
  void codes(std::uint64_t row, std::uint64_t first, std::span<std::uint8_t> out) const override {
    whole_->codes(turned_row(row, head_), first, out);
  }
  [[nodiscard]] unit unit_of(std::uint64_t row, std::uint64_t column) const override {
    return whole_->unit_of(turned_row(row, head_), column);
  }
  [[nodiscard]] std::vector<std::span<const std::byte>> sources() const override { return whole_->sources(); }

private:
  std::unique_ptr<coded_matrix> whole_;
  std::uint64_t head_;
};

std::string spell(const std::vector<std::uint64_t>& shape) {
  std::string text = "[";
  for (const auto size : shape) text += (text.size() > 1 ? ", " : "") + std::to_string(size);
  return text + "]";
}

class gguf_weights final : public weights {
public:
  gguf_weights(std::shared_ptr<const gguf_model> model, const config& configuration)
      : model_(std::move(model)), type_(configuration.type) {
    const places where(*model_, configuration);
    std::set<std::string_view> used{"rope_freqs.weight"};
    for (const auto& need : tensors_of(configuration)) {
      const auto& place = where.of(need.name);
      used.insert(place.name);
      add(need, place);
    }
    for (const auto& part : model_->parts())
      for (const auto& [name, tensor] : part.tensors()) {
        total_bytes_ += tensor.bytes.size();
        if (!used.contains(name)) part.fail(name, "is a tensor that such a model (general.architecture) does not have");
      }
  }

  [[nodiscard]] const tensor_view* find(std::string_view name) const noexcept override {
    const auto found = tensors_.find(name);
    return found == tensors_.end() ? nullptr : &found->second;
  }
  [[nodiscard]] std::uint64_t total_bytes() const noexcept override { return total_bytes_; }

private:
  void add(const tensor_need& need, const gguf_place& place) {
    const auto& head = model_->head();
    const auto* tensor = model_->find(place.name);
    if (tensor == nullptr)
      throw model_error(head.name(), "has no tensor " + in_quotes(place.name) + "; such a model has one");
    const bool vector = need.shape.size() == 1;
    const auto columns = vector ? 1 : need.shape[1];
    auto rows = std::uint64_t{1}; // of all experts, where the tensor has three dimensions
    const auto& shape = tensor->shape;
    for (std::size_t i = 0; i + (vector ? 0 : 1) < shape.size(); ++i) rows *= shape[i];
    if (shape.size() < need.shape.size() || (vector && shape.size() > (place.of_experts ? 2 : 1)) ||
        rows != place.rows || (!vector && shape.back() != columns))
      head.fail(place.name, "has the shape " + spell(shape) + "; its rows and columns should be " +
                                spell(vector ? std::vector{place.rows} : std::vector{place.rows, columns}));
    const auto block = block_of(tensor->type);
    const auto plain = plain_type_of(tensor->type);
    if (!block || (vector && !plain))
      head.fail(place.name, "is of type " + name_of_type(tensor->type) +
                                (vector ? ", which is not supported for a vector"
                                        : ", which is not supported; supported: F32, F16, BF16, Q4_0, Q4_1, Q5_0, "
                                          "Q5_1, Q8_0, Q2_K to Q6_K, IQ4_NL, IQ4_XS, MXFP4"));
    const auto row_bytes = columns / block->values * block->bytes;
    const auto bytes = tensor->bytes.subspan(place.first * row_bytes, need.shape[0] * row_bytes);
    auto& view = tensors_[need.name];
    view = {vector ? *plain : type_, need.shape, bytes.data(), elements_of(need) * bytes_of(vector ? *plain : type_)};
    if (!plain) {
      auto matrix = make_gguf_matrix(tensor->type, need.shape[0], columns, bytes);
      if (place.head != 0) matrix = std::make_unique<turned_rows>(std::move(matrix), place.head);
      view.data = nullptr;
      view.coded = matrix.get();
      coded_.push_back(std::move(matrix));
    } else if (place.head != 0 || *plain != view.type) {
      view.data = copy(need, place, *plain, view.type, bytes);
    }
  }

  /// In the order of Hugging Face, and in the type of the others.
  const std::byte* copy(const tensor_need& need, const gguf_place& place, data_type from, data_type to,
                        std::span<const std::byte> bytes) {
    const auto rows = need.shape[0], columns = need.shape.size() > 1 ? need.shape[1] : 1;
    const auto size = bytes_of(from), new_size = bytes_of(to);
    auto& out = copies_.emplace_back(rows * columns * new_size);
    for (std::uint64_t row = 0; row < rows; ++row) {
      const auto* read = bytes.data() + (place.head != 0 ? turned_row(row, place.head) : row) * columns * size;
      auto* write = out.data() + row * columns * new_size;
      if (from == to)
        std::memcpy(write, read, columns * size);
      else
        for (std::uint64_t i = 0; i < columns; ++i) narrow(to, widen(from, read + i * size), write + i * new_size);
    }
    return out.data();
  }

  std::shared_ptr<const gguf_model> model_;
  data_type type_; ///< of matrices
  text_map<tensor_view> tensors_;
  std::vector<std::unique_ptr<coded_matrix>> coded_;
  std::vector<std::vector<std::byte>> copies_;
  std::uint64_t total_bytes_ = 0;
};

} // namespace

std::shared_ptr<const weights> read_gguf_weights(std::shared_ptr<const gguf_model> model, const config& configuration) {
  return std::make_shared<gguf_weights>(std::move(model), configuration);
}

} // namespace godwit::gpu::model
