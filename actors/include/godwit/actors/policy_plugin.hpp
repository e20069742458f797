#pragma once

#include <godwit/actors/node.hpp>
#include <godwit/protocols/expected.hpp>
#include <godwit/protocols/policy/own_policies.hpp>

#include <filesystem>
#include <string>
#include <string_view>

namespace godwit::protocols {
struct policy_plugin_entry;
}

namespace godwit::actors {

/// A shared library of policies (protocols/policy/policy_plugin.hpp). Once loaded it stays until the process ends, so
/// that what it made may be anywhere. It runs with all that this process may do, so load nothing that you would not
/// run.
class policy_plugin {
public:
  /// Loads `file`, and checks that it is of the same build. Otherwise one line that says what is wrong.
  [[nodiscard]] static protocols::expected<policy_plugin, std::string> open(const std::filesystem::path& file);
  struct refusal {
    std::string why; ///< one line
    bool of_arguments = false;
  };
  /// Refused where the library does not want these arguments, or gives policies that cannot be: one without a factory,
  /// of a name that is none or is taken, or that calls itself otherwise.
  [[nodiscard]] protocols::expected<protocols::own_policies, refusal> make(std::string_view arguments) const;

private:
  explicit policy_plugin(const protocols::policy_plugin_entry& entry) noexcept : entry_(&entry) {}
  const protocols::policy_plugin_entry* entry_;
};

/// Where each of them goes; what is empty leaves what is there.
void use_policies(const protocols::own_policies& policies, scheduler_options& options);
void use_policies(const protocols::own_policies& policies, llumlet_options& options);
void use_policies(const protocols::own_policies& policies, frontend_options& options);
/// All three.
void use_policies(const protocols::own_policies& policies, node_options& options);

} // namespace godwit::actors
