#pragma once

#include "model_case.hpp"

#include <godwit/protocols/kv/block_ledger.hpp>
#include <godwit/protocols/migration/destination.hpp>
#include <godwit/protocols/migration/handover.hpp>
#include <godwit/protocols/migration/source.hpp>
#include <godwit/protocols/requests/ownership.hpp>

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

/// The world around the production machines, as small as it can be: processes, links, llumlets, a fabric, a home.
/// All of it is a value: copied, compared by its canonical bytes, thrown away.
namespace godwit::protocols::model {

using byte = std::uint8_t;
inline constexpr byte nobody = 0xFF;
inline constexpr byte pool_max = 12;
inline constexpr byte blocks_max = 6; ///< of one request

/// Processes: 0 is the home, 1 + i is instance i.
inline constexpr byte processes_max = 1 + instances_max;
inline constexpr byte home_process = 0;

/// Actors, as senders and receivers of messages.
inline constexpr byte home_actor = 0;
[[nodiscard]] constexpr byte llumlet_of(byte instance) { return static_cast<byte>(1 + instance); }
[[nodiscard]] constexpr byte source_of(byte migration) { return static_cast<byte>(4 + migration); }
[[nodiscard]] constexpr byte destination_of(byte migration) {
  return static_cast<byte>(4 + migrations_max + migration);
}
inline constexpr byte fabric_actor = 4 + 2 * migrations_max;

enum class kind : byte {
  // source coordinator and home
  prepare_move,
  move_prepared,
  // source coordinator, destination's llumlet, destination coordinator
  open,
  opened,
  open_refused,
  pre_alloc,
  pre_alloc_answer,
  commit,
  commit_answer,
  abort,
  down, ///< the sender, a coordinator, has ended
  // llumlet and home
  tokens,
  admitted,
  claim,
  claim_answer,
  reclaim,
  reclaim_answer,
  disown,
  dispatch,
  cancel,
  // within a process: never lost unless it dies
  looked,
  parked,
  gone,
  room,
  adoption,
  settled,
  copied,
  copy_failed,
  transfer_failed,
  closed,
  peer_lost, ///< the runtime tells a coordinator that the other side's process is unreachable
  home_lost,
  died ///< a coordinator of this process died
};

struct message {
  byte from = 0, to = 0;
  byte generation = 0; ///< of the sender's process
  bool late = false;   ///< a second copy, outside of any order
  kind what = kind::down;
  byte request = 0;
  byte epoch = 0;
  std::array<byte, 5> x{}; ///< by kind; see `describe`
  friend auto operator<=>(const message&, const message&) = default;
};

/// What a physical block holds: the first `filled` tokens of a request's block `index`.
struct contents {
  byte request = nobody, index = 0, filled = 0;
  friend bool operator==(const contents&, const contents&) = default;
};

struct block_list {
  byte size = 0;
  std::array<byte, blocks_max + 2> ids{};
  void push(byte id) { ids.at(size++) = id; }
};

enum class parking : byte { none, ordered, parked };

/// A request at an instance.
struct entry {
  bool there = false;
  byte epoch = 0, tokens = 0, computed = 0, preemptions = 0;
  parking park = parking::none;
  byte migration = nobody; ///< under way, with this instance as its source
  byte ask = 0;
  std::optional<ownership_reclaim> reclaim;
  block_list blocks;
};

/// A ledger that copies of a world share until one of them changes it: most steps touch no block.
class shared_ledger {
public:
  shared_ledger() = default;
  explicit shared_ledger(std::uint32_t blocks) : of_(std::make_shared<block_ledger>(blocks, false)) {}
  [[nodiscard]] const block_ledger& read() const { return *of_; }
  [[nodiscard]] block_ledger& write() {
    if (of_.use_count() > 1) of_ = std::make_shared<block_ledger>(*of_);
    return *of_;
  }

private:
  std::shared_ptr<block_ledger> of_;
};

struct instance {
  bool up = true, frozen = false;
  byte generation = 0;
  shared_ledger ledger;
  std::array<contents, pool_max> kv{};
  std::array<entry, requests_max> entries{};
  block_list cache; ///< the beginning of request 0, which somebody else there holds
};

/// The home's record of a request.
struct home_request {
  request_ownership ownership;
  bool placing = false;
  bool known = true; ///< false: of the home before; its client has got an error
};

struct home {
  bool up = true, frozen = false;
  byte own_generation = 0;
  std::array<home_request, requests_max> requests{};
  std::array<bool, instances_max> alive{}; ///< in its view
  std::array<byte, instances_max> generation{};
};

enum class life : byte { never, alive, ended };
enum class landing : byte { none, open, closing, closed };
enum class holder : byte { none, coordinator, orphan, claiming };

/// A write on its way from one block of the source to one of the destination. It reads when it lands.
struct write {
  byte stage = 0, index = 0;
  byte block = 0;         ///< at the source
  bool stale = false;     ///< that block was freed meanwhile: whatever is read is wrong
  byte captured = nobody; ///< the source's process died; this is what was on the wire
};

/// What a commit carries.
struct moved_state {
  byte epoch = 0, tokens = 0, computed = 0, accepted = 0;
  friend bool operator==(const moved_state&, const moved_state&) = default;
};

struct migration {
  byte request = 0, from = 0, to = 0;
  byte from_generation = 0, to_generation = 0;
  byte epoch = 0, accepted = 0;
  byte parked_tokens = 0, parked_computed = 0; ///< as the llumlet said when it parked the request
  byte known = 0;                              ///< of these, as the destination said
  byte complete = 0; ///< blocks of the request as the migration begins: what the destination may have of it already

  life source_life = life::never;
  std::optional<migration_source> source;
  byte timer = 0;

  life destination_life = life::never;
  std::optional<migration_destination> destination;
  byte lease = 0;
  moved_state state; ///< as the destination knows it

  holder held_by = holder::none; ///< the reservation, at the destination's llumlet
  block_list reservation;
  std::optional<ownership_claim> claim;
  byte ask = 0;

  landing place = landing::none;
  byte posted = 0;              ///< blocks [0, posted) have a landing place
  std::array<byte, 8> landed{}; ///< by stage
  byte landed_news = 0;         ///< by stage: the coordinator has not heard of the newest count
  std::vector<write> writes;
};

struct world {
  home front;
  std::array<instance, instances_max> instances{};
  byte migrations = 0;
  std::array<migration, migrations_max> moves{};
  std::vector<message> messages; ///< sorted by sender, receiver and generation; in order within these
  std::array<std::array<bool, processes_max>, processes_max> link_down{};
  std::array<std::array<bool, processes_max>, processes_max> unnoticed{}; ///< [observer][subject]
  fault_budget left;
  const char* broken = nullptr; ///< the promise that was broken on the way here
};

[[nodiscard]] world first_world(const model_case& bounds);

/// Equal for two worlds exactly when they go on alike. Physical block ids are left out: a table's blocks are told by
/// their contents, and which free block is taken next makes no difference to anything but its id. Of timers it matters
/// which one is armed, not how many there were before.
void serialise(const model_case& bounds, const world& from, std::string& into);

[[nodiscard]] byte process_of(const world& in, byte actor);
[[nodiscard]] constexpr byte process_of_instance(byte i) { return static_cast<byte>(1 + i); }
[[nodiscard]] std::string name_of_process(byte process);
[[nodiscard]] std::string describe(const message& letter);

} // namespace godwit::protocols::model
