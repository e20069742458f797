#include "model/layer_types.hpp"

#include <boost/json/array.hpp>

#include <string>
#include <string_view>

namespace godwit::gpu::model {

std::optional<std::vector<bool>> windowed_by_type(const json_reader& in, std::uint32_t layers) {
  const auto* types = in.array("layer_types");
  if (types == nullptr) return std::nullopt;
  if (types->size() != layers)
    in.fail("layer_types", "has " + std::to_string(types->size()) + " entries for " + std::to_string(layers) +
                               " layers (num_hidden_layers)");
  std::vector<bool> out;
  for (const auto& one : *types) {
    const auto* text = one.if_string();
    const auto kind = text != nullptr ? std::string_view(text->data(), text->size()) : std::string_view();
    if (kind != "full_attention" && kind != "sliding_attention")
      in.fail("layer_types", in_quotes(kind) + R"( is not supported; supported: "full_attention", )"
                                               R"("sliding_attention")");
    out.push_back(kind == "sliding_attention");
  }
  return out;
}

} // namespace godwit::gpu::model
