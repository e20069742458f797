#pragma once

#include "http/asio.hpp"

#include <chrono>
#include <exception>
#include <functional>

namespace godwit::transport::http {

/// A deadline that is moved with every request and hardly ever met. Moving it later is a store: the timer looks again
/// when it fires. One thread. `expired` must keep the owner alive; `cancel` releases it.
class deadline {
public:
  using clock = std::chrono::steady_clock;
  explicit deadline(const executor& e) : timer_(e) {}

  void expect(std::function<void()> expired) { expired_ = std::move(expired); }
  void in(clock::duration d) {
    at_ = clock::now() + d;
    if (!armed_ || at_ < armed_at_) arm();
  }
  void none() noexcept { at_ = clock::time_point::max(); }
  void cancel() {
    none();
    timer_.cancel();
    expired_ = nullptr;
  }

private:
  void arm() {
    armed_ = false; // where there is no memory for the wait
    timer_.expires_at(at_);
    // Moving the timer cancels the wait before it, whose handler then sees an error.
    timer_.async_wait([this, keep = expired_](error_code ec) {
      if (ec) return;
      armed_ = false;
      if (at_ == clock::time_point::max() || !keep) return;
      if (clock::now() < at_) try {
          return arm();
        } catch (const std::exception&) { // it has passed, since nobody would see it pass
        }
      none();
      keep();
    });
    armed_ = true;
    armed_at_ = at_;
  }

  timer timer_;
  std::function<void()> expired_;
  clock::time_point at_ = clock::time_point::max();
  clock::time_point armed_at_;
  bool armed_ = false;
};

} // namespace godwit::transport::http
