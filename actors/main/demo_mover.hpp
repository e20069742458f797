#pragma once

#include <godwit/actors/cluster.hpp>

#include <atomic>
#include <cstdint>
#include <thread>
#include <vector>

namespace godwit::main {

/// What a mover has done.
struct moves {
  std::uint64_t ordered = 0;
  std::uint64_t committed = 0;
  std::uint64_t bytes = 0;
  std::vector<double> stall_ms; ///< of the committed ones, as the source saw them
};

/// Moves every running request to the next instance, again and again, until it is destroyed.
class mover {
public:
  explicit mover(actors::cluster& cluster);
  mover(const mover&) = delete;
  mover& operator=(const mover&) = delete;
  ~mover() { (void)stop(); }
  [[nodiscard]] moves stop();

private:
  void run();
  void move_all();
  actors::cluster& cluster_;
  std::atomic<bool> stopping_{false};
  moves done_; // of the thread; read when it has ended
  std::thread thread_;
};

} // namespace godwit::main
