#include <godwit/gpu/model/random_model.hpp>

#include "model/json_reader.hpp"
#include "model/new_file.hpp"
#include "model/random_files.hpp"
#include "model/random_values.hpp"
#include "model/text_map.hpp"

#include <algorithm>
#include <iterator>
#include <map>
#include <set>
#include <span>
#include <string>

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

/// A tensor of the files: one of the model's, or those that take turns in its last dimension, for each expert.
struct stored_need {
  tensor_need whole;
  std::vector<std::size_t> parts; ///< numbers of needs, expert by expert
  std::size_t together = 0;       ///< so many of them are of one expert; 0: it is the model's own
};

/// As the files have them: of gpt-oss all experts of a layer in one.
std::vector<stored_need> stored_of(const config& c, const std::vector<tensor_need>& needs) {
  std::map<std::string_view, std::size_t> numbers;
  for (std::size_t i = 0; i < needs.size(); ++i) numbers[needs[i].name] = i;
  std::vector<stored_need> joined;
  const std::uint64_t experts = c.mixture.experts, inner = c.intermediate, hidden = c.hidden;
  std::set<std::size_t> within;
  for (const auto& of : joined_experts_of(c)) {
    const auto add = [&](tensor_need whole, const std::vector<std::string expert_names::*>& parts, const char* ending) {
      auto& one = joined.emplace_back(stored_need{std::move(whole), {}, parts.size()});
      for (std::uint32_t expert = 0; expert < experts; ++expert)
        for (const auto part : parts)
          one.parts.push_back(numbers.at(names_of_expert(c, of.layer, expert).*part + ending));
      within.insert(one.parts.begin(), one.parts.end());
    };
    const auto projection = tensor_role::projection;
    add({of.gate_up, {experts, hidden, 2 * inner}, projection}, {&expert_names::gate, &expert_names::up}, ".weight");
    add({of.gate_up + "_bias", {experts, 2 * inner}, projection}, {&expert_names::gate, &expert_names::up}, ".bias");
    add({of.down, {experts, inner, hidden}, projection}, {&expert_names::down}, ".weight");
    add({of.down + "_bias", {experts, hidden}, projection}, {&expert_names::down}, ".bias");
  }
  std::vector<stored_need> out;
  for (std::size_t i = 0; i < needs.size(); ++i)
    if (!within.contains(i)) out.push_back({needs[i], {i}, 0});
  out.insert(out.end(), std::make_move_iterator(joined.begin()), std::make_move_iterator(joined.end()));
  return out;
}

/// One expert's, column by column, the parts in turn.
void write_joined(new_file& file, const random_values& random, const std::vector<tensor_need>& needs,
                  std::span<const std::size_t> parts) {
  const auto& first = needs[parts.front()];
  const auto rows = first.shape[0], columns = elements_of(first) / rows, step = std::uint64_t{parts.size()};
  std::vector<std::uint16_t> values(rows * columns), turned(values.size() * step);
  for (std::uint64_t part = 0; part < step; ++part) {
    random.fill(needs[parts[part]], static_cast<std::uint32_t>(parts[part]), 0, values);
    for (std::uint64_t row = 0; row < rows; ++row)
      for (std::uint64_t column = 0; column < columns; ++column)
        turned[(column * rows + row) * step + part] = values[row * columns + column];
  }
  file.write(turned.data(), turned.size() * 2);
}

std::uint64_t write_weights(const std::filesystem::path& path, const config& configuration, std::uint64_t seed) {
  constexpr std::uint64_t values_at_once = 1U << 19U;
  new_file file(path);
  const auto needs = tensors_of(configuration);
  const auto stored = stored_of(configuration, needs);
  std::vector<tensor_need> wholes;
  for (const auto& one : stored) wholes.push_back(one.whole);
  const auto header = safetensors_header(wholes);
  file.write(header.data(), header.size());
  const random_values random(configuration, seed);
  std::vector<std::uint16_t> values;
  for (const auto& one : stored) {
    if (one.together > 0) {
      for (std::size_t i = 0; i < one.parts.size(); i += one.together)
        write_joined(file, random, needs, std::span(one.parts).subspan(i, one.together));
      continue;
    }
    const auto i = one.parts.front();
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
