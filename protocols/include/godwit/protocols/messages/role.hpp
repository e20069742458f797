#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

namespace godwit::protocols {

/// What of a request's life an instance is for. To compute a prompt takes arithmetic, and makes the steps longer of
/// all that decode beside it; to decode takes memory and its bandwidth. Where the two have instances of their own,
/// neither waits for the other (DistServe, OSDI '24; Splitwise, ISCA '24). New requests go to those for prompts, and
/// leave them, KV and all, by live migration once they decode.
///
/// A role is a preference. An instance of any role can do all of it, and does where no other can.
enum class instance_role : std::uint8_t {
  mixed,   ///< both
  prefill, ///< takes new requests, and hands them over as soon as they decode
  decode   ///< takes them over; new ones only where no prefill instance is there that would hand it others
};

inline constexpr std::array instance_roles{std::pair{instance_role::mixed, std::string_view{"mixed"}},
                                           std::pair{instance_role::prefill, std::string_view{"prefill"}},
                                           std::pair{instance_role::decode, std::string_view{"decode"}}};

[[nodiscard]] constexpr std::string_view to_string(instance_role role) noexcept {
  for (const auto& [value, name] : instance_roles)
    if (value == role) return name;
  return "unknown";
}

[[nodiscard]] constexpr std::optional<instance_role> parse_instance_role(std::string_view name) noexcept {
  for (const auto& [value, known] : instance_roles)
    if (known == name) return value;
  return std::nullopt;
}

/// Of the instance with this number in its process: the last one is also that of all behind it. Empty: all are mixed.
[[nodiscard]] inline instance_role role_at(const std::vector<instance_role>& roles, std::size_t index) noexcept {
  if (roles.empty()) return instance_role::mixed;
  return index < roles.size() ? roles[index] : roles.back();
}

} // namespace godwit::protocols
