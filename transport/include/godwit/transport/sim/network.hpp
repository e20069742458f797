#pragma once

#include <godwit/runtime/async/timer_source.hpp>
#include <godwit/transport/fabric.hpp>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

/// A network that takes simulated time, and breaks where it is told to.
namespace godwit::transport::sim {

struct settings {
  /// Of each fabric, for all that it sends, and as much for all that comes to it. Who sends to a
  /// receiver that is busy with others' bytes takes turns with them, and has bulk for others wait behind it.
  double bytes_per_second = 4e9;
  /// One way.
  std::chrono::nanoseconds latency{20'000};
  /// How long bulk keeps an urgent send waiting, and how fine a fault can cut a send.
  std::size_t bytes_per_message = std::size_t{1} << 20;
  /// What software adds to the way of a send's bytes, once however many messages they are, and not to that of
  /// acknowledgements. The link carries others meanwhile.
  std::chrono::nanoseconds overhead{0};
};

/// Fabrics that reach each other by name. What they do depends on the calls and their times only: the same run twice is
/// the same.
///
/// Bytes are copied when the message arrives, in one go, but where writes are slow. All callbacks come from a timer
/// source. Faults may be set at
/// any moment and act on what is under way: a message arrives only if its link is whole and its receiver is not frozen
/// at that moment; what does not arrive is lost, and its sender learns by its timeout alone.
///
/// Bytes take the network's time. A process that has a clock of its own, which stands still or jumps, gives its fabric
/// its timers: its timeouts go by them.
class network {
public:
  network(runtime::async::timer_source& timers, settings options);
  network(const network&) = delete;
  network& operator=(const network&) = delete;
  ~network();

  /// Names are unique at a time. The network outlives its fabrics.
  [[nodiscard]] std::shared_ptr<fabric> make_fabric(const std::string& name);
  /// For a process with timers of its own, which outlive the fabric.
  [[nodiscard]] std::shared_ptr<fabric> make_fabric(const std::string& name, runtime::async::timer_source& of_process);

  /// No messages between the two, either way, nor acknowledgements; by name.
  void cut(const std::string& a, const std::string& b);
  void heal(const std::string& a, const std::string& b);
  /// Takes nothing and sends nothing, like a stopped process.
  void freeze(const std::string& name);
  void thaw(const std::string& name);
  /// Of the next messages that arrive at `name`, so many land without their sender ever hearing of it.
  void drop_acknowledgements(const std::string& name, std::uint32_t count);
  /// Messages that leave for `name` from now on come so much later, and their writes are open for up to so long, some
  /// long and some not: admitted when they arrive, in the memory at the end, as the receiver's own time goes. They come
  /// in the order in which they were sent, with the bytes that they had then, also where their send has been given up
  /// meanwhile. Zero ends it.
  void slow_writes(const std::string& name, std::chrono::nanoseconds late, std::chrono::nanoseconds open);

  class impl;

private:
  std::shared_ptr<impl> impl_;
};

} // namespace godwit::transport::sim
