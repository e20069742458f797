#include "actor/multiplexer.hpp"

#include <caf/io/abstract_broker.hpp>
#include <caf/io/network/doorman_impl.hpp>
#include <caf/io/network/scribe_impl.hpp>
#include <caf/make_counted.hpp>

#include <algorithm>
#include <memory>
#include <mutex>
#include <set>
#include <utility>

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

/// Accepted connections become CAF's once the gate has let them in.
class guarded_doorman final : public caf::io::network::doorman_impl {
public:
  guarded_doorman(multiplexer& loop, caf::io::network::native_socket socket, async::connection_gate& gate)
      : doorman_impl(loop, socket), loop_(loop), gate_(gate) {}
  bool new_connection() override {
    async::descriptor accepted(acceptor_.accepted_socket());
    if (detached()) return false;
    gate_.accept(std::move(accepted), [self = keep()](async::descriptor plain) {
      const auto entering = std::make_shared<async::descriptor>(std::move(plain)); // CAF copies what is posted
      self->loop_.post([self, entering] { self->enter(std::move(*entering)); });
    });
    return true;
  }

private:
  caf::intrusive_ptr<guarded_doorman> keep() { return this; }
  void enter(async::descriptor plain) {
    if (detached()) return;
    auto scribe = loop_.new_scribe(plain.release());
    const auto handle = scribe->hdl();
    parent()->add_scribe(std::move(scribe));
    doorman::new_connection(&loop_, handle);
  }

  multiplexer& loop_;
  async::connection_gate& gate_;
};

} // namespace

/// By their descriptors.
class multiplexer::open_connections {
public:
  void opened(caf::io::network::native_socket connection) {
    const std::lock_guard lock(mutex_);
    all_.insert(connection);
  }
  /// Before it is closed.
  void closes(caf::io::network::native_socket connection) {
    const std::lock_guard lock(mutex_);
    all_.erase(connection);
  }
  void cut() {
    const std::lock_guard lock(mutex_);
    for (const auto one : all_) ::shutdown(one, SHUT_RDWR);
  }

private:
  std::mutex mutex_;
  std::set<caf::io::network::native_socket> all_;
};

class multiplexer::bounded_scribe final : public caf::io::network::scribe_impl {
public:
  bounded_scribe(multiplexer& loop, caf::io::network::native_socket socket)
      : scribe_impl(loop, socket), open_(loop.open_) {
    open_->opened(socket);
  }
  ~bounded_scribe() override { open_->closes(stream_.fd()); }
  void configure_read(caf::io::receive_policy::config what) override {
    if (what.second > message_bytes_max) { // CAF finds the connection ended, or what it reads too short
      ::shutdown(stream_.fd(), SHUT_RDWR);
      what = caf::io::receive_policy::exactly(1);
    }
    scribe_impl::configure_read(what);
  }

private:
  std::shared_ptr<open_connections> open_;
};

multiplexer::multiplexer(caf::actor_system* system, async::connection_gate* gate)
    : default_multiplexer(system), gate_(gate), open_(std::make_shared<open_connections>()) {}

void multiplexer::cut() { open_->cut(); }

caf::io::doorman_ptr multiplexer::new_doorman(caf::io::network::native_socket socket) {
  if (gate_ == nullptr) return default_multiplexer::new_doorman(socket);
  return caf::make_counted<guarded_doorman>(*this, socket, *gate_);
}

caf::io::scribe_ptr multiplexer::new_scribe(caf::io::network::native_socket socket) {
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
