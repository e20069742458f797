#pragma once

#include <godwit/transport/ucx/fabric.hpp>

#include <string>

#include <sys/types.h>

namespace godwit::transport::testing {

/// How blocks travel over UCX: read by the receiver, over a TCP connection of their own, or as messages.
enum class way { cross_memory, streams, messages };
[[nodiscard]] const char* name(way how);
[[nodiscard]] ucx::settings settings_for(way how);

/// A second process with a fabric over UCX: this executable, run with an argument that makes it one. Takes commands,
/// a line each: post ID COUNT BYTES, send ADDRESS ID COUNT BYTES, withdraw ID, figures. Answers in lines.
class peer_process {
public:
  explicit peer_process(way how);
  peer_process(const peer_process&) = delete;
  peer_process& operator=(const peer_process&) = delete;
  ~peer_process(); ///< kills it
  void tell(const std::string& line) const;
  /// The next line; "" where none comes within `timeout_ms` or it is dead.
  [[nodiscard]] std::string hear(int timeout_ms = 10'000);
  void signal(int number) const;
  [[nodiscard]] const std::string& address() const { return address_; }

private:
  pid_t pid_ = -1;
  int to_ = -1, from_ = -1;
  std::string heard_;
  std::string address_;
};

} // namespace godwit::transport::testing
