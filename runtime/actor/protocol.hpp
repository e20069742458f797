#pragma once

#include <godwit/runtime/async/scope.hpp>
#include <godwit/runtime/message.hpp>

#include <caf/message_id.hpp>

#include <cstdint>
#include <tuple>
#include <vector>

namespace godwit::runtime::detail {

/// A wait as CAF's message id: 24 bits slot, 32 bits generation, of the 60 that an id has.
inline constexpr std::uint32_t slots_max = 1U << 24;
inline caf::message_id request_id_of(async::wait_id wait) noexcept {
  return caf::make_message_id((std::uint64_t{wait.generation} << 24) | wait.slot);
}
inline async::wait_id wait_of(caf::message_id id) noexcept {
  const auto bits = id.request_id().integer_value();
  return {static_cast<std::uint32_t>(bits & (slots_max - 1)), static_cast<std::uint32_t>(bits >> 24)};
}

/// Asks any actor what it understands; answered by the runtime. For actors found on other nodes.
struct interface_query {
  interface_query() noexcept {}
  auto fields() { return std::tie(); }
};
struct interface_description {
  std::vector<std::uint64_t> messages; ///< message_type::id
  interface_description() = default;
  auto fields() { return std::tie(messages); }
};

} // namespace godwit::runtime::detail
