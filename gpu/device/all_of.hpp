#pragma once

#include <godwit/gpu/executor.hpp>

#include <cstddef>
#include <mutex>
#include <string>
#include <utility>

namespace godwit::gpu {

/// Calls `done` when so many devices have ended what they do together, with the first error. Thread-safe.
class all_of {
public:
  all_of(std::size_t devices, completion done) : left_(devices), done_(std::move(done)) {}
  void end(std::string error) {
    {
      const std::lock_guard lock(mutex_);
      if (error_.empty()) error_ = std::move(error);
      if (--left_ > 0) return;
    }
    if (done_) done_(std::move(error_));
  }

private:
  std::mutex mutex_;
  std::size_t left_;
  std::string error_;
  completion done_;
};

} // namespace godwit::gpu
