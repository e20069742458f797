#pragma once

#include <godwit/protocols/expected.hpp>
#include <godwit/protocols/policy/own_policies.hpp>
#include <godwit/protocols/policy/pairing.hpp>

#include <string>
#include <string_view>

namespace godwit::main {

/// A way to schedule, by the name that papers give it: several settings at once.
struct policy_bundle {
  std::string name;
  std::string dispatch;
  protocols::migration_policy migration = protocols::migration_policy::never;
  bool priorities = true; ///< false: requests of all priorities are treated alike
};

/// llumnix, llumnix-base, infaas++, or a dispatch policy, without migration; one of a plug-in's with it where the
/// plug-in has a word in that. One line of error otherwise.
[[nodiscard]] protocols::expected<policy_bundle, std::string> find_bundle(std::string_view name,
                                                                          const protocols::own_policies& own = {});
/// For help texts.
[[nodiscard]] std::string bundle_names();

} // namespace godwit::main
