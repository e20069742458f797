#pragma once

#include "fabric/device_copies.hpp"
#include "fabric/postings.hpp"

#include <godwit/transport/in_process/fabric.hpp>

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <list>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <unordered_map>
#include <vector>

namespace godwit::transport::in_process {

/// What the hub knows of one fabric.
struct member {
  std::string address;
  postings table;
  fabric::counters counted; ///< under the hub's mutex
  std::uint64_t copies = 0; ///< of device memory, from or to it, under way; on the hub's thread
};

class hub {
public:
  explicit hub(settings options);
  hub(const hub&) = delete;
  hub& operator=(const hub&) = delete;
  ~hub();

  [[nodiscard]] std::shared_ptr<member> join();
  [[nodiscard]] bool reaches_devices() const noexcept { return copies_.present(); }
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
    std::uint64_t name = 0;
    std::shared_ptr<member> from;
    std::string peer;
    transfer_key key;
    piece_cutter cutter;
    time deadline;
    std::shared_ptr<void> keep;
    std::function<void(std::string)> done;
    memory_question memory = {};
    std::uint64_t copies = 0; ///< of device memory, under way
  };
  void run() noexcept;
  void work();
  /// As `copy_piece`; what that throws is the end of the job.
  [[nodiscard]] bool copy_or_fail(std::unique_lock<std::mutex>& lock, std::list<job>& queue);
  /// Of the first of a queue that is not empty. False: it has to wait for copies of device memory that are under way.
  [[nodiscard]] bool copy_piece(std::unique_lock<std::mutex>& lock, std::list<job>& queue);
  void copy_on_device(std::unique_lock<std::mutex>& lock, std::list<job>& queue, const std::shared_ptr<member>& to,
                      std::uint64_t room);
  /// On the thread, without the lock: a copy has ended.
  void copied(std::uint64_t name, const std::shared_ptr<member>& from, const std::shared_ptr<member>& to,
              std::uint64_t write, std::uint64_t bytes, const std::string& error);
  void tell_left();
  void end_sends(const member& of);
  void wait(std::unique_lock<std::mutex>& lock);
  void finish(std::unique_lock<std::mutex>& lock, std::list<job>& queue, std::list<job>::iterator which,
              std::string error);
  void finish_late(std::unique_lock<std::mutex>& lock);

  const std::size_t bytes_per_piece_;
  const std::string name_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::unordered_map<std::string, std::shared_ptr<member>> members_;
  std::deque<std::function<void()>> calls_;
  std::list<job> urgent_;
  std::list<job> bulk_;
  std::list<job> copying_; ///< all cut, with copies of device memory under way
  std::uint64_t last_member_ = 0;
  std::uint64_t last_job_ = 0;
  bool ending_ = false;
  bool copies_ended_ = false; ///< some, since they were last looked at
  struct leaver {
    std::shared_ptr<member> who;
    std::function<void()> left;
    time until; ///< then it goes without them
  };
  std::list<leaver> leaving_; ///< members whose last copies are under way; on the thread
  device_copies copies_;
  std::thread thread_; ///< last: starts when the rest is there
};

} // namespace godwit::transport::in_process
