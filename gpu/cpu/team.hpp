#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <thread>
#include <vector>

namespace godwit::gpu::cpu {

/// Threads that run one function together.
///
/// Whoever calls `run` is member 0; helpers are the others. Waiting threads watch for some microseconds and then sleep,
/// so that two threads in step lose no time and idle ones, or ones whose partner lost its core, waste none.
class team {
public:
  /// One thread's part in a run.
  class member {
  public:
    [[nodiscard]] std::uint32_t index() const noexcept { return index_; }
    [[nodiscard]] std::uint32_t size() const noexcept { return team_.size(); }
    /// Waits for all members. Also restarts `next`.
    void barrier();
    /// 0, 1, 2 ... each once among all members, until the next barrier. Work is taken piece by piece, since the cores
    /// of a busy machine are not equally fast.
    [[nodiscard]] std::uint32_t next() noexcept { return team_.dispensed_.fetch_add(1, std::memory_order_relaxed); }

  private:
    friend class team;
    member(team& owner, std::uint32_t index) noexcept : team_(owner), index_(index) {}
    team& team_;
    std::uint32_t index_;
  };
  using function = std::function<void(member&)>;

  /// `size` members, the caller of `run` included; at least 1. Throws std::runtime_error where the system starts no
  /// more threads.
  explicit team(std::uint32_t size);
  ~team();
  team(const team&) = delete;
  team& operator=(const team&) = delete;

  [[nodiscard]] std::uint32_t size() const noexcept { return static_cast<std::uint32_t>(helpers_.size()) + 1; }
  /// Runs `body` on all members and returns when all have returned. `body` must not throw. One run at a time.
  void run(const function& body);

private:
  void stop() noexcept;
  void help(std::uint32_t index);
  static void wait_while(const std::atomic<std::int32_t>& value, std::int32_t old) noexcept;
  static void publish(std::atomic<std::int32_t>& value) noexcept;

  std::vector<std::thread> helpers_;
  const function* body_ = nullptr;
  bool stopping_ = false;
  alignas(64) std::atomic<std::int32_t> round_{0};    ///< raised for every run
  alignas(64) std::atomic<std::int32_t> phase_{0};    ///< raised by every barrier
  alignas(64) std::atomic<std::uint32_t> arrived_{0}; ///< at the barrier
  alignas(64) std::atomic<std::uint32_t> dispensed_{0};
};

/// Pieces of a phase, each taken by one thread.
template <class Body> void share(team::member& self, std::uint32_t count, const Body& body) {
  for (std::uint32_t i = self.next(); i < count; i = self.next()) body(i);
}

[[nodiscard]] constexpr std::uint32_t pieces(std::uint32_t count, std::uint32_t each) noexcept {
  return (count + each - 1) / each;
}

} // namespace godwit::gpu::cpu
