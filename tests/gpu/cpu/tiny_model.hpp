#pragma once

#include <godwit/gpu/cpu/cpu_executor.hpp>

#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace godwit::gpu::cpu::testing {

/// Random tensors in memory, of any type, with their values at hand for a plain reference.
class memory_weights final : public model::weights {
public:
  memory_weights(const model::config& config, model::data_type type, unsigned seed);
  [[nodiscard]] const model::tensor_view* find(std::string_view name) const noexcept override;
  [[nodiscard]] std::uint64_t total_bytes() const noexcept override { return bytes_; }
  /// As stored, widened.
  [[nodiscard]] const std::vector<float>& values(const std::string& name) const { return values_.at(name); }
  /// For a reference, which goes by these.
  [[nodiscard]] std::vector<float>& values_to_change(const std::string& name) { return values_.at(name); }
  void remove(const std::string& name) { views_.erase(name); }
  void reshape(const std::string& name, std::vector<std::uint64_t> shape) { views_.at(name).shape = std::move(shape); }
  /// Stores a tensor as another type.
  void retype(const std::string& name, model::data_type type);

private:
  void add(const std::string& name, std::vector<std::uint64_t> shape, float size, float mean, unsigned seed);

  model::data_type type_;
  std::uint64_t bytes_ = 0;
  std::map<std::string, std::vector<float>, std::less<>> values_;
  std::map<std::string, std::vector<std::byte>, std::less<>> stored_;
  std::map<std::string, model::tensor_view, std::less<>> views_;
};

/// Two layers, grouped queries, sizes that fit no vector.
[[nodiscard]] model::config tiny_config();
/// The same with everything that Gemma 3 has: every third layer sees all positions, the others 37.
[[nodiscard]] model::config as_gemma3(model::config config);
/// The same with everything that gpt-oss has: sinks, experts with biases, a window of 37 in every other layer.
[[nodiscard]] model::config as_gpt_oss(model::config config);
[[nodiscard]] std::vector<protocols::token_id> some_tokens(std::size_t count, std::uint32_t vocabulary, unsigned seed);

/// Logits of every position by plain loops in double, as the papers define the model.
[[nodiscard]] std::vector<double> plain_logits(const model::config& config, const memory_weights& weights,
                                               std::span<const protocols::token_id> tokens);

/// Runs steps and waits; keeps the logits of the last one, one row for each slice that samples.
class runner {
public:
  runner(std::shared_ptr<const packed_model> model, cpu_executor_settings settings);
  runner(const std::vector<std::shared_ptr<const packed_model>>& shards, cpu_executor_settings settings);
  protocols::step_output step(std::vector<protocols::step_slice> slices,
                              std::vector<protocols::block_copy> copies = {});
  [[nodiscard]] executor& get() { return *executor_; }
  [[nodiscard]] const std::vector<float>& logits(std::uint32_t slice) const { return logits_.at(slice); }

private:
  std::map<std::uint32_t, std::vector<float>> logits_;
  std::unique_ptr<executor> executor_;
  std::uint64_t steps_ = 0;
};

/// A request's tokens first .. first + count - 1, over the blocks given; samples greedily.
[[nodiscard]] protocols::step_slice slice_of(std::span<const protocols::token_id> tokens, std::size_t first,
                                             std::size_t count, std::span<const std::uint32_t> blocks);

} // namespace godwit::gpu::cpu::testing
