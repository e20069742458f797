#pragma once

#include <algorithm>
#include <cstddef>
#include <vector>

namespace godwit::gpu::cuda::native {

/// The index of the first of `all` that has ended and may be told; `all.size()` where there is none.
///
/// `all` are in the order in which their streams got them, and `ended` asks the driver. Work may end between two
/// questions, so what has ended is not told while something earlier of its stream was not seen to have.
template <class Watched, class Ended> std::size_t first_to_tell(const std::vector<Watched>& all, const Ended& ended) {
  const auto same_stream = [](const Watched& one) {
    return [&one](const Watched& other) { return other.stream == one.stream; };
  };
  for (std::size_t i = 0; i < all.size(); ++i) {
    const auto here = all.begin() + static_cast<std::ptrdiff_t>(i);
    // All before `here` are open.
    if (std::none_of(all.begin(), here, same_stream(*here)) && ended(*here)) return i;
  }
  return all.size();
}

} // namespace godwit::gpu::cuda::native
