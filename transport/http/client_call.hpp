#pragma once

#include "http/asio.hpp"
#include "http/client_stream.hpp"
#include "http/deadline.hpp"
#include "http/passing_body.hpp"

#include <godwit/runtime/async/name_resolver.hpp>
#include <godwit/transport/http/client.hpp>
#include <godwit/transport/http/url.hpp>

#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/http/parser.hpp>

#include <cstddef>
#include <cstdint>
#include <exception>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <unordered_set>
#include <vector>

namespace godwit::transport::http {

class client_call;

/// What the calls of one I/O thread share; touched by that thread only.
struct client_lane {
  /// Open connections by origin, the last used one at the back.
  std::map<std::string, std::vector<std::unique_ptr<client_stream>>> idle;
  std::unordered_set<client_call*> calls;
  /// For https; made with the first such call.
  std::shared_ptr<ssl::context> tls;
  runtime::async::name_resolver
      names; ///< forgets a call's when that is closed, so that it calls no thread that is gone
  std::chrono::steady_clock::time_point looked{}; ///< for idle ones that are closed
  bool closing = false;                           ///< the client is being destroyed
};

/// What a caller holds of a call. It may outlive the client, and so owns nothing that belongs to an I/O thread.
class call_handle final : public call {
public:
  void cancel() override;

private:
  friend class client_call;
  std::mutex mutex_;
  client_call* running_ = nullptr;
};

/// One request of a client: connects or takes an idle connection, sends, reads, calls back. On one thread.
class client_call final : public std::enable_shared_from_this<client_call> {
public:
  client_call(executor on, client_lane& lane, const client_settings& settings, client_request request,
              client_callbacks callbacks);
  ~client_call() { end_handle(); }
  client_call(const client_call&) = delete;
  client_call& operator=(const client_call&) = delete;
  void start();
  [[nodiscard]] std::shared_ptr<call> handle() const noexcept { return handle_; }
  /// On the call's thread.
  void close(client_error_kind why);

private:
  friend class call_handle;
  using parser = boost::beast::http::response_parser<passing_body>;
  using failure = std::optional<client_error>;

  /// What the system says of a name.
  struct look_up {
    explicit look_up(const executor& on) : over(on, timer::time_point::max()) {}
    timer over; ///< cancelled once there is an answer, or nobody waits for it any more
    std::uint64_t number = 0;
    runtime::async::name_resolver::answer found{std::vector<runtime::async::socket_address>()};
  };

  struct ending;

  awaitable<failure> run();
  awaitable<failure> connect();
  awaitable<failure> resolve(std::vector<tcp::endpoint>& found);
  awaitable<failure> encrypt();
  awaitable<failure> exchange();
  awaitable<failure> read(parser& p, bool& reusable);
  /// Once its header is done: 100 Continue and its like announce the answer.
  [[nodiscard]] static bool interim(const parser& p);
  bool take_idle();
  void give_back();
  /// Of all that wait in its lane, those that their servers have closed; once a second at most.
  void forget_closed();
  void expect_within(std::chrono::milliseconds d);
  void on_deadline();
  void done(failure result);
  void end_handle();
  [[nodiscard]] client_error fail(client_error_kind kind, const std::string& what) const;
  /// Of what a callback threw, or the call itself for want of memory. Null: it was given up.
  [[nodiscard]] client_error thrown_out(const std::exception_ptr& thrown) const noexcept;
  /// What an operation's error means, now that it has failed.
  [[nodiscard]] client_error failed(client_error_kind kind, const error_code& ec) const;

  const executor on_;
  client_lane& lane_;
  const client_settings& settings_;
  client_request request_;
  client_callbacks callbacks_;
  url url_;
  std::shared_ptr<look_up> looking_;
  std::unique_ptr<client_stream> stream_;
  deadline deadline_;
  std::chrono::steady_clock::time_point total_at_ = std::chrono::steady_clock::time_point::max();
  boost::beast::flat_buffer in_;
  std::size_t head_bytes_ = 0; // taken of the head, and of interim answers
  std::optional<client_error_kind> closed_;
  bool reused_ = false;
  bool heard_ = false; // a byte of the answer has come
  const std::shared_ptr<call_handle> handle_ = std::make_shared<call_handle>();
};

} // namespace godwit::transport::http
