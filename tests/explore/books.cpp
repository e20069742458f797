#include "explore/books.hpp"

#include <algorithm>
#include <cstdint>
#include <set>

namespace godwit::explore {

using protocols::request_state;

std::string compare_books(const protocols::cluster_status& status) {
  std::string out;
  std::set<std::pair<protocols::request_id, protocols::epoch>> owned;
  for (const auto& instance : status.instances) {
    if (instance.state == protocols::instance_state::down || instance.load.blocks_total == 0) continue;
    const auto& load = instance.load;
    const auto compare = [&](const char* what, std::uint64_t reported, std::uint64_t counted) {
      if (reported != counted && out.empty())
        out = "instance " + std::to_string(instance.instance.value()) + " reports " + std::to_string(reported) + " " +
              what + ", " + std::to_string(counted) + " are counted";
    };
    const auto count = [&](auto... states) {
      return static_cast<std::uint64_t>(std::count_if(instance.requests.begin(), instance.requests.end(),
                                                      [&](const auto& r) { return ((r.state == states) || ...); }));
    };
    compare("running", load.running, count(request_state::running));
    compare("waiting", load.waiting, count(request_state::waiting, request_state::preempted));
    compare("parked", load.migrating, count(request_state::migrating));
    std::uint64_t most = 0, held = 0;
    for (const auto& r : instance.requests) {
      most = std::max<std::uint64_t>(most, r.blocks);
      held += r.blocks;
      if (!owned.emplace(r.request, r.epoch).second && out.empty())
        out = "request " + std::to_string(r.request.value()) + " runs twice in one epoch";
    }
    if (load.blocks_used + load.blocks_cached > load.blocks_total)
      compare("blocks used and cached", load.blocks_used + load.blocks_cached, load.blocks_total);
    if (load.blocks_used < most) compare("blocks used", load.blocks_used, most); // blocks may be shared
  }
  return out;
}

} // namespace godwit::explore
