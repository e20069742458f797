#include "actor/tls_gate.hpp"

#include "actor/tls_tunnel.hpp"

#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>

#include <utility>

#include <sys/socket.h>

namespace godwit::runtime::detail {

namespace asio = boost::asio;
using asio::ip::tcp;
using boost::system::error_code;
using std::chrono::steady_clock;

namespace {

constexpr auto handshake_max = std::chrono::seconds(5);
constexpr unsigned handshakes_max = 256;
constexpr auto told_every = std::chrono::seconds(1);

async::error down(std::string why) { return async::error{async::error_code::down, std::move(why)}; }

std::string peer_of(int socket) {
  tcp::endpoint peer;
  auto size = static_cast<socklen_t>(peer.capacity());
  if (::getpeername(socket, peer.data(), &size) != 0) return "a peer that has left";
  peer.resize(size);
  const auto address = peer.address().to_string();
  return (peer.address().is_v6() ? "[" + address + "]" : address) + ":" + std::to_string(peer.port());
}

} // namespace

tls_gate::tls_gate(tls_identity identity, warning tell)
    : identity_(std::move(identity)), tell_(std::move(tell)), work_(asio::make_work_guard(loop_)), thread_([this] {
        loop_.run();
        ended_.set_value();
      }) {}

tls_gate::~tls_gate() { finish(std::chrono::milliseconds{0}); }

void tls_gate::accept(descriptor socket, entered take) {
  if (handshakes_.fetch_add(1) >= handshakes_max) {
    --handshakes_;
    return;
  }
  asio::post(loop_, [this, socket = std::move(socket), take = std::move(take)]() mutable {
    let_in(std::move(socket), std::move(take));
  });
}

void tls_gate::let_in(descriptor socket, entered take) {
  auto peer = peer_of(socket.get());
  const auto tunnel = make_tunnel(std::move(socket));
  if (!tunnel) {
    --handshakes_;
    return;
  }
  tunnel->open(tls_tunnel::side::accepts, handshake_max,
               [this, peer = std::move(peer), take = std::move(take), raw = tunnel.get()](const std::string& why) {
                 --handshakes_;
                 if (over_) return raw->end();
                 if (!why.empty()) return turned_away(peer, why);
                 if (auto plain = raw->start(); plain.get() >= 0) take(std::move(plain));
               });
}

async::expected<descriptor> tls_gate::connect(descriptor socket, const std::string& host,
                                              steady_clock::time_point deadline) {
  using result = async::expected<descriptor>;
  const auto done = std::make_shared<std::promise<result>>();
  auto out = done->get_future();
  asio::post(loop_, [this, socket = std::move(socket), host, deadline, done]() mutable {
    const auto tunnel = make_tunnel(std::move(socket));
    if (!tunnel) return done->set_value(down("the network is going down"));
    tunnel->expect(host);
    tunnel->open(tls_tunnel::side::connects, deadline - steady_clock::now(),
                 [done, raw = tunnel.get()](const std::string& why) {
                   if (!why.empty()) return done->set_value(down("TLS: " + why));
                   auto plain = raw->start();
                   if (plain.get() < 0) return done->set_value(down("no descriptors are left"));
                   done->set_value(std::move(plain));
                 });
  });
  // The loop may have ended; else the tunnel's limit is the same.
  if (out.wait_until(deadline + told_every) != std::future_status::ready) return down("no answer in time");
  return out.get();
}

std::shared_ptr<tls_tunnel> tls_gate::make_tunnel(descriptor socket) {
  sockaddr_storage own{};
  socklen_t size = sizeof own;
  if (over_ || ::getsockname(socket.get(), reinterpret_cast<sockaddr*>(&own), &size) != 0) return nullptr;
  tcp::socket taken(loop_);
  error_code failed;
  taken.assign(own.ss_family == AF_INET6 ? tcp::v6() : tcp::v4(), socket.get(), failed);
  if (failed) return nullptr;
  (void)socket.release();
  auto tunnel = std::make_shared<tls_tunnel>(std::move(taken), *identity_.current(tell_));
  for (auto one = tunnels_.begin(); one != tunnels_.end();) one = one->expired() ? tunnels_.erase(one) : std::next(one);
  tunnels_.insert(tunnel);
  return tunnel;
}

void tls_gate::turned_away(const std::string& peer, std::string_view why) {
  const auto now = steady_clock::now();
  if (!tell_ || now - told_ < told_every) return;
  told_ = now;
  tell_("turned away " + peer + ": " + std::string(why));
}

void tls_gate::shut() {
  if (!thread_.joinable()) return;
  std::promise<void> done;
  asio::post(loop_, [&] {
    over_ = true;
    end_tunnels([](const tls_tunnel& one) { return one.opening(); });
    done.set_value();
  });
  done.get_future().wait();
}

void tls_gate::finish(std::chrono::milliseconds grace) {
  if (!thread_.joinable()) return;
  shut();
  work_.reset(); // the loop ends with its last connection
  if (ended_.get_future().wait_for(grace) != std::future_status::ready)
    asio::post(loop_, [this] { end_tunnels([](const tls_tunnel&) { return true; }); });
  thread_.join();
}

void tls_gate::end_tunnels(bool (*which)(const tls_tunnel&)) {
  for (const auto& one : tunnels_)
    if (const auto tunnel = one.lock(); tunnel && which(*tunnel)) tunnel->end();
}

} // namespace godwit::runtime::detail
