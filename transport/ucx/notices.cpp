#include "ucx/notices.hpp"

#include <utility>

namespace godwit::transport::ucx {

namespace {
constexpr auto window = std::chrono::seconds(10);
constexpr std::uint32_t told_max = 10;
constexpr std::size_t notices_known_max = 1024;
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

void notices::tell_once(std::string_view what, const std::string& whom, const std::string& peer, std::string text,
                        time now) {
  if (known_.size() >= notices_known_max) known_.clear();
  if (known_.emplace(what, whom).second) tell({peer, std::move(text), false, 0, true}, now);
}

} // namespace godwit::transport::ucx
