#include "explore/own_policies.hpp"

#include <iterator>
#include <utility>

namespace godwit::explore {

namespace {

protocols::own_policies& in_use() {
  static protocols::own_policies policies;
  return policies;
}

} // namespace

const protocols::own_policies& own_policies() noexcept { return in_use(); }

void use_own_policies(protocols::own_policies policies) { in_use() = std::move(policies); }

std::vector<std::string> dispatch_policies() {
  std::vector<std::string> out;
  for (const auto name : protocols::dispatcher_names()) out.emplace_back(name);
  for (const auto& [name, make] : own_policies().dispatchers) out.push_back(name);
  return out;
}

std::string dispatch_at_first(const std::string& drawn, std::uint64_t seed) {
  const auto& own = own_policies().dispatchers;
  return own.empty() ? drawn : std::next(own.begin(), static_cast<std::ptrdiff_t>(seed % own.size()))->first;
}

} // namespace godwit::explore
