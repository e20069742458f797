#pragma once

#include <godwit/runtime/async/connection_gate.hpp>
#include <godwit/runtime/host.hpp>
#include <godwit/runtime/trace/recorder.hpp>

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

namespace godwit::runtime {

/// How an actor_system runs.
struct actor_system_settings {
  /// How idle workers find work. `sharing`: one queue, woken at once. `stealing`: a queue per worker; a worker that
  /// sleeps finds what other actors sent it only at its next poll (docs/design/coroutines.md has the measurements).
  enum class policy_kind : std::uint8_t { sharing, stealing };

  std::uint32_t worker_threads = 0; ///< 0: one for each hardware thread, at least 2
  policy_kind policy = policy_kind::sharing;
  bool network = false; ///< may publish and reach actors of other nodes
  std::chrono::milliseconds heartbeat_interval{100};
  std::chrono::milliseconds connection_timeout{2000}; ///< a node silent for so long is taken for dead
  std::chrono::milliseconds shutdown_grace{2000}; ///< for actors to end when the system goes, before they are killed
  report_function report;                         ///< default: standard error
  /// Told of connections that this side ended because of what came over them, of many in a second once; by any thread.
  /// Null: nobody is.
  std::function<void(std::string_view)> warn;
  /// Connections to other nodes go through it (transport::tls::make_gate: in TLS, and both sides show who they are).
  /// Null: in the clear, with anybody. Must not be another system's.
  std::shared_ptr<async::connection_gate> gate;
  /// Records what its actors say to each other; null: nobody does. Must not be another system's.
  std::shared_ptr<trace::recorder> recorder;
};

/// Actors on threads, with the machine's clock. Several may live in one process.
class actor_system final : public actor_host {
public:
  explicit actor_system(actor_system_settings settings = {});
  /// Like `shutdown(settings.shutdown_grace)`.
  ~actor_system() override;

  /// Stops every actor, kills what is left after the grace. False where an actor would not even then (a handler that
  /// blocks).
  bool shutdown(std::chrono::milliseconds grace);

  /// Waits until no actor is left; false at the timeout.
  bool wait_until_empty(std::chrono::milliseconds timeout);

  /// Makes the actor reachable at host:port (port 0: a free one). Gives the port. Needs `network`. Without
  /// settings.gate nobody is authenticated and nothing encrypted: bind it to loopback or a network that is trusted.
  template <class Interface>
  [[nodiscard]] async::expected<std::uint16_t> publish(const handle<Interface>& whom, const std::string& host,
                                                       std::uint16_t port) {
    return publish_actor(whom.ref(), host, port);
  }
  /// The actor published at host:port. Checks that it understands Interface. Blocks for `timeout` at most: a process
  /// that is stopped still accepts connections, and says nothing; one that is cut off does not even accept.
  template <class Interface>
  [[nodiscard]] async::expected<handle<Interface>>
  remote(const std::string& host, std::uint16_t port, std::chrono::milliseconds timeout = std::chrono::seconds{10}) {
    std::vector<const message_type*> types;
    Interface::collect_types(types);
    auto found = remote_actor(host, port, types, Interface::size, timeout);
    if (!found) return std::move(found).error();
    return handle<Interface>{std::move(*found)};
  }

private:
  async::expected<std::uint16_t> publish_actor(const actor_ref& whom, const std::string& host, std::uint16_t port);
  async::expected<actor_ref> remote_actor(const std::string& host, std::uint16_t port,
                                          const std::vector<const message_type*>& types, std::size_t messages,
                                          std::chrono::milliseconds timeout);
  void ask_and_wait(const actor_ref& to, std::chrono::nanoseconds timeout, detail::draft message,
                    const std::function<void(detail::answer&)>& take) override;
  std::chrono::milliseconds grace_;
};

} // namespace godwit::runtime
