#include "explore/planted.hpp"

// Nothing is planted in the actors as they are.
namespace godwit::explore {

std::uint32_t planted_count() noexcept { return 0; }
void plant(std::uint32_t) noexcept {}

} // namespace godwit::explore
