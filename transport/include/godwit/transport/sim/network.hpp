#pragma once

#include <godwit/runtime/async/timer_source.hpp>
#include <godwit/transport/fabric.hpp>

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>

/// The fabric of simulations: bytes are really copied, time is the timer's, and links fail when they are told to.
namespace godwit::transport::sim {

struct link_settings {
  double bytes_per_second = 4e9;
  std::chrono::nanoseconds latency{std::chrono::microseconds(20)}; ///< one way
  std::uint64_t bytes_per_piece = std::uint64_t{1} << 20;          ///< how long an urgent send may have to wait
};

/// Fabrics that reach each other. Each sends one piece at a time, urgent ones first; a piece is admitted when it leaves
/// and lands when it arrives, so a withdrawal can meet one that is under way.
///
/// Everything runs on the timer's thread, in an order that follows from the calls: no randomness. `timers` outlives the
/// network and its fabrics. Not thread-safe.
class network {
public:
  network(runtime::async::timer_source& timers, link_settings settings = {});
  ~network();
  network(const network&) = delete;
  network& operator=(const network&) = delete;

  /// `name` is its address and must be new.
  [[nodiscard]] std::shared_ptr<fabric> make_fabric(const std::string& name);

  // Faults.
  /// From now on nothing passes between the two: what is under way is lost, what is sent times out.
  void cut(const std::string& a, const std::string& b);
  void heal(const std::string& a, const std::string& b);
  /// The process is stopped (SIGSTOP): it takes nothing and answers nothing until it is thawed.
  void freeze(const std::string& name);
  void thaw(const std::string& name);
  /// The next so many pieces that `name` sends get lost, with an error at once.
  void fail_pieces(const std::string& name, std::uint32_t count);
  /// Acknowledgements to `name` get lost: its blocks land, and it never learns of it.
  void drop_acks(const std::string& name, bool dropped);

private:
  struct core;
  class sim_fabric;
  std::shared_ptr<core> core_;
};

} // namespace godwit::transport::sim
