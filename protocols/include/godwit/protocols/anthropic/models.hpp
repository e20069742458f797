#pragma once

#include <godwit/protocols/openai/response.hpp>

#include <string>
#include <vector>

namespace godwit::protocols::anthropic {

/// GET /v1/models as Anthropic's clients read it: a page, which is all there is.
[[nodiscard]] std::string models_page(const std::vector<openai::model_card>& models);
/// GET /v1/models/{id}.
[[nodiscard]] std::string model_info(const openai::model_card& model);

} // namespace godwit::protocols::anthropic
