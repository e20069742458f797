#pragma once

#include <godwit/protocols/kv/block_ledger.hpp>

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace godwit::protocols {

/// The block table of one request: logical block i holds positions [16 i, 16 i + 16).
/// Holds a reference to every block of the table, given back by `release` (a table must not be destroyed with blocks in
/// it). The ledger is passed in, always the same one.
class sequence_blocks {
public:
  sequence_blocks() = default;
  explicit sequence_blocks(std::uint64_t salt) : salt_(salt) {}

  [[nodiscard]] const std::vector<block_id>& table() const noexcept { return table_; }
  [[nodiscard]] std::uint32_t size() const noexcept { return static_cast<std::uint32_t>(table_.size()); }
  /// Positions the table has room for.
  [[nodiscard]] std::uint64_t capacity() const noexcept { return std::uint64_t{size()} * tokens_per_block; }

  /// Fills an empty table with the sealed blocks of the longest known prefix. Returns the positions whose KV is there.
  std::uint32_t match(block_ledger& ledger, std::span<const token_id> tokens);
  /// Fills an empty table with blocks that somebody else has filled. The caller's references go over to the table.
  /// Leading ones that are sealed stand for the table's beginning (`block_ledger::stands_for`). Those of the others
  /// must be the only ones, since the last block may still be written.
  void take(const block_ledger& ledger, std::vector<block_id> blocks);
  /// Extends the table to `positions`. All or nothing.
  [[nodiscard]] bool grow(block_ledger& ledger, std::uint64_t positions);
  /// Makes the block of `position` writable. `from` and `to` are equal where nothing has to be copied; otherwise the
  /// caller has the reference to `from` and releases it once the copy has been made. Empty when no block is left.
  struct written_block {
    block_id from;
    block_id to;
    [[nodiscard]] bool copies() const noexcept { return from != to; }
  };
  [[nodiscard]] std::optional<written_block> make_writable(block_ledger& ledger, std::uint64_t position);
  /// Seals the full blocks among `computed`, the tokens whose KV is there, for others to share. A block gives its place
  /// to one that holds the same, and is free; with `replaced` the caller gets a reference to it instead, since somebody
  /// may still read the table as it was.
  void seal(block_ledger& ledger, std::span<const token_id> computed, std::vector<block_id>* replaced = nullptr);
  /// A second table over the same blocks (parallel samples of one prompt).
  [[nodiscard]] sequence_blocks fork(block_ledger& ledger) const;
  /// Drops the blocks behind the first `positions`.
  void truncate(block_ledger& ledger, std::uint64_t positions);
  void release(block_ledger& ledger) { truncate(ledger, 0); }

private:
  std::vector<block_id> table_;
  std::uint32_t sealed_ = 0; ///< leading blocks known to be sealed
  bool sealable_ = true;     ///< false after a block that could not be sealed: its children cannot be either
  std::uint64_t salt_ = 0;
};

} // namespace godwit::protocols
