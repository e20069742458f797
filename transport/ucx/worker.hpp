#pragma once

#include "ucx/remote_reads.hpp"

#include <godwit/transport/ucx/fabric.hpp>

#include <cstdint>
#include <functional>
#include <list>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include <ucp/api/ucp.h>

namespace godwit::transport::ucx {

/// A number of ours for an endpoint, never used twice.
using connection = std::uint64_t;

/// Whose memory these transports of UCX read without the other process's doing. UCX reads over others as well, by
/// messages, which brings nothing; and where whoever reads dies, 1.13 takes answers that wait for what they are not
/// (`ucp_request_memory_dereg`), and the process with them. What reaches one host alone counts from 1.16 on: before,
/// UCX has only such transports read that copy small parts as well.
enum class reach : std::uint8_t { nobody, host, network };
[[nodiscard]] reach reads_by(std::string_view transports) noexcept;

/// One UCX worker with its listener and endpoints. Everything on one thread, which calls `progress`; it is destroyed by
/// whoever has ended that one.
///
/// Endpoints are made with error handling (PEER), so that they tell of a dead peer and can be closed by force, after
/// which all that was being sent has ended. What UCX reports from within its own calls is kept, and given to `events`
/// by `progress`.
class worker {
public:
  class events {
  public:
    virtual void connected(connection from) = 0;
    /// Within UCX: nothing may be closed here (`close` waits until it can), sending is fine.
    virtual void received(connection from, std::string_view header, std::string_view payload) = 0;
    /// Gone. Not called for those that we closed.
    virtual void lost(connection which, const std::string& reason) = 0;

  protected:
    ~events() = default;
  };

  /// `reads_by_messages`: over any transport, as `reads_by` says better not to. For tests.
  worker(const settings& options, events& to, bool reads_by_messages = false);
  worker(const worker&) = delete;
  worker& operator=(const worker&) = delete;
  ~worker();

  [[nodiscard]] std::uint16_t port() const noexcept { return port_; }
  [[nodiscard]] int event_fd() const noexcept { return event_fd_; }
  [[nodiscard]] ucp_context_h context() const noexcept { return context_; }
  /// Whose memory `read` reads.
  [[nodiscard]] reach reads() const noexcept { return reads_; }
  /// Whether UCX says that it reaches memory of devices.
  [[nodiscard]] bool knows_devices() const noexcept { return knows_devices_; }

  /// 0: not a usable address. That nobody is there is told later, as a loss.
  [[nodiscard]] connection connect(const std::string& host, std::uint16_t port);
  /// `owned` or else `parts` are the payload; `keep` is held until they are not read any more.
  void send(connection to, std::string header, std::string owned,
            std::vector<std::pair<const void*, std::size_t>> parts, std::shared_ptr<void> keep);
  /// Reads memory of the other side, of which it has sent the keys.
  void read(connection from, remote_reads::order what);
  void close(connection which);
  /// Until the connection is closed, after which nobody can read by way of it.
  void hold(connection which, std::shared_ptr<void> what);
  /// HOST:PORT of the other side; empty once it is closed.
  [[nodiscard]] std::string peer(connection which) const;

  /// True: something happened, or may at once.
  bool progress();
  /// True: the event fd will become readable with the next event. False: there is one already.
  [[nodiscard]] bool arm();
  [[nodiscard]] std::size_t connections() const noexcept { return endpoints_.size(); }
  /// Closes all and waits until nothing is being sent or read, for a second at most.
  void stop();

private:
  struct sending;
  struct endpoint {
    ucp_ep_h handle = nullptr;
    std::string peer;
    std::size_t unsent = 0;                   ///< messages on their way out
    std::vector<std::shared_ptr<void>> held; ///< until it is closed
    bool failed = false;    ///< or closed by us: nothing more is sent to it, or told of it
  };
  /// An endpoint, and what is held until it is gone.
  struct closing {
    worker* owner = nullptr;
    std::list<closing>::iterator self;
    std::vector<std::shared_ptr<void>> held;
  };
  void ended(std::list<sending>::iterator which);
  static void on_request(ucp_conn_request_h request, void* self);
  static void on_error(void* self, ucp_ep_h which, ucs_status_t status);
  static ucs_status_t on_message(void* self, const void* header, std::size_t header_bytes, void* data,
                                 std::size_t bytes, const ucp_am_recv_param_t* how);
  [[nodiscard]] connection add(ucp_ep_params_t& parameters, std::string peer);
  void listen(const std::string& host, std::uint16_t port);
  void ask_for_devices();
  void destroy() noexcept;
  void reap();

  const settings options_;
  events& to_;
  ucp_context_h context_ = nullptr;
  ucp_worker_h worker_ = nullptr;
  ucp_listener_h listener_ = nullptr;
  int event_fd_ = -1;
  std::uint16_t port_ = 0;
  connection last_ = 0;
  std::unordered_map<connection, endpoint> endpoints_;
  std::unordered_map<ucp_ep_h, connection> by_handle_;
  std::vector<connection> to_close_;
  std::vector<std::pair<connection, std::string>> lost_;
  std::vector<connection> fresh_;
  std::list<sending> sending_;
  remote_reads reading_;
  reach reads_ = reach::nobody;
  bool knows_devices_ = false;
  std::list<closing> closing_;
};

} // namespace godwit::transport::ucx
