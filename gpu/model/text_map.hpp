#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <unordered_map>

namespace godwit::gpu::model {

struct text_hash {
  using is_transparent = void;
  std::size_t operator()(std::string_view text) const noexcept { return std::hash<std::string_view>{}(text); }
};

/// A hash map by text that can be asked with a string_view.
template <class Value> using text_map = std::unordered_map<std::string, Value, text_hash, std::equal_to<>>;

} // namespace godwit::gpu::model
