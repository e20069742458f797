#pragma once

#include <godwit/protocols/messages/ids.hpp>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace godwit::gpu::model {

/// Token bytes by id and ids by bytes. Immutable once built; not movable, since the index points into the bytes.
class vocabulary {
public:
  struct entry {
    protocols::token_id id;
    std::string bytes;
  };

  /// A later entry replaces an earlier one with the same id, and is the one found among those with the same bytes.
  explicit vocabulary(const std::vector<entry>& entries);
  vocabulary(const vocabulary&) = delete;
  vocabulary& operator=(const vocabulary&) = delete;

  [[nodiscard]] std::uint32_t size() const noexcept { return static_cast<std::uint32_t>(extents_.size()); }
  [[nodiscard]] std::string_view bytes(protocols::token_id id) const noexcept {
    if (id < 0 || static_cast<std::size_t>(id) >= extents_.size()) return {};
    const auto& place = extents_[static_cast<std::size_t>(id)];
    return std::string_view(arena_).substr(place.offset, place.length);
  }
  [[nodiscard]] std::optional<protocols::token_id> find(std::string_view bytes) const {
    const auto found = ids_.find(bytes);
    return found == ids_.end() ? std::nullopt : std::optional(found->second);
  }

private:
  struct extent {
    std::size_t offset = 0;
    std::uint32_t length = 0;
  };
  std::string arena_;
  std::vector<extent> extents_;
  std::unordered_map<std::string_view, protocols::token_id> ids_;
};

} // namespace godwit::gpu::model
