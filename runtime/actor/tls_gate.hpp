#pragma once

#include "actor/descriptor.hpp"
#include "actor/tls_context.hpp"

#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>

#include <atomic>
#include <chrono>
#include <functional>
#include <future>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <thread>

namespace godwit::runtime::detail {

class tls_tunnel;

/// Where a system's connections in TLS begin, and the thread that carries their bytes. CAF sees plain ones. May be
/// called by any thread.
class tls_gate {
public:
  /// As actor_system_settings::tls_warning; on the gate's thread.
  using warning = std::function<void(std::string_view)>;
  /// Gets CAF's end of a connection that was let in. On the gate's thread.
  using entered = std::function<void(descriptor)>;

  tls_gate(tls_identity identity, warning tell);
  /// What is open ends.
  ~tls_gate();
  tls_gate(const tls_gate&) = delete;
  tls_gate& operator=(const tls_gate&) = delete;

  /// Lets a TCP connection in that has been accepted, where the peer proves within 3 s who it is. 1024 have that time
  /// at once, 256 of them from one address or IPv6 network of 64 bits; one more is closed.
  void accept(descriptor socket, entered take);
  /// Takes a TCP connection to `host` and gives the plain end, once the other side has proved who it is and has begun
  /// to speak. Blocks until the deadline at most. Errors: `down`, with the reason.
  [[nodiscard]] async::expected<descriptor> connect(descriptor socket, const std::string& host,
                                                    std::chrono::steady_clock::time_point deadline);
  /// From here on nobody is let in; waits for an `entered` under way.
  void shut();
  /// Shuts, and gives connections that CAF has closed this long to say their last words; then everything ends. For the
  /// owner.
  void finish(std::chrono::milliseconds grace);

private:
  class handshake;
  void run() noexcept;
  void let_in(descriptor socket, entered take, std::shared_ptr<handshake> place);
  /// Errors: `down`, with the reason.
  async::expected<std::shared_ptr<tls_tunnel>> make_tunnel(descriptor socket);
  void turned_away(const std::string& peer, std::string_view why);
  /// `tell_`, which may be none and may throw.
  void warn(const std::string& text) noexcept;
  /// Where `which`.
  void end_tunnels(bool (*which)(const tls_tunnel&));

  std::atomic<unsigned> handshakes_{0};
  // The thread's:
  std::map<std::string, unsigned> handshakes_of_; ///< by network
  tls_identity identity_;
  warning tell_;
  std::chrono::steady_clock::time_point told_;
  std::set<std::weak_ptr<tls_tunnel>, std::owner_less<>> tunnels_;
  bool over_ = false;

  boost::asio::io_context loop_{1};
  boost::asio::executor_work_guard<boost::asio::io_context::executor_type> work_;
  std::promise<void> ended_;
  std::thread thread_; ///< last: it uses all of them
};

} // namespace godwit::runtime::detail
