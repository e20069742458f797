#include <godwit/gpu/model/model_directory.hpp>

#include <algorithm>

namespace godwit::gpu::model {

std::string refuse_draft(const model_directory& model, const model_directory& draft) {
  const auto common = static_cast<protocols::token_id>(std::min(model.tokens->size(), draft.tokens->size()));
  for (protocols::token_id id = 0; id < common; ++id)
    if (model.tokens->bytes(id) != draft.tokens->bytes(id))
      return "token " + std::to_string(id) + " of its tokenizer is another than that of the model '" + model.name +
             "'; a draft model is of the same family";
  return {};
}

} // namespace godwit::gpu::model
