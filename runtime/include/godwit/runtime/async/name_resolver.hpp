#pragma once

#include <godwit/runtime/async/expected.hpp>

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include <sys/socket.h>

namespace godwit::runtime::async {

/// Where a host can be connected to.
struct socket_address {
  sockaddr_storage bytes{};
  socklen_t size = 0;
};

/// Finds the addresses of hosts, one after the other.
///
/// The system takes its own time to say that nobody knows a name, half a minute and more, and cannot be stopped. So it
/// is asked on a thread that nobody waits for: one is there while there is something to find, and is left to itself
/// where the resolver ends before it. Who asks for what is being asked already waits for the same answer; so does who
/// has given up and comes again, to whom that of a minute ago is good enough. Thread-safe.
class name_resolver {
public:
  using answer = expected<std::vector<socket_address>>;
  /// Blocks. May be left running when the resolver has ended, so it owns what it uses. Errors: `down`.
  using system_function = std::function<answer(const std::string& host, std::uint16_t port)>;
  /// With the system's words where it finds nothing.
  [[nodiscard]] static answer ask_system(const std::string& host, std::uint16_t port);

  explicit name_resolver(system_function system = ask_system);
  name_resolver(const name_resolver&) = delete;
  name_resolver& operator=(const name_resolver&) = delete;
  ~name_resolver(); ///< forgets all

  /// `done` is called once, on the thread or at once where there can be none or the answer is there; it must only post
  /// or store, and may not come back here. The number is for `forget`.
  std::uint64_t find(std::string host, std::uint16_t port, std::function<void(answer)> done);
  /// From then on `done` is not called, and is gone. What nobody else wants and has not begun will not.
  void forget(std::uint64_t which);

  /// The same, waiting until `deadline` at most. What is an address already needs nobody's answer.
  [[nodiscard]] answer find_by(const std::string& host, std::uint16_t port,
                               std::chrono::steady_clock::time_point deadline);

private:
  struct state;
  static void work(const std::shared_ptr<state>& of);
  const std::shared_ptr<state> state_;
};

} // namespace godwit::runtime::async
