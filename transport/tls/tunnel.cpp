#include "tls/tunnel.hpp"

#include "tls/peer.hpp"

#include <boost/asio/buffer.hpp>
#include <boost/asio/write.hpp>

#include <array>
#include <utility>

#include <sys/socket.h>

namespace godwit::transport::tls {

namespace asio = boost::asio;
using async::descriptor;
using boost::system::error_code;

namespace {

/// For what CAF wrote before it closed its end.
constexpr auto farewell_max = std::chrono::seconds(1);

} // namespace

tunnel::tunnel(asio::ip::tcp::socket socket, asio::ssl::context& with)
    : net_(std::move(socket), with), local_(net_.get_executor()), limit_(net_.get_executor()) {
  error_code ignored;
  net_.next_layer().set_option(asio::ip::tcp::no_delay(true), ignored);
  net_.next_layer().set_option(asio::socket_base::keep_alive(true), ignored);
}

bool tunnel::expect(const std::string& host) { return expect_host(net_.native_handle(), host); }

void tunnel::open(side which, std::chrono::nanoseconds limit, ready done) {
  done_ = std::move(done);
  limit_.expires_after(limit);
  limit_.async_wait([self = shared_from_this()](const error_code& stopped) {
    if (stopped || !self->done_) return;
    self->late_ = true;
    self->end();
  });
  net_.async_handshake(which == side::accepts ? asio::ssl::stream_base::server : asio::ssl::stream_base::client,
                       [self = shared_from_this(), which](const error_code& error) { self->shaken(which, error); });
}

void tunnel::shaken(side which, const error_code& error) {
  if (!error) {
    in_.resize(buffer_bytes);
    out_.resize(buffer_bytes);
  }
  if (error || which == side::accepts) return opened(error);
  net_.async_read_some(asio::buffer(in_), [self = shared_from_this()](const error_code& failed, std::size_t bytes) {
    self->first_bytes_ = bytes;
    self->opened(failed);
  });
}

void tunnel::opened(const error_code& error) {
  limit_.cancel();
  const auto done = std::exchange(done_, {});
  if (!error && !late_) return done({});
  auto* const native = net_.native_handle();
  auto why = late_                      ? std::string("nothing was said in time")
             : has_said_nothing(native) ? std::string(SSL_is_server(native) ? unsaid : unsaid_by_server)
                                        : explain(error, native);
  end();
  done(std::move(why));
}

descriptor tunnel::start() {
  std::array<int, 2> both{-1, -1};
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, both.data()) != 0) {
    end();
    return {};
  }
  descriptor ours(both[0]);
  descriptor other(both[1]);
  error_code failed;
  local_.assign(asio::local::stream_protocol(), ours.get(), failed);
  if (failed) {
    end();
    return {};
  }
  (void)ours.release();
  // CAF may close its end while a write to the network does not come to an end, when nobody reads here.
  local_.async_wait(asio::socket_base::wait_error, [self = shared_from_this()](const error_code& stopped) {
    if (!stopped) self->end_soon();
  });
  outward();
  if (first_bytes_ != 0)
    pass_in(std::exchange(first_bytes_, 0));
  else
    inward();
  return other;
}

void tunnel::outward() {
  local_.async_read_some(asio::buffer(out_), [self = shared_from_this()](const error_code& error, std::size_t bytes) {
    if (!self->net_.lowest_layer().is_open()) return;
    if (error) { // everything that CAF wrote is on its way
      error_code gone;
      self->net_.next_layer().shutdown(asio::socket_base::shutdown_send, gone);
      return self->end_soon();
    }
    asio::async_write(self->net_, asio::buffer(self->out_, bytes), [self](const error_code& failed, std::size_t) {
      if (failed) return self->end();
      self->outward();
    });
  });
}

void tunnel::inward() {
  net_.async_read_some(asio::buffer(in_), [self = shared_from_this()](const error_code& error, std::size_t bytes) {
    if (error) return self->end();
    self->pass_in(bytes);
  });
}

void tunnel::pass_in(std::size_t bytes) {
  if (deaf_) return inward(); // or what goes out would be lost by a reset
  asio::async_write(local_, asio::buffer(in_, bytes),
                    [self = shared_from_this()](const error_code& failed, std::size_t) {
                      if (failed) {
                        self->deaf_ = true;
                        self->end_soon();
                      }
                      self->inward();
                    });
}

void tunnel::end_soon() {
  if (!net_.lowest_layer().is_open()) return;
  limit_.expires_after(farewell_max);
  limit_.async_wait([self = shared_from_this()](const error_code& stopped) {
    if (!stopped) self->end();
  });
}

void tunnel::end() {
  error_code ignored;
  limit_.cancel();
  local_.close(ignored);
  net_.lowest_layer().close(ignored);
}

} // namespace godwit::transport::tls
