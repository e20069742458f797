#include <godwit/gpu/model/model_directory.hpp>

#include <algorithm>

namespace godwit::gpu::model {

std::string refuse_draft(const model_directory& model, const model_directory& draft) {
  const auto ours = model.tokens->size(), theirs = draft.tokens->size();
  constexpr std::uint32_t added_most = 128; // tokens that one of a family has and another has not
  if (std::max(ours, theirs) - std::min(ours, theirs) > added_most)
    return "its tokenizer has " + std::to_string(theirs) + " tokens, and that of the model '" + model.name + "' has " +
           std::to_string(ours) + "; a draft model is of the same family";
  const auto common = static_cast<protocols::token_id>(std::min(ours, theirs));
  for (protocols::token_id id = 0; id < common; ++id)
    if (model.tokens->bytes(id) != draft.tokens->bytes(id))
      return "token " + std::to_string(id) + " of its tokenizer is another than that of the model '" + model.name +
             "'; a draft model is of the same family";
  return {};
}

} // namespace godwit::gpu::model
