#include "cpu/control_group.hpp"

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <fstream>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include <sched.h>

namespace godwit::gpu::cpu {

namespace fs = std::filesystem;

namespace {

/// Whether a list such as "cpu,cpuacct" has it.
bool has(std::string_view list, std::string_view one) {
  while (!list.empty()) {
    const auto comma = std::min(list.find(','), list.size());
    if (list.substr(0, comma) == one) return true;
    list.remove_prefix(std::min(comma + 1, list.size()));
  }
  return false;
}

/// The folders of the process's group and of those above it, the innermost first. `controller` of version 1; empty:
/// version 2. In a container some are outside of what it sees: files that are not there have no say.
std::vector<fs::path> groups(const fs::path& root, std::string_view controller) {
  std::vector<fs::path> out;
  std::ifstream file(root / "proc/self/cgroup");
  for (std::string line; std::getline(file, line);) { // "4:memory:/some/where", "0::/some/where"
    const auto first = line.find(':'), second = line.find(':', first + 1);
    if (first == std::string::npos || second == std::string::npos) continue;
    const auto list = std::string_view(line).substr(first + 1, second - first - 1);
    if (controller.empty() ? !list.empty() : !has(list, controller)) continue;
    const auto top = root / "sys/fs/cgroup" / (controller.empty() ? std::string() : std::string(list));
    for (auto at = fs::path(line.substr(second + 1)).relative_path().lexically_normal();; at = at.parent_path()) {
      if (at.native().starts_with("..")) at.clear(); // from a group beside the one that is seen as the root
      out.push_back(at.empty() ? top : top / at);
      if (at.empty()) break;
    }
    break;
  }
  if (out.empty() && controller.empty()) out.push_back(root / "sys/fs/cgroup"); // no /proc
  return out;
}

std::optional<std::uint64_t> number_in(const fs::path& path) {
  std::ifstream file(path);
  std::int64_t value = 0;
  if (file >> value && value >= 0) return static_cast<std::uint64_t>(value);
  return std::nullopt; // no such file, "max", "-1"
}

/// The sum of what such lines of memory.stat say.
std::uint64_t cached_in(const fs::path& path, std::string_view prefix) {
  std::uint64_t sum = 0, value = 0;
  std::ifstream file(path);
  for (std::string key; file >> key >> value;)
    if (key.starts_with(prefix) &&
        (key.substr(prefix.size()) == "inactive_file" || key.substr(prefix.size()) == "active_file"))
      sum += value;
  return sum;
}

void keep_least(std::optional<std::uint64_t>& least, std::uint64_t value) {
  least = std::min(least.value_or(value), value);
}

} // namespace

std::optional<std::uint64_t> group_available_bytes(const fs::path& root) {
  std::optional<std::uint64_t> least;
  const auto look = [&](const fs::path& group, const char* most, const char* now, std::string_view prefix) {
    constexpr auto unlimited = std::uint64_t{1} << 62U; // version 1 has a number for it, of whole pages below 2^63
    const auto limit = number_in(group / most), used = number_in(group / now);
    if (!limit || !used || *limit >= unlimited) return;
    const auto kept = *used - std::min(*used, cached_in(group / "memory.stat", prefix));
    keep_least(least, *limit - std::min(*limit, kept));
  };
  for (const auto& group : groups(root, "")) look(group, "memory.max", "memory.current", "");
  for (const auto& group : groups(root, "memory"))
    look(group, "memory.limit_in_bytes", "memory.usage_in_bytes", "total_");
  return least;
}

std::optional<std::uint32_t> group_processors(const fs::path& root) {
  std::optional<std::uint64_t> least;
  const auto look = [&](std::optional<std::uint64_t> quota, std::optional<std::uint64_t> period) {
    if (quota && period && *quota > 0 && *period > 0) keep_least(least, (*quota + *period - 1) / *period);
  };
  for (const auto& group : groups(root, "")) {
    std::ifstream file(group / "cpu.max"); // "400000 100000", "max 100000"
    std::uint64_t quota = 0, period = 0;
    if (file >> quota >> period) look(quota, period);
  }
  for (const auto& group : groups(root, "cpu"))
    look(number_in(group / "cpu.cfs_quota_us"), number_in(group / "cpu.cfs_period_us"));
  if (!least) return std::nullopt;
  return static_cast<std::uint32_t>(std::min<std::uint64_t>(*least, UINT32_MAX));
}

std::optional<std::uint32_t> allowed_processors() {
  constexpr std::size_t processors_max = std::size_t{1} << 20U;
  for (std::size_t count = CPU_SETSIZE; count <= processors_max; count *= 2) { // the kernel's own sets may be larger
    const std::unique_ptr<cpu_set_t, void (*)(cpu_set_t*)> set(CPU_ALLOC(count), [](cpu_set_t* one) { CPU_FREE(one); });
    const auto bytes = CPU_ALLOC_SIZE(count);
    if (set && ::sched_getaffinity(0, bytes, set.get()) == 0)
      return static_cast<std::uint32_t>(CPU_COUNT_S(bytes, set.get()));
    if (errno != EINVAL) break;
  }
  return std::nullopt;
}

} // namespace godwit::gpu::cpu
