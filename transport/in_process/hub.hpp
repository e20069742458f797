#pragma once

#include "fabric/postings.hpp"

#include <godwit/transport/in_process/fabric.hpp>

#include <chrono>
#include <condition_variable>
#include <deque>
#include <list>
#include <mutex>
#include <thread>
#include <unordered_map>

namespace godwit::transport::in_process {

/// What the hub knows of one fabric.
struct member {
  std::string address;
  postings table;
  fabric::counters counted; ///< under the hub's mutex
};

class hub {
public:
  explicit hub(settings options);
  hub(const hub&) = delete;
  hub& operator=(const hub&) = delete;
  ~hub();

  [[nodiscard]] std::shared_ptr<member> join();
  /// Ends what the member has open; returns when its callbacks have run.
  void leave(const std::shared_ptr<member>& who);
  /// Runs `function` on the thread, before any other piece is copied.
  void call(std::function<void()> function);
  void send(std::shared_ptr<member> from, const std::string& peer, transfer_key key, std::uint32_t first_region,
            std::vector<protocols::memory_region> regions, transfer_priority priority, std::chrono::nanoseconds timeout,
            std::shared_ptr<void> keep, std::function<void(std::string)> done);
  [[nodiscard]] fabric::counters figures(const member& who) const;

private:
  using time = std::chrono::steady_clock::time_point;
  struct job {
    std::shared_ptr<member> from;
    std::string peer;
    transfer_key key;
    piece_cutter cutter;
    time deadline;
    std::shared_ptr<void> keep;
    std::function<void(std::string)> done;
  };
  void run();
  void copy_piece(std::unique_lock<std::mutex>& lock);
  void finish(std::unique_lock<std::mutex>& lock, std::list<job>& queue, std::list<job>::iterator which,
              std::string error);
  void finish_late(std::unique_lock<std::mutex>& lock);

  const settings options_;
  const std::string name_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::unordered_map<std::string, std::shared_ptr<member>> members_;
  std::deque<std::function<void()>> calls_;
  std::list<job> urgent_;
  std::list<job> bulk_;
  std::uint64_t last_member_ = 0;
  bool ending_ = false;
  std::thread thread_; ///< last: starts when the rest is there
};

} // namespace godwit::transport::in_process
