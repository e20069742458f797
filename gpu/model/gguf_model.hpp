#pragma once

#include "model/gguf_file.hpp"

#include <godwit/gpu/model/config.hpp>
#include <godwit/gpu/model/file_source.hpp>
#include <godwit/gpu/model/weights.hpp>

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace godwit::gpu::model {

/// A model as llama.cpp has it: one GGUF file, or several of which the first says what the model is.
class gguf_model {
public:
  /// `file`: a name in `files`, of the first part where there are several ("NAME-00001-of-00003.gguf"). Throws
  /// model_error.
  gguf_model(std::shared_ptr<const file_source> files, const std::string& file);

  /// What it says of itself.
  [[nodiscard]] const gguf_file& head() const noexcept { return parts_.front(); }
  /// In whatever part; null: there is none.
  [[nodiscard]] const gguf_tensor* find(std::string_view tensor) const noexcept;
  [[nodiscard]] const std::vector<gguf_file>& parts() const noexcept { return parts_; }
  /// Without the number of the part and ".gguf".
  [[nodiscard]] const std::string& name() const noexcept { return name_; }

private:
  std::shared_ptr<const file_source> files_; ///< keeps them mapped
  std::vector<gguf_file> parts_;
  std::string name_;
};

/// Whether a file is of a model that another file begins ("NAME-00002-of-00003.gguf").
[[nodiscard]] bool is_later_part(std::string_view file) noexcept;

/// What config.json, generation_config.json, tokenizer.json and tokenizer_config.json would say of it. Throws
/// model_error.
[[nodiscard]] std::shared_ptr<const file_source> files_of_gguf(const gguf_model& model);
[[nodiscard]] std::string gguf_config_json(const gguf_model& model);
/// Tokens that end an answer by how they are spelled, as llama.cpp has it.
[[nodiscard]] std::vector<std::size_t> gguf_ends(std::span<const std::string_view> tokens);
[[nodiscard]] std::string gguf_tokenizer_json(const gguf_file& head);
[[nodiscard]] std::string gguf_tokenizer_config_json(const gguf_file& head);
[[nodiscard]] std::string gguf_generation_config_json(const gguf_file& head);

/// What config.json has no words for: by how much each pair of a head turns slower, and that matrices are in codes.
void complete_gguf_config(const gguf_model& model, config& out);

/// The tensors by their Hugging Face names, with the rows of queries and keys as Hugging Face has them where llama.cpp
/// has them in another order. Throws model_error unless every tensor that the configuration calls for is there with its
/// shape, and no other.
[[nodiscard]] std::shared_ptr<const weights> read_gguf_weights(std::shared_ptr<const gguf_model> model,
                                                               const config& configuration);

} // namespace godwit::gpu::model
