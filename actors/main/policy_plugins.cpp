#include "main/policy_plugins.hpp"

#include "main/sim_policy.hpp"

#include <godwit/actors/policy_plugin.hpp>

#include <optional>
#include <stdexcept>
#include <tuple>
#include <utility>

namespace godwit::main {

using protocols::expected;
using protocols::unexpected;

namespace {

/// Of a replay that is under way: the library that is loaded in the place of any other; empty: none is.
std::optional<std::string> replayed; // NOLINT: one replay at a time, on the command's thread

} // namespace

replayed_policies::replayed_policies(std::string file) { replayed = std::move(file); }
replayed_policies::~replayed_policies() { replayed.reset(); }

expected<protocols::own_policies, std::string> load_own_policies(const serve_settings& settings) {
  const auto& [file, arguments] = std::tie(settings.scheduler.policy_plugin, settings.scheduler.policy_arguments);
  if (file.empty()) {
    if (arguments.empty()) return protocols::own_policies{};
    return unexpected(std::string("scheduler.policy_arguments are of a plug-in, of which there is none; name its file, "
                                  "scheduler.policy_plugin, too"));
  }
  if (replayed && replayed->empty())
    return unexpected("scheduler.policy_plugin: the recording is of a process with the policies of " + file +
                      ", and a replay runs no code that nobody names; give --policy-plugin FILE");
  const auto plugin = actors::policy_plugin::open(replayed ? *replayed : file);
  if (!plugin) return unexpected("scheduler.policy_plugin: " + plugin.error());
  auto made = plugin->make(arguments);
  if (!made)
    return unexpected((made.error().of_arguments && !arguments.empty() ? "scheduler.policy_arguments: "
                                                                       : "scheduler.policy_plugin: ") +
                      made.error().why);
  for (const auto& [name, make] : made->dispatchers)
    if (find_bundle(name))
      return unexpected("scheduler.policy_plugin: something built in is called '" + name + "' already");
  return std::move(*made);
}

protocols::own_policies own_policies_of(const serve_settings& settings) {
  auto made = load_own_policies(settings);
  if (!made) throw std::runtime_error(made.error());
  return std::move(*made);
}

} // namespace godwit::main
