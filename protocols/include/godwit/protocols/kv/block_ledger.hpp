#pragma once

#include <godwit/protocols/kv/block_hash.hpp>
#include <godwit/protocols/messages/ids.hpp>

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace godwit::protocols {

/// Who may use which block of one instance's KV pool.
///
/// Each block is in exactly one state: *used* (references > 0), *cached* (no references, but a sealed prefix block that
/// a later request may take up again) or *free*. A block is taken from the free ones first, then from the cached ones,
/// least recently used first.
///
/// Prefix sharing: a full block whose KV is computed is `seal`ed under the hash of its tokens and of all tokens before
/// it. `find` compares tokens, salt and the parent *block*, not only hashes, so a collision costs a hit and never
/// shares wrong KV. That comparison is exact by induction because a parent outlives its sealed children: it is released
/// after them and therefore evicted after them.
///
/// A sealed or shared block is never written: `writable` says what to write instead (copy-on-write).
/// All operations are O(1) per block. A broken precondition throws contract_violation.
class block_ledger {
public:
  struct counters {
    std::uint64_t allocations = 0;
    std::uint64_t evictions = 0; ///< cached blocks taken for new contents
    std::uint64_t seals = 0;
    std::uint64_t duplicates = 0; ///< seals of contents that were there already
    std::uint64_t collisions = 0; ///< equal hashes of different contents
    std::uint64_t copies = 0;     ///< copy-on-write
  };
  struct write_order {
    block_id block;    ///< write here; the caller holds one reference to it, and none to the old one if that differs
    bool copy = false; ///< after copying the old block's contents
  };

  explicit block_ledger(std::uint32_t blocks, bool prefix_caching = true, block_hash_function hash = &hash_block);

  /// A block with one reference and undefined contents. Empty when every block is used.
  [[nodiscard]] std::optional<block_id> allocate();
  /// One more reference to a used block.
  void share(block_id block);
  /// One reference less. A block whose sealed children are used must not lose its last one: release a table from its
  /// tail.
  void release(block_id block);

  /// What to write instead of `block`, to which the caller holds a reference: itself, or a fresh block to copy it to.
  /// With a copy the reference to `block` *stays* with the caller until the copy has been made. Empty when every block
  /// is used.
  [[nodiscard]] std::optional<write_order> writable(block_id block);

  /// Declares that a used block holds the KV of these 16 tokens behind `parent` (none: at position 0), which must be
  /// sealed and used. Returns the block that now stands for these contents: `block`, or an equal one that was sealed
  /// earlier, with the caller's reference moved to it (`block` is then released). Empty when it cannot be sealed (a
  /// collision, or prefix caching off): it stays as it is.
  std::optional<block_id> seal(block_id block, std::optional<block_id> parent, std::span<const token_id> tokens,
                               std::uint64_t salt);
  /// The sealed block of these contents behind `parent` (used), with a reference for the caller.
  [[nodiscard]] std::optional<block_id> find(std::optional<block_id> parent, std::span<const token_id> tokens,
                                             std::uint64_t salt);
  /// Whether `find` would find it once `parent`, which may be cached, is used.
  [[nodiscard]] bool knows(std::optional<block_id> parent, std::span<const token_id> tokens, std::uint64_t salt) const;

  /// Whether this block is sealed with these contents behind `parent`.
  [[nodiscard]] bool stands_for(block_id block, std::optional<block_id> parent, std::span<const token_id> tokens,
                                std::uint64_t salt) const;

  /// How many leading blocks of these tokens `find` would find, one after the other.
  [[nodiscard]] std::uint32_t known_prefix(std::span<const token_id> tokens, std::uint64_t salt) const;

  [[nodiscard]] bool prefix_caching() const noexcept { return prefix_caching_; }
  [[nodiscard]] std::uint32_t total() const noexcept { return static_cast<std::uint32_t>(blocks_.size()); }
  [[nodiscard]] std::uint32_t used() const noexcept { return total() - free_.size - cached_.size; }
  [[nodiscard]] std::uint32_t cached() const noexcept { return cached_.size; }
  /// Blocks that `allocate` can still give: free and cached ones.
  [[nodiscard]] std::uint32_t available() const noexcept { return free_.size + cached_.size; }
  /// While it is the same, cached blocks have only become fewer, in the order of their eviction.
  [[nodiscard]] std::uint64_t cache_version() const noexcept { return cache_version_; }
  [[nodiscard]] std::uint32_t references(block_id block) const;
  [[nodiscard]] bool sealed(block_id block) const;
  [[nodiscard]] const counters& figures() const noexcept { return counters_; }

  /// Verifies every invariant, O(blocks); for tests and drills. Throws contract_violation.
  void check() const;

private:
  static constexpr std::uint32_t none = 0xFFFFFFFFU;
  enum class state : std::uint8_t { free, cached, used };
  /// Two lines of a cache, of which most calls need the first. What was used longest ago is taken next, so hardly
  /// anything of a large pool is in the caches when it is.
  struct alignas(64) block {
    block_hash hash = 0;    ///< when sealed
    std::uint64_t salt = 0; ///< as well
    std::uint32_t references = 0;
    std::uint32_t previous = none, next = none; ///< in the list of its state
    std::uint32_t next_sealed = none;           ///< in the chain of its hash
    std::uint32_t parent = none;                ///< when sealed
    std::uint32_t children = 0;                 ///< sealed behind this block
    std::uint32_t children_used = 0;            ///< of these
    state where = state::free;
    bool is_sealed = false;
    alignas(64) std::array<token_id, tokens_per_block> tokens{};
  };
  /// Linked through `blocks_`: the oldest in front.
  struct list {
    std::uint32_t front = none, back = none, size = 0;
  };

  [[nodiscard]] block& at(block_id id);
  [[nodiscard]] const block& at(block_id id) const;
  [[nodiscard]] std::size_t chain_number(block_hash hash) const noexcept { return hash & (chains_.size() - 1); }
  [[nodiscard]] std::uint32_t& chain_of(block_hash hash) noexcept;
  /// The sealed block that goes by this hash, or none.
  [[nodiscard]] std::uint32_t sealed_as(block_hash hash) const noexcept;
  /// The sealed block of these contents, or none.
  [[nodiscard]] std::uint32_t sealed_behind(std::optional<block_id> parent, std::span<const token_id> tokens,
                                            std::uint64_t salt) const;
  [[nodiscard]] block_hash hash_behind(std::optional<block_id> parent, std::span<const token_id> tokens,
                                       std::uint64_t salt) const;
  [[nodiscard]] bool holds(const block& sealed, std::optional<block_id> parent, std::span<const token_id> tokens,
                           std::uint64_t salt) const noexcept;
  void push_back(list& into, std::uint32_t index) noexcept;
  void remove(list& from, std::uint32_t index) noexcept;
  void reference(std::uint32_t index);
  void unseal(std::uint32_t index);
  void check_list(const list& of, state where) const;

  std::vector<block> blocks_;
  list free_;
  list cached_;
  std::uint64_t cache_version_ = 0;
  std::vector<std::uint32_t> chains_; ///< of the sealed blocks: the first by some bits of the hash; a power of two
  bool prefix_caching_;
  block_hash_function hash_;
  counters counters_;
};

} // namespace godwit::protocols
