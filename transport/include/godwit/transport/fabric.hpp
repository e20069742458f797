#pragma once

#include <godwit/protocols/messages/memory_region.hpp>

#include <chrono>
#include <compare>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <tuple>
#include <vector>

/// Moves lists of memory regions (the KV blocks of a request) from one process to another.
namespace godwit::transport {

/// Names one transfer. Chosen by the side that receives, and never used twice by it: messages for a transfer that is
/// over can then be told from those of the one that took its place.
struct transfer_key {
  std::uint64_t id = 0;
  std::uint32_t generation = 0;
  transfer_key() = default;
  transfer_key(std::uint64_t i, std::uint32_t g) : id(i), generation(g) {}
  friend auto operator<=>(const transfer_key&, const transfer_key&) = default;
  auto fields() { return std::tie(id, generation); }
};
/// "17.3"
[[nodiscard]] std::string to_string(transfer_key key);

/// Urgent sends (the last stage of a migration, which the client feels) overtake queued bulk.
enum class transfer_priority : std::uint8_t { bulk, urgent };

/// What has happened to a posting.
struct landing {
  std::uint64_t regions = 0; ///< of this posting, landed so far in total
  std::string error;         ///< not empty: the posting is dead, and takes nothing any more; withdraw it
  landing() = default;
  landing(std::uint64_t r, std::string e) : regions(r), error(std::move(e)) {}
};

/// One process's end of the network that moves blocks.
///
/// The receiver posts where a transfer may land and tells the sender its address and the key (by a message of its own,
/// over the control channel); the sender sends. We write nothing anywhere else: keys and sizes are checked by the
/// receiver against what it posted. (UCX itself trusts whoever reaches its port: docs/design/fabric.md.)
///
/// A transfer's memory is the host's, all of it, or a device's, on each side for itself; a device's where the fabric
/// was given a way to copy it (device_memory.hpp).
///
/// Thread-safe. Callbacks run on a thread of the fabric, never within a call, one at a time; they must not throw and
/// only post. Every wait is bounded. Destroying a fabric ends all that is open: each `done` is called once, with an
/// error where it was a send, before the destructor returns; it must not run on the fabric's own thread.
class fabric {
public:
  virtual ~fabric() = default;

  /// Where others send to: printable, without spaces, at most 4096 characters. Holds a version of the format and an
  /// identity of this very fabric, so that the address of a dead process never means its successor.
  [[nodiscard]] virtual std::string address() const = 0;

  /// Offers `regions` as the landing place of a transfer, from the moment in which this returns.
  ///
  /// Senders may fill it in several sends, each [first_region, first_region + n), every region once; the sizes must
  /// match pairwise, regions of 0 bytes are allowed. `on_landed` after each message that completed regions (a send may
  /// travel as several), and once with an error where the posting dies: the key was used before, device memory that
  /// this fabric cannot reach, a message that was cut short or given up by its sender, a checksum that is wrong.
  /// The posting stays until it is withdrawn. `keep`, the owner of the memory, is held until no write can land.
  virtual void post(transfer_key key, std::vector<protocols::memory_region> regions, std::shared_ptr<void> keep,
                    std::function<void(landing)> on_landed) = 0;

  /// Ends a posting: once this has returned, messages for the key are refused; `on_landed` may still be called for what
  /// had landed before, until `done`. `done` when no write can land in its regions any more: soon, and in bounded time
  /// where the peer is dead or stopped. Unknown key: at once.
  virtual void withdraw(transfer_key key, std::function<void()> done) = 0;

  /// Sends `regions` into [first_region, ...) of the posting `key` at `peer`.
  ///
  /// `done("")`: every byte has landed there, as the receiver says. Otherwise one line of what went wrong: no such
  /// posting, wrong sizes, peer gone, timed out; part of it may have landed. Exactly once, at the latest after
  /// `timeout`. `keep` is held until the memory is not read any more, which may be after `done` where that was an
  /// error; what is read then is thrown away, so the bytes may change, but the memory has to be there.
  virtual void send(const std::string& peer, transfer_key key, std::uint32_t first_region,
                    std::vector<protocols::memory_region> regions, transfer_priority priority,
                    std::chrono::nanoseconds timeout, std::shared_ptr<void> keep,
                    std::function<void(std::string)> done) = 0;

  /// Since the start, but for the last three, which are 0 when everything has ended.
  struct counters {
    std::uint64_t bytes_sent = 0; ///< acknowledged by the peer
    std::uint64_t bytes_landed = 0;
    std::uint64_t bytes_read = 0; ///< out of senders' memory by the network itself
    std::uint64_t messages_sent = 0;
    std::uint64_t messages_landed = 0;
    std::uint64_t refused = 0; ///< messages for which there was no place
    std::uint64_t failed = 0;  ///< sends that ended with an error
    std::uint64_t postings_open = 0;
    std::uint64_t sends_open = 0;
    std::uint64_t peers_open = 0; ///< connections
  };
  [[nodiscard]] virtual counters figures() const = 0;
};

} // namespace godwit::transport

template <> struct std::hash<godwit::transport::transfer_key> {
  std::size_t operator()(const godwit::transport::transfer_key& key) const noexcept {
    return std::hash<std::uint64_t>{}(key.id * 0x9E3779B97F4A7C15ULL + key.generation);
  }
};
