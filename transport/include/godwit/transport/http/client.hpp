#pragma once

#include <godwit/transport/http/headers.hpp>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <variant>

namespace godwit::transport::http {

/// Whom a client trusts where the URL is https. TLS 1.2 and 1.3; the certificate must be for the URL's host.
struct client_tls {
  /// PEM file of authorities. Empty: those of the system, or of OpenSSL's variables SSL_CERT_FILE and SSL_CERT_DIR.
  std::string authorities;
  bool verify = true; ///< false: whoever answers
};

struct client_settings {
  std::uint32_t threads = 1;
  /// Resolving the name, connecting, and TLS's handshake.
  std::chrono::milliseconds connect_timeout{5'000};
  /// The longest silence of the server within a call; 0: none.
  std::chrono::milliseconds idle_timeout{120'000};
  /// From `send` to the end of the answer; 0: none.
  std::chrono::milliseconds total_timeout{0};
  /// Connections kept open for reuse, for each thread and origin.
  std::uint32_t idle_connections_max = 256;
  /// The answer's head and the interim ones before it; over it the call fails.
  std::uint32_t header_bytes_max = 64 * 1024;
  /// Of a body that `fetch` gathers; over it the call fails. `send` hands on what comes.
  std::size_t fetched_bytes_max = std::size_t{64} << 20;
  client_tls tls;
};

struct client_request {
  std::string method = "GET";
  std::string url; ///< http://host:port/path, or https://
  headers fields;  ///< Host, Content-Length and Connection are the client's business
  std::string body;
};

enum class client_error_kind : std::uint8_t { bad_url, resolve, connect, timeout, closed, protocol, cancelled };

struct client_error {
  client_error_kind kind = client_error_kind::closed;
  std::string message; ///< one line that names the endpoint
};

/// All are called on one I/O thread of the client, in order, and must not block. None is called within `send`. What one
/// throws ends the call with an error of the kind `protocol`.
struct client_callbacks {
  std::function<void(int status, const headers& fields)> on_head; ///< once, without the 1xx answers
  std::function<void(std::string_view bytes)> on_data;            ///< the body as it comes
  std::function<void(std::optional<client_error>)> on_done;       ///< exactly once, last; nothing: a complete answer
};

/// A call in flight. Dropping it does not end the call.
class call {
public:
  virtual ~call() = default;
  /// Closes the connection, so that the server learns of it; `on_done` then gets `cancelled`, unless it was on its way.
  /// From any thread.
  virtual void cancel() = 0;
};

struct client_answer {
  int status = 0;
  headers fields;
  std::string body;
};

/// An HTTP/1.1 client for load generators, tools and tests: many calls at once on few threads, connections reused.
/// No proxies, redirects, cookies.
class client {
public:
  explicit client(client_settings settings = {});
  client(const client&) = delete;
  client& operator=(const client&) = delete;
  ~client(); ///< cancels what runs and waits for its `on_done`

  std::shared_ptr<call> send(client_request request, client_callbacks callbacks);

  /// The same, waiting, with the whole body. Not from a callback.
  [[nodiscard]] std::variant<client_answer, client_error> fetch(client_request request);

private:
  class impl;
  std::unique_ptr<impl> impl_;
};

} // namespace godwit::transport::http
