#include <godwit/transport/http/server.hpp>

#include "http/session.hpp"
#include "http/worker.hpp"

#include <boost/asio/ip/v6_only.hpp>

#include <algorithm>
#include <chrono>
#include <exception>
#include <future>
#include <memory>
#include <thread>
#include <utility>

namespace godwit::transport::http {

namespace {

using acceptor = asio::basic_socket_acceptor<tcp, executor>;

// Connections being told 503 at one time; beyond it they are closed without a word.
constexpr std::uint64_t refusing_max = 256;

// Where nothing can be accepted, for want of file descriptors or memory. Trying again at once would only burn a core.
constexpr std::chrono::milliseconds accept_pause{20};

listen_error cannot_listen(const std::string& host, std::uint16_t port, const error_code& ec) {
  const auto name = host.find(':') == std::string::npos ? host : "[" + host + "]";
  auto out = listen_error();
  out.endpoint = name + ":" + std::to_string(port);
  out.message = "cannot listen on " + out.endpoint + ": " + ec.message();
  out.in_use = ec == asio::error::address_in_use;
  return out;
}

error_code open(acceptor& a, const tcp::endpoint& e) {
  auto ec = error_code();
  a.open(e.protocol(), ec);
  if (!ec) a.set_option(asio::socket_base::reuse_address(true), ec); // a restart must not wait for old connections
  if (!ec && e.protocol() == tcp::v6()) {
    // [::] stands for all addresses, IPv4's too, where the system lets it; any other one for itself.
    const bool all = e.address().is_unspecified();
    auto refused = error_code();
    a.set_option(asio::ip::v6_only(!all), all ? refused : ec);
  }
  if (!ec) a.bind(e, ec);
  if (!ec) a.listen(asio::socket_base::max_listen_connections, ec);
  return ec;
}

} // namespace

class server::impl {
public:
  impl(server_settings s, handler h) : core_(std::make_shared<server_core>(std::move(s), std::move(h))) {
    const auto threads = std::max<std::uint32_t>(1, core_->settings.threads);
    for (std::uint32_t i = 0; i < threads; ++i) {
      auto& made = *lanes_.emplace_back(std::make_unique<lane>());
      made.of_sessions.make_room = [this, &made] { make_room(made); };
    }
  }
  ~impl() { stop(); }

  std::optional<listen_error> listen(const std::string& host, std::uint16_t port);
  std::optional<std::string> use_tls(const tls_files& files);
  void drain(std::function<void()> done);
  void stop();
  [[nodiscard]] std::uint16_t port() const noexcept { return port_.load(); }
  [[nodiscard]] const server_core& core() const noexcept { return *core_; }

private:
  /// A thread and its sessions, which it alone touches.
  struct lane {
    session::surroundings of_sessions;
    std::atomic<bool> to_make_room{false}; // and has not begun to
    worker thread;                         // after the sessions: its end is the end of those who touch them
  };

  /// Belongs to the coroutine that accepts.
  struct accepting;
  void start_accepting(const std::shared_ptr<acceptor>& a);
  awaitable<> accept(std::shared_ptr<acceptor> a);
  void accept_again(const std::shared_ptr<acceptor>& a) noexcept;
  /// A connection that has not begun yet, and the thread that it is to have.
  struct newcomer {
    lane* chosen;
    socket connection;
    tcp::endpoint peer;
  };
  void admit(lane& chosen, socket s);
  /// In the place of the connection that has waited longest for a request, or not at all.
  void replace_idle(newcomer made);
  [[nodiscard]] lane& longest_idle() noexcept;
  /// Where the process may open no more files.
  void close_longest_idle();
  void let_in(newcomer made);
  /// Where too much waits for readers; on the lane's thread.
  void make_room(lane& here);
  void turn_away(newcomer made, session::refusal why);
  void begin(newcomer made, std::shared_ptr<ssl::context> tls, session::refusal why);
  void end_accepting(std::function<void()> then);
  void each_session(void (session::*act)());

  const std::shared_ptr<server_core> core_;
  std::vector<std::unique_ptr<lane>> lanes_;
  std::vector<std::shared_ptr<acceptor>> acceptors_; // the first lane's
  std::size_t next_ = 0;                             // the first lane's
  std::atomic<std::uint16_t> port_{0};
  std::mutex stop_mutex_;
  bool stopped_ = false;
};

std::optional<listen_error> server::impl::listen(const std::string& host, std::uint16_t port) {
  const auto on = lanes_.front()->thread.get();
  auto ec = error_code();
  auto resolver = asio::ip::basic_resolver<tcp, executor>(on);
  const auto found = resolver.resolve(host, std::to_string(port), tcp::resolver::passive, ec);
  if (ec) return cannot_listen(host, port, ec);
  auto opened = std::vector<std::shared_ptr<acceptor>>();
  auto first_error = error_code();
  auto chosen = port;
  for (const auto& entry : found) {
    auto endpoint = entry.endpoint();
    endpoint.port(chosen); // a free port is the same one on every address
    auto a = std::make_shared<acceptor>(on);
    if (const auto failed = open(*a, endpoint)) {
      // "localhost" may name ::1 on a machine without IPv6; a port in use on one of the addresses is an error all the
      // same.
      if (!first_error || failed == asio::error::address_in_use) first_error = failed;
      if (failed == asio::error::address_in_use) break;
      continue;
    }
    chosen = a->local_endpoint(ec).port();
    opened.push_back(std::move(a));
  }
  if (opened.empty() || first_error == asio::error::address_in_use) return cannot_listen(host, port, first_error);
  auto none = std::uint16_t{0};
  port_.compare_exchange_strong(none, chosen);
  asio::post(on, [this, opened] {
    for (const auto& a : opened) {
      if (core_->draining.load()) return;
      acceptors_.push_back(a);
      start_accepting(a);
    }
  });
  return std::nullopt;
}

/// Where the coroutine throws, or is given up by Asio, for which `accept` sees no exception, another one begins: a
/// listening socket from which nobody accepts looks like a server that hangs. Destroyed, it was not told of an end.
struct server::impl::accepting {
  accepting(impl* server, std::shared_ptr<acceptor> a) noexcept : of(server), from(std::move(a)) {}
  accepting(accepting&&) noexcept = default;
  accepting& operator=(accepting&&) = delete;
  ~accepting() {
    if (from) of->accept_again(from);
  }
  void operator()(const std::exception_ptr& thrown) noexcept {
    if (!thrown) from.reset(); // it was closed
  }
  impl* of;
  std::shared_ptr<acceptor> from;
};

void server::impl::start_accepting(const std::shared_ptr<acceptor>& a) {
  auto held = accepting(this, a); // first: what follows may throw
  asio::co_spawn(a->get_executor(), accept(a), std::move(held));
}

// After a pause, so that it is no loop while memory stays short. A server that is being destroyed has stopped.
void server::impl::accept_again(const std::shared_ptr<acceptor>& a) noexcept {
  while (!core_->draining.load()) {
    try {
      const auto pause = std::make_shared<timer>(a->get_executor(), accept_pause);
      pause->async_wait([this, a, pause](error_code) {
        if (!core_->draining.load()) start_accepting(a);
      });
      return;
    } catch (const std::exception&) { // nor can anything else go on here
      std::this_thread::sleep_for(accept_pause);
    }
  }
}

awaitable<> server::impl::accept(std::shared_ptr<acceptor> a) {
  auto pause = timer(a->get_executor());
  while (a->is_open()) {
    auto admitted = false;
    try {
      auto& chosen = *lanes_[next_++ % lanes_.size()];
      auto [ec, accepted] = co_await a->async_accept(chosen.thread.get(), as_value);
      if (core_->draining.load()) break;
      admitted = !ec;
      if (admitted) admit(chosen, std::move(accepted));
      if (ec == asio::error::no_descriptors || ec == boost::system::errc::too_many_files_open_in_system)
        close_longest_idle();
    } catch (const std::exception&) { // out of memory
      admitted = false;
    }
    if (!admitted) {
      pause.expires_after(accept_pause);
      co_await pause.async_wait(as_value);
    }
  }
}

void server::impl::admit(lane& chosen, socket s) {
  const auto& settings = core_->settings;
  auto ec = error_code();
  auto made = newcomer{&chosen, std::move(s), {}};
  made.peer = made.connection.remote_endpoint(ec);
  if (ec) return; // it has gone already
  if (!core_->addresses.enter(made.peer.address(), settings.connections_per_address_max))
    return turn_away(std::move(made), session::refusal::full_address);
  if (core_->connections.load() >= settings.connections_max) {
    const auto from = made.peer.address();
    try {
      return replace_idle(std::move(made));
    } catch (const std::exception&) { // out of memory
      core_->addresses.leave(from);
      throw;
    }
  }
  core_->connections.fetch_add(1); // by this thread alone
  let_in(std::move(made));
}

server::impl::lane& server::impl::longest_idle() noexcept {
  return **std::min_element(lanes_.begin(), lanes_.end(), [](const auto& a, const auto& b) {
    return a->of_sessions.idle_since.load() < b->of_sessions.idle_since.load();
  });
}

void server::impl::close_longest_idle() {
  auto& where = longest_idle();
  asio::post(where.thread.get(), [&idle = where.of_sessions.idle] {
    const auto found = std::find_if(idle.begin(), idle.end(), [](session* s) { return s->idle(); });
    if (found != idle.end()) (void)(*found)->make_way(false);
  });
}

// Each thread knows its own sessions alone, so that of the one that has waited longest is asked.
void server::impl::replace_idle(newcomer made) {
  auto& where = longest_idle();
  asio::post(
      where.thread.get(), [this, &idle = where.of_sessions.idle, made = std::make_shared<newcomer>(std::move(made))] {
        const auto found = std::find_if(idle.begin(), idle.end(), [](session* s) { return s->idle(); });
        if (found != idle.end() && (*found)->make_way(true)) return let_in(std::move(*made));
        core_->addresses.leave(made->peer.address());
        if (core_->settings.on_dropped)
          core_->settings.on_dropped(to_string(made->peer), "there are http.connections_max, and all are in use");
        turn_away(std::move(*made), session::refusal::full);
      });
}

// Not the one that comes last: whoever reads is through in a moment, and would pay for those who do not. As above, the
// thread of the one that has taken nothing for longest is asked.
void server::impl::make_room(lane& here) {
  // One that waits alone may be longer.
  while (core_->too_much_waits() && core_->writing.load() > 1) {
    auto& where = **std::min_element(lanes_.begin(), lanes_.end(), [](const auto& a, const auto& b) {
      return a->of_sessions.stalled_since.load() < b->of_sessions.stalled_since.load();
    });
    if (&where != &here) {
      if (where.to_make_room.exchange(true)) return;
      try {
        asio::post(where.thread.get(), [this, &where] {
          where.to_make_room.store(false);
          make_room(where);
        });
      } catch (...) {
        where.to_make_room.store(false);
        throw;
      }
      return;
    }
    auto& writing = here.of_sessions.writing;
    if (writing.empty()) return; // those of the others are through
    writing.front()->give_way();
  }
}

/// It has its place.
void server::impl::let_in(newcomer made) {
  auto tls = std::shared_ptr<ssl::context>();
  {
    const auto lock = std::lock_guard(core_->tls_mutex);
    tls = core_->tls;
  }
  const auto from = made.peer.address();
  try {
    begin(std::move(made), std::move(tls), session::refusal::none);
  } catch (const std::exception&) { // out of memory: this client goes without, the next one may not
    core_->addresses.leave(from);
    core_->connections.fetch_sub(1);
  }
}

void server::impl::turn_away(newcomer made, session::refusal why) {
  const auto encrypted = [this] {
    const auto lock = std::lock_guard(core_->tls_mutex);
    return core_->tls != nullptr;
  }();
  const auto told_max = std::clamp<std::uint64_t>(core_->settings.connections_max / 4, 1, refusing_max);
  // A handshake only to say so would cost more than an ordinary request.
  if (encrypted || core_->refusing.load() >= told_max) {
    core_->refused_total.fetch_add(1);
    return;
  }
  core_->refusing.fetch_add(1);
  try {
    begin(std::move(made), nullptr, why);
  } catch (const std::exception&) {
    core_->refusing.fetch_sub(1);
  }
}

void server::impl::begin(newcomer made, std::shared_ptr<ssl::context> tls, session::refusal why) {
  auto& on = *made.chosen;
  auto begun =
      std::make_shared<session>(std::move(made.connection), std::move(tls), made.peer, core_, on.of_sessions, why);
  asio::post(on.thread.get(), [begun = std::move(begun)] { begun->start(); });
}

// Everything that is admitted was posted to its lane before `then` runs, on the first lane.
void server::impl::end_accepting(std::function<void()> then) {
  asio::post(lanes_.front()->thread.get(), [this, then = std::move(then)] {
    auto ec = error_code();
    for (const auto& a : acceptors_) a->close(ec);
    acceptors_.clear();
    {
      const auto lock = std::lock_guard(core_->drain_mutex);
      core_->accepting_ended = true;
    }
    then();
  });
}

void server::impl::each_session(void (session::*act)()) {
  for (const auto& l : lanes_)
    asio::post(l->thread.get(), [&sessions = l->of_sessions.sessions, act] {
      for (auto* s : std::vector<session*>(sessions.begin(), sessions.end())) (s->*act)();
    });
}

std::optional<std::string> server::impl::use_tls(const tls_files& files) {
  auto loaded = load_tls(files);
  if (auto* wrong = std::get_if<std::string>(&loaded)) return std::move(*wrong);
  const auto lock = std::lock_guard(core_->tls_mutex);
  core_->tls.swap(std::get<0>(loaded));
  return std::nullopt;
}

void server::impl::drain(std::function<void()> done) {
  {
    const auto lock = std::lock_guard(stop_mutex_);
    if (!stopped_) {
      core_->draining.store(true);
      {
        const auto drain_lock = std::lock_guard(core_->drain_mutex);
        core_->on_drained.push_back(std::move(done));
      }
      end_accepting([this] {
        each_session(&session::close_if_idle);
        core_->drained();
      });
      return;
    }
  }
  if (done) done();
}

void server::impl::stop() {
  {
    const auto lock = std::lock_guard(stop_mutex_);
    if (std::exchange(stopped_, true)) return;
    core_->draining.store(true);
    core_->stopping.store(true);
    auto ended = std::promise<void>();
    end_accepting([&ended] { ended.set_value(); });
    ended.get_future().wait();
    each_session(&session::abort);
  }
  for (const auto& l : lanes_) l->thread.finish();
  core_->drained(true);
}

server::server(server_settings settings, handler on_request)
    : impl_(std::make_unique<impl>(std::move(settings), std::move(on_request))) {}
server::~server() = default;

std::optional<listen_error> server::listen(const std::string& host, std::uint16_t port) {
  return impl_->listen(host, port);
}
std::optional<std::string> server::use_tls(const tls_files& files) { return impl_->use_tls(files); }
std::uint16_t server::local_port() const noexcept { return impl_->port(); }
void server::drain(std::function<void()> done) { impl_->drain(std::move(done)); }
void server::stop() { impl_->stop(); }

server_stats server::stats() const {
  const auto& c = impl_->core();
  auto out = server_stats();
  out.connections = c.connections.load();
  out.exchanges = c.exchanges.load();
  out.requests_total = c.requests_total.load();
  out.rejected_total = c.rejected_total.load();
  out.refused_total = c.refused_total.load();
  out.handshakes_failed_total = c.handshakes_failed_total.load();
  out.disconnects_total = c.disconnects_total.load();
  out.slow_readers_total = c.slow_readers_total.load();
  out.answer_bytes = c.answer_bytes.load();
  out.bytes_written_total = c.bytes_written_total.load();
  return out;
}

} // namespace godwit::transport::http
