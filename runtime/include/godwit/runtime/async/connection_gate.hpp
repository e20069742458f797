#pragma once

#include <godwit/runtime/async/descriptor.hpp>
#include <godwit/runtime/async/expected.hpp>

#include <chrono>
#include <functional>
#include <string>

namespace godwit::runtime::async {

/// What stands between the network and an actor system's connections, as where they are to be encrypted and peers have
/// to say who they are (transport/tls). It has TCP's end of each, and the system gets another stream socket for it,
/// which carries the same bytes in the clear. May be called by any thread.
class connection_gate {
public:
  /// Gets the system's end of a connection that was let in. On a thread of the gate's.
  using entered = std::function<void(descriptor)>;

  connection_gate() = default;
  connection_gate(const connection_gate&) = delete;
  connection_gate& operator=(const connection_gate&) = delete;
  virtual ~connection_gate() = default;

  /// Lets a connection in that has been accepted, or closes it, within a bounded time.
  virtual void accept(descriptor socket, entered take) = 0;
  /// Takes a connection to `host` and gives the system's end, once the other side is known and has begun to speak.
  /// Blocks until the deadline or a moment longer. Errors: `down`, with the reason.
  [[nodiscard]] virtual expected<descriptor> connect(descriptor socket, const std::string& host,
                                                     std::chrono::steady_clock::time_point deadline) = 0;
  /// From here on nobody is let in and none is connected; waits for an `entered` under way.
  virtual void shut() = 0;
  /// Shuts, and gives connections whose system's end is closed this long to say their last words; then everything ends.
  virtual void finish(std::chrono::milliseconds grace) = 0;
};

} // namespace godwit::runtime::async
