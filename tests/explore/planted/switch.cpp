#include "explore/planted/switch.hpp"

#include "explore/planted.hpp"

namespace godwit::explore {

namespace {
std::uint32_t on = 0; // of this process, before there are actors
}

bool planted(std::uint32_t number) noexcept { return number == on; }
void plant(std::uint32_t number) noexcept { on = number; }

std::uint32_t planted_count() noexcept {
  return
#include "count.inc"
      ;
}

} // namespace godwit::explore
