#pragma once

#include "fabric/pinned_ring.hpp"

#include <godwit/protocols/messages/memory_region.hpp>
#include <godwit/transport/device_memory.hpp>
#include <godwit/transport/fabric.hpp>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace godwit::transport {

/// Whether a transfer's memory is a device's; the error is one of mixed memory.
struct memory_question {
  bool device = false;
  std::string error;
};
[[nodiscard]] memory_question kind_of(const std::vector<protocols::memory_region>& regions, bool reachable);
[[nodiscard]] bool on_device(const std::vector<protocols::memory_region>& regions) noexcept;
/// The beginning of a piece, cut as these regions are.
[[nodiscard]] std::vector<protocols::memory_region> cut_like(const pinned_piece& piece,
                                                             const std::vector<protocols::memory_region>& regions);

/// The copies of a fabric: begun on its thread, ended by the copier's, told on its thread again.
///
/// While a copy is under way it holds its memory (`keep`, its pinned piece), whatever becomes of the fabric. It is let
/// go of on a thread that may call the device, never on one of the copier.
class device_copies {
public:
  using regions = std::vector<protocols::memory_region>;
  using owners = std::vector<std::shared_ptr<void>>; ///< of memory
  using ended = std::function<void(const std::string& error)>;

  /// `wake` is called on a thread of the copier when something has ended, and never once this is destroyed.
  device_copies(device_memory options, std::function<void()> wake);
  device_copies(const device_copies&) = delete;
  device_copies& operator=(const device_copies&) = delete;
  /// Does not wait for copies that are under way: they, and the copier itself, are left to a thread that sees to their
  /// end. Where there are none the copier goes at once, or is left likewise after `patience`.
  ~device_copies();

  [[nodiscard]] bool present() const noexcept { return options_.copier != nullptr; }
  [[nodiscard]] std::optional<protocols::memory_extent> extent(const std::byte* address) const {
    return present() ? options_.copier->extent(address) : std::nullopt;
  }
  void enter() const {
    if (present()) options_.copier->enter();
  }
  [[nodiscard]] std::chrono::milliseconds patience() const noexcept { return options_.patience; }
  /// Two rings: what is sent waits for the network, what arrives for the device alone. Only where present.
  [[nodiscard]] pinned_ring& sending() { return *sending_; }
  [[nodiscard]] pinned_ring& arriving() { return *arriving_; }
  /// A third one, for what the network reads by itself, and waits for as what is sent does. Made when it is first asked
  /// for; null where there is no memory for it.
  [[nodiscard]] pinned_ring* reading();

  /// The memory's bytes to the beginning of the piece. `then` runs by `run`, and so does that of the others.
  void gather(regions from, const pinned_piece& into, bool urgent, owners keep, ended then);
  void scatter(const pinned_piece& from, regions into, bool urgent, owners keep, ended then);

  /// What is copied within this process: how large a piece may be now, given where it lies and where it goes (one of
  /// them at least on a device); nothing where it has to wait for copies that are under way.
  [[nodiscard]] std::optional<std::uint64_t> room(bool from_device, bool into_device, bool urgent);
  /// Such a piece, after `room` has said so. `wanted` is asked before memory of the host is written, which happens on
  /// the fabric's thread when the device's part has ended.
  void move(regions from, regions into, bool urgent, owners keep, std::function<bool()> wanted, ended then);

  /// On the fabric's thread: tells what has ended. True where anything has.
  bool run();
  /// Waits until nothing is under way, and tells it; `patience` at most.
  void finish();

private:
  struct post_box;
  using completion = protocols::memory_copier::completion;
  /// Calls `copy` with what its end is told to; counts it unless that throws.
  template <class Copy> void begin(owners held, ended then, const Copy& copy);

  device_memory options_;
  std::unique_ptr<pinned_ring> sending_, arriving_, reading_;
  bool reading_failed_ = false;
  std::shared_ptr<post_box> box_;
  std::uint64_t open_ = 0;                            ///< begun, and their end not told
  std::uint64_t direct_bulk_ = 0, direct_urgent_ = 0; ///< open ones from a device to a device
};

} // namespace godwit::transport
