#include "cuda/area.hpp"

#include <algorithm>
#include <bit>

namespace godwit::gpu::cuda {

namespace {

constexpr std::uint64_t alignment = 256;

/// Steps of an eighth: grows seldom, and takes little more than is needed.
std::uint64_t room_for(std::uint64_t bytes) {
  const std::uint64_t step = std::max(alignment, std::bit_floor(bytes) / 8);
  return (bytes + step - 1) / step * step;
}

} // namespace

bool area::reserve(std::span<const std::uint64_t> bytes) {
  bool fits = bytes.size() == sections_.size();
  for (std::size_t i = 0; fits && i < bytes.size(); ++i) fits = bytes[i] <= sections_[i].bytes;
  if (fits) return false;

  const auto before = std::move(sections_);
  std::vector<place> wanted(bytes.size());
  const auto lay_out = [&](bool doubles) {
    std::uint64_t total = 0;
    for (std::size_t i = 0; i < bytes.size(); ++i) {
      const std::uint64_t had = i < before.size() ? before[i].bytes : 0;
      wanted[i] = {total, had};
      if (bytes[i] > had || had == 0)
        wanted[i].bytes = std::max(room_for(std::max<std::uint64_t>(bytes[i], 1)), doubles ? 2 * had : 0);
      total += (wanted[i].bytes + alignment - 1) / alignment * alignment;
    }
    return total;
  };
  ++moves_; // now, whether or not there is other memory: the old one is lost
  sections_.clear();
  if (keeps_) {
    outgrown_.push_back(std::move(device_));
    outgrown_.push_back(std::move(host_));
  }
  device_ = {};
  host_ = {};
  const auto take = [&](std::uint64_t total) {
    device_ = driver_.allocate(total, purpose_);
    if (twin_) host_ = driver_.allocate_pinned(total, purpose_);
  };
  const bool doubles = twin_ || keeps_;
  try {
    take(lay_out(doubles));
  } catch (const out_of_memory&) {
    if (!doubles) throw;
    device_ = {}; // what is needed may fit all the same
    take(lay_out(false));
  }
  sections_ = std::move(wanted);
  return true;
}

void area::upload(driver_stream& stream, std::size_t last, std::uint64_t bytes) const {
  stream.copy(device_.data(), host_.data(), sections_[last].at + bytes);
}

void area::upload_section(driver_stream& stream, std::size_t which, std::uint64_t bytes) const {
  stream.copy(device<std::byte>(which), host<std::byte>(which), bytes);
}

void area::download_section(driver_stream& stream, std::size_t which, std::uint64_t bytes) const {
  stream.copy(host<std::byte>(which), device<std::byte>(which), bytes);
}

} // namespace godwit::gpu::cuda
