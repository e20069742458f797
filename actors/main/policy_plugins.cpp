#include "main/policy_plugins.hpp"

#include <godwit/actors/policy_plugin.hpp>

#include <stdexcept>
#include <tuple>
#include <utility>

namespace godwit::main {

using protocols::expected;
using protocols::unexpected;

expected<protocols::own_policies, std::string> load_own_policies(const serve_settings& settings) {
  const auto& [file, arguments] = std::tie(settings.scheduler.policy_plugin, settings.scheduler.policy_arguments);
  if (file.empty()) {
    if (arguments.empty()) return protocols::own_policies{};
    return unexpected(std::string("scheduler.policy_arguments are of a plug-in, of which there is none; name its file, "
                                  "scheduler.policy_plugin, too"));
  }
  const auto plugin = actors::policy_plugin::open(file);
  if (!plugin) return unexpected("scheduler.policy_plugin: " + plugin.error());
  auto made = plugin->make(arguments);
  if (!made)
    return unexpected((arguments.empty() ? "scheduler.policy_plugin: " : "scheduler.policy_arguments: ") +
                      made.error());
  return made;
}

protocols::own_policies own_policies_of(const serve_settings& settings) {
  auto made = load_own_policies(settings);
  if (!made) throw std::runtime_error(made.error());
  return std::move(*made);
}

} // namespace godwit::main
