#include "tls/gate.hpp"

#include "tls/tunnel.hpp"

#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>

#include <cerrno>
#include <exception>
#include <iterator>
#include <system_error>
#include <utility>

#include <sys/socket.h>

namespace godwit::transport::tls {

namespace asio = boost::asio;
using asio::ip::tcp;
using async::descriptor;
using boost::system::error_code;
using std::chrono::steady_clock;

namespace {

constexpr auto handshake_max = std::chrono::seconds(3);
constexpr unsigned handshakes_max = 1024;
constexpr unsigned handshakes_of_one_max = 256;
constexpr auto told_every = std::chrono::seconds(1);
/// Beyond its deadline, for the thread to say that a connection has failed.
constexpr auto connect_slack = std::chrono::milliseconds(100);

async::error down(std::string why) { return async::error{async::error_code::down, std::move(why)}; }

// Unlike getpeername, also of one that has reset the connection. The kernel wants the size of such an address.
tcp::endpoint peer_of(int socket) {
  int family = 0;
  socklen_t size = sizeof family;
  if (::getsockopt(socket, SOL_SOCKET, SO_DOMAIN, &family, &size) != 0) return {};
  tcp::endpoint peer(family == AF_INET6 ? tcp::v6() : tcp::v4(), 0);
  size = static_cast<socklen_t>(peer.size());
  return ::getsockopt(socket, SOL_SOCKET, SO_PEERNAME, peer.data(), &size) == 0 ? peer : tcp::endpoint();
}

std::string words_of(const tcp::endpoint& peer) {
  const auto address = peer.address().to_string();
  return (peer.address().is_v6() ? "[" + address + "]" : address) + ":" + std::to_string(peer.port());
}

/// Of an IPv6 address its network of 64 bits.
std::string network_of(const asio::ip::address& address) {
  if (address.is_v4()) return address.to_string();
  const auto bytes = address.to_v6().to_bytes();
  return {bytes.begin(), bytes.begin() + (address.to_v6().is_v4_mapped() ? 16 : 8)};
}

} // namespace

/// One of those that have their time.
class gate::handshake {
public:
  explicit handshake(gate& owner) : owner_(owner), admitted_(owner.handshakes_.fetch_add(1) < handshakes_max) {}
  handshake(const handshake&) = delete;
  handshake& operator=(const handshake&) = delete;
  ~handshake() {
    --owner_.handshakes_;
    if (of_ == nullptr) return;
    if (--of_->second == 0) owner_.handshakes_of_.erase(of_->first);
  }
  [[nodiscard]] bool admitted() const noexcept { return admitted_; }
  /// On the gate's thread, where it ends too.
  [[nodiscard]] bool admits(const asio::ip::address& from) {
    of_ = &*owner_.handshakes_of_.try_emplace(network_of(from)).first;
    return ++of_->second <= handshakes_of_one_max;
  }

private:
  gate& owner_;
  const bool admitted_;
  std::pair<const std::string, unsigned>* of_ = nullptr;
};

gate::gate(identity own, warning_function tell)
    : identity_(std::move(own)), tell_(std::move(tell)), work_(asio::make_work_guard(loop_)), thread_([this] {
        run();
        ended_.set_value();
      }) {}

gate::~gate() { finish(std::chrono::milliseconds{0}); }

void gate::accept(descriptor socket, entered take) {
  auto place = std::make_shared<handshake>(*this);
  if (!place->admitted()) {
    asio::post(loop_,
               [this, peer = peer_of(socket.get())] { turned_away(words_of(peer), "too many connections begin"); });
    return;
  }
  asio::post(loop_, [this, socket = std::move(socket), take = std::move(take), place = std::move(place)]() mutable {
    let_in(std::move(socket), std::move(take), std::move(place));
  });
}

void gate::let_in(descriptor socket, entered take, std::shared_ptr<handshake> place) {
  if (over_) return;
  const auto peer = peer_of(socket.get());
  if (!place->admits(peer.address())) return turned_away(words_of(peer), "it has too many connections that begin");
  const auto made = make_tunnel(std::move(socket));
  if (!made) return turned_away(words_of(peer), made.error().message);
  (*made)->open(tunnel::side::accepts, handshake_max,
                [this, peer, take = std::move(take), place = std::move(place),
                 raw = made->get()](const std::string& why) mutable {
                  place.reset();
                  if (over_) return raw->end();
                  if (why == tunnel::unsaid) return;
                  if (!why.empty()) return turned_away(words_of(peer), why);
                  auto plain = raw->start();
                  if (plain.get() < 0) return turned_away(words_of(peer), "no descriptors are left");
                  take(std::move(plain));
                });
}

async::expected<descriptor> gate::connect(descriptor socket, const std::string& host,
                                          steady_clock::time_point deadline) {
  using result = async::expected<descriptor>;
  const auto done = std::make_shared<std::promise<result>>();
  auto out = done->get_future();
  asio::post(loop_, [this, socket = std::move(socket), host, deadline, done]() mutable {
    const auto made = make_tunnel(std::move(socket));
    if (!made) return done->set_value(made.error());
    if (!(*made)->expect(host)) return done->set_value(down("TLS: '" + host + "' is in no certificate"));
    (*made)->open(tunnel::side::connects, deadline - steady_clock::now(),
                  [done, raw = made->get()](const std::string& why) {
                    if (!why.empty()) return done->set_value(down("TLS: " + why));
                    auto plain = raw->start();
                    if (plain.get() < 0) return done->set_value(down("no descriptors are left"));
                    done->set_value(std::move(plain));
                  });
  });
  // The tunnel's limit is the same; but the loop may have ended.
  if (out.wait_until(deadline + connect_slack) != std::future_status::ready) return down("no answer in time");
  try {
    return out.get();
  } catch (const std::future_error&) { // see run
    return down("this side has no room for it");
  }
}

async::expected<std::shared_ptr<tunnel>> gate::make_tunnel(descriptor socket) {
  if (over_) return down("this side ends");
  sockaddr_storage own{};
  socklen_t size = sizeof own;
  if (::getsockname(socket.get(), reinterpret_cast<sockaddr*>(&own), &size) != 0)
    return down(std::generic_category().message(errno));
  tcp::socket taken(loop_);
  error_code failed;
  taken.assign(own.ss_family == AF_INET6 ? tcp::v6() : tcp::v4(), socket.get(), failed);
  if (failed) return down(failed.message());
  (void)socket.release();
  auto made = std::make_shared<tunnel>(std::move(taken),
                                       *identity_.current([this](std::string_view text) { warn(std::string(text)); }));
  for (auto one = tunnels_.begin(); one != tunnels_.end();) one = one->expired() ? tunnels_.erase(one) : std::next(one);
  tunnels_.insert(made);
  return made;
}

void gate::turned_away(const std::string& peer, std::string_view why) {
  const auto now = steady_clock::now();
  if (now - told_ < told_every) {
    ++left_out_;
    return;
  }
  told_ = now;
  const auto before = std::exchange(left_out_, 0);
  warn("turned away " + peer + ": " + std::string(why) +
       (before == 0 ? std::string() : " (and " + std::to_string(before) + " others before it)"));
}

// What a handler throws, as where memory is short, is not the end of the others; its connection's other side hears no
// more and gives it up.
void gate::run() noexcept {
  for (bool over = false; !over;) {
    try {
      loop_.run();
      over = true;
    } catch (const std::exception& failure) {
      warn(std::string("a connection fails: ") + failure.what());
    }
  }
}

void gate::warn(const std::string& text) noexcept {
  try {
    if (tell_) tell_(text);
  } catch (...) {
  } // there is nobody left to tell
}

void gate::shut() {
  if (!thread_.joinable()) return;
  std::promise<void> done;
  asio::post(loop_, [&] {
    over_ = true;
    end_tunnels([](const tunnel& one) { return one.opening(); });
    done.set_value();
  });
  done.get_future().wait();
}

void gate::finish(std::chrono::milliseconds grace) {
  if (!thread_.joinable()) return;
  shut();
  work_.reset(); // the loop ends with its last connection
  if (ended_.get_future().wait_for(grace) != std::future_status::ready)
    asio::post(loop_, [this] { end_tunnels([](const tunnel&) { return true; }); });
  thread_.join();
}

void gate::end_tunnels(bool (*which)(const tunnel&)) {
  for (const auto& one : tunnels_)
    if (const auto open = one.lock(); open && which(*open)) open->end();
}

async::expected<std::shared_ptr<async::connection_gate>> make_gate(node_files files, warning_function tell) {
  auto own = identity::load(std::move(files));
  if (!own) return std::move(own).error();
  if (const auto wrong = own->out_of_date(); tell && !wrong.empty()) tell(wrong);
  return std::shared_ptr<async::connection_gate>(std::make_shared<gate>(std::move(*own), std::move(tell)));
}

} // namespace godwit::transport::tls
