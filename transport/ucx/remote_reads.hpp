#pragma once

#include "ucx/wire.hpp"

#include <godwit/protocols/messages/memory_region.hpp>

#include <cstddef>
#include <functional>
#include <list>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <ucp/api/ucp.h>

namespace godwit::transport::ucx {

/// What UCX reads for us out of other processes' memory (`ucp_get_nbx`): an adapter of the network does where one can.
///
/// Each ends once, by `run`, and nothing of it writes any more by then. One whose endpoint has failed or was closed by
/// force ends with an error; otherwise it takes as long as the peer. What has not ended goes with the worker. On its
/// thread.
class remote_reads {
public:
  struct order {
    wire::keyed_list from;
    std::vector<protocols::memory_region> into;       ///< as many bytes as `from` has
    ucs_memory_type_t type = UCS_MEMORY_TYPE_UNKNOWN; ///< of `into`; unknown: UCX finds out
    /// Empty: the bytes are in place. Holds that memory.
    std::function<void(const std::string& error)> ended;
  };
  remote_reads() = default;
  remote_reads(const remote_reads&) = delete;
  remote_reads& operator=(const remote_reads&) = delete;

  void begin(ucp_ep_h from, order what);
  void refuse(order what, std::string error) { ended_.emplace_back(std::move(what.ended), std::move(error)); }
  /// What has not ended, once the worker is gone: nobody is told.
  void forget();
  /// Tells what has ended. True where anything has.
  bool run();
  [[nodiscard]] bool due() const noexcept { return !ended_.empty(); } ///< there is something to tell
  [[nodiscard]] bool empty() const noexcept { return open_.empty() && ended_.empty(); }

private:
  struct reading {
    remote_reads* owner = nullptr;
    std::list<reading>::iterator self;
    order what;
    std::vector<ucp_rkey_h> keys;
    std::size_t parts = 0; ///< that have not ended
    std::string error;
  };
  static void part_ended(reading& of, ucs_status_t status);

  std::list<reading> open_;
  std::vector<std::pair<std::function<void(const std::string&)>, std::string>> ended_;
};

} // namespace godwit::transport::ucx
