#include <godwit/gpu/model/model_directory.hpp>

#include "model/config_reader.hpp"
#include "model/gguf_model.hpp"
#include "model/json_reader.hpp"
#include "model/safetensors.hpp"
#include "model/tokenizer_json.hpp"
#include "model/tokenizer_parts.hpp"

#include <algorithm>
#include <limits>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace godwit::gpu::model {

namespace {

constexpr std::size_t tokenizer_config_bytes_max = 4U << 20U;
constexpr std::size_t template_bytes_max = 1U << 20U;

std::string short_name(const std::string& path) {
  auto full = std::filesystem::path(path);
  if (full.filename().empty() || full.filename() == ".") full = std::filesystem::weakly_canonical(full);
  return full.filename().empty() ? path : full.filename().string();
}

/// What added_tokens_decoder in tokenizer_config.json calls special: some models' tokenizer.json calls their turn
/// markers plain, and transformers goes by this.
std::set<std::string, std::less<>> special_by_config(const file_source& files) {
  std::set<std::string, std::less<>> out;
  const auto bytes = files.find("tokenizer_config.json");
  if (!bytes) return out;
  const auto value = parse_json(as_text(*bytes), "tokenizer_config.json", tokenizer_config_bytes_max);
  const json_reader in(value, "tokenizer_config.json");
  const auto* tokens = in.find("added_tokens_decoder");
  if (tokens == nullptr || !tokens->is_object()) return out;
  for (const auto& field : tokens->get_object()) {
    const json_reader token(field.value(), in.file(), "added_tokens_decoder.");
    if (token.flag("special", false)) out.emplace(token.required_text("content"));
  }
  return out;
}

/// "<s>" or {"content": "<s>", ...}
std::optional<std::string_view> token_text(const json_reader& in, std::string_view field) {
  const auto* value = in.find(field);
  if (value && value->is_object()) return in.required_object(field).text("content");
  return in.text(field);
}

/// transformers makes Llama's tokenizers anew by add_bos_token and add_eos_token, whatever tokenizer.json's
/// post-processor says; other classes go by the file.
void put_ends_by_config(const file_source& files, tokenizer::parts& parts) {
  const auto bytes = files.find("tokenizer_config.json");
  if (!bytes) return;
  const auto value = parse_json(as_text(*bytes), "tokenizer_config.json", tokenizer_config_bytes_max);
  const json_reader in(value, "tokenizer_config.json");
  const auto kind = in.text("tokenizer_class");
  if (kind != "LlamaTokenizer" && kind != "LlamaTokenizerFast") return;
  if (!in.has("add_bos_token") && !in.has("add_eos_token")) return;
  const auto ends = [&](const char* flag, bool absent, const char* name) -> std::vector<protocols::token_id> {
    if (!in.flag(flag, absent)) return {};
    const auto text = token_text(in, name);
    const auto id = text ? parts.words.find(*text) : std::nullopt;
    if (!id) in.fail(flag, "is true, but " + std::string(name) + " names no token of the vocabulary");
    return {*id};
  };
  parts.prefix = ends("add_bos_token", true, "bos_token");
  parts.suffix = ends("add_eos_token", false, "eos_token");
}

/// Gemma 3's smallest models have no row for the token that stands for an image, and the tokenizer that all have.
protocols::token_id added_end(const config& configuration) {
  return configuration.kind == family::gemma3 ? static_cast<protocols::token_id>(configuration.vocabulary)
                                              : std::numeric_limits<protocols::token_id>::max();
}

tokenizer read_tokenizer(const file_source& files, const config& configuration) {
  const auto bytes = files.find("tokenizer.json");
  if (!bytes)
    throw model_error(in_quotes(files.name()),
                      "has no tokenizer.json; sentencepiece's tokenizer.model alone is not supported");
  auto parts =
      read_tokenizer_json(as_text(*bytes), "tokenizer.json", special_by_config(files), added_end(configuration));
  put_ends_by_config(files, *parts);
  return tokenizer(std::move(parts));
}

/// chat_template: a string, or a list of {"name", "template"}, of which "default" and "tool_use" count.
void read_template(const json_reader& in, model_directory& out) {
  const auto* value = in.find("chat_template");
  if (!value || value->is_null()) return;
  if (const auto* several = value->if_array()) {
    for (const auto& one : *several) {
      const json_reader entry(one, in.file(), "chat_template.");
      const auto name = entry.required_text("name");
      if (name == "default") out.chat_template = std::string(entry.required_text("template"));
      if (name == "tool_use") out.tool_template = std::string(entry.required_text("template"));
    }
    if (!out.chat_template) out.tool_template.reset();
    return;
  }
  out.chat_template = std::string(in.required_text("chat_template"));
  out.tool_template.reset(); // the one is for all conversations
}

void read_tokenizer_config(const file_source& files, model_directory& out) {
  if (const auto bytes = files.find("tokenizer_config.json")) {
    const auto value = parse_json(as_text(*bytes), "tokenizer_config.json", tokenizer_config_bytes_max);
    const json_reader in(value, "tokenizer_config.json");
    read_template(in, out);
    for (const auto* name : {"bos_token", "eos_token", "pad_token", "unk_token"})
      if (const auto text = token_text(in, name)) out.special_tokens.emplace_back(name, std::string(*text));
    if (const auto text = token_text(in, "bos_token"); text && !out.configuration.bos)
      out.configuration.bos = out.tokens->find(*text);
    if (const auto text = token_text(in, "eos_token")) {
      auto& eos = out.configuration.eos;
      if (const auto id = out.tokens->find(*text); id && std::find(eos.begin(), eos.end(), *id) == eos.end())
        eos.push_back(*id);
    }
  }
  if (const auto bytes = files.find("chat_template.json")) {
    const auto value = parse_json(as_text(*bytes), "chat_template.json", tokenizer_config_bytes_max);
    read_template(json_reader(value, "chat_template.json"), out);
  }
  if (const auto bytes = files.find("chat_template.jinja")) {
    out.chat_template = std::string(as_text(*bytes));
    out.tool_template.reset();
  }
  for (const auto& text : {out.chat_template, out.tool_template})
    if (text && text->size() > template_bytes_max)
      throw model_error("tokenizer_config.json",
                        "chat_template: is larger than the limit of " + std::to_string(template_bytes_max) + " bytes");
}

/// All but the weights.
model_directory read_words(const file_source& files, bool& type_given) {
  model_directory out;
  out.name = short_name(files.name());
  out.configuration = read_config(files, type_given);
  out.tokens = std::make_shared<const tokenizer>(read_tokenizer(files, out.configuration));
  if (out.tokens->size() > out.configuration.vocabulary)
    throw model_error("tokenizer.json", "has token ids up to " + std::to_string(out.tokens->size() - 1) +
                                            ", but vocab_size in config.json is " +
                                            std::to_string(out.configuration.vocabulary));
  read_tokenizer_config(files, out);
  return out;
}

model_directory open_or_throw(const std::shared_ptr<const file_source>& files) {
  bool type_given = false;
  auto out = read_words(*files, type_given);
  out.tensors = read_weights(files, out.configuration);
  if (!type_given) out.configuration.type = out.tensors->find("model.embed_tokens.weight")->type;
  return out;
}

model_directory open_gguf_or_throw(const std::shared_ptr<const file_source>& files, const std::string& file) {
  const auto model = std::make_shared<const gguf_model>(files, file);
  model_directory out;
  try {
    bool type_given = false;
    out = read_words(*files_of_gguf(*model), type_given);
  } catch (const model_error& failure) {
    // It tells of config.json and tokenizer.json, which nobody has.
    const std::string_view why = failure.what();
    if (why.starts_with(file)) throw;
    throw model_error(file, "read as " + std::string(why));
  }
  out.name = model->name();
  complete_gguf_config(*model, out.configuration);
  out.tensors = read_gguf_weights(model, out.configuration);
  return out;
}

/// A folder of GGUF files may have the config.json of the model that they have been made of.
bool has_weights(const std::filesystem::path& directory) {
  std::error_code ignored;
  return std::filesystem::exists(directory / "model.safetensors", ignored) ||
         std::filesystem::exists(directory / "model.safetensors.index.json", ignored);
}

/// The only model among the GGUF files of a directory that is no Hugging Face model; empty: there is none.
std::string only_gguf_of(const std::filesystem::path& directory) {
  std::vector<std::string> all;
  std::error_code failed;
  constexpr std::size_t entries_max = 100'000;
  std::size_t seen = 0;
  for (auto entry = std::filesystem::directory_iterator(directory, failed);
       !failed && entry != std::filesystem::directory_iterator() && seen < entries_max;
       entry.increment(failed), ++seen) {
    auto name = entry->path().filename().string();
    if (name.ends_with(".gguf") && !is_later_part(name) && !name.starts_with("mmproj")) all.push_back(std::move(name));
  }
  if (all.size() > 1) {
    std::ranges::sort(all);
    throw model_error(in_quotes(directory.string()), "has no safetensors but " + std::to_string(all.size()) +
                                                         " models in GGUF files; name one of them, like " +
                                                         in_quotes((directory / all.front()).string()));
  }
  return all.empty() ? std::string() : all.front();
}

template <class Open>
protocols::expected<model_directory, model_error> opened(const std::string& what, const Open& open) {
  try {
    return open();
  } catch (const model_error& error) {
    return protocols::unexpected(error);
  } catch (const std::exception& error) {
    return protocols::unexpected(model_error(in_quotes(what), error.what()));
  }
}

} // namespace

protocols::expected<model_directory, model_error> open_model(std::shared_ptr<const file_source> files) {
  return opened(files->name(), [&] { return open_or_throw(files); });
}

protocols::expected<model_directory, model_error> open_gguf(std::shared_ptr<const file_source> files,
                                                            const std::string& file) {
  return opened(file, [&] { return open_gguf_or_throw(files, file); });
}

protocols::expected<model_directory, model_error> open_model(const std::filesystem::path& path) {
  return opened(path.string(), [&] {
    std::error_code ignored;
    const bool directory = std::filesystem::is_directory(path, ignored);
    if (!directory && !std::filesystem::is_regular_file(path, ignored))
      throw model_error(
          in_quotes(path.string()),
          std::string(std::filesystem::exists(path, ignored) ? "is neither a directory nor a file" : "is not there") +
              "; a model is a Hugging Face model directory or a GGUF file");
    auto gguf = directory ? std::string() : path.filename().string();
    const auto files = directory_source(directory ? path : path.parent_path().empty() ? "." : path.parent_path());
    if (directory && !has_weights(path)) gguf = only_gguf_of(path);
    auto out = gguf.empty() ? open_or_throw(files) : open_gguf_or_throw(files, gguf);
    out.path = path.string();
    return out;
  });
}

} // namespace godwit::gpu::model
