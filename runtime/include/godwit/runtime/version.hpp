#pragma once

#include <string_view>

namespace godwit::runtime {

/// Of godwit, "MAJOR.MINOR.PATCH", as it was built. Messages of different versions cannot be read, so that processes
/// join each other only where it is equal.
[[nodiscard]] std::string_view version() noexcept;

} // namespace godwit::runtime
