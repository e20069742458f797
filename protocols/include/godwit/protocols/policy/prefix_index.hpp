#pragma once

#include <godwit/protocols/kv/block_hash.hpp>
#include <godwit/protocols/messages/ids.hpp>

#include <cstddef>
#include <cstdint>
#include <span>
#include <unordered_map>
#include <vector>

namespace godwit::protocols {

/// Which instance most likely still holds the KV of a prompt's beginning.
///
/// Problem: a conversation's next turn begins with all that was said before; where its KV is cached it costs next to
/// nothing, elsewhere it is computed anew. Instances do not say what they have cached. But what was sent to them is
/// known, and they forget what was used longest ago, so an instance has a beginning until as much else as it can hold
/// was sent there. That is a guess (answers take memory too, migrations move it), and a wrong one costs what not
/// looking costs: a prompt is computed. Cache-aware routers of other systems guess alike (SGLang's; llm-d's by
/// approximation).
///
/// Bounded: `marks_max` marks of all instances together, of which half at most are current. Same calls, same answers.
class prefix_index {
public:
  static constexpr std::size_t marks_max = 1U << 18U;

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
  /// Those that have at least the first mark, by ascending instance. Valid until the next call.
  [[nodiscard]] std::span<const match> find(std::span<const block_hash> marks);
  [[nodiscard]] std::size_t size() const noexcept { return size_; }

private:
  struct holder {
    instance_id instance;
    std::uint64_t at = 0; ///< its book's count when it was last sent the mark
  };
  struct book {
    std::uint64_t count = 0; ///< up by one with each mark that was new to the instance
    std::uint64_t first = 0; ///< the count that it began with: what it was sent before is gone
    std::uint64_t capacity = 0;
  };
  [[nodiscard]] bool holds(const holder& who) const noexcept;
  void sweep();

  std::unordered_map<block_hash, std::vector<holder>> holders_; ///< by ascending instance
  std::unordered_map<instance_id, book> books_;
  std::uint64_t forgotten_ = 0; ///< the highest count of a book that is gone; new ones begin behind it
  std::size_t size_ = 0;        ///< holders of all marks, those that hold no longer included
  std::vector<match> found_;
};

} // namespace godwit::protocols
