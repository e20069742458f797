#pragma once

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

  worker(const settings& options, events& to);
  worker(const worker&) = delete;
  worker& operator=(const worker&) = delete;
  ~worker();

  [[nodiscard]] std::uint16_t port() const noexcept { return port_; }
  [[nodiscard]] int event_fd() const noexcept { return event_fd_; }

  /// 0: not a usable address. That nobody is there is told later, as a loss.
  [[nodiscard]] connection connect(const std::string& host, std::uint16_t port);
  /// `owned` or else `parts` are the payload; `keep` is held until they are not read any more.
  void send(connection to, std::string header, std::string owned,
            std::vector<std::pair<const void*, std::size_t>> parts, std::shared_ptr<void> keep);
  void close(connection which);
  /// HOST:PORT of the other side; empty once it is closed.
  [[nodiscard]] std::string peer(connection which) const;

  /// True: something happened, or may at once.
  bool progress();
  /// True: the event fd will become readable with the next event. False: there is one already.
  [[nodiscard]] bool arm();
  [[nodiscard]] std::size_t connections() const noexcept { return endpoints_.size(); }
  /// Closes all and waits until nothing is being sent, for a second at most.
  void stop();

private:
  struct sending;
  struct endpoint {
    ucp_ep_h handle = nullptr;
    std::string peer;
    std::size_t unsent = 0; ///< messages on their way out
    bool failed = false;    ///< or closed by us: nothing more is sent to it, or told of it
  };
  void ended(std::list<sending>::iterator which);
  static void on_request(ucp_conn_request_h request, void* self);
  static void on_error(void* self, ucp_ep_h which, ucs_status_t status);
  static ucs_status_t on_message(void* self, const void* header, std::size_t header_bytes, void* data,
                                 std::size_t bytes, const ucp_am_recv_param_t* how);
  [[nodiscard]] connection add(ucp_ep_params_t& parameters, std::string peer);
  void listen(const std::string& host, std::uint16_t port);
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
  std::size_t closing_ = 0;
};

} // namespace godwit::transport::ucx
