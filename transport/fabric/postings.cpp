#include "fabric/postings.hpp"

#include "fabric/device_copies.hpp"

#include <algorithm>
#include <utility>

namespace godwit::transport {

std::string to_string(transfer_key key) { return std::to_string(key.id) + "." + std::to_string(key.generation); }

std::string postings::open(transfer_key key, std::vector<protocols::memory_region> regions, std::shared_ptr<void> keep,
                           std::function<void(landing)> on_landed) {
  const std::lock_guard lock{mutex_};
  if (over_.contains(key) || open_.contains(key)) return "transfer " + to_string(key) + " was used before";
  auto& made = open_[key];
  made.states.resize(regions.size());
  made.device = transport::on_device(regions);
  made.regions = std::move(regions);
  made.keep = std::move(keep);
  made.on_landed = std::make_shared<std::function<void(landing)>>(std::move(on_landed));
  return {};
}

// Sums cannot overflow: every size that a piece claims has to equal one of ours before it is added.
std::string postings::check(const posting& into, const piece& what) {
  const auto count = what.regions();
  const std::uint64_t have = into.regions.size();
  if (what.first_region > have || count > have - what.first_region)
    return "regions " + std::to_string(what.first_region) + " to " + std::to_string(what.first_region + count) +
           " of a posting of " + std::to_string(have);
  if (count == 0) return what.bytes == 0 && what.offset == 0 ? "" : "bytes without a region";
  std::uint64_t room = 0, last = 0;
  std::size_t index = what.first_region;
  for (const auto& run : what.sizes)
    for (std::uint32_t i = 0; i < run.count; ++i, ++index) {
      const auto bytes = into.regions[index].bytes;
      if (bytes != run.bytes)
        return "region " + std::to_string(index) + " has " + std::to_string(bytes) + " bytes here, " +
               std::to_string(run.bytes) + " there";
      const auto& state = into.states[index];
      const auto expected = index == what.first_region ? what.offset : 0;
      if (state.admitted != expected || (state.touched && expected == 0) || (bytes != 0 && expected >= bytes))
        return "region " + std::to_string(index) + " was sent before, or not from its start";
      last = bytes - expected;
      room += last;
    }
  // It ends within its last region, and fills those before.
  if (what.bytes > room || (what.bytes <= room - last && last != 0)) return "a piece of the wrong size";
  return {};
}

postings::admission postings::admit(transfer_key key, const piece& what, bool copied) {
  const std::lock_guard lock{mutex_};
  admission out;
  const auto found = open_.find(key);
  if (found == open_.end() || found->second.closing)
    out.error = "no posting " + to_string(key);
  else if (found->second.dead)
    out.error = "posting " + to_string(key) + " is dead";
  else if (const auto wrong = check(found->second, what); !wrong.empty())
    out.error = "posting " + to_string(key) + ": " + wrong;
  if (!out.error.empty()) {
    ++refused_;
    return out;
  }
  auto& into = found->second;
  write_state write{key, what.first_region, what.offset, what.bytes, what.regions()};
  out.into.reserve(write.regions); // nothing is changed before what may fail
  writes_.emplace(last_write_ + 1, write);
  out.write = ++last_write_;
  auto offset = what.offset;
  auto left = what.bytes;
  for (std::uint64_t i = 0; i < write.regions; ++i) {
    const auto& region = into.regions[what.first_region + i];
    auto& state = into.states[what.first_region + i];
    const auto part = std::min<std::uint64_t>(region.bytes - offset, left);
    if (part != 0) out.into.push_back({region.address + offset, static_cast<std::size_t>(part), region.kind});
    state.admitted += part;
    state.touched = true;
    left -= part;
    offset = 0;
  }
  ++into.writes;
  if (into.device || copied) out.keep = into.keep;
  return out;
}

std::vector<postings::callback> postings::landed(std::uint64_t name) {
  std::vector<callback> calls;
  const std::lock_guard lock{mutex_};
  const auto found = writes_.find(name);
  if (found == writes_.end()) return calls;
  const auto write = found->second;
  auto& into = open_.at(write.key);
  auto offset = write.offset;
  auto left = write.bytes;
  const auto before = into.regions_landed;
  for (std::uint64_t i = 0; i < write.regions; ++i) {
    const auto& region = into.regions[write.first_region + i];
    auto& state = into.states[write.first_region + i];
    const auto part = std::min<std::uint64_t>(region.bytes - offset, left);
    state.landed += part;
    if (state.landed == region.bytes) ++into.regions_landed;
    left -= part;
    offset = 0;
  }
  if (into.regions_landed != before && !into.closing && !into.dead)
    calls.emplace_back([call = into.on_landed, count = into.regions_landed] { (*call)(landing{count, {}}); });
  writes_.erase(found); // where that fails it can still be given up
  end_write(into, calls, write.key);
  return calls;
}

std::vector<postings::callback> postings::failed(std::uint64_t name, const std::string& error) {
  std::vector<callback> calls;
  const std::lock_guard lock{mutex_};
  const auto found = writes_.find(name);
  if (found == writes_.end()) return calls;
  const auto key = found->second.key;
  auto& into = open_.at(key);
  if (!into.closing && !into.dead)
    calls.emplace_back([call = into.on_landed, count = into.regions_landed, error] { (*call)(landing{count, error}); });
  into.dead = true;
  writes_.erase(found);
  end_write(into, calls, key);
  return calls;
}

void postings::end_write(posting& of, std::vector<callback>& calls, transfer_key key) {
  --of.writes;
  if (!of.closing || of.writes != 0) return;
  // The memory's owner goes before those who wait for it are told, on the thread that calls them.
  calls.emplace_back([keep = std::move(of.keep)]() mutable { keep.reset(); });
  for (auto& done : of.done) calls.push_back(std::move(done));
  forget(key);
}

void postings::forget(transfer_key key) {
  open_.erase(key);
  over_.insert(key);
  over_order_.push_back(key);
  if (over_order_.size() > over_max) {
    over_.erase(over_order_.front());
    over_order_.pop_front();
  }
}

std::vector<postings::callback> postings::close(transfer_key key, callback done, std::vector<std::uint64_t>* writes) {
  std::vector<callback> calls;
  const std::lock_guard lock{mutex_};
  const auto found = open_.find(key);
  if (found == open_.end()) {
    calls.push_back(std::move(done));
    return calls;
  }
  auto& closed = found->second;
  closed.closing = true;
  closed.done.push_back(std::move(done));
  if (closed.writes == 0) {
    ++closed.writes;
    end_write(closed, calls, key);
  } else if (writes != nullptr) {
    for (const auto& [name, write] : writes_)
      if (write.key == key) writes->push_back(name);
  }
  return calls;
}

std::vector<postings::callback> postings::close_all() {
  std::vector<callback> calls;
  const std::lock_guard lock{mutex_};
  while (!open_.empty()) {
    const auto key = open_.begin()->first;
    auto& closed = open_.begin()->second;
    closed.closing = true;
    closed.writes = 1;
    end_write(closed, calls, key);
  }
  writes_.clear();
  return calls;
}

bool postings::writing(std::uint64_t write) const {
  const std::lock_guard lock{mutex_};
  return writes_.contains(write);
}

bool postings::on_device(transfer_key key) const {
  const std::lock_guard lock{mutex_};
  const auto found = open_.find(key);
  return found != open_.end() && found->second.device && !found->second.closing && !found->second.dead;
}

std::uint64_t postings::open_count() const {
  const std::lock_guard lock{mutex_};
  return open_.size();
}

std::uint64_t postings::refused_count() const {
  const std::lock_guard lock{mutex_};
  return refused_;
}

} // namespace godwit::transport
