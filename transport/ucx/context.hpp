#pragma once

#include "fabric/device_copies.hpp"
#include "fabric/postings.hpp"
#include "ucx/exposed_memory.hpp"
#include "ucx/notices.hpp"
#include "ucx/stream_listener.hpp"
#include "ucx/worker.hpp"

#include <atomic>
#include <chrono>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

namespace godwit::transport::ucx {

using time = std::chrono::steady_clock::time_point;

/// What tests break on purpose.
struct faults {
  std::atomic<int> corrupt_pieces{0};          ///< so many pieces get a wrong bit as they arrive
  std::atomic<int> messages_without_memory{0}; ///< so many that come
  std::atomic<int> turns_without_memory{0};
  std::atomic<bool> old_version{false};
  std::atomic<bool> reads_by_messages{false}; ///< UCX reads over any transport
  std::atomic<bool> devices_are_hosts{false}; ///< what is a device's, UCX reaches as if it were the host's
};

/// What the two halves of a fabric share. On the fabric's thread only, but for the table and the counters.
struct context {
  settings options;
  std::string identity;
  std::string address;
  postings table;
  device_copies* copies = nullptr;
  /// Writes that end with a copy of device memory which is under way, or with what UCX reads, and whether they were
  /// withdrawn since.
  std::map<std::uint64_t, bool> copying;
  worker* messages = nullptr;
  exposed_memory* exposed = nullptr; ///< nullptr: UCX reads nothing, here or there
  bool exposes_host = false;         ///< not devices' memory alone
  boost::asio::io_context* io = nullptr;
  stream_listener* streams = nullptr; ///< nullptr: blocks travel as messages of UCX
  std::function<void()> wake;         ///< something can go on
  std::shared_ptr<faults> broken;
  notices ends{{}};
  /// To be called outside of UCX, in order.
  std::deque<std::function<void()>> calls;

  std::atomic<std::uint64_t> bytes_sent{0}, bytes_landed{0}, bytes_read{0}, messages_sent{0}, messages_landed{0},
      failed{0}, sends_open{0}, connections{0};

  void call_all(std::vector<std::function<void()>> more) {
    for (auto& function : more) calls.push_back(std::move(function));
  }
  /// Tells that a connection ends, while the worker still knows it.
  void tell_end(connection which, const std::string& reason, bool gone = false) {
    ends.tell({messages->peer(which), reason, gone}, std::chrono::steady_clock::now());
  }
  void landed(std::uint64_t bytes) {
    ++messages_landed;
    bytes_landed += bytes;
  }
};

} // namespace godwit::transport::ucx
