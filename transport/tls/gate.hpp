#pragma once

#include "tls/context.hpp"

#include <godwit/runtime/async/connection_gate.hpp>

#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <future>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <thread>

namespace godwit::transport::tls {

class tunnel;

/// Where connections in TLS begin, and the thread that carries their bytes.
class gate final : public async::connection_gate {
public:
  gate(identity own, warning_function tell);
  /// What is open ends.
  ~gate() override;

  void accept(async::descriptor socket, entered take) override;
  async::expected<async::descriptor> connect(async::descriptor socket, const std::string& host,
                                             std::chrono::steady_clock::time_point deadline) override;
  void shut() override;
  void finish(std::chrono::milliseconds grace) override;

private:
  class handshake;
  void run() noexcept;
  void let_in(async::descriptor socket, entered take, std::shared_ptr<handshake> place);
  /// Errors: `down`, with the reason.
  async::expected<std::shared_ptr<tunnel>> make_tunnel(async::descriptor socket);
  void turned_away(const std::string& peer, std::string_view why);
  /// `tell_`, which may be none and may throw.
  void warn(const std::string& text) noexcept;
  /// Where `which`.
  void end_tunnels(bool (*which)(const tunnel&));

  std::atomic<unsigned> handshakes_{0};
  // The thread's:
  std::map<std::string, unsigned> handshakes_of_; ///< by network
  identity identity_;
  warning_function tell_;
  std::chrono::steady_clock::time_point told_;
  std::uint64_t left_out_ = 0; ///< who was turned away since and not told of
  std::set<std::weak_ptr<tunnel>, std::owner_less<>> tunnels_;
  bool over_ = false;

  boost::asio::io_context loop_{1};
  boost::asio::executor_work_guard<boost::asio::io_context::executor_type> work_;
  std::promise<void> ended_;
  std::thread thread_; ///< last: it uses all of them
};

} // namespace godwit::transport::tls
