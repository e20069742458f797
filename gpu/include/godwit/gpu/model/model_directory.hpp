#pragma once

#include <godwit/gpu/model/config.hpp>
#include <godwit/gpu/model/error.hpp>
#include <godwit/gpu/model/file_source.hpp>
#include <godwit/gpu/model/tokenizer.hpp>
#include <godwit/gpu/model/weights.hpp>
#include <godwit/protocols/expected.hpp>

#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace godwit::gpu::model {

/// A model, opened and checked: what config.json promises is there, with the right shapes and types, and every id of
/// the tokenizer lies below the vocabulary's size. Cheap to copy; all parts are immutable and shared.
struct model_directory {
  std::string name; ///< last part of the path, without ".gguf", or "default"; what /v1/models shows
  std::string path; ///< of the directory or file, as it was given; empty: none
  config configuration;
  std::shared_ptr<const weights> tensors; ///< keeps the files mapped
  std::shared_ptr<const tokenizer> tokens;
  std::optional<std::string> chat_template; ///< Jinja: chat_template.jinja, chat_template.json, tokenizer_config.json
  std::optional<std::string> tool_template; ///< the one named "tool_use", where there are several
  /// "bos_token", "eos_token", "pad_token", "unk_token" of tokenizer_config.json, as far as they are given.
  std::vector<std::pair<std::string, std::string>> special_tokens;
  /// A smaller model that drafts for this one, for whoever serves both (refuse_draft); null: none.
  std::shared_ptr<const model_directory> draft;
};

/// One line that says why a model cannot draft for another one: a draft means the same to both. Empty: it can.
[[nodiscard]] std::string refuse_draft(const model_directory& model, const model_directory& draft);

/// Opens a Hugging Face model directory: config.json, generation_config.json (optional), tokenizer.json,
/// tokenizer_config.json (optional), model.safetensors or model.safetensors.index.json with its shards. Reads no
/// weights yet (they are mapped).
[[nodiscard]] protocols::expected<model_directory, model_error> open_model(std::shared_ptr<const file_source> files);

/// Opens a model of llama.cpp: a GGUF file (versions 2 and 3; the first of several where it is split) of the
/// architectures llama, qwen2, qwen3, qwen3moe, phi3 and gemma3, with its tokenizer and chat template. Matrices in
/// codes stay so (docs/serving.md, "GGUF files").
[[nodiscard]] protocols::expected<model_directory, model_error> open_gguf(std::shared_ptr<const file_source> files,
                                                                          const std::string& file);

/// Either: a directory, which may also be one of a single model in GGUF, or a GGUF file.
[[nodiscard]] protocols::expected<model_directory, model_error> open_model(const std::filesystem::path& path);

} // namespace godwit::gpu::model
