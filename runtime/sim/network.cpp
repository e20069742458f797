#include <godwit/runtime/sim/network.hpp>

#include "sim/network_state.hpp"

namespace godwit::runtime::sim {

void network::set_links(link_settings settings) { state_.set_links(settings); }
void network::set_link(const std::string& a, const std::string& b, link_settings settings) {
  state_.set_link(a, b, settings);
}
void network::set_detection(detection_settings settings) { state_.set_detection(settings); }
void network::cut(const std::string& a, const std::string& b) {
  state_.cut(a, b);
  state_.cut(b, a);
}
void network::cut_one_way(const std::string& from, const std::string& to) { state_.cut(from, to); }
void network::heal(const std::string& a, const std::string& b) {
  state_.heal(a, b);
  state_.heal(b, a);
}
bool network::is_cut(const std::string& from, const std::string& to) const { return state_.is_cut(from, to); }
void network::delay(const std::string& a, const std::string& b, std::chrono::nanoseconds extra) {
  state_.delay(a, b, extra);
  state_.delay(b, a, extra);
}
std::uint64_t network::messages() const noexcept { return state_.messages; }
std::uint64_t network::bytes() const noexcept { return state_.bytes; }
std::size_t network::connections() const noexcept { return state_.connections(); }

} // namespace godwit::runtime::sim
