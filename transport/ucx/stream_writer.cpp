#include "ucx/stream_writer.hpp"

#include "ucx/stream_listener.hpp"

#include <algorithm>
#include <array>
#include <utility>

namespace godwit::transport::ucx {

namespace {
constexpr std::size_t parts_per_write = 64;
} // namespace

stream_writer::stream_writer(std::shared_ptr<stream_socket> to, std::uint64_t token) : socket_(std::move(to)) {
  const stream_greeting greeting{stream_magic, token};
  waiting_.emplace_back();
  auto& first = waiting_.back();
  first.header.assign(reinterpret_cast<const char*>(&greeting), sizeof greeting);
  first.parts.push_back({first.header.data(), first.header.size()});
  bytes_ = first.header.size();
}

void stream_writer::add(const wire::blocks& m, const std::vector<protocols::memory_region>& memory,
                        std::shared_ptr<void> keep) {
  waiting_.emplace_back(); // stays where it is while others come and go
  auto& made = waiting_.back();
  made.number = m.number;
  made.header = wire::pack(m).value();
  made.parts.reserve(memory.size() + 1);
  made.parts.push_back({made.header.data(), made.header.size()});
  for (const auto& region : memory) made.parts.push_back({region.address, region.bytes});
  bytes_ += made.header.size() + m.what.bytes;
  made.keep = std::move(keep);
}

bool stream_writer::holds(std::uint64_t number) const noexcept {
  return std::any_of(waiting_.begin(), waiting_.end(), [&](const auto& one) { return one.number == number; });
}

void stream_writer::step(std::size_t bytes_max) {
  std::array<iovec, parts_per_write> parts;
  std::size_t count = 0, room = bytes_max;
  for (const auto& one : waiting_)
    for (auto i = one.next; i < one.parts.size() && count < parts.size() && room != 0; ++i) {
      parts[count] = {one.parts[i].iov_base, std::min(room, one.parts[i].iov_len)};
      room -= parts[count++].iov_len;
    }
  auto written = socket_->write({parts.data(), count}, bytes_ > bytes_max - room);
  bytes_ -= written;
  while (written != 0) {
    auto& first = waiting_.front();
    auto& part = first.parts[first.next];
    const auto gone = std::min(written, part.iov_len);
    part.iov_base = static_cast<char*>(part.iov_base) + gone;
    part.iov_len -= gone;
    written -= gone;
    if (part.iov_len != 0) break;
    if (++first.next == first.parts.size()) waiting_.pop_front();
  }
}

} // namespace godwit::transport::ucx
