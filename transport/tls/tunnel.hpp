#pragma once

#include "tls/context.hpp"

#include <godwit/runtime/async/descriptor.hpp>

#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/local/stream_protocol.hpp>
#include <boost/asio/ssl/stream.hpp>
#include <boost/asio/steady_timer.hpp>

#include <chrono>
#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace godwit::transport::tls {

/// A connection between nodes in TLS, whose plain side is a pair of sockets within this process: the actor system (CAF)
/// has one end, and bytes are carried between the other and the network. What waits in either direction is bounded by a
/// buffer of this and those of the sockets. Everything here happens on the loop's one thread.
class tunnel : public std::enable_shared_from_this<tunnel> {
public:
  enum class side : bool { accepts, connects };
  /// Gets what went wrong; empty: nothing.
  using ready = std::function<void(std::string)>;
  /// Of one that left before it said a word, as checks of health do.
  static constexpr std::string_view unsaid = "it left without a word";
  /// Of one that was connected to and left so.
  static constexpr std::string_view unsaid_by_server = "it left without a word; perhaps it does not speak it";

  tunnel(boost::asio::ip::tcp::socket socket, boost::asio::ssl::context& with);

  /// For a side that connects, before `open`: the host whose certificate it must be. False: there is none such.
  [[nodiscard]] bool expect(const std::string& host);
  /// Shakes hands. A side that connects also waits for the first bytes: that its certificate is refused, it hears only
  /// then, and an actor system that accepts is the first to speak. `done` is called once, within the limit.
  void open(side which, std::chrono::nanoseconds limit, ready done);
  /// CAF's end; from here on bytes are carried, until either side ends. After `open` went well. None: there are no
  /// descriptors left, and the connection has ended.
  [[nodiscard]] async::descriptor start();
  /// Not open yet, nor ended.
  [[nodiscard]] bool opening() const noexcept { return static_cast<bool>(done_); }
  /// Ends now.
  void end();

private:
  static constexpr std::size_t buffer_bytes = std::size_t{64} << 10U;
  void shaken(side which, const boost::system::error_code& error);
  void opened(const boost::system::error_code& error);
  void outward();
  void inward();
  void pass_in(std::size_t bytes);
  void end_soon();

  boost::asio::ssl::stream<boost::asio::ip::tcp::socket> net_;
  boost::asio::local::stream_protocol::socket local_;
  boost::asio::steady_timer limit_;
  bool late_ = false;
  bool deaf_ = false; ///< CAF reads no more
  ready done_;
  std::size_t first_bytes_ = 0; ///< that came while it was opened
  std::vector<std::byte> in_;   ///< both of buffer_bytes, once hands are shaken
  std::vector<std::byte> out_;
};

} // namespace godwit::transport::tls
