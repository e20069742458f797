#pragma once

#include "fabric/pieces.hpp"

#include <godwit/transport/fabric.hpp>

#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

namespace godwit::transport {

/// The landing places of one fabric, and the one place where a sender's claims are checked.
///
/// A write is admitted, then landed or failed; a posting that is withdrawn meanwhile stays until the last of its writes
/// has ended. Every byte of a posting is written at most once, since each region must be filled from its start on,
/// without gaps: a message that comes twice is refused.
/// Thread-safe; callbacks are given back to be called by the fabric's thread, outside the lock.
class postings {
public:
  using callback = std::function<void()>;

  /// The error, or nothing: then the posting is open.
  [[nodiscard]] std::string open(transfer_key key, std::vector<protocols::memory_region> regions,
                                 std::shared_ptr<void> keep, std::function<void(landing)> on_landed);

  struct admission {
    std::string error;                          ///< not empty: refused
    std::uint64_t write = 0;                    ///< names it
    std::vector<protocols::memory_region> into; ///< as many bytes as the piece has
    std::shared_ptr<void> keep;                 ///< of that memory: copies hold it
  };
  /// `copied`: the write does not end within the caller's call, even where the memory is the host's. Without it such
  /// memory comes without its owner, who is to be gone when a withdrawal is told.
  [[nodiscard]] admission admit(transfer_key key, const piece& what, bool copied = false);

  /// A write has ended well: what to call, perhaps nothing.
  [[nodiscard]] std::vector<callback> landed(std::uint64_t write);
  /// A write has ended and its bytes are wrong or missing: the posting is dead.
  [[nodiscard]] std::vector<callback> failed(std::uint64_t write, const std::string& error);

  /// Nothing is admitted from now on. `done` is among the callbacks now where no write is under way, and later
  /// otherwise; `writes` gets those.
  [[nodiscard]] std::vector<callback> close(transfer_key key, callback done,
                                            std::vector<std::uint64_t>* writes = nullptr);
  /// Closes all, for a fabric that ends when no write is under way any more.
  [[nodiscard]] std::vector<callback> close_all();
  [[nodiscard]] bool writing(std::uint64_t write) const; ///< admitted, and not ended

  /// Whether what a posting takes goes to memory of a device; false where there is none or it takes nothing any more.
  [[nodiscard]] bool on_device(transfer_key key) const;

  [[nodiscard]] std::uint64_t open_count() const;
  [[nodiscard]] std::uint64_t refused_count() const;

private:
  struct region_state {
    std::uint64_t admitted = 0; ///< bytes from the start on
    std::uint64_t landed = 0;
    bool touched = false; ///< for regions of 0 bytes
  };
  struct posting {
    std::vector<protocols::memory_region> regions;
    std::vector<region_state> states;
    std::shared_ptr<void> keep;
    std::shared_ptr<std::function<void(landing)>> on_landed;
    std::uint64_t regions_landed = 0;
    std::uint32_t writes = 0;
    bool device = false;
    bool dead = false;
    bool closing = false;
    std::vector<callback> done;
  };
  struct write_state {
    transfer_key key;
    std::uint32_t first_region = 0;
    std::uint64_t offset = 0;
    std::uint64_t bytes = 0;
    std::uint64_t regions = 0;
  };
  /// Keys that are over and are still known as such. The owner of a fabric never uses a key twice; this finds most of
  /// the mistakes in its memory's bounds.
  static constexpr std::size_t over_max = 4096;

  static std::string check(const posting& into, const piece& what);
  void end_write(posting& of, std::vector<callback>& calls, transfer_key key);
  void forget(transfer_key key);

  mutable std::mutex mutex_;
  std::unordered_map<transfer_key, posting> open_;
  std::unordered_map<std::uint64_t, write_state> writes_;
  std::uint64_t last_write_ = 0;
  std::uint64_t refused_ = 0;
  std::deque<transfer_key> over_order_;
  std::unordered_set<transfer_key> over_;
};

} // namespace godwit::transport
