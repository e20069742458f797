#include "ucx/lanes.hpp"

#include <godwit/transport/ucx/fabric.hpp>

#include <algorithm>
#include <array>

#include <ucp/api/ucp.h>

namespace godwit::transport::ucx {

namespace {
/// Transports of adapters, and such as reach one host alone: there UCX before 1.21 may read by messages all the same.
constexpr std::array<std::string_view, 9> of_adapters{"rc", "rc_v", "rc_x",    "rc_verbs", "rc_mlx5",
                                                      "dc", "dc_x", "dc_mlx5", "ib"};
constexpr std::array<std::string_view, 8> of_neighbours{"cma", "knem",     "xpmem", "sm",
                                                        "shm", "cuda_ipc", "cuda",  "rocm_ipc"};

bool among(const auto& names, std::string_view one) { return std::ranges::find(names, one) != names.end(); }
} // namespace

bool version_at_least(unsigned major_wanted, unsigned minor_wanted) {
  unsigned major = 0, minor = 0, release = 0;
  ucp_get_version(&major, &minor, &release);
  return major > major_wanted || (major == major_wanted && minor >= minor_wanted);
}

bool can_forbid_messages() { return version_at_least(1, 21); }

bool may_read(std::string_view transports) noexcept {
  if (transports.starts_with('^')) return false;
  while (!transports.empty()) {
    const auto end = std::min(transports.find(','), transports.size());
    const auto one = transports.substr(0, end);
    if (one == "all" || among(of_adapters, one) || among(of_neighbours, one)) return true;
    transports.remove_prefix(std::min(end + 1, transports.size()));
  }
  return false;
}

// Lines like "#   lane[1]:  5:rc_mlx5/mlx5_0:1.0 md[4]  -> md[4]/ib/sysdev[255] rma_bw#0 am".
bool reads_by_lane(std::string_view endpoint, bool no_messages) noexcept {
  while (!endpoint.empty()) {
    const auto end = std::min(endpoint.find('\n'), endpoint.size());
    auto line = endpoint.substr(0, end);
    endpoint.remove_prefix(std::min(end + 1, endpoint.size()));
    if (line.find("lane[") == std::string_view::npos || line.find(" rma") == std::string_view::npos) continue;
    const auto slash = line.find('/');
    if (slash == std::string_view::npos) continue;
    const auto before = line.find_last_of(" :", slash);
    const auto transport = line.substr(before + 1, slash - before - 1);
    if (among(of_adapters, transport) || (no_messages && among(of_neighbours, transport))) return true;
  }
  return false;
}

bool reads_devices(const settings& options) {
  if (options.reads == remote_reading::never || options.checksum || !may_read(options.transports)) return false;
  return can_forbid_messages() && memory_types(options.transports) != "host";
}

} // namespace godwit::transport::ucx
