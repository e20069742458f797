#pragma once

#include <string_view>

namespace godwit::transport::ucx {

/// Whether the UCX that is loaded is so new. It is not asked by trying a setting: older ones take any.
[[nodiscard]] bool version_at_least(unsigned major, unsigned minor);
/// Whether UCX reads without messages of its own where it is told to, or fails.
[[nodiscard]] bool can_forbid_messages();

/// Whether a list of UCX's transports names such as may read memory without the other process's doing.
///
/// UCX reads over the rest as well, by messages of its own. That brings nothing; and 1.13 ends the process of one that
/// is read so when the other one goes meanwhile (docs/design/fabric.md, "Remote reads"). From 1.21 on it can be
/// forbidden.
[[nodiscard]] bool may_read(std::string_view transports) noexcept;
/// Whether what UCX says of an endpoint (`ucp_ep_print_info`) has a lane on which memory is read like that.
/// `no_messages`: UCX was forbidden to read by messages, and so does not where it says that it reads.
[[nodiscard]] bool reads_by_lane(std::string_view endpoint, bool no_messages) noexcept;

} // namespace godwit::transport::ucx
