#pragma once

#include "transport/fabric/rig.hpp"

#include <godwit/transport/ucx/fabric.hpp>

#include <memory>
#include <string>

#include <sys/types.h>

namespace godwit::transport::testing {

/// How blocks travel over UCX: read by the receiver, over a TCP connection of their own, as messages, out of memory
/// that the receiver has mapped, or read by UCX itself.
enum class way { cross_memory, streams, messages, mapped, remote_reads };
inline constexpr int ways = 5;
[[nodiscard]] const char* name(way how);
[[nodiscard]] ucx::settings settings_for(way how);

/// A way, and whether the blocks are a device's on both sides, which nobody maps.
struct setup {
  way how = way::cross_memory;
  bool device = false;
};
[[nodiscard]] std::string name(const setup& what);

/// One side of a setup.
class side {
public:
  explicit side(setup what);
  [[nodiscard]] const ucx::settings& settings() const { return settings_; }
  /// Where UCX reads it does so over TCP, and takes what is a device's for the host's, whose memory it is.
  [[nodiscard]] std::shared_ptr<fabric> make(const ucx::settings& options) const;
  [[nodiscard]] block_memory blocks(std::size_t count, std::size_t bytes) const {
    return block_memory(count, bytes, 0, device_, pages_);
  }
  [[nodiscard]] const std::shared_ptr<godwit::testing::fake_copier>& copier() const { return copier_; }

private:
  std::shared_ptr<fake_device> device_; ///< null: host memory
  std::shared_ptr<shared_pages> pages_; ///< null: not shared
  std::shared_ptr<godwit::testing::fake_copier> copier_;
  ucx::settings settings_;
};

/// A second process with a fabric over UCX: this executable, run with an argument that makes it one. Takes commands,
/// a line each: post ID COUNT BYTES, send ADDRESS ID COUNT BYTES, withdraw ID, figures. Answers in lines.
class peer_process {
public:
  explicit peer_process(setup what);
  explicit peer_process(way how) : peer_process(setup{how, false}) {}
  peer_process(const peer_process&) = delete;
  peer_process& operator=(const peer_process&) = delete;
  ~peer_process(); ///< kills it
  void tell(const std::string& line) const;
  /// The next line; "" where none comes within `timeout_ms` or it is dead.
  [[nodiscard]] std::string hear(int timeout_ms = 10'000);
  void signal(int number) const; ///< SIGSTOP: returns when all of it stands still
  [[nodiscard]] const std::string& address() const { return address_; }

private:
  pid_t pid_ = -1;
  int to_ = -1, from_ = -1;
  std::string heard_;
  std::string address_;
};

} // namespace godwit::transport::testing
