#pragma once

#include "ucx/lanes.hpp"
#include "ucx/remote_reads.hpp"

#include <godwit/transport/ucx/fabric.hpp>

#include <chrono>
#include <cstdint>
#include <deque>
#include <functional>
#include <list>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include <ucp/api/ucp.h>

namespace godwit::transport::ucx {

/// A number of ours for an endpoint, never used twice.
using connection = std::uint64_t;

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
    /// Not called for those that `close` closed. `gone`: UCX says that the other side is; else it takes nothing of what
    /// it is sent, and the connection is ended for that.
    virtual void lost(connection which, const std::string& reason, bool gone) = 0;

  protected:
    ~events() = default;
  };

  /// `reads_by_messages`: over any transport, as `may_read` says better not to. For tests.
  worker(const settings& options, events& to, bool reads_by_messages = false);
  worker(const worker&) = delete;
  worker& operator=(const worker&) = delete;
  ~worker();

  [[nodiscard]] std::uint16_t port() const noexcept { return port_; }
  [[nodiscard]] int event_fd() const noexcept { return event_fd_; }
  [[nodiscard]] const std::shared_ptr<ucp_context>& context() const noexcept { return context_; }
  /// Whether `read` can be used at all.
  [[nodiscard]] bool reads() const noexcept { return reads_; }
  /// Whether UCX reads by itself here, or not at all.
  [[nodiscard]] bool forbids_messages() const noexcept;
  /// Whether memory can be read over this connection without messages; `no_messages`: by one whose UCX forbids them.
  [[nodiscard]] bool reads(connection which, bool no_messages) const;
  /// Whether UCX says that it reaches memory of devices, and reads it by itself or not at all.
  [[nodiscard]] bool reads_devices() const noexcept { return reads_devices_; }

  /// 0: not a usable address. That nobody is there is told later, as a loss.
  [[nodiscard]] connection connect(const std::string& host, std::uint16_t port);
  /// `owned` or else `parts` are the payload; `keep` is held until they are not read any more.
  void send(connection to, std::string header, std::string owned,
            std::vector<std::pair<const void*, std::size_t>> parts, std::shared_ptr<void> keep);
  /// Reads memory of the other side, of which it has sent the keys.
  void read(connection from, remote_reads::order what);
  void close(connection which);
  /// Until a second after the connection is closed: UCX takes a while to end what lies under it.
  void hold(connection which, std::shared_ptr<void> what);
  /// Lets go of what was held for long enough.
  void let_go(std::chrono::steady_clock::time_point now);
  [[nodiscard]] bool holds() const noexcept { return !held_.empty(); }
  /// HOST:PORT of the other side; empty once it is closed.
  [[nodiscard]] std::string peer(connection which) const;

  /// Ends connections of which nobody has ever said a word, where descriptors run short: how many.
  std::size_t end_silent();
  /// True: something happened, or may at once.
  bool progress();
  /// True: the event fd will become readable with the next event. False: there is one already.
  [[nodiscard]] bool arm();
  [[nodiscard]] std::size_t connections() const noexcept { return endpoints_.size(); }
  /// Closes all and waits until nothing is being sent or read, for a second at most.
  void stop();
  /// Ends what is left: nothing is sent, read or written any more by UCX. `event_fd` is closed.
  void destroy() noexcept;

private:
  struct sending;
  struct endpoint {
    ucp_ep_h handle = nullptr;
    std::string peer;
    std::size_t unsent = 0;                       ///< messages on their way out
    std::vector<std::shared_ptr<void>> held = {}; ///< until it is closed
    bool failed = false;                          ///< or closed by us: nothing more is sent to it, or told of it
  };
  void ended(std::list<sending>::iterator which);
  static void on_request(ucp_conn_request_h request, void* self);
  static void on_error(void* self, ucp_ep_h which, ucs_status_t status);
  static ucs_status_t on_message(void* self, const void* header, std::size_t header_bytes, void* data,
                                 std::size_t bytes, const ucp_am_recv_param_t* how);
  [[nodiscard]] connection add(ucp_ep_params_t& parameters, std::string peer);
  void listen(const std::string& host, std::uint16_t port);
  void ask_for_devices();
  /// From within UCX, which no exception may pass. It is told, and closed, by `reap`.
  void fail(connection which, const char* why, bool gone) noexcept;
  void tell_fresh();
  void reap();
  /// There is something for it to do.
  [[nodiscard]] bool due() const noexcept { return !lost_.empty() || !to_close_.empty() || !fresh_.empty(); }

  const settings options_;
  events& to_;
  std::shared_ptr<ucp_context> context_;
  ucp_worker_h worker_ = nullptr;
  ucp_listener_h listener_ = nullptr;
  int event_fd_ = -1;
  std::uint16_t port_ = 0;
  std::set<std::uint16_t> ports_; ///< at which UCX listens
  connection last_ = 0;
  std::unordered_map<connection, endpoint> endpoints_;
  std::unordered_map<ucp_ep_h, connection> by_handle_;
  std::vector<connection> to_close_;
  struct loss {
    connection which;
    std::string reason;
    bool gone = true;
  };
  std::deque<loss> lost_;
  std::deque<connection> fresh_;
  std::list<sending> sending_;
  std::size_t closing_ = 0;
  std::deque<std::pair<std::chrono::steady_clock::time_point, std::vector<std::shared_ptr<void>>>>
      held_; ///< from then on
  remote_reads reading_;
  const bool reads_by_messages_;
  bool reads_ = false;
  bool no_messages_ = false; ///< UCX reads by itself or not at all
  bool reads_devices_ = false;
};

} // namespace godwit::transport::ucx
