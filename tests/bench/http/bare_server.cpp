#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic ignored "-Wmismatched-new-delete" // g++ 12 and the allocation of Asio's coroutines
#endif
#include "http/bare_server.hpp"

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/asio/write.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/http/chunk_encode.hpp>
#include <boost/beast/http/read.hpp>
#include <boost/beast/http/string_body.hpp>

#include <thread>

namespace godwit::bench {

namespace {

namespace asio = boost::asio;
namespace beast = boost::beast;
using asio::ip::tcp;
constexpr auto as_value = asio::as_tuple(asio::use_awaitable);

struct content {
  std::string head;
  std::vector<std::string> events;
  bare_server::pace paced;
};

asio::awaitable<void> serve(tcp::socket socket, const content& what) {
  socket.set_option(tcp::no_delay(true));
  beast::flat_buffer buffer;
  beast::http::request<beast::http::string_body> request;
  const auto [bad, n] = co_await beast::http::async_read(socket, buffer, request, as_value);
  if (bad) co_return;
  const auto [unsent, m] = co_await asio::async_write(socket, asio::buffer(what.head), as_value);
  if (unsent) co_return;
  asio::steady_timer timer(socket.get_executor());
  for (std::size_t k = 0; k < what.events.size(); ++k) {
    if (what.paced.due && k > 0) {
      timer.expires_at(what.paced.due(request.body(), k));
      co_await timer.async_wait(as_value);
      what.paced.made(request.body(), k);
    }
    const auto [failed, w] =
        co_await asio::async_write(socket, beast::http::make_chunk(asio::buffer(what.events[k])), as_value);
    if (failed) co_return;
  }
  co_await asio::async_write(socket, beast::http::make_chunk_last(), as_value);
  // The client closes.
  char byte = 0;
  co_await socket.async_read_some(asio::buffer(&byte, 1), as_value);
}

} // namespace

class bare_server::impl {
public:
  impl(unsigned threads, content what) : what_(std::move(what)), lanes_(threads) {
    acceptor_.emplace(lanes_.front().context, tcp::endpoint(asio::ip::address_v4::loopback(), 0));
    acceptor_->listen(4096);
    asio::co_spawn(lanes_.front().context, accept(), asio::detached);
    for (auto& l : lanes_) l.thread = std::thread([&l] { l.context.run(); });
  }
  ~impl() {
    for (auto& l : lanes_) l.context.stop();
    for (auto& l : lanes_) l.thread.join();
  }
  [[nodiscard]] std::uint16_t port() const { return acceptor_->local_endpoint().port(); }

private:
  struct lane {
    asio::io_context context{1};
    asio::executor_work_guard<asio::io_context::executor_type> guard{context.get_executor()};
    std::thread thread;
  };
  asio::awaitable<void> accept() {
    for (std::size_t next = 0;; ++next) {
      auto& chosen = lanes_[next % lanes_.size()];
      auto [failed, socket] = co_await acceptor_->async_accept(chosen.context, as_value);
      if (failed) co_return;
      asio::co_spawn(chosen.context, serve(std::move(socket), what_), asio::detached);
    }
  }

  content what_;
  std::vector<lane> lanes_;
  std::optional<tcp::acceptor> acceptor_;
};

bare_server::bare_server(unsigned threads, std::string head, std::vector<std::string> events, pace paced)
    : impl_(std::make_unique<impl>(threads, content{std::move(head), std::move(events), std::move(paced)})) {}
bare_server::~bare_server() = default;
std::uint16_t bare_server::port() const noexcept { return impl_->port(); }

} // namespace godwit::bench
