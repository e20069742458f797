#pragma once

#include <godwit/transport/http/headers.hpp>

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

namespace godwit::transport::http {

/// What a client asked for. The body is complete: chunked transfer and `Expect: 100-continue` are dealt with.
struct request {
  std::string method; ///< as sent, but HEAD arrives as GET with `head` set
  std::string target; ///< the path as sent (percent-encoding kept), without the query: "/v1/models"
  std::string query;  ///< what follows '?', without it
  headers fields;
  std::string body;
  std::string peer;  ///< "127.0.0.1:52100"
  bool head = false; ///< only the head of the answer is wanted; the server drops the body by itself
};

struct response {
  int status = 200;
  std::string content_type = "application/json"; ///< empty: no Content-Type
  headers fields;
  std::string body;
  std::string error = {}; ///< of an answer that refuses: why, for logs and recordings; not sent
};

/// The answer to one request.
///
/// Tokens come from actors on other threads and long after the handler has returned, while the client may go away at
/// any moment. So every function may be called from any thread, returns at once, and does nothing when the answer is
/// complete or the client has gone. Either `respond` once, or `begin_stream`, any number of `write`s, `finish`.
///
/// Dropping the last reference without an answer answers 500; dropping it in the middle of a stream closes the
/// connection without the end mark, so that the client can tell a broken stream from a complete one. A test of a
/// handler implements this class itself.
class exchange {
public:
  virtual ~exchange() = default;

  virtual void respond(response answer) = 0;

  /// Starts an answer of unknown length: chunked transfer, or delimited by the end of the connection for HTTP/1.0.
  /// Content-Type is given in `fields`: "text/event-stream" for SSE.
  virtual void begin_stream(int status, headers fields) = 0;
  /// Queues; what is queued when the socket is ready leaves in one write. If more than `queued_bytes_max` would wait,
  /// the reader is too slow: the connection is closed and `on_close` fires.
  virtual void write(std::string chunk) = 0;
  /// The same for what is there at once, however long, and says nothing of its reader: an echoed prompt. So much more
  /// may wait from then on. Whoever calls it bounds it.
  virtual void write_in_full(std::string chunk) { write(std::move(chunk)); }
  /// What the client of this stream is told instead of the rest, for who watches; `finish` follows.
  virtual void stream_failed(std::string_view error) { (void)error; }
  virtual void finish() = 0;
  /// Writes `bytes` (an SSE comment, say) whenever a begun stream has had nothing to send for `interval`, so that a
  /// proxy or a client does not take a long wait for the end. Until `finish`; a later call replaces the earlier one,
  /// and an interval of 0 ends it. An exchange that reaches no network may ignore it.
  virtual void keep_alive_every(std::chrono::milliseconds interval, std::string bytes) {
    (void)interval;
    (void)bytes;
  }

  /// `gone` is called once if the client goes away (or the server stops) before `respond` or `finish`, and never after
  /// them: on an I/O thread, or at once on this thread if it has already happened. It must not block.
  /// The end of the client's stream counts as going away, half-closed or not: the two look the same until a write
  /// fails, and a client that left must free its blocks promptly. A later call replaces the function. Whatever `gone`
  /// owns is released as soon as it can no longer be called.
  virtual void on_close(std::function<void()> gone) = 0;

  /// True once `on_close` has fired or would fire.
  [[nodiscard]] virtual bool closed() const = 0;
};

/// Called on an I/O thread for each request; must not block. What it throws is answered with 500.
using handler = std::function<void(request, std::shared_ptr<exchange>)>;

} // namespace godwit::transport::http
