#pragma once

#include <godwit/runtime/async/connection_gate.hpp>

#include <caf/io/network/default_multiplexer.hpp>

#include <atomic>
#include <functional>
#include <memory>
#include <mutex>
#include <string_view>
#include <vector>

namespace godwit::runtime::detail {

/// CAF's loop over its connections, with descriptors that are not given to the next connection at once. CAF 0.17 calls
/// a connection by its descriptor, and forgets one that has ended only after the messages that came before, when its
/// workers get to them. A connection that is accepted meanwhile mostly has the same descriptor: it would be forgotten
/// instead, and all actors beyond it would be down for this side while it stays open.
/// And the bytes of one message are bounded, and take memory as they come: CAF fills as many as a stranger's first
/// packet seems to announce, up to 4 GB, with zeros before it reads on. What waits to be written to one peer is bounded
/// too. Packets that systems of godwit do not send (packets.hpp), and who speaks of too many nodes, end their
/// connection, with a warning, one a second: CAF dies of some, and gives others whatever memory they ask for. What it
/// keeps of nodes that are gone is let go of when the next one comes.
/// And who gives the loop something to do does not wait for it: CAF writes that into a pipe with room for 8192, where
/// its workers would wait with a lock held that the loop wants, both for ever, as when one message names that many
/// actors.
///
/// With a gate, whoever connects goes through it before CAF hears of the connection. Whoever then says nothing for 5 s
/// is closed when another one comes, and who comes when no descriptor is left at once.
class multiplexer final : public caf::io::network::default_multiplexer {
public:
  /// `warn` may be null.
  multiplexer(caf::actor_system* system, async::connection_gate* gate, std::function<void(std::string_view)> warn);
  multiplexer(const multiplexer&) = delete;
  multiplexer& operator=(const multiplexer&) = delete;
  ~multiplexer() override;
  /// `socket` is closed with the connection, or before, in favour of a copy with a number of its own.
  caf::io::scribe_ptr new_scribe(caf::io::network::native_socket socket) override;
  caf::io::doorman_ptr new_doorman(caf::io::network::native_socket socket) override;
  /// Where there is no memory for it the process ends: what is lost might be the network's next turn.
  void exec_later(caf::resumable* what) noexcept override;

  /// Ends all connections, whatever waits to be written. May be called by any thread.
  void cut();

private:
  class open_connections;
  class bounded_scribe;
  class gateway;
  class sparing_tcp;
  class refusals;
  class waking;
  caf::intrusive_ptr<bounded_scribe> make_scribe(caf::io::network::native_socket socket);
  void run_orders();
  async::connection_gate* gate_;
  std::shared_ptr<open_connections> open_; ///< connections may outlive this
  std::shared_ptr<refusals> refusals_;     ///< likewise
  std::atomic<int> next_{0};
  std::mutex mutex_;
  std::vector<caf::intrusive_ptr<caf::resumable>> orders_; ///< of other threads, under mutex_; not empty: it is woken
};

} // namespace godwit::runtime::detail
