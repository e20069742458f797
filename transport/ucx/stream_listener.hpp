#pragma once

#include "ucx/stream_socket.hpp"
#include "ucx/worker.hpp"

#include <boost/asio/steady_timer.hpp>

#include <array>
#include <chrono>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <random>
#include <string>
#include <unordered_map>

namespace godwit::transport::ucx {

/// The first bytes of a stream: whose it is.
struct stream_greeting {
  std::uint64_t magic = 0;
  std::uint64_t token = 0;
};
inline constexpr std::uint64_t stream_magic = 0x67'6f'64'77'69'74'53'54; // "godwitST"

/// Where streams are accepted. Each belongs to a connection over UCX, whose owner has been told a token; whoever comes
/// without one, or says nothing, is shut out.
class stream_listener {
public:
  using arrival = std::function<void(connection, stream_socket::protocol::socket)>;

  /// Listens at `host`; port 0: one of the system's choice. Whoever does not say its token within `patience` is shut
  /// out, and earlier where many more come. Throws boost::system::system_error.
  stream_listener(boost::asio::io_context& io, const std::string& host, std::uint16_t port,
                  std::chrono::milliseconds patience, arrival arrived);

  [[nodiscard]] std::uint16_t port() const noexcept { return port_; }
  /// The token with which one stream may come that belongs to `to`.
  [[nodiscard]] std::uint64_t expect(connection to);
  void forget(connection which);

private:
  struct stranger {
    explicit stranger(stream_socket::protocol::socket s) : socket(std::move(s)), patience(socket.get_executor()) {}
    stream_socket::protocol::socket socket;
    boost::asio::steady_timer patience;
    std::array<char, sizeof(stream_greeting)> said{};
  };
  void accept();
  void greet(stream_socket::protocol::socket from);
  void greeted(stranger& who);

  stream_socket::protocol::acceptor acceptor_;
  boost::asio::steady_timer pause_;
  std::chrono::milliseconds patience_;
  arrival arrived_;
  std::uint16_t port_ = 0;
  std::random_device random_;
  std::unordered_map<std::uint64_t, connection> expected_; ///< by token
  std::deque<std::weak_ptr<stranger>> strangers_;          ///< the oldest first; some have gone
};

} // namespace godwit::transport::ucx
