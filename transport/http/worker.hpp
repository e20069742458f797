#pragma once

#include "http/asio.hpp"

#include <exception>
#include <thread>

namespace godwit::transport::http {

/// An I/O thread with a context of its own: whatever belongs to it runs there and nowhere else, so it needs no locks.
class worker {
public:
  worker() : guard_(context_.get_executor()), thread_([this] { run(); }) {}
  ~worker() { finish(); }
  worker(const worker&) = delete;
  worker& operator=(const worker&) = delete;

  [[nodiscard]] executor get() noexcept { return context_.get_executor(); }
  /// Returns when what runs has ended; the owner has told it to.
  void finish() {
    guard_.reset();
    if (thread_.joinable()) thread_.join();
  }

private:
  /// What a handler throws, for want of memory, is not the end of the others.
  void run() noexcept {
    for (;;) {
      try {
        context_.run();
        return;
      } catch (const std::exception&) { // nobody here can be told
      }
    }
  }

  asio::io_context context_{1};
  asio::executor_work_guard<executor> guard_;
  std::thread thread_;
};

} // namespace godwit::transport::http
