#pragma once

#include <cstdint>

namespace godwit::protocols::testing_support {

inline constexpr std::int64_t second_ns = 1'000'000'000;

} // namespace godwit::protocols::testing_support
