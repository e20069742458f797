#include "actor/multiplexer.hpp"

#include "actor/order_notes.hpp"
#include "actor/packets.hpp"
#include "actor/seldom.hpp"

#include <caf/exit_reason.hpp>
#include <caf/io/abstract_broker.hpp>
#include <caf/io/basp/header.hpp>
#include <caf/io/basp_broker.hpp>
#include <caf/io/doorman.hpp>
#include <caf/io/network/acceptor_impl.hpp>
#include <caf/io/network/scribe_impl.hpp>
#include <caf/make_counted.hpp>
#include <caf/policy/tcp.hpp>
#include <caf/scheduler/abstract_coordinator.hpp>
#include <caf/send.hpp>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <list>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include <fcntl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

namespace godwit::runtime::detail {

namespace {

/// A process's table of descriptors is as long as its greatest number.
constexpr rlim_t numbers_max = 1U << 16U;

/// Ours are of a few MB at most: a request that moves, with a long context and all its log-probabilities.
constexpr std::size_t message_bytes_max = std::size_t{256} << 20U;

/// So much waits to be written besides what is being written: who takes nothing and asks on is closed.
constexpr std::size_t unsent_bytes_max = message_bytes_max;

/// Of a message that is announced, so much takes memory before it has come.
constexpr std::size_t piece_bytes_max = std::size_t{1} << 20U;

/// Actors of one peer, and of those of which it has spoken, that live: CAF takes some 2 KB for each. A member knows as
/// many as there are instances. They are counted after so many of which it spoke.
constexpr std::size_t peer_actors_max = std::size_t{64} << 10U;
constexpr std::size_t counted_after = std::size_t{8} << 10U;

/// One that was accepted and has not said a word for so long is closed when another one comes: CAF would keep it.
constexpr auto quiet_max = std::chrono::seconds(5);

} // namespace

/// By their descriptors.
class multiplexer::open_connections {
public:
  using socket = caf::io::network::native_socket;
  using clock = std::chrono::steady_clock;

  void opened(socket connection) {
    const std::lock_guard lock(mutex_);
    all_.insert(connection);
  }
  /// One that others have begun; it has not said anything yet.
  void accepted(socket connection) {
    const std::lock_guard lock(mutex_);
    end_quiet();
    quiet_at_[connection] = quiet_.insert(quiet_.end(), {connection, clock::now()});
  }
  void speaks(socket connection) {
    const std::lock_guard lock(mutex_);
    forget(connection);
  }
  /// Before it is closed.
  void closes(socket connection) {
    const std::lock_guard lock(mutex_);
    all_.erase(connection);
    forget(connection);
  }
  /// Somebody needs a descriptor.
  void make_room() {
    const std::lock_guard lock(mutex_);
    end_quiet();
  }
  void cut() {
    const std::lock_guard lock(mutex_);
    for (const auto one : all_) ::shutdown(one, SHUT_RDWR);
  }

private:
  struct quiet {
    socket connection;
    clock::time_point since;
  };
  /// Where this process stood still, words may lie unread.
  static bool has_spoken(socket connection) {
    char word = 0;
    return ::recv(connection, &word, 1, MSG_PEEK | MSG_DONTWAIT) > 0;
  }
  void end_quiet() {
    const auto now = clock::now();
    while (!quiet_.empty() && now - quiet_.front().since > quiet_max) {
      const auto one = quiet_.front().connection;
      if (!has_spoken(one)) ::shutdown(one, SHUT_RDWR);
      forget(one);
    }
  }
  void forget(socket connection) {
    const auto found = quiet_at_.find(connection);
    if (found == quiet_at_.end()) return;
    quiet_.erase(found->second);
    quiet_at_.erase(found);
  }

  std::mutex mutex_;
  std::unordered_set<socket> all_;
  std::list<quiet> quiet_; ///< the oldest first
  std::unordered_map<socket, std::list<quiet>::iterator> quiet_at_;
};

/// Told on the loop's thread.
class multiplexer::refusals {
public:
  explicit refusals(std::function<void(std::string_view)> warn) : warn_(std::move(warn)) {}
  void tell(caf::io::network::native_socket connection, std::string_view why) {
    if (!warn_) return;
    try {
      if (const auto more = seldom_.tell(std::chrono::steady_clock::now().time_since_epoch()))
        warn_("the connection of " + name_of(connection) + " is ended: " + std::string(why) + *more);
    } catch (...) {
    } // CAF would end its network for it
  }

private:
  /// CAF dies of a port where there is no address: behind a gate the connection is one of this process with itself.
  static std::string name_of(caf::io::network::native_socket connection) {
    const auto host = caf::io::network::remote_addr_of_fd(connection);
    if (!host) return "a peer in TLS, or of one that has gone,";
    const auto port = caf::io::network::remote_port_of_fd(connection);
    return port ? *host + ":" + std::to_string(*port) : *host;
  }

  std::function<void(std::string_view)> warn_;
  seldom seldom_;
};

/// CAF's way to accept leaves who comes in the kernel's queue when there is no descriptor left, and asks for them at
/// once again, for ever. This closes them, by way of a descriptor that is kept for that.
class multiplexer::sparing_tcp : public caf::policy::tcp {
public:
  explicit sparing_tcp(std::shared_ptr<open_connections> open) : open_(std::move(open)) {}

  bool try_accept(caf::io::network::native_socket& accepted, caf::io::network::native_socket listener) {
    accepted = ::accept4(listener, nullptr, nullptr, SOCK_CLOEXEC);
    const bool full = accepted < 0 && (errno == EMFILE || errno == ENFILE);
    if (full) {
      open_->make_room();
      if (spare_.get() < 0) std::this_thread::sleep_for(std::chrono::milliseconds(1)); // another one took its number
      spare_ = {};
      (void)async::descriptor(::accept4(listener, nullptr, nullptr, SOCK_CLOEXEC));
    }
    if (spare_.get() < 0) spare_ = open_spare();
    return accepted >= 0;
  }

private:
  static async::descriptor open_spare() { return async::descriptor(::open("/dev/null", O_RDONLY | O_CLOEXEC)); }
  std::shared_ptr<open_connections> open_;
  async::descriptor spare_ = open_spare();
};

class multiplexer::bounded_scribe final : public caf::io::network::scribe_impl {
public:
  bounded_scribe(multiplexer& loop, caf::io::network::native_socket socket)
      : scribe_impl(loop, socket), open_(loop.open_), refusals_(loop.refusals_) {
    open_->opened(socket);
  }
  ~bounded_scribe() override { open_->closes(stream_.fd()); }
  void configure_read(caf::io::receive_policy::config what) override {
    if (what.second > message_bytes_max) {
      refuse("a message of more than 256 MiB");
      what = caf::io::receive_policy::exactly(1);
    }
    announced_ = what.second;
    read_ahead();
  }
  bool consume(caf::execution_unit* context, const void* bytes, std::size_t count) override {
    if (!std::exchange(speaks_, true)) open_->speaks(stream_.fd());
    if (refused_) return true; // until the end shows
    if (collected_.size() + count < announced_) {
      const auto* piece = static_cast<const char*>(bytes);
      collected_.insert(collected_.end(), piece, piece + count);
      read_ahead();
      return true;
    }
    if (!collected_.empty()) {
      collected_.insert(collected_.end(), rd_buf().begin(), rd_buf().begin() + static_cast<std::ptrdiff_t>(count));
      rd_buf().swap(collected_);
      count = rd_buf().size();
      collected_ = std::vector<char>(); // without what it held
    }
    if (const auto why = wrong_with(count); !why.empty()) {
      refuse(why);
      return true;
    }
    return scribe_impl::consume(context, rd_buf().data(), count);
  }
  void flush() override {
    if (wr_buf().size() > unsent_bytes_max) refuse("it does not take what it is sent");
    if (refused_)
      wr_buf() = std::vector<char>();
    else
      scribe_impl::flush();
  }
  void accepted() { open_->accepted(stream_.fd()); }

private:
  /// Of the header or payload that was read; empty: nothing.
  std::string_view wrong_with(std::size_t count) {
    constexpr std::string_view foreign = "it sends what no process of godwit does";
    if (!std::exchange(at_header_, false)) {
      at_header_ = true;
      const auto nodes = nodes_of_harmless(header_, {rd_buf().data(), count});
      if (!nodes) return foreign;
      const auto open = std::chrono::duration_cast<std::chrono::seconds>(std::chrono::steady_clock::now() - since_);
      if (!nodes_.admit(*nodes, open)) return "it speaks of too many processes";
      uncounted_ += 1 + nodes->size();
      return uncounted_ < counted_after || actors() <= peer_actors_max ? std::string_view()
                                                                       : "it speaks of too many actors";
    }
    header_ = packet_header(rd_buf().data());
    at_header_ = header_.payload_bytes == 0;
    return header_.is_harmless() ? std::string_view() : foreign;
  }
  std::size_t actors() {
    uncounted_ = 0;
    auto* const broker = dynamic_cast<caf::io::basp_broker*>(parent());
    if (broker == nullptr) return 0;
    std::size_t all = 0;
    for (const auto& node : nodes_.known()) all += broker->proxies().count_proxies(node_of(node));
    return all;
  }
  /// CAF finds the connection ended.
  void refuse(std::string_view why) {
    if (std::exchange(refused_, true)) return;
    refusals_->tell(stream_.fd(), why);
    ::shutdown(stream_.fd(), SHUT_RDWR);
  }
  /// CAF fills with zeros what is to be read next.
  void read_ahead() {
    scribe_impl::configure_read(
        caf::io::receive_policy::exactly(std::min(announced_ - collected_.size(), piece_bytes_max)));
  }

  std::shared_ptr<open_connections> open_;
  std::shared_ptr<refusals> refusals_;
  std::chrono::steady_clock::time_point since_ = std::chrono::steady_clock::now();
  nodes_heard_of nodes_;
  std::size_t uncounted_ = 0;                          ///< mentions of actors
  std::size_t announced_ = caf::io::basp::header_size; ///< bytes of the header or payload that is read
  std::vector<char> collected_;                        ///< of it, where it is more than a piece
  packet_header header_;                               ///< the last one
  bool at_header_ = true;                              ///< else its payload
  bool refused_ = false;
  bool speaks_ = false;
};

/// A port. Where there is a gate, who was accepted becomes CAF's once that has let them in.
class multiplexer::gateway final : public caf::io::doorman {
public:
  gateway(multiplexer& loop, caf::io::network::native_socket socket)
      : doorman(caf::io::network::accept_hdl_from_socket(socket)), loop_(loop), acceptor_(loop, socket, loop.open_) {}

  bool new_connection() override {
    async::descriptor accepted(acceptor_.accepted_socket());
    if (detached()) return false;
    if (loop_.gate_ == nullptr) return enter(std::move(accepted));
    loop_.gate_->accept(std::move(accepted), [self = keep()](async::descriptor plain) {
      const auto entering = std::make_shared<async::descriptor>(std::move(plain)); // CAF copies what is posted
      self->loop_.post([self, entering] { (void)self->enter(std::move(*entering)); });
    });
    return true;
  }
  void graceful_shutdown() override {
    acceptor_.graceful_shutdown();
    detach(&loop_, false);
  }
  void launch() override { acceptor_.start(this); }
  [[nodiscard]] std::string addr() const override {
    auto found = caf::io::network::local_addr_of_fd(acceptor_.fd());
    return found ? std::move(*found) : std::string();
  }
  [[nodiscard]] std::uint16_t port() const override {
    auto found = caf::io::network::local_port_of_fd(acceptor_.fd());
    return found ? *found : std::uint16_t{0};
  }
  void add_to_loop() override { acceptor_.activate(this); }
  void remove_from_loop() override { acceptor_.passivate(); }

private:
  caf::intrusive_ptr<gateway> keep() { return this; }
  bool enter(async::descriptor plain) {
    if (detached()) return false;
    auto scribe = loop_.make_scribe(plain.release());
    scribe->accepted();
    const auto handle = scribe->hdl();
    forget_gone();
    parent()->add_scribe(std::move(scribe));
    return doorman::new_connection(&loop_, handle);
  }

  /// CAF keeps an actor for each node that ever was connected, and of those that others have spoken of the way there
  /// and handles. Whoever has no connection any more gets new ones when it comes back.
  void forget_gone() {
    auto* const broker = dynamic_cast<caf::io::basp_broker*>(parent());
    if (broker == nullptr) return;
    auto& ways = broker->instance.tbl();
    std::erase_if(broker->spawn_servers, [&](const auto& one) {
      if (ways.lookup(one.first)) return false;
      caf::anon_send_exit(one.second, caf::exit_reason::kill);
      broker->proxies().erase(one.first);
      ways.erase_indirect(one.first);
      return true;
    });
  }

  multiplexer& loop_;
  caf::io::network::acceptor_impl<sparing_tcp> acceptor_;
};

/// Has the loop run what others have given it.
class multiplexer::waking final : public runnable {
public:
  explicit waking(multiplexer& loop) : loop_(loop) {}
  resume_result resume(caf::execution_unit*, std::size_t) override {
    comes_after(this);
    loop_.run_orders();
    return done;
  }

private:
  multiplexer& loop_;
};

multiplexer::multiplexer(caf::actor_system* system, async::connection_gate* gate,
                         std::function<void(std::string_view)> warn)
    : default_multiplexer(system), gate_(gate), open_(std::make_shared<open_connections>()),
      refusals_(std::make_shared<refusals>(std::move(warn))) {}

// As CAF does with what is left in its pipe. What ends may order more.
multiplexer::~multiplexer() {
  while (!orders_.empty())
    for (auto& one : std::exchange(orders_, {}))
      caf::scheduler::abstract_coordinator::cleanup_and_release(one.release());
}

void multiplexer::exec_later(caf::resumable* what) noexcept {
  const bool ours = what->subtype() == caf::resumable::io_actor || what->subtype() == caf::resumable::function_object;
  if (!ours || std::this_thread::get_id() == thread_id()) return default_multiplexer::exec_later(what);
  {
    const std::lock_guard lock(mutex_);
    orders_.emplace_back(what, false);
    if (orders_.size() > 1) return;
  }
  auto* const wakes = new waking(*this);
  comes_before(wakes);
  default_multiplexer::exec_later(wakes);
}

void multiplexer::run_orders() {
  std::vector<caf::intrusive_ptr<caf::resumable>> now;
  {
    const std::lock_guard lock(mutex_);
    now.swap(orders_);
  }
  for (auto& one : now) resume(std::move(one));
}

void multiplexer::cut() { open_->cut(); }

caf::io::doorman_ptr multiplexer::new_doorman(caf::io::network::native_socket socket) {
  return caf::make_counted<gateway>(*this, socket);
}

caf::io::scribe_ptr multiplexer::new_scribe(caf::io::network::native_socket socket) { return make_scribe(socket); }

caf::intrusive_ptr<multiplexer::bounded_scribe> multiplexer::make_scribe(caf::io::network::native_socket socket) {
  rlimit limit{};
  ::getrlimit(RLIMIT_NOFILE, &limit);
  // The numbers of the upper half one after the other; all else in the process takes the lowest ones.
  const auto last = static_cast<int>(std::min(limit.rlim_cur, numbers_max));
  const int first = last / 2;
  int from = next_.load();
  if (from < first || from >= last) from = first;
  int copy = ::fcntl(socket, F_DUPFD_CLOEXEC, from);
  if (copy < 0 && from != first) copy = ::fcntl(socket, F_DUPFD_CLOEXEC, first);
  if (copy >= 0) {
    next_.store(copy + 1);
    ::close(socket);
    socket = copy;
  } // else all of them are in use
  (void)caf::io::network::keepalive(socket, true);
  return caf::make_counted<bounded_scribe>(*this, socket);
}

} // namespace godwit::runtime::detail
