#include "ucx/sender.hpp"

#include "ucx/address.hpp"

#include <algorithm>
#include <utility>
#include <vector>

/// What is offered for UCX to read: to whom, of what, and how an offer is made.
namespace godwit::transport::ucx {

namespace {
constexpr auto unreadable_most = std::chrono::minutes(24 * 60);
constexpr auto lanes_settled = std::chrono::seconds(5);
constexpr auto lanes_looked_at = std::chrono::milliseconds(50);
} // namespace

sender::way sender::way_of(link& to, order& from, time now) {
  if (from.cutter.bytes_total() <= message_at_most) return way::message;
  // A device's memory only where UCX does not read by messages: it would, where an adapter does not reach that.
  if (to.reads > (from.device ? 1 : 0) && (from.device || !to.pull) && read_there(to, now) && readable(from))
    return way::keyed_offer;
  return to.pull ? way::offer : to.stream ? way::stream : way::message;
}

bool sender::read_there(link& to, time now) {
  if (const auto failed = unreadable_.find(to.peer); failed != unreadable_.end() && now < failed->second.until)
    return false;
  // What a connection goes over may be settled a little after its first words.
  if (!to.read && now - to.made < lanes_settled && now - to.read_asked > lanes_looked_at) {
    to.read_asked = now;
    to.read = shared_.messages->reads(to.channel, to.reads > 1);
  }
  return to.read;
}

bool sender::readable(order& from) const {
  if (from.readable) return !from.readable->empty();
  auto& found = from.readable.emplace();
  if (from.device ? shared_.options.checksum : !shared_.exposes_host) return false; // only the host adds up
  for (const auto& region : from.cutter.regions()) {
    if (!found.empty() && found.back()->holds(region)) continue;
    auto memory = region.bytes == 0 ? nullptr : shared_.exposed->find(region);
    if (memory && std::ranges::find(found, memory) == found.end()) found.push_back(memory);
    if ((region.bytes != 0 && !memory) || found.size() > wire::keys_max) {
      found.clear();
      return false;
    }
  }
  return !found.empty();
}

void sender::offer_keyed(link& to, wire::blocks m, const std::vector<protocols::memory_region>& memory,
                         const order& from) {
  if (shared_.options.checksum) {
    m.summed = true;
    m.sum = wire::checksum(memory);
  }
  ++shared_.messages_sent;
  wire::keyed_list list;
  std::vector<const exposed*> used;
  for (const auto& region : memory) {
    const auto of = std::ranges::find_if(*from.readable, [&](const auto& one) { return one->holds(region); })->get();
    const auto key = static_cast<std::uint32_t>(std::ranges::find(used, of) - used.begin());
    if (key == used.size()) {
      used.push_back(of);
      list.keys.push_back(of->key());
    }
    const auto address = reinterpret_cast<std::uint64_t>(region.address);
    auto* const last = list.spans.empty() ? nullptr : &list.spans.back();
    if (last != nullptr && last->key == key && last->address + last->bytes == address)
      last->bytes += region.bytes;
    else
      list.spans.push_back({address, region.bytes, key});
  }
  shared_.messages->send(to.channel, wire::encode(m), wire::pack_keyed(list), {}, {});
}

void sender::not_readable(const std::string& peer, const std::string& reason, time now) {
  if (unreadable_.size() >= shared_.options.connections_max) unreadable_.clear();
  auto& known = unreadable_.try_emplace(peer, trouble{now, unreadable_for}).first->second;
  if (now < known.until) return; // more of what was under way then
  known.until = now + known.next;
  const auto where = parse_address(peer);
  shared_.ends.tell_once("reads", peer, where ? where->host + ":" + std::to_string(where->port) : peer,
                         "its UCX could not read memory of this side (" + reason + "); blocks go other ways for " +
                             std::to_string(known.next.count()) + " minutes",
                         now);
  known.next = std::min(2 * known.next, unreadable_most);
}

} // namespace godwit::transport::ucx
