#include "ucx/notices.hpp"

#include <utility>

namespace godwit::transport::ucx {

namespace {
constexpr auto window = std::chrono::seconds(10);
constexpr std::uint32_t told_max = 10;
} // namespace

void notices::tell(link_end what, time now) {
  if (!to_) return;
  if (now - since_ >= window) {
    since_ = now;
    told_ = 0;
  }
  if (++told_ > told_max) {
    ++left_out_;
    return;
  }
  what.left_out = std::exchange(left_out_, 0);
  to_(what);
}

} // namespace godwit::transport::ucx
