#include "cpu/stage_layers.hpp"

#include <algorithm>
#include <stdexcept>
#include <utility>

namespace godwit::gpu::cpu {

namespace {

class cpu_layer_division final : public pipeline::layer_division {
public:
  explicit cpu_layer_division(std::vector<std::shared_ptr<engine>> stages) : stages_(std::move(stages)) {
    for (const auto& one : stages_) all_ += one->model()->config.layers;
  }

  [[nodiscard]] std::vector<std::uint32_t> layers() const override {
    std::vector<std::uint32_t> out;
    for (const auto& one : stages_) out.push_back(one->info().layers);
    return out;
  }

  // As many products as the head has weights, beside those of a layer.
  [[nodiscard]] std::vector<double> beside() const override {
    std::vector<double> out(stages_.size(), 0.0);
    const auto& last = *stages_.back()->model();
    const auto weights_of = [](const packed_matrix& m) { return static_cast<double>(m.panels) * lanes * m.depth; };
    const auto& layer = last.layers.front();
    auto in_layer = weights_of(layer.qkv) + weights_of(layer.output) + weights_of(layer.mlp.gate_up) +
                    weights_of(layer.mlp.down) + weights_of(layer.router);
    const auto chosen = std::min<std::size_t>(last.config.mixture.chosen, layer.experts.size());
    for (std::size_t i = 0; i < chosen; ++i)
      in_layer += weights_of(layer.experts[i].gate_up) + weights_of(layer.experts[i].down);
    out.back() = weights_of(last.head) / in_layer;
    return out;
  }

  void move(const std::vector<std::uint32_t>& layers, completion done) override {
    const auto count = static_cast<std::uint32_t>(stages_.size());
    if (auto wrong = pipeline::refuse_stages(all_, count, layers); layers.empty() || !wrong.empty())
      throw std::invalid_argument("layers cannot move: " + (wrong.empty() ? "to where is not said" : wrong));
    std::vector<std::pair<std::shared_ptr<const packed_model>, kv_layers>> made; // all of them, or none moves
    for (const auto& which : pipeline::cut_layers(all_, count, layers)) {
      std::vector<layer_home> homes;
      for (std::uint32_t i = 0; i < which.layers; ++i) homes.push_back(home_of(which.first + i));
      made.emplace_back(model_of(which, homes), kv_of(homes));
    }
    if (std::ranges::any_of(stages_, [](const auto& one) { return one->in_step(); }))
      throw std::logic_error("layers move while a step is in flight");
    for (std::size_t i = 0; i < made.size(); ++i)
      stages_[i]->compute(std::move(made[i].first), std::move(made[i].second));
    done({});
  }

private:
  [[nodiscard]] layer_home home_of(std::uint32_t layer) const {
    std::uint32_t part = 0;
    for (; layer >= stages_[part]->model()->config.layers; ++part) layer -= stages_[part]->model()->config.layers;
    return {part, layer};
  }

  [[nodiscard]] std::shared_ptr<const packed_model> model_of(const pipeline::stage& which,
                                                             const std::vector<layer_home>& homes) const {
    const auto& began = *stages_[which.index]->model();
    auto model = std::make_shared<packed_model>(began);
    model->stage = which;
    model->config.layers = which.layers;
    model->layers.clear();
    model->layer_bytes.clear();
    for (const auto bytes : began.layer_bytes) model->bytes -= bytes;
    for (const auto& home : homes) {
      const auto& from = stages_[home.part]->model();
      model->layers.push_back(from->layers[home.layer]);
      model->layers.back().home = home;
      model->layer_bytes.push_back(from->layer_bytes[home.layer]);
      model->bytes += from->layer_bytes[home.layer];
      if (std::ranges::find(model->lenders, from->memory) == model->lenders.end())
        model->lenders.push_back(from->memory);
    }
    return model;
  }

  [[nodiscard]] kv_layers kv_of(const std::vector<layer_home>& homes) const {
    std::vector<kv_layers::place> places;
    for (const auto& home : homes) places.push_back({stages_[home.part]->kv(), home.layer});
    return kv_layers(std::move(places));
  }

  std::vector<std::shared_ptr<engine>> stages_;
  std::uint32_t all_ = 0; ///< layers
};

} // namespace

std::vector<std::shared_ptr<const packed_model>>
ready_to_move(const std::vector<std::shared_ptr<const packed_model>>& stages) {
  const bool coded = std::ranges::any_of(stages, [](const auto& one) { return one->coded; });
  const bool rounding = std::ranges::any_of(stages, [](const auto& one) { return one->rounding; });
  std::vector<std::shared_ptr<const packed_model>> out;
  for (const auto& one : stages) {
    auto model = std::make_shared<packed_model>(*one);
    model->coded = coded;
    model->rounding = rounding;
    out.push_back(std::move(model));
  }
  return out;
}

std::shared_ptr<pipeline::layer_division> make_layer_division(std::vector<std::shared_ptr<engine>> stages) {
  return std::make_shared<cpu_layer_division>(std::move(stages));
}

} // namespace godwit::gpu::cpu
