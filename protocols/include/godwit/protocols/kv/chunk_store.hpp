#pragma once

#include <godwit/protocols/kv/chunk_name.hpp>

#include <cstdint>
#include <optional>
#include <unordered_map>
#include <vector>

namespace godwit::protocols {

/// Which chunk lies in which slot of one shard of a KV store.
///
/// A slot is *free*, *landing* (reserved for a chunk whose bytes are on their way), *filed* (it has the chunk), or
/// *retired* (nobody uses it).
/// Filed slots that nobody reads are taken for others, least recently used first; those that somebody reads (`pin`) or
/// that something lands in are nobody else's until that has ended. A prefix is of use from its beginning only: whoever
/// files or reads the chunks of one does so from its end, so that the beginning is the last to go.
///
/// There may be a second, larger place below (a disk, with a chunk_store of its own). Then chunks are copied there
/// before their slots are taken: `begin_copy` says which is next, `has_spare` whether a slot can be taken without
/// losing what only it has.
///
/// All operations are O(1), but for slots that are held, which `reserve` passes by, and those that are retired or
/// restored together. A broken precondition throws contract_violation.
class chunk_store {
public:
  using slot = std::uint32_t;
  struct counters {
    std::uint64_t filed = 0; ///< but for those that came from below
    std::uint64_t evicted = 0;
    std::uint64_t abandoned = 0; ///< reserved, and nothing came of it
  };

  explicit chunk_store(std::uint32_t slots);

  /// Filed or landing.
  [[nodiscard]] bool knows(const chunk_name& name) const { return places_.contains(name); }
  /// Filed.
  [[nodiscard]] bool has(const chunk_name& name) const;
  /// It is wanted again. No effect where it is not filed.
  void touch(const chunk_name& name);
  /// Chunks touched, filed or read after this call are not evicted for those that are reserved `since` it.
  [[nodiscard]] std::uint64_t begin() noexcept { return ++uses_; }
  /// A slot for a chunk that is not known. Empty: all others are in use, or were used since.
  [[nodiscard]] std::optional<slot> reserve(const chunk_name& name, std::uint64_t since);
  /// Whether a slot can be reserved for whom all others may make room.
  [[nodiscard]] bool has_room() const noexcept;
  /// ... without losing what has no copy below.
  [[nodiscard]] bool has_spare() const noexcept;
  /// Whether it may, once the oldest has been copied; not where that was tried in vain.
  [[nodiscard]] bool may_have_spare() const noexcept;
  /// The chunk that was evicted for the last `reserve`, if one was.
  [[nodiscard]] const std::optional<chunk_name>& displaced() const noexcept { return displaced_; }
  /// What a slot was reserved for is in it. `copied`: it has been read from the place below, and is there still.
  void file(slot where, bool copied = false);
  /// It will not come; nothing can land there any more.
  void abandon(slot where);
  /// The slot of a filed chunk, not to be overwritten before as many `unpin`.
  [[nodiscard]] std::optional<slot> pin(const chunk_name& name);
  void unpin(slot where);
  /// As `pin`, of a chunk that is not used but only read: it keeps its place in the order. For few at a time.
  [[nodiscard]] std::optional<slot> hold(const chunk_name& name);
  void let_go(slot where);
  /// A filed chunk that nobody reads or holds is not there any more.
  void drop(slot where);
  /// As `abandon`, and the slot is out of use: a place of a disk that cannot be written, maybe since the disk is full.
  /// So are those that are free: what has been filed can be written again.
  void retire(slot where);
  /// The one that was retired first is in use again. Empty: there is none.
  std::optional<slot> restore_one();
  void restore_all();

  /// Of the chunks without a copy below that nobody reads, the one that was used longest ago. It is held until
  /// `end_copy`.
  [[nodiscard]] std::optional<slot> begin_copy();
  /// `well`: the copy is there. If not, it is tried again only once the chunk has been used again.
  void end_copy(slot where, bool well);
  /// The copy below is gone. No effect where the chunk is not here, or had none.
  void lose_copy(const chunk_name& name);
  /// Of a slot that is not free.
  [[nodiscard]] const chunk_name& name_of(slot where) const;

  [[nodiscard]] std::uint32_t slots() const noexcept { return static_cast<std::uint32_t>(slots_.size()); }
  /// Filed slots.
  [[nodiscard]] std::uint32_t filed() const noexcept { return filed_; }
  [[nodiscard]] std::uint32_t landing() const noexcept { return landing_; }
  [[nodiscard]] std::uint32_t retired() const noexcept { return retired_.size; }
  [[nodiscard]] const counters& figures() const noexcept { return counters_; }

  /// Verifies every invariant, O(slots); for tests and drills. Throws contract_violation.
  void check() const;

private:
  static constexpr slot none = 0xFFFFFFFFU;
  enum class state : std::uint8_t { free, landing, filed, retired };
  enum class copy : std::uint8_t { none, going, there, failed };
  struct entry {
    chunk_name name;
    std::uint64_t used = 0;            ///< the number of the last use
    slot previous = none, next = none; ///< among the free or retired ones, or the filed ones that nobody reads
    std::uint32_t pins = 0;
    std::uint32_t holds = 0;
    state where = state::free;
    copy below = copy::none;
    bool passed = false; ///< idle, and older than next_copy_
  };
  /// The oldest in front.
  struct list {
    slot front = none, back = none;
    std::uint32_t size = 0;
  };

  /// The oldest idle one that nobody holds.
  [[nodiscard]] slot next_to_go() const noexcept;
  void become_idle(slot which) noexcept;
  void end_idle(slot which) noexcept;
  /// To the next one that wants a copy.
  void pass_copied() noexcept;
  void push_back(list& into, slot which) noexcept;
  void remove(list& from, slot which) noexcept;
  void check_list(const list& of, state where) const;
  [[nodiscard]] entry& at(slot which, state expected);

  std::vector<entry> slots_;
  std::unordered_map<chunk_name, slot> places_;
  list free_;
  list retired_;
  list idle_;             ///< filed, and nobody reads it
  slot next_copy_ = none; ///< the oldest idle one that wants a copy; those before it have one, or get none
  std::optional<chunk_name> displaced_;
  std::uint32_t filed_ = 0;
  std::uint32_t landing_ = 0;
  std::uint64_t uses_ = 0;
  counters counters_;
};

} // namespace godwit::protocols
