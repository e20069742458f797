#include "model/vocabulary.hpp"

#include <algorithm>

namespace godwit::gpu::model {

vocabulary::vocabulary(const std::vector<entry>& entries) {
  std::size_t bytes = 0;
  protocols::token_id highest = -1;
  for (const auto& one : entries) {
    bytes += one.bytes.size();
    highest = std::max(highest, one.id);
  }
  arena_.reserve(bytes); // views into it must stay
  extents_.resize(static_cast<std::size_t>(highest + 1));
  ids_.reserve(entries.size());
  for (const auto& one : entries) {
    extents_[static_cast<std::size_t>(one.id)] = {arena_.size(), static_cast<std::uint32_t>(one.bytes.size())};
    arena_ += one.bytes;
  }
  for (const auto& one : entries) ids_.insert_or_assign(this->bytes(one.id), one.id);
}

} // namespace godwit::gpu::model
