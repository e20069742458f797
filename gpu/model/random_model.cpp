#include <godwit/gpu/model/random_model.hpp>

#include "model/json_reader.hpp"
#include "model/new_file.hpp"
#include "model/random_files.hpp"
#include "model/random_values.hpp"
#include "model/text_map.hpp"

#include <algorithm>

namespace godwit::gpu::model {

namespace {

/// All tensors in one piece of memory.
class memory_weights : public weights {
public:
  memory_weights(const config& configuration, std::uint64_t seed) {
    const auto needs = tensors_of(configuration);
    std::uint64_t total = 0;
    for (const auto& need : needs) total += elements_of(need);
    values_.resize(total);
    const random_values random(configuration, seed);
    std::uint64_t at = 0;
    for (std::size_t i = 0; i < needs.size(); ++i) {
      const auto count = elements_of(needs[i]);
      random.fill(needs[i], static_cast<std::uint32_t>(i), 0, std::span(values_).subspan(at, count));
      tensor_view view;
      view.type = data_type::bf16;
      view.shape = needs[i].shape;
      view.data = reinterpret_cast<const std::byte*>(values_.data() + at);
      view.bytes = count * 2;
      tensors_.emplace(needs[i].name, std::move(view));
      at += count;
    }
  }
  const tensor_view* find(std::string_view name) const noexcept override {
    const auto found = tensors_.find(name);
    return found == tensors_.end() ? nullptr : &found->second;
  }
  std::uint64_t total_bytes() const noexcept override { return values_.size() * 2; }

private:
  std::vector<std::uint16_t> values_;
  text_map<tensor_view> tensors_;
};

std::uint64_t write_weights(const std::filesystem::path& path, const config& configuration, std::uint64_t seed) {
  constexpr std::uint64_t values_at_once = 1U << 19U;
  new_file file(path);
  const auto header = safetensors_header(tensors_of(configuration));
  file.write(header.data(), header.size());
  const random_values random(configuration, seed);
  const auto needs = tensors_of(configuration);
  std::vector<std::uint16_t> values;
  for (std::size_t i = 0; i < needs.size(); ++i) {
    const auto count = elements_of(needs[i]);
    for (std::uint64_t at = 0; at < count; at += values_at_once) {
      values.resize(std::min(values_at_once, count - at));
      random.fill(needs[i], static_cast<std::uint32_t>(i), at, values);
      file.write(values.data(), values.size() * 2);
    }
  }
  return file.finish();
}

std::uint64_t write_directory(const config& configuration, const std::filesystem::path& directory, std::uint64_t seed) {
  make_directory(directory);
  auto bytes = write_weights(directory / "model.safetensors", configuration, seed);
  bytes += write_text(directory / "tokenizer.json", tokenizer_text(configuration.vocabulary));
  bytes += write_text(directory / "tokenizer_config.json", tokenizer_config_text());
  bytes += write_text(directory / "generation_config.json", generation_config_text());
  bytes += write_text(directory / "config.json", config_text(configuration));
  return bytes;
}

model_error unknown(std::string_view name) {
  std::string names;
  for (const auto& shape : random_model_shapes()) names += (names.empty() ? "" : ", ") + shape.name;
  return model_error("there is no random model " + in_quotes(name) + "; there are: " + names);
}

} // namespace

protocols::expected<std::uint64_t, model_error>
write_random_model(std::string_view name, const std::filesystem::path& directory, std::uint64_t seed) {
  const auto* shape = find_random_model(name);
  if (!shape) return protocols::unexpected(unknown(name));
  try {
    return write_directory(shape->configuration, directory, seed);
  } catch (const model_error& error) {
    return protocols::unexpected(error);
  } catch (const std::exception& error) {
    return protocols::unexpected(model_error(in_quotes(directory.string()), error.what()));
  }
}

std::shared_ptr<const weights> random_weights(const config& configuration, std::uint64_t seed) {
  return std::make_shared<memory_weights>(configuration, seed);
}

model_directory random_model(std::string_view name, std::uint64_t seed) {
  const auto* shape = find_random_model(name);
  if (!shape) throw unknown(name);
  auto read = tokenizer::from_json(tokenizer_text(shape->configuration.vocabulary));
  if (!read) throw model_error(read.error());
  model_directory out;
  out.name = shape->name;
  out.configuration = shape->configuration;
  out.tokens = std::make_shared<const tokenizer>(std::move(read).value());
  out.tensors = random_weights(shape->configuration, seed);
  return out;
}

} // namespace godwit::gpu::model
