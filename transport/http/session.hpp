#pragma once

#include "http/answer.hpp"
#include "http/asio.hpp"
#include "http/connection.hpp"
#include "http/deadline.hpp"
#include "http/server_core.hpp"

#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/string_body.hpp>

#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <list>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_set>

namespace godwit::transport::http {

/// One connection of a server: reads a request, has it answered, reads the next. All on one thread.
///
/// One coroutine does the work and waits for one event; the socket is read beside it at all times (up to a bound),
/// since that is how a client's departure shows while an answer is being produced.
class session : public std::enable_shared_from_this<session> {
public:
  /// What the sessions of one thread share. Outlives them.
  struct surroundings {
    std::unordered_set<session*> sessions;
    std::list<session*> idle;    ///< those that wait for a request, the longest first
    std::list<session*> writing; ///< those whose client has not taken all of an answer, nothing for longest first
    /// Since when the first of them does; for other threads to see. `max`: there is none.
    std::atomic<std::chrono::steady_clock::time_point> idle_since{std::chrono::steady_clock::time_point::max()};
    /// Since when the client of the first that writes has taken nothing, likewise.
    std::atomic<std::chrono::steady_clock::time_point> stalled_since{std::chrono::steady_clock::time_point::max()};
    /// Where too much waits for readers: has those give way, of any thread, that have taken nothing for longest.
    std::function<void()> make_room;
    std::array<char, 65'536> received; ///< what one has just read, until it has looked at it
  };
  enum class refusal : std::uint8_t { none, full, full_address };

  session(socket s, std::shared_ptr<ssl::context> tls, const tcp::endpoint& peer, std::shared_ptr<server_core> core,
          surroundings& around, refusal refuse);
  void start();
  /// Closes at once.
  void abort();
  /// Closes if no request is being read or answered, nor one may come before a handshake has ended.
  void close_if_idle();
  /// Waits for a request.
  [[nodiscard]] bool idle() const noexcept { return waits_ && in_.size() == 0; }
  /// A client between two of its requests is not one that has gone.
  static constexpr std::chrono::seconds idle_least{1};
  /// Closes where it has been idle for so long. True: its place is the caller's.
  [[nodiscard]] bool make_way(bool place_is_taken);
  /// Closes, since too much waits for readers, and for this one longest.
  void give_way();

private:
  using parser = boost::beast::http::request_parser<boost::beast::http::string_body>;
  struct incoming {
    request wanted;
    answer_form form;
  };

  struct ending;

  awaitable<> run();
  /// Gives back what it has of the server; once.
  void end() noexcept;
  awaitable<bool> shake_hands();
  /// Nothing: the connection has to be closed; what there was to say has been said.
  awaitable<std::optional<incoming>> read_request();
  awaitable<bool> read_header(parser& p);
  awaitable<bool> read_body(parser& p);
  awaitable<bool> respond(request wanted, answer_form form);
  awaitable<bool> reject(int status, std::string message);
  awaitable<bool> reject(response answer);
  awaitable<> linger();
  /// True if there are new bytes. False: end of stream, deadline or abort.
  awaitable<bool> more();
  awaitable<bool> send(std::string bytes);
  awaitable<bool> send_rest(std::string_view bytes);
  /// What the socket takes at once. Nothing: the connection has failed.
  [[nodiscard]] std::optional<std::size_t> send_now(std::string_view bytes);
  /// Waits until there is a signal, but no longer than `most` (0: for ever). False: there was none.
  awaitable<bool> event(std::chrono::milliseconds most = {});

  void read_on();
  void signal();
  void on_deadline();
  void on_answer();
  void received(error_code ec, std::string_view bytes);
  /// Bodies that are being received have so many bytes more. False: that is too much.
  [[nodiscard]] bool count_body(std::size_t now);
  /// Closes, and says why where it can.
  void drop(std::string_view why) noexcept;
  /// What is awaited now: a deadline that has passed was of what was awaited before.
  void expect_within(std::chrono::milliseconds d);
  void expect_nothing() noexcept;
  void set_idle(bool now);
  void set_writing(bool now);
  /// The client has taken so many bytes of what is being written.
  void taken(std::size_t bytes);

  /// What may lie unparsed: a head, or the requests that a client sends ahead while one is being answered.
  [[nodiscard]] std::size_t unparsed_bytes_max() const noexcept { return core_->settings.header_bytes_max + 65'536; }

  connection connection_;
  const asio::ip::address from_;
  const std::shared_ptr<server_core> core_;
  surroundings& around_;
  timer event_;
  deadline deadline_;
  boost::beast::flat_buffer in_;
  std::shared_ptr<answer> answer_;
  std::string peer_;
  const request* head_ = nullptr; ///< of the request whose body is being read
  std::size_t body_bytes_ = 0;    ///< received of the body, and counted
  const refusal refuse_;
  bool signalled_ = false;
  bool reading_ = false;
  bool only_ends_ = false;                              // what is awaited ends with the socket, not with a signal
  bool greets_ = false;                                 // the handshake is not over
  bool end_ = false;                                    // the client's end of stream, or an error
  bool late_ = false;                                   // the deadline has passed
  bool aborted_ = false;                                // closed from our side
  bool makes_way_ = false;                              // for another one
  std::optional<std::list<session*>::iterator> waits_;  // for a request
  std::optional<std::list<session*>::iterator> writes_; // what its client does not take at once
  std::chrono::steady_clock::time_point waits_since_;
  std::chrono::steady_clock::time_point stalls_since_;
};

} // namespace godwit::transport::http
