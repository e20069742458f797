#include "main/sim_policy.hpp"

#include <godwit/protocols/policy/dispatch.hpp>

#include <algorithm>
#include <vector>

namespace godwit::main {

using protocols::migration_policy;

namespace {

const std::vector<policy_bundle>& bundles() {
  static const std::vector<policy_bundle> all{{"llumnix", "freeness", migration_policy::freeness, true},
                                              {"llumnix-base", "freeness", migration_policy::freeness, false},
                                              {"infaas++", "infaas", migration_policy::never, true}};
  return all;
}

} // namespace

std::string bundle_names() {
  std::string out;
  for (const auto& one : bundles()) out += one.name + ", ";
  const auto dispatchers = protocols::dispatcher_names();
  for (const auto name : dispatchers) out += std::string(name) + (name == dispatchers.back() ? "" : ", ");
  return out;
}

protocols::expected<policy_bundle, std::string> find_bundle(std::string_view name, const protocols::own_policies& own) {
  for (const auto& one : bundles())
    if (one.name == name) return one;
  const auto dispatchers = protocols::dispatcher_names();
  if (std::find(dispatchers.begin(), dispatchers.end(), name) != dispatchers.end())
    return policy_bundle{std::string(name), std::string(name), migration_policy::never, true};
  const bool moves = own.pair || own.move;
  if (own.dispatchers.contains(name))
    return policy_bundle{std::string(name), std::string(name),
                         moves ? migration_policy::freeness : migration_policy::never, true};
  auto known = bundle_names();
  for (const auto& [of_plugin, make] : own.dispatchers) known += ", " + of_plugin;
  return protocols::unexpected("no policy is called '" + std::string(name) + "'; known are " + known);
}

} // namespace godwit::main
