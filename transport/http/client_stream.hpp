#pragma once

#include "http/asio.hpp"
#include "http/tls.hpp"

#include <boost/asio/ssl/stream.hpp>

#include <memory>
#include <optional>
#include <utility>

namespace godwit::transport::http {

/// A client's connection, in the clear or within TLS.
class client_stream {
public:
  using encrypted = ssl::stream<socket&>;

  explicit client_stream(const executor& on) : socket_(on) {}
  client_stream(const client_stream&) = delete; // the encryption knows where the socket lies
  client_stream& operator=(const client_stream&) = delete;

  [[nodiscard]] socket& get() noexcept { return socket_; }
  /// Null: in the clear.
  [[nodiscard]] encrypted* tls() noexcept { return tls_ ? &*tls_ : nullptr; }
  /// Once it is connected.
  void encrypt(std::shared_ptr<ssl::context> with) {
    context_ = std::move(with);
    tls_.emplace(socket_, *context_);
  }
  /// Whether it lies idle: what could be read is its end, or an answer that nobody asked for. Within TLS tickets are
  /// neither.
  [[nodiscard]] bool idle() {
    auto ec = error_code();
    auto byte = char{};
    socket_.non_blocking(true, ec);
    if (tls_)
      tls_->read_some(asio::buffer(&byte, 1), ec);
    else
      socket_.receive(asio::buffer(&byte, 1), tcp::socket::message_peek, ec);
    return ec == asio::error::would_block;
  }
  void close() {
    auto ec = error_code();
    socket_.close(ec);
  }

private:
  socket socket_;
  std::shared_ptr<ssl::context> context_;
  std::optional<encrypted> tls_;
};

} // namespace godwit::transport::http
