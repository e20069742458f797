#pragma once

#include "http/asio.hpp"
#include "http/tls.hpp"

#include <boost/asio/ssl/stream.hpp>

#include <array>
#include <memory>
#include <span>
#include <string_view>
#include <tuple>
#include <utility>

namespace godwit::transport::http {

/// The bytes of one connection, in the clear or within TLS. One read and one write at a time, on one thread.
///
/// A connection in the clear owns no buffer: it waits until there is something to read, which then passes through a
/// buffer of its thread. Ten thousand that lie idle would otherwise hold ten thousand buffers.
class connection {
public:
  connection(socket s, std::shared_ptr<ssl::context> tls) : socket_(std::move(s)) {
    auto ec = error_code();
    socket_.non_blocking(true, ec);
    if (tls) tls_ = std::make_unique<encryption>(socket_, std::move(tls));
  }

  connection(const connection&) = delete; // the encryption knows where the socket lies
  connection& operator=(const connection&) = delete;

  [[nodiscard]] bool encrypted() const noexcept { return tls_ != nullptr; }
  /// TLS has ended, and what is read is not decrypted any more.
  [[nodiscard]] bool bare() const noexcept { return bare_; }
  [[nodiscard]] socket& get() noexcept { return socket_; }

  [[nodiscard]] awaitable<bool> shake_hands() {
    const auto [ec] = co_await tls_->stream.async_handshake(ssl::stream_base::server, as_value);
    co_return !ec;
  }

  /// Calls `done(error_code, std::string_view)` with the next bytes, which are there until it returns; `through` is
  /// what they may pass through. Never within the call. `done` keeps the connection alive.
  template <class Done> void read(std::span<char> through, Done done) {
    if (tls_ && !bare_) {
      tls_->stream.async_read_some(asio::buffer(tls_->received),
                                   [this, done = std::move(done)](error_code ec, std::size_t n) mutable {
                                     done(ec, std::string_view(tls_->received.data(), n));
                                   });
      return;
    }
    socket_.async_wait(socket::wait_read, [this, through, done = std::move(done)](error_code ec) mutable {
      auto n = std::size_t{0};
      if (!ec) n = socket_.read_some(asio::buffer(through.data(), through.size()), ec);
      if (ec == asio::error::would_block) return read(through, std::move(done));
      done(ec, std::string_view(through.data(), n));
    });
  }

  /// What the socket takes at once; the rest is for `write`. Within TLS: nothing.
  [[nodiscard]] std::size_t write_now(std::string_view bytes, error_code& ec) {
    if (tls_) return 0;
    const auto n = socket_.write_some(asio::buffer(bytes), ec);
    if (ec == asio::error::would_block) ec = {};
    return n;
  }
  /// As much as there is room for when there is some.
  [[nodiscard]] awaitable<std::tuple<error_code, std::size_t>> write_some(std::string_view bytes) {
    if (tls_) co_return co_await tls_->stream.async_write_some(asio::buffer(bytes), as_value);
    co_return co_await socket_.async_write_some(asio::buffer(bytes), as_value);
  }

  /// Ends our stream. Within TLS it says so and waits for the other side to do the same. Where that goes on sending,
  /// which OpenSSL takes for an error, `read` gives what comes as it is, so that it can be taken from the socket.
  [[nodiscard]] awaitable<bool> end() {
    auto ec = error_code();
    if (tls_) {
      const auto [failed] = co_await tls_->stream.async_shutdown(as_value);
      if (!failed) co_return true;
      bare_ = true;
    }
    socket_.shutdown(tcp::socket::shutdown_send, ec);
    co_return !ec;
  }

  void close() {
    auto ec = error_code();
    socket_.close(ec);
  }

private:
  struct encryption {
    encryption(socket& s, std::shared_ptr<ssl::context> c) : context(std::move(c)), stream(s, *context) {}
    std::shared_ptr<ssl::context> context;
    ssl::stream<socket&> stream;
    std::array<char, 8192> received;
  };
  socket socket_;
  std::unique_ptr<encryption> tls_;
  bool bare_ = false;
};

} // namespace godwit::transport::http
