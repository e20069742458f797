#include "ucx/stream_reader.hpp"

#include <algorithm>
#include <utility>

namespace godwit::transport::ucx {

namespace {
/// Other work waits for so long; less costs more system calls.
constexpr std::uint64_t bytes_per_read = std::uint64_t{512} << 10;
constexpr std::size_t parts_per_read = 64;
} // namespace

std::string stream_reader::step(events& to) {
  std::string wrong;
  if (waiting_)
    begin(to);
  else if (reading_)
    read_bytes(to);
  else
    wrong = read_header(to);
  return wrong.empty() ? socket_->error() : wrong;
}

std::string stream_reader::read_header(events& to) {
  if (header_have_ < header_.size()) {
    iovec rest{header_.data() + header_have_, header_.size() - header_have_};
    header_have_ += socket_->read({&rest, 1});
  }
  if (header_have_ < header_.size()) return {};
  header_have_ = 0;
  const auto m = wire::unpack({header_.data(), header_.size()});
  const auto* blocks = m ? std::get_if<wire::blocks>(&*m) : nullptr;
  if (blocks == nullptr || blocks->offered) return "not a header of blocks";
  what_ = *blocks;
  begin(to);
  return {};
}

void stream_reader::begin(events& to) {
  auto made = to.begin(what_);
  waiting_ = !made;
  if (waiting_) return;
  place_ = std::move(made->place);
  into_ = std::move(made->into);
  left_ = what_.what.bytes;
  region_ = offset_ = 0;
  reading_ = true;
  took(0);
  if (left_ == 0) {
    reading_ = false;
    if (place_.error.empty()) to.end(what_, place_);
  }
}

void stream_reader::read_bytes(events& to) {
  std::array<iovec, parts_per_read + 1> parts;
  std::array<char, 16384> nowhere;
  std::size_t count = 0;
  std::uint64_t room = 0;
  const bool wanted = place_.error.empty() && to.wanted(place_.write);
  if (!wanted) {
    room = std::min<std::uint64_t>(left_, nowhere.size());
    parts[count++] = {nowhere.data(), static_cast<std::size_t>(room)};
  } else {
    auto offset = offset_;
    for (auto i = region_; i < into_.size() && count < parts_per_read && room < bytes_per_read; ++i, offset = 0) {
      const auto& region = into_[i];
      const auto part = std::min<std::uint64_t>(region.bytes - offset, bytes_per_read - room);
      parts[count++] = {region.address + offset, static_cast<std::size_t>(part)};
      room += part;
    }
  }
  // The next header comes with the last bytes.
  if (room == left_) parts[count++] = {header_.data(), header_.size()};
  const auto got = socket_->read({parts.data(), count});
  const auto mine = std::min<std::uint64_t>(got, left_);
  header_have_ = static_cast<std::size_t>(got - mine);
  left_ -= mine;
  if (wanted) took(static_cast<std::size_t>(mine));
  if (left_ != 0) return;
  reading_ = false;
  if (wanted)
    to.end(what_, place_);
  else if (place_.error.empty())
    to.unwanted(what_);
}

void stream_reader::took(std::size_t bytes) {
  offset_ += bytes;
  while (region_ < into_.size() && offset_ >= into_[region_].bytes) {
    offset_ -= into_[region_].bytes;
    ++region_;
  }
}

} // namespace godwit::transport::ucx
