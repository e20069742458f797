#include <godwit/protocols/adapters/adapter_shelf.hpp>
#include <godwit/protocols/ensure.hpp>

namespace godwit::protocols {

void adapter_shelf::use(std::uint64_t id) {
  const auto found = lying_.find(id);
  ensure(found != lying_.end(), "adapter_shelf: one that is used lies here");
  auto& one = found->second;
  if (one.users++ > 0) return;
  idle_bytes_ -= one.bytes;
  unused_.erase(one.place);
}

void adapter_shelf::release(std::uint64_t id) {
  const auto found = lying_.find(id);
  ensure(found != lying_.end() && found->second.users > 0, "adapter_shelf: one that is released was used");
  auto& one = found->second;
  if (--one.users > 0) return;
  idle_bytes_ += one.bytes;
  one.place = unused_.insert(unused_.end(), id);
}

std::optional<std::vector<std::uint64_t>> adapter_shelf::make_room(std::uint64_t bytes) {
  if (bytes > bytes_max_ || bytes > bytes_max_ - bytes_ + idle_bytes_) return std::nullopt;
  std::vector<std::uint64_t> gone;
  while (bytes > bytes_max_ - bytes_) {
    gone.push_back(unused_.front());
    drop(gone.back());
  }
  return gone;
}

void adapter_shelf::put(std::uint64_t id, std::uint64_t bytes) {
  ensure(!has(id) && bytes <= bytes_max_ - bytes_, "adapter_shelf: there is room for what comes");
  bytes_ += bytes;
  idle_bytes_ += bytes;
  lying_.emplace(id, entry{bytes, 0, unused_.insert(unused_.end(), id)});
}

void adapter_shelf::drop(std::uint64_t id) {
  const auto found = lying_.find(id);
  ensure(found != lying_.end() && found->second.users == 0, "adapter_shelf: nobody uses one that goes");
  bytes_ -= found->second.bytes;
  idle_bytes_ -= found->second.bytes;
  unused_.erase(found->second.place);
  lying_.erase(found);
}

} // namespace godwit::protocols
