#pragma once

#include <godwit/protocols/policy/own_policies.hpp>

#include <cstdint>
#include <string>
#include <vector>

/// Policies out of a plug-in, which all clusters have from then on.
namespace godwit::explore {

/// Nothing at first.
[[nodiscard]] const protocols::own_policies& own_policies() noexcept;
void use_own_policies(protocols::own_policies policies);
/// That a cluster's operators may switch to: those that are built in, and those.
[[nodiscard]] std::vector<std::string> dispatch_policies();
/// One of the plug-in's, by the seed; `drawn` where it has none.
[[nodiscard]] std::string dispatch_at_first(const std::string& drawn, std::uint64_t seed);

} // namespace godwit::explore
