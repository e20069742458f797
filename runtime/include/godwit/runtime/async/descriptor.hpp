#pragma once

#include <utility>

#include <unistd.h>

namespace godwit::runtime::async {

/// Closes a descriptor of the operating system's that nobody takes.
class descriptor {
public:
  descriptor() = default;
  explicit descriptor(int fd) noexcept : fd_(fd) {}
  descriptor(descriptor&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  descriptor& operator=(descriptor&& other) noexcept {
    descriptor taken(std::move(other));
    std::swap(fd_, taken.fd_);
    return *this;
  }
  ~descriptor() {
    if (fd_ >= 0) ::close(fd_);
  }
  /// Negative: none.
  [[nodiscard]] int get() const noexcept { return fd_; }
  [[nodiscard]] int release() noexcept { return std::exchange(fd_, -1); }

private:
  int fd_ = -1;
};

} // namespace godwit::runtime::async
