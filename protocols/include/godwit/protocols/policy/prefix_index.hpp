#pragma once

#include <godwit/protocols/kv/block_hash.hpp>
#include <godwit/protocols/messages/ids.hpp>

#include <cstddef>
#include <cstdint>
#include <span>
#include <unordered_map>
#include <vector>

namespace godwit::protocols {

/// Which instances most likely still hold the KV of a prompt's beginning.
///
/// Problem: a conversation's next turn begins with all that was said before; where its KV is cached it costs next to
/// nothing, elsewhere it is computed anew. Instances do not say what they have cached. But what was sent to them is
/// known, and they forget what was used longest ago, ends before beginnings (block_ledger); so an instance is taken to
/// hold of all that it was sent what fits into its pool, by the same rule. That is a guess: answers take memory too,
/// and migrations move it. A wrong one costs what not looking costs: a prompt is computed. Cache-aware routers of other
/// systems guess alike (SGLang's; llm-d's by approximation).
///
/// Bounded: `marks_max` marks of all instances together, each one's share of it, and `matches_max` matches. Same calls,
/// same answers.
class prefix_index {
public:
  static constexpr std::size_t marks_max = 1U << 17U;
  static constexpr std::size_t matches_max = 64;

  struct match {
    instance_id instance;
    std::uint32_t marks = 0; ///< of the beginning, one after the other from the first
    friend bool operator==(const match&, const match&) = default;
  };

  /// A prompt with these marks (kv/prefix_marks.hpp) was sent to the instance, which can keep those of `capacity`
  /// marks.
  void sent(instance_id instance, std::span<const block_hash> marks, std::uint64_t capacity);
  /// What the instance held is gone.
  void forget(instance_id instance);
  /// Those that hold the first mark, the longest beginnings first, equal ones by ascending instance; of more than
  /// `matches_max` those that hold most. Valid until the next call.
  [[nodiscard]] std::span<const match> find(std::span<const block_hash> marks);
  [[nodiscard]] std::size_t size() const noexcept { return size_; }

private:
  static constexpr std::uint32_t none = ~std::uint32_t{0};
  /// A mark that an instance holds, in the instance's list from the last used one to the first.
  struct node {
    block_hash mark = 0;
    std::uint32_t newer = none;
    std::uint32_t older = none;
  };
  struct holder {
    instance_id instance;
    std::uint32_t at = 0; ///< its node
  };
  struct book {
    std::uint32_t newest = none;
    std::uint32_t oldest = none;
    std::size_t count = 0;
  };
  void use(instance_id instance, book& own, block_hash mark);
  void drop(instance_id instance, book& own, std::uint32_t at);
  void trim(instance_id instance, book& own, std::uint64_t limit);
  void unlink(book& own, std::uint32_t at);
  void put_first(book& own, std::uint32_t at);
  [[nodiscard]] std::size_t share() const noexcept { return marks_max / books_.size(); }

  std::unordered_map<block_hash, std::vector<holder>> holders_; ///< by ascending instance
  std::unordered_map<instance_id, book> books_;
  std::vector<node> nodes_;
  std::vector<std::uint32_t> free_;
  std::size_t size_ = 0;
  std::vector<match> found_;
};

} // namespace godwit::protocols
