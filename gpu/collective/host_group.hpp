#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <span>
#include <string>
#include <vector>

namespace godwit::gpu::collective {

/// Where the ranks of a host group meet.
///
/// Each rank leaves what it brings in a place of the group's own, meets the others once, and reads theirs: nobody ever
/// touches memory of another rank, so one whose wait ends with an error may go, and free all it has, at once.
/// Places are used in turn, two for each rank: who meets the others in operation k + 1 has read all of operation k, so
/// its place is free for k + 2.
class host_group {
public:
  enum class kind : std::uint8_t { all_reduce, all_gather };
  /// What a rank takes part in; has to be the same for all.
  struct operation {
    kind what = kind::all_reduce;
    std::size_t count = 0;
    friend bool operator==(const operation&, const operation&) = default;
  };

  host_group(std::uint32_t ranks, std::chrono::nanoseconds wait_max);

  [[nodiscard]] std::uint32_t ranks() const noexcept { return static_cast<std::uint32_t>(places_.size()); }
  /// The place of a rank in its operation number `turn`; others may read it once they have met.
  [[nodiscard]] std::vector<float>& place(std::uint32_t rank, std::uint64_t turn) noexcept {
    return places_[rank][turn % 2];
  }
  /// Waits for all ranks. Empty: they are here.
  [[nodiscard]] std::string meet(std::uint32_t rank, const operation& what);
  /// Empty while the group is whole.
  [[nodiscard]] std::string error() const;
  void fail(const std::string& why);

private:
  std::string fail_locked(std::string why);
  [[nodiscard]] std::string absent() const;

  std::chrono::nanoseconds wait_max_;
  std::vector<std::array<std::vector<float>, 2>> places_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  operation current_;
  std::vector<bool> here_;
  std::uint32_t arrived_ = 0;
  std::string error_;
  std::atomic<std::uint64_t> meetings_{0}; ///< that all have come to; written under the mutex
  std::atomic<bool> broken_{false};        ///< `error_` is not empty; likewise
};

} // namespace godwit::gpu::collective
