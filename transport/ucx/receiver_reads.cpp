#include "ucx/receiver.hpp"

#include <algorithm>
#include <utility>
#include <vector>

/// What UCX reads by itself: when it begins, and what its end means.
namespace godwit::transport::ucx {

namespace {
/// What UCX reads at a time, of all connections, and of bulk alone.
constexpr std::size_t reads_max = 64;
constexpr std::size_t bulk_reads_max = 48;
} // namespace

// Each connection has as many reads as are free besides, at most: a sender that stands still keeps what it has.
bool receiver::may_read_more(const peer& who) const {
  const auto most = who.urgent ? reads_max : bulk_reads_max;
  return reads_.size() < most && who.reading < most - reads_.size();
}

bool receiver::run_remote(peer& who, pull& next) {
  const auto& m = next.what;
  if (!may_read_more(who)) return false;
  if (!place_pull(next, true)) return true;
  auto& place = *next.place;
  const bool device = on_device(place.into);
  // Only the host adds up. All of a posting is memory of one kind, if not in one piece.
  std::shared_ptr<const exposed> target;
  bool direct = !device || !m.summed;
  for (std::size_t i = 0; device && direct && i < place.into.size(); ++i) {
    target = shared_.exposed->find(place.into[i]);
    direct = target != nullptr && target->takes_writes();
  }
  auto* const ring = direct ? nullptr : shared_.copies->reading();
  if (!direct && ring == nullptr) {
    const std::string reason = "no page-locked memory for what is to be read";
    shared_.call_all(shared_.table.failed(place.write, reason));
    refuse(next.from, m.number, reason, true);
    return true;
  }
  const auto loan = static_cast<std::uint32_t>(who.loan.use_count()) - 1;
  const auto piece = ring != nullptr && loan < ring->free_count(who.urgent) ? ring->take(who.urgent) : nullptr;
  if (ring != nullptr && !piece) return false;
  const pinned_piece staged =
      piece ? pinned_piece{piece.get(), [piece, loan = who.loan](std::byte*) {}} : pinned_piece{};
  shared_.copying.emplace(place.write, false);
  reads_.emplace(place.write,
                 remote_read{next.from, who.urgent, staged != nullptr, std::chrono::steady_clock::now(), place});
  ++who.reading;
  remote_reads::order order;
  order.from = std::move(next.keyed);
  order.into = place.into;
  if (staged) order.into = {{staged.get(), static_cast<std::size_t>(m.what.bytes), protocols::memory_kind::pinned}};
  if (target && direct) order.type = target->type();
  order.ended = [this, from = next.from, m, write = place.write, staged](const std::string& error) {
    read_ended(from, m, write, staged, error);
  };
  place.keep.reset(); // `reads_` has it
  shared_.messages->read(next.from, std::move(order));
  return true;
}

// One of each connection in turn, beginning behind the one that was last served.
bool receiver::start_reads(time until) {
  if (shared_.exposed == nullptr) return false;
  bool any = false;
  for (const bool urgent : {true, false}) {
    std::vector<connection> waiting;
    for (const auto& [which, who] : peers_)
      if (who.urgent == urgent && !who.keyed.empty()) waiting.push_back(which);
    std::ranges::sort(waiting);
    std::ranges::rotate(waiting, std::ranges::upper_bound(waiting, last_read_));
    for (bool more = true; more;) {
      more = false;
      for (const auto which : waiting) {
        auto& who = peers_.at(which);
        if (who.keyed.empty() || !run_remote(who, who.keyed.front())) continue;
        who.keyed.pop_front();
        last_read_ = which;
        any = more = true;
        if (std::chrono::steady_clock::now() >= until) return true;
      }
    }
  }
  return any;
}

void receiver::read_ended(connection from, const wire::blocks& m, std::uint64_t write, const pinned_piece& staged,
                          const std::string& error) {
  const auto read = std::move(reads_.at(write));
  reads_.erase(write);
  const auto& place = read.place;
  if (const auto found = peers_.find(from); found != peers_.end()) --found->second.reading;
  if (read.dead) return refuse(from, m.number, "no posting " + to_string(m.key) + " any more");
  if (error.empty() && !shared_.copying.at(place.write)) shared_.bytes_read += m.what.bytes;
  auto wrong = error.empty() ? std::string() : "reading the sender's memory: " + error;
  if (wrong.empty() && staged) {
    shared_.copying.erase(place.write);
    return scatter(from, m, place, staged, read.urgent, true);
  }
  if (wrong.empty() && !on_device(place.into) && !arrived_well(m, place.into)) wrong = "a wrong checksum";
  copied(from, m, place.write, true, wrong, !error.empty());
}

} // namespace godwit::transport::ucx
