#pragma once

#include <godwit/protocols/messages/memory_region.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace godwit::transport::ucx {

/// Goes along two lists of places at once, cut wherever either has an end. A `Span` has an address in the other process
/// and a number of bytes. Keeps references to both lists.
template <class Span> class common_parts {
public:
  struct part {
    std::uint64_t from = 0; ///< an address in the other process
    std::byte* into = nullptr;
    std::size_t bytes = 0; ///< 0: there are no more
    std::size_t span = 0;  ///< whose part it is
  };
  common_parts(const std::vector<Span>& from, const std::vector<protocols::memory_region>& into)
      : from_(from), into_(into) {}
  part next() {
    while (source_ < from_.size() && from_at_ == from_[source_].bytes) ++source_, from_at_ = 0;
    while (target_ < into_.size() && into_at_ == into_[target_].bytes) ++target_, into_at_ = 0;
    if (source_ == from_.size() || target_ == into_.size()) return {};
    const auto bytes = std::min<std::uint64_t>(from_[source_].bytes - from_at_, into_[target_].bytes - into_at_);
    const part out{from_[source_].address + from_at_, into_[target_].address + into_at_,
                   static_cast<std::size_t>(bytes), source_};
    from_at_ += bytes;
    into_at_ += bytes;
    return out;
  }

private:
  const std::vector<Span>& from_;
  const std::vector<protocols::memory_region>& into_;
  std::size_t source_ = 0, target_ = 0;
  std::uint64_t from_at_ = 0, into_at_ = 0;
};

} // namespace godwit::transport::ucx
