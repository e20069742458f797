#pragma once

#include <godwit/gpu/model/model_directory.hpp>

#include <memory>

namespace godwit::test {

/// The embedded model's tokenizer; null in a build without the model.
inline std::shared_ptr<const gpu::model::tokenizer> embedded_tokens() {
  const auto files = gpu::model::embedded_model();
  if (!files) return nullptr;
  auto model = gpu::model::open_model(files);
  return model ? model->tokens : nullptr;
}

} // namespace godwit::test
