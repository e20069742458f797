#pragma once

#include <godwit/transport/http/exchange.hpp>

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

namespace godwit::transport::http {

struct server_settings {
  /// A connection stays on one of these threads for life, so nothing of it needs a lock.
  std::uint32_t threads = 2;
  /// Start line and fields; over it 431. Larger than any real client's head, small enough for thousands of connections.
  std::uint32_t header_bytes_max = 16 * 1024;
  /// Over it 413. A prompt of a million characters as JSON, five times over.
  std::uint64_t body_bytes_max = 10 * 1024 * 1024;
  /// Bodies that are being received, all together; over it 503. What stops many clients that send large bodies slowly.
  std::uint64_t bodies_bytes_max = 1024 * 1024 * 1024;
  /// Answers waiting for one slow reader, in `exchange::write`. About 5,000 SSE events of a token each.
  std::uint64_t queued_bytes_max = 1024 * 1024;
  /// Answers that wait for their readers, streams or not, all together; over it those whose readers have taken nothing
  /// for longest are closed, but never one that waits alone. What stops many clients that ask and do not read.
  std::uint64_t answers_bytes_max = 1024 * 1024 * 1024;
  /// When there are so many and another one comes, the one that has waited longest for a request is closed; where none
  /// has waited for a second, the new one is answered 503 and closed.
  std::uint32_t connections_max = 16'384;
  /// Connections from one address (of IPv6: from one network of 64 bits); over it new ones are answered 429 and closed.
  /// 0: as many as from all. A proxy's clients come from one address, so it must not be small.
  std::uint32_t connections_per_address_max = 4096;
  /// From the first byte of a request to the end of its head; then 408. What stops a slowloris.
  std::chrono::milliseconds header_timeout{10'000};
  /// From the end of the head to the end of the body; then 408.
  std::chrono::milliseconds body_timeout{60'000};
  /// How long a connection may lie without a request.
  std::chrono::milliseconds idle_timeout{75'000};
  /// How long one write may take until the client has taken all of it.
  std::chrono::milliseconds write_timeout{30'000};
  /// Called on an I/O thread when a request's head is there, before its body is read (which is empty then); must not
  /// block. An answer is given at once, and ends the connection. Not set: every body is read.
  std::function<std::optional<response>(const request& head)> on_head;
  /// Makes the answers that the server gives by itself (400, 408, 413, 417, 431, 500, 501, 503), so that they look like
  /// the application's. `head`: of the request, null where it could not be read. Not set: {"error": message}.
  std::function<response(int status, std::string message, const request* head)> error_response;
  /// May add fields to such an answer while a request's body is being read; on an I/O thread, must not block.
  std::function<void(const request& head, headers& of_answer)> on_own_answer;
  /// Told of each request that is answered before the handler sees it, by `on_head` or by the server itself, for the
  /// log. `head`: null where it could not be read. On an I/O thread, must not block.
  std::function<void(const std::string& peer, const request* head, const response& answer)> on_rejected;
  /// Told of each connection that is closed because its client does not read, or there are too many, for the log: on
  /// any thread, and it must only store or write a line.
  std::function<void(const std::string& peer, const std::string& why)> on_dropped;
};

/// PEM files.
struct tls_files {
  std::string certificate; ///< the server's, then those that lead from it to one that clients trust
  std::string key;         ///< without a password
};

struct server_stats {
  std::uint64_t connections = 0;             ///< open now
  std::uint64_t exchanges = 0;               ///< requests being answered now
  std::uint64_t answer_bytes = 0;            ///< that wait for their readers now
  std::uint64_t requests_total = 0;          ///< handed to the handler
  std::uint64_t rejected_total = 0;          ///< malformed, too large, too late
  std::uint64_t refused_total = 0;           ///< connections over `connections_max` or `connections_per_address_max`
  std::uint64_t handshakes_failed_total = 0; ///< of TLS, or too late
  std::uint64_t disconnects_total = 0;       ///< clients that went away before their answer was complete
  std::uint64_t slow_readers_total =
      0; ///< closed because of `queued_bytes_max`, `answers_bytes_max` or `write_timeout`
  std::uint64_t bytes_written_total = 0;
};

struct listen_error {
  std::string endpoint; ///< "127.0.0.1:8000"
  std::string message;  ///< one line that names the endpoint: "cannot listen on 127.0.0.1:8000: Address already in use"
  bool in_use = false;  ///< another socket has the port
};

/// An HTTP/1.1 and 1.0 server (RFC 9112): keep-alive, pipelining (one request at a time, in order), TCP_NODELAY.
/// Owns its threads. Knows no format of bodies and no routes.
class server {
public:
  server(server_settings settings, handler on_request);
  server(const server&) = delete;
  server& operator=(const server&) = delete;
  ~server(); ///< stop()

  /// From now on new connections speak TLS 1.2 or 1.3 with this certificate: before the first `listen`, and again
  /// whenever the files have changed; connections that are open keep what they have. What failed is one line that names
  /// the file, and nothing has changed then.
  [[nodiscard]] std::optional<std::string> use_tls(const tls_files& files);

  /// Accepts connections on every address of `host`; "::" stands for all, of IPv4 too where the system lets it. Port 0
  /// takes a free one. May be called again for further endpoints.
  [[nodiscard]] std::optional<listen_error> listen(const std::string& host, std::uint16_t port);
  /// The port of the first endpoint; 0 before `listen`.
  [[nodiscard]] std::uint16_t local_port() const noexcept;

  /// Stops accepting, closes idle connections, lets running requests finish and closes their connections.
  /// `done` is called once, on an I/O thread, when the last connection has gone; after `stop` at the latest.
  /// How long to wait is the caller's decision: `stop` ends it.
  void drain(std::function<void()> done = {});
  /// Closes everything; `on_close` fires for what runs. Returns when the threads have ended. Not from an I/O thread.
  void stop();

  [[nodiscard]] server_stats stats() const;

private:
  class impl;
  std::unique_ptr<impl> impl_;
};

} // namespace godwit::transport::http
