#pragma once

#include <godwit/protocols/kv/chunk_name.hpp>

#include <cstddef>
#include <cstdint>
#include <list>
#include <optional>
#include <unordered_map>

namespace godwit::protocols {

/// Which chunks that a shard of a KV store has on its disk are read into its memory next: those that somebody waits
/// for, and then those that were looked for and may be fetched soon; of each, what was wanted first.
///
/// All operations are O(1).
class read_queue {
public:
  /// At most so many chunks together, and so many without anybody who waits for them: more would push each other out of
  /// memory before they are fetched.
  read_queue(std::size_t most, std::size_t most_expected) : most_(most), most_expected_(most_expected) {}

  struct order {
    chunk_name name;
    std::uint64_t since = 0; ///< chunk_store::begin of who wanted it last
    bool awaited = false;
  };
  using ticket = std::uint64_t;

  /// Somebody may want it soon. No effect where there are too many.
  void expect(const chunk_name& name, std::uint64_t since);
  /// Somebody waits for it, until `ended`. Nothing: there are too many.
  [[nodiscard]] std::optional<ticket> await(const chunk_name& name, std::uint64_t since);
  /// Who has this ticket waits no longer. When nobody does, it is as expected, and forgotten where there are too many
  /// of these. No effect after `ended`.
  void give_up(const chunk_name& name, ticket which);
  /// The next one, which is being read from now on. `awaited`: only one that somebody waits for.
  [[nodiscard]] std::optional<order> next(bool awaited);
  /// It has been read, or not. Whoever waited is answered.
  void ended(const chunk_name& name);

  [[nodiscard]] std::size_t size() const noexcept { return entries_.size(); }

  /// Verifies every invariant, O(size). Throws contract_violation.
  void check() const;

private:
  enum class state : std::uint8_t { expected, awaited, begun };
  struct entry {
    std::uint64_t since = 0;
    ticket number = 0;
    std::uint32_t waiters = 0;
    state where = state::expected;
    std::list<chunk_name>::iterator place; ///< in the list of its state; begun: in none
  };
  entry& add(const chunk_name& name, std::uint64_t since, state where);
  [[nodiscard]] std::list<chunk_name>& list_of(state where) noexcept {
    return where == state::awaited ? awaited_ : expected_;
  }

  std::size_t most_;
  std::size_t most_expected_;
  std::unordered_map<chunk_name, entry> entries_;
  std::list<chunk_name> awaited_, expected_;
  ticket tickets_ = 0;
};

} // namespace godwit::protocols
