#include "main/model_command.hpp"

#include "main/place_command.hpp"
#include "main/request_flags.hpp"

#include <godwit/gpu/model/adapter.hpp>
#include <godwit/gpu/model/file_source.hpp>
#include <godwit/gpu/model/model_directory.hpp>
#include <godwit/gpu/model/quantize.hpp>
#include <godwit/gpu/model/random_model.hpp>
#include <godwit/protocols/expected.hpp>

#include <boost/json.hpp>
#include <spdlog/fmt/fmt.h>

#include <iostream>
#include <memory>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

namespace godwit::main {

namespace model = gpu::model;
namespace json = boost::json;

namespace {

std::string count_in_words(std::uint64_t count) {
  const auto x = static_cast<double>(count);
  if (x >= 1e9) return fmt::format("{:.2f} G", x * 1e-9);
  if (x >= 1e6) return fmt::format("{:.1f} M", x * 1e-6);
  return fmt::format("{:.1f} k", x * 1e-3);
}

std::string bytes_in_words(std::uint64_t bytes) {
  const auto x = static_cast<double>(bytes);
  if (x >= 0x1p30) return fmt::format("{:.2f} GiB", x * 0x1p-30);
  if (x >= 0x1p20) return fmt::format("{:.1f} MiB", x * 0x1p-20);
  return fmt::format("{:.1f} KiB", x * 0x1p-10);
}

// K and V of every layer, in bf16.
std::uint64_t kv_bytes_per_token(const model::config& c) {
  constexpr std::uint64_t bytes_per_value = 2;
  return std::uint64_t{2} * c.layers * c.kv_heads * c.head_size * bytes_per_value;
}

protocols::expected<model::model_directory, model::model_error> open(const std::string& directory) {
  if (directory != "default") return model::open_model(std::filesystem::path(directory));
  if (auto embedded = model::embedded_model()) return model::open_model(std::move(embedded));
  return protocols::unexpected(model::model_error("this build of godwit has no embedded model; name a directory"));
}

/// Of a mixture with so many experts in each layer.
std::uint64_t parameters_with(const model::config& c, std::uint32_t experts) noexcept {
  const auto hidden = std::uint64_t{c.hidden};
  const auto q = std::uint64_t{c.heads} * c.head_size;
  const auto kv = std::uint64_t{c.kv_heads} * c.head_size;
  const auto mlp = 3 * hidden * c.intermediate;
  auto layer = 2 * hidden * q + 2 * hidden * kv + (c.post_norms ? 4 : 2) * hidden;
  layer += c.mixture.experts > 0 ? experts * mlp + c.mixture.experts * hidden : mlp;
  if (c.qkv_bias) layer += q + 2 * kv;
  if (c.qk_norm) layer += 2 * std::uint64_t{c.head_size};
  if (c.output_bias) layer += hidden;
  if (c.mlp_bias) layer += 2 * std::uint64_t{c.intermediate} + hidden;
  if (c.mixture.biased) layer += experts * (2 * std::uint64_t{c.intermediate} + hidden) + c.mixture.experts;
  if (c.sinks) layer += c.heads;
  const auto embeddings = std::uint64_t{c.vocabulary} * hidden * (c.tied_embeddings ? 1 : 2);
  return embeddings + c.layers * layer + hidden;
}

std::uint64_t parameters_for_a_token(const model::config& c) noexcept { return parameters_with(c, c.mixture.chosen); }

std::string rope_in_words(const model::rope_config& rope) {
  auto out = fmt::format("theta {:g}", rope.theta);
  if (rope.scaling == model::rope_config::scaling_kind::linear)
    out += fmt::format(", linear scaling by {:g}", rope.factor);
  if (rope.scaling == model::rope_config::scaling_kind::llama3)
    out += fmt::format(", Llama 3 scaling by {:g} from {} positions", rope.factor, rope.original_positions);
  if (rope.scaling == model::rope_config::scaling_kind::yarn)
    out += fmt::format(", YaRN by {:g} from {} positions, attention by {:.4g}", rope.factor, rope.original_positions,
                       rope.attention_factor);
  if (rope.scaling == model::rope_config::scaling_kind::factors && !rope.factors.empty())
    out += fmt::format(", pairs of a head slower by {:g} to {:g}", rope.factors.front(), rope.factors.back());
  return out;
}

std::string window_in_words(const model::config& c) {
  auto out = fmt::format("{} tokens", *c.sliding_window);
  if (!c.windowed.empty())
    out += fmt::format(" in {} of {} layers", std::count(c.windowed.begin(), c.windowed.end(), true), c.layers);
  return out;
}

std::string table_of(const model::model_directory& m) {
  const auto& c = m.configuration;
  auto rows = std::vector<std::pair<std::string, std::string>>{
      {"model", m.name},
      {"architecture", c.architecture},
      {"parameters", count_in_words(parameters_of(c))},
      {"weights", bytes_in_words(m.tensors->total_bytes()) + ", " + model::to_string(c.type) +
                      (model::quantization_in_words(m).empty() ? "" : " but for what is in codes")},
      {"layers", std::to_string(c.layers)},
      {"hidden size",
       fmt::format("{}, {} {}", c.hidden, c.mixture.experts > 0 ? "each expert" : "MLP", c.intermediate)},
      {"attention heads", fmt::format("{} of {}, {} for keys and values", c.heads, c.head_size, c.kv_heads)},
      {"context", fmt::format("{} tokens", c.positions_max)},
      {"rotary embedding", rope_in_words(c.rope)},
      {"KV cache", bytes_in_words(kv_bytes_per_token(c)) + " a token in bf16"},
      {"vocabulary", fmt::format("{}{}", c.vocabulary, c.tied_embeddings ? ", tied embeddings" : "")},
      {"tokenizer", fmt::format("{} tokens", m.tokens->size())},
      {"chat template", m.chat_template ? "yes" : "no"},
  };
  if (const auto quantized = model::quantization_in_words(m); !quantized.empty())
    rows.emplace_back("quantization", quantized);
  if (c.mixture.experts > 0)
    rows.emplace_back("experts",
                      fmt::format("{} a layer, {} for each token; {} parameters compute it", c.mixture.experts,
                                  c.mixture.chosen, count_in_words(parameters_for_a_token(c))));
  if (c.sliding_window) rows.emplace_back("sliding window", window_in_words(c));
  if (c.sinks) rows.emplace_back("attention sinks", "one a head");
  if (c.window_rope) rows.emplace_back("of these layers", "rotary embedding of " + rope_in_words(*c.window_rope));
  if (model::leaves_images_aside(c)) rows.emplace_back("left aside", "what sees images: texts alone are answered");
  auto out = std::string{};
  for (const auto& [name, value] : rows) out += fmt::format("{:<18}{}\n", name, value);
  return out;
}

std::string json_of(const model::model_directory& m) {
  const auto& c = m.configuration;
  const auto out = json::object{
      {"name", m.name},
      {"architecture", c.architecture},
      {"parameters", parameters_of(c)},
      {"weight_bytes", m.tensors->total_bytes()},
      {"type", model::to_string(c.type)},
      {"quantization", model::quantization_in_words(m)},
      {"layers", c.layers},
      {"hidden", c.hidden},
      {"intermediate", c.intermediate},
      {"experts", c.mixture.experts},
      {"experts_per_token", c.mixture.chosen},
      {"heads", c.heads},
      {"kv_heads", c.kv_heads},
      {"head_size", c.head_size},
      {"context", c.positions_max},
      {"vocabulary", c.vocabulary},
      {"tokenizer_size", m.tokens->size()},
      {"tied_embeddings", c.tied_embeddings},
      {"kv_bytes_per_token_bf16", kv_bytes_per_token(c)},
      {"chat_template", m.chat_template.has_value()},
  };
  return json::serialize(out) + "\n";
}

std::string known_names() {
  auto out = std::string{};
  for (const auto& shape : model::random_model_shapes()) out += (out.empty() ? "" : ", ") + shape.name;
  return out;
}

// Nothing if `directory` is free to be written into.
std::optional<std::string> occupied(const std::filesystem::path& directory, bool force) {
  auto ec = std::error_code{};
  const auto status = std::filesystem::status(directory, ec);
  if (!std::filesystem::exists(status)) return std::nullopt;
  if (!std::filesystem::is_directory(status))
    return directory.string() + " is not a directory; name another with --out";
  const auto empty = std::filesystem::is_empty(directory, ec);
  if (ec) return "cannot look into " + directory.string() + ": " + ec.message();
  if (!empty && !force)
    return directory.string() + " is not empty; name another directory with --out, or write into it with --force";
  return std::nullopt;
}

} // namespace

std::uint64_t parameters_of(const model::config& c) noexcept { return parameters_with(c, c.mixture.experts); }

int write_random(const random_model_options& options, std::ostream& out, std::ostream& errors) {
  if (model::find_random_model(options.config) == nullptr) {
    errors << "godwit: there is no random model \"" << options.config << "\"; known are " << known_names() << '\n';
    return 2;
  }
  if (const auto reason = occupied(options.out, options.force)) {
    errors << "godwit: " << *reason << '\n';
    return 1;
  }
  const auto written = model::write_random_model(options.config, options.out, options.seed);
  if (!written) {
    errors << "godwit: " << written.error().what() << '\n';
    return 1;
  }
  out << options.out.string() << ": " << bytes_in_words(*written) << " written; serve it with 'godwit serve "
      << options.out.string() << "'\n";
  return 0;
}

int write_random_adapter(const random_adapter_options& options, std::ostream& out, std::ostream& errors) {
  const auto opened = open(options.model);
  if (!opened) {
    errors << "godwit: " << opened.error().what() << '\n';
    return 2;
  }
  if (options.rank == 0 || options.rank > model::adapter_rank_max) {
    errors << "godwit: --rank is 1 to " << model::adapter_rank_max << ", not " << options.rank << '\n';
    return 2;
  }
  if (const auto reason = occupied(options.out, options.force)) {
    errors << "godwit: " << *reason << '\n';
    return 1;
  }
  try {
    model::write_random_adapter(opened->configuration, options.rank, options.seed, options.out);
  } catch (const std::exception& failure) {
    errors << "godwit: " << failure.what() << '\n';
    return 1;
  }
  const auto directory = std::filesystem::absolute(options.out).lexically_normal();
  out << options.out.string() << " is written; serve it with 'godwit serve"
      << (options.model == "default" ? "" : " " + options.model) << " --lora-dir " << directory.parent_path().string()
      << "' and ask for the model \"" << directory.filename().string() << "\"\n";
  return 0;
}

void list_random(std::ostream& out) {
  out << fmt::format("{:<14} {:>12}  {}\n", "name", "parameters", "what it is");
  for (const auto& shape : model::random_model_shapes())
    out << fmt::format("{:<14} {:>12}  {}\n", shape.name, count_in_words(parameters_of(shape.configuration)),
                       shape.description);
}

int show_model(const std::string& directory, bool as_json, std::ostream& out, std::ostream& errors) {
  const auto opened = open(directory);
  if (!opened) {
    errors << "godwit: " << opened.error().what() << '\n';
    return 1;
  }
  out << (as_json ? json_of(*opened) : table_of(*opened));
  return 0;
}

void add_model_command(CLI::App& app, command_result& result) {
  auto* command = app.add_subcommand("model", "Look at model directories, and make random ones for benchmarks");
  command->require_subcommand(1);

  struct random_flags {
    random_model_options options;
    std::string out;
    bool list = false;
  };
  auto flags = std::make_shared<random_flags>();
  auto* random = command->add_subcommand("random", "Write a model with random weights: real shapes, nonsense for text");
  auto* config = random->add_option("--config", flags->options.config, "Which one; see --list")->type_name("NAME");
  auto* out = random->add_option("--out", flags->out, "Directory to write")->type_name("DIR");
  add_seed_flag(*random, flags->options.seed, "The same seed gives the same bytes");
  random->add_flag("--force", flags->options.force, "Write into a directory that is not empty");
  random->add_flag("--list", flags->list, "Show the names and shapes");
  random->callback([flags, config, out, &result] {
    if (!flags->list && config->empty()) throw CLI::RequiredError("--config");
    if (!flags->list && out->empty()) throw CLI::RequiredError("--out");
    result.run = [flags] {
      if (flags->list) return list_random(std::cout), 0;
      flags->options.out = flags->out;
      return write_random(flags->options, std::cout, std::cerr);
    };
  });

  struct adapter_flags {
    random_adapter_options options;
    std::string out;
  };
  auto made = std::make_shared<adapter_flags>();
  auto* adapter = command->add_subcommand(
      "adapter", "Write a low-rank adapter (LoRA) with random weights for a model, to try them");
  adapter
      ->add_option("--model", made->options.model,
                   "A Hugging Face model directory or a GGUF file, or default for the embedded one")
      ->type_name("MODEL");
  adapter->add_option("--rank", made->options.rank, "Of all its matrices")->type_name("N");
  adapter->add_option("--out", made->out, "Directory to write; its last part is the adapter's name")
      ->type_name("DIR")
      ->required();
  add_seed_flag(*adapter, made->options.seed, "The same seed gives the same bytes");
  adapter->add_flag("--force", made->options.force, "Write into a directory that is not empty");
  adapter->callback([made, &result] {
    result.run = [made] {
      made->options.out = made->out;
      return write_random_adapter(made->options, std::cout, std::cerr);
    };
  });

  struct show_flags {
    std::string directory;
    bool json = false;
  };
  auto shown = std::make_shared<show_flags>();
  auto* show = command->add_subcommand("show", "Show what the loader reads: architecture, shapes, sizes");
  show->add_option("MODEL", shown->directory,
                   "A Hugging Face model directory or a GGUF file, or default for the embedded model")
      ->required();
  show->add_flag("--json", shown->json, "One JSON object");
  show->callback([shown, &result] {
    result.run = [shown] { return show_model(shown->directory, shown->json, std::cout, std::cerr); };
  });
  add_place_command(*command, result);
}

} // namespace godwit::main
