#include "model/token_trie.hpp"

#include <algorithm>
#include <numeric>
#include <string_view>

namespace godwit::gpu::model {

token_trie token_trie::of(const std::vector<std::string>& texts) {
  token_trie out;
  std::vector<protocols::token_id> order;
  for (std::size_t id = 0; id < texts.size(); ++id)
    if (!texts[id].empty() && texts[id].size() <= bytes_max) order.push_back(static_cast<protocols::token_id>(id));
  const auto text_of = [&](protocols::token_id id) { return std::string_view(texts[static_cast<std::size_t>(id)]); };
  // Bytewise (string_view compares them unsigned); a text stands before those that go on.
  std::ranges::sort(order, [&](auto a, auto b) { return text_of(a) != text_of(b) ? text_of(a) < text_of(b) : a < b; });

  out.nodes.push_back({});
  std::vector<std::uint32_t> path{0}; // the nodes above
  std::string_view before;
  for (const auto id : order) {
    const auto text = text_of(id);
    std::size_t common = 0;
    while (common < before.size() && common < text.size() && before[common] == text[common]) ++common;
    for (; path.size() > common + 1; path.pop_back())
      out.nodes[path.back()].end = static_cast<std::uint32_t>(out.nodes.size());
    for (auto i = common; i < text.size(); ++i) {
      path.push_back(static_cast<std::uint32_t>(out.nodes.size()));
      out.nodes.push_back({0, static_cast<std::uint32_t>(out.tokens.size()), static_cast<std::uint16_t>(i + 1),
                           static_cast<std::uint8_t>(text[i])});
    }
    out.tokens.push_back(id);
    out.depth_max = std::max(out.depth_max, static_cast<std::uint16_t>(text.size()));
    before = text;
  }
  for (; !path.empty(); path.pop_back()) out.nodes[path.back()].end = static_cast<std::uint32_t>(out.nodes.size());
  out.nodes.push_back({0, static_cast<std::uint32_t>(out.tokens.size()), 0, 0});
  return out;
}

} // namespace godwit::gpu::model
