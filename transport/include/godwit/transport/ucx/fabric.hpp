#pragma once

#include <godwit/protocols/messages/shared_memory.hpp>
#include <godwit/transport/device_memory.hpp>
#include <godwit/transport/fabric.hpp>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>

/// The fabric between processes, over UCX (docs/design/fabric.md has the measurements behind the choices).
namespace godwit::transport::ucx {

/// What whoever runs a fabric may want to know: a connection that ended because of the other side, or blocks that go a
/// slower way than they were to.
struct link_end {
  std::string peer;   ///< HOST:PORT; of what concerns all of them, this side's
  std::string reason; ///< "no hello"
  /// The other side went, as a killed process does, or was not there, while something was under way or waited for the
  /// connection. Otherwise it did wrong, or did not
  /// answer, and this side closed the connection.
  bool gone = false;
  std::uint32_t left_out = 0; ///< before this one, that were not told
  bool goes_on = false;       ///< nothing ended
};

/// Whose memory UCX itself reads out of the sender, as an adapter can that does RDMA, instead of its being sent.
enum class remote_reading : std::uint8_t {
  devices, ///< devices', where UCX knows them and `transports` name what reaches them (GPUDirect RDMA, CUDA IPC)
  always,  ///< that, and the host's where it is shared_memory
  never
};

/// See settings::port.
inline constexpr std::uint16_t ports_of_fabric = 10;

struct settings {
  /// Where peers connect to: an address of this host.
  /// There is no authentication: bind to loopback or to a network that is trusted.
  std::string listen = "127.0.0.1";
  /// 0: ports that the system chooses. Else UCX listens here, streams come to the next one, and UCX's tcp takes one of
  /// the eight behind it, since the kernel does not give it one at once whose process was just killed.
  std::uint16_t port = 0;
  /// What peers are told instead of `listen`, an address of the same family; empty: `listen`. Whatever is in between
  /// has to hand on these ports as they are.
  std::string advertise = {};
  /// What UCX may use for messages (its own variable UCX_TLS names the same list). Where more than TCP leaves the host
  /// (`leaves_host_by_tcp_only`), UCX chooses the interfaces by itself, and may listen on others than that of `listen`.
  std::string transports = "tcp";
  /// Between processes of one host the receiver reads the blocks straight out of the sender's memory, where the kernel
  /// lets it (the same user, ptrace allowed). Otherwise they travel as messages.
  bool cross_memory = true;
  /// Which memory of this process others can map, by an address in it: they then copy blocks out of it themselves,
  /// which is several times as fast as to have the kernel read them. Asked for each offer; must be thread-safe.
  std::function<std::optional<protocols::shared_memory>(const std::byte*)> shared_memory = {};
  /// Over TCP blocks travel over a plain connection of their own, which the receiver reads straight to where they
  /// belong; UCX carries what is said about them. Otherwise, and where the other side does not want it or `transports`
  /// is more than "tcp", they are messages of UCX.
  bool streams = true;
  /// Both sides have to want it. What UCX does not reach without messages of its own goes the other ways.
  remote_reading reads = remote_reading::devices;
  /// Bytes that are read out of a sender at once, and that travel together over a stream. Other work waits for so long.
  std::size_t bytes_per_pull = std::size_t{512} << 10;
  /// Bytes of a message that carries blocks. Above what one segment of the transport takes, UCX copies once more.
  std::size_t bytes_per_message = std::size_t{256} << 10;
  /// Sent and not yet acknowledged, for each connection.
  std::size_t window_bytes = std::size_t{8} << 20;
  /// A sum over the bytes of each message, computed by the sender, verified by the receiver.
  bool checksum = false;
  std::chrono::milliseconds connect_timeout{3'000};
  /// A peer that owes answers is asked for a sign of life after a third of this, and given up after all of it.
  std::chrono::milliseconds peer_timeout{3'000};
  /// An unused connection is closed.
  std::chrono::milliseconds idle_timeout{30'000};
  /// Polls for so long after there was something to do, before the thread sleeps; 0: sleeps at once. To wake a
  /// thread of a virtual machine takes about as long.
  std::chrono::microseconds poll_before_sleep{50};
  /// The same where a piece has begun to arrive over a stream. Whom the sender must wake again and again, it serves
  /// several times as slowly: each time costs it tens of microseconds within the system call that writes.
  std::chrono::microseconds poll_midway{500};
  /// Never sleeps: a core for the last microseconds of latency.
  bool busy_poll = false;
  std::uint32_t connections_max = 1024;
  /// What UCX itself writes to standard error, of the whole process: fatal, error, warn, info, ... Empty: as the
  /// process has it. A peer's death is an error to UCX and an everyday event here, which the callbacks tell.
  std::string log_level = "fatal";
  device_memory device = {};
  /// Told of each, on the fabric's thread, ten in ten seconds at most: for a log. Must not block.
  std::function<void(const link_end&)> on_end = {};
};

/// Why no fabric can have these settings on this machine, however often it is tried: no such transport, no such
/// address.
struct wrong_settings : std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// Throws wrong_settings, and std::runtime_error where UCX cannot start for another reason: a port that is taken.
[[nodiscard]] std::shared_ptr<fabric> make_fabric(settings options = {});

/// Whether a list of UCX's transports has tcp, and besides only such as do not leave the host ("tcp,self,sysv").
[[nodiscard]] bool leaves_host_by_tcp_only(std::string_view transports) noexcept;
/// "UCX 1.13.1"
[[nodiscard]] std::string library_version();
/// The memory that UCX itself would send and receive over these transports: "host", "host, cuda".
[[nodiscard]] std::string memory_types(const std::string& transports);
/// Whether a fabric with these settings has UCX read devices' memory, as far as this side goes (`settings::reads`): UCX
/// has to know such memory, and to be one that can be forbidden to read by messages (1.21).
[[nodiscard]] bool reads_devices(const settings& options);

} // namespace godwit::transport::ucx
