#include "fabric/pinned_ring.hpp"

#include <algorithm>
#include <mutex>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace godwit::transport {

namespace {
constexpr std::size_t mark_bytes = 64;
}

struct pinned_ring::shared {
  std::shared_ptr<std::byte> memory;
  std::size_t bytes = 0;
  std::uint32_t pieces = 0;
  std::uint32_t reserved = 0; ///< for urgent work
  mutable std::mutex mutex;
  std::vector<std::byte*> unused;
  bool marked = false;

  [[nodiscard]] std::size_t free(bool urgent) const {
    return unused.size() - std::min<std::size_t>(unused.size(), urgent ? 0 : reserved);
  }
};

pinned_ring::pinned_ring(protocols::memory_copier& from, std::uint32_t pieces, std::uint32_t urgent_pieces,
                         std::size_t bytes)
    : state_(std::make_shared<shared>()) {
  auto& s = *state_;
  s.bytes = std::max<std::size_t>((bytes + 63) / 64 * 64, 4096);
  s.pieces = std::max(pieces, 2U);
  s.reserved = std::clamp(urgent_pieces, 1U, s.pieces - 1);
  s.memory = from.allocate_pinned(s.bytes * s.pieces + mark_bytes);
  if (!s.memory)
    throw std::runtime_error("no " + std::to_string(s.bytes * s.pieces) + " bytes of page-locked memory (" +
                             from.name() + ")");
  for (std::uint32_t i = 0; i < s.pieces; ++i) s.unused.push_back(s.memory.get() + i * s.bytes);
}

pinned_piece pinned_ring::take(bool urgent) {
  const std::lock_guard lock{state_->mutex};
  if (state_->free(urgent) == 0) return {};
  auto* const piece = state_->unused.back();
  state_->unused.pop_back();
  return {piece, [state = state_](std::byte* back) {
            const std::lock_guard guard{state->mutex};
            state->unused.push_back(back);
          }};
}

std::uint32_t pinned_ring::free_count(bool urgent) const {
  const std::lock_guard lock{state_->mutex};
  return static_cast<std::uint32_t>(state_->free(urgent));
}

const char* pinned_ring::mark(std::string_view text) {
  auto* const place = state_->memory.get() + state_->bytes * state_->pieces;
  const std::lock_guard lock{state_->mutex};
  if (std::exchange(state_->marked, true)) return reinterpret_cast<const char*>(place); // others may be reading it
  std::copy_n(text.begin(), std::min(text.size(), mark_bytes), reinterpret_cast<char*>(place));
  return reinterpret_cast<const char*>(place);
}

std::size_t pinned_ring::bytes() const noexcept { return state_->bytes; }

} // namespace godwit::transport
