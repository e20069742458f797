#pragma once

#include "processes/support/console.hpp"

#include <atomic>
#include <cstdint>
#include <map>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace godwit::test {

/// Orders migrations of whatever decodes, one after the other, from the processes of one name to those of another,
/// until it is stopped.
class mover {
public:
  using way = std::pair<std::string, std::string>; ///< from, to: what the processes are called (--name)
  mover(const std::string& control, std::vector<way> ways);
  mover(const mover&) = delete;
  mover& operator=(const mover&) = delete;
  ~mover();

  /// Returns when the order that is under way has been answered.
  void stop();
  [[nodiscard]] std::uint64_t committed(const way& which) const;
  [[nodiscard]] std::uint64_t committed() const;
  /// "committed: 12, refused (request-unknown): 1": for messages.
  [[nodiscard]] std::string summary() const;

private:
  void run();
  void move_one_each(const protocols::cluster_status& now);

  console console_;
  std::vector<way> ways_;
  mutable std::mutex mutex_;
  std::map<way, std::uint64_t> committed_;
  std::map<std::string, std::uint64_t> outcomes_;
  std::atomic<bool> stopping_ = false;
  std::thread thread_; // last
};

} // namespace godwit::test
