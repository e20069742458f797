#pragma once

#include "batching/planned_request.hpp"

#include <godwit/protocols/batching/planner.hpp>

#include <algorithm>
#include <optional>

namespace godwit::protocols {

/// A step while it is being planned.
class planner::outline {
public:
  explicit outline(std::uint32_t budget) : budget_(budget) {}

  [[nodiscard]] std::uint32_t budget() const noexcept { return budget_; }
  void add(const share& part) {
    budget_ -= part.tokens;
    shares.push_back(part);
  }
  /// Drafts of one that is in the step.
  void add_drafts(share& part, std::uint32_t count) {
    budget_ -= count;
    part.drafted = static_cast<std::uint8_t>(count);
  }
  /// A request that lost its blocks again.
  void withdraw(const planned_request& who) {
    const auto part = std::ranges::find(shares, &who, &share::who);
    if (part == shares.end()) return;
    budget_ += part->tokens;
    shares.erase(part);
  }

  std::vector<share> shares;
  std::vector<token_id> drafts; ///< one request's behind the other's
  std::vector<block_id> holds;  ///< sources of copies
  std::vector<block_copy> copies;
  bool preempted = false;
  /// Whose blocks are wanted, and which steps compute, get no more, so that they can be preempted when these end: this
  /// one, and all of a lower priority than that.
  const planned_request* wanted = nullptr;
  std::optional<std::int32_t> outranked_by;
  [[nodiscard]] bool holds_back(const planned_request& r) const noexcept {
    return r.in_flight > 0 && (&r == wanted || (outranked_by && r.priority > *outranked_by));
  }
  std::optional<std::uint32_t> leaving; ///< blocks, as they were counted last
  std::uint32_t waits_for_swaps = 0;    ///< requests that get no share before blocks have left

private:
  std::uint32_t budget_;
};

} // namespace godwit::protocols
