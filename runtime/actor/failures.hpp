#pragma once

#include <godwit/runtime/async/expected.hpp>
#include <godwit/runtime/context.hpp>

#include <caf/error.hpp>

namespace godwit::runtime::detail {

/// CAF's errors in our words, and back.
[[nodiscard]] async::error to_error(const caf::error& e);
[[nodiscard]] stop_reason to_reason(const caf::error& e) noexcept;
[[nodiscard]] caf::error to_caf(stop_reason reason);

} // namespace godwit::runtime::detail
