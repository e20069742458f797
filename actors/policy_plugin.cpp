#include <godwit/actors/policy_plugin.hpp>

#include <godwit/protocols/policy/policy_plugin.hpp>

#include <dlfcn.h>

#include <algorithm>
#include <exception>
#include <system_error>

namespace godwit::actors {

using protocols::expected;
using protocols::unexpected;

namespace {

std::string loader_error() {
  const char* line = dlerror();
  return line != nullptr ? line : "unknown error";
}

template <class Policy> void put(const Policy& from, Policy& to) {
  if (from) to = from;
}

std::string wrong_with(const protocols::own_policies& policies) {
  const auto built_in = protocols::dispatcher_names();
  for (const auto& [name, make] : policies.dispatchers) {
    if (name.empty()) return "a dispatch policy has no name";
    if (std::ranges::count(built_in, name) > 0) return "a built-in dispatch policy is called '" + name + "' already";
    if (!make || !make()) return "nothing makes the dispatch policy '" + name + "'";
  }
  return {};
}

} // namespace

expected<policy_plugin, std::string> policy_plugin::open(const std::filesystem::path& file) {
  std::error_code failure;
  const auto path = std::filesystem::absolute(file, failure); // a name alone would be looked for elsewhere
  if (failure) return unexpected(file.string() + ": " + failure.message());
  void* const library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) return unexpected("it cannot be loaded: " + loader_error());
  auto* const function =
      reinterpret_cast<protocols::policy_plugin_function_type*>(dlsym(library, protocols::policy_plugin_function));
  if (function == nullptr)
    return unexpected(file.string() + " has no policies for godwit; a library of these says GODWIT_POLICIES(function)");
  const auto* const entry = function();
  if (entry->abi != protocols::policy_plugin_abi)
    return unexpected(file.string() + " speaks version " + std::to_string(entry->abi) +
                      " of the plug-in's interface, " + "this program version " +
                      std::to_string(protocols::policy_plugin_abi) + "; build it against the godwit that loads it");
  if (protocols::policy_build_in_words() != entry->build)
    return unexpected(file.string() + " is of another build (" + entry->build + ") than this program (" +
                      protocols::policy_build_in_words() + "); build it against the godwit that loads it");
  return policy_plugin(*entry);
}

expected<protocols::own_policies, std::string> policy_plugin::make(std::string_view arguments) const {
  try {
    auto made = entry_->make(arguments);
    if (auto wrong = wrong_with(made); !wrong.empty()) return unexpected(std::move(wrong));
    return made;
  } catch (const std::exception& failure) {
    return unexpected(std::string(failure.what()));
  } catch (...) {
    return unexpected(std::string("it threw something that is no exception"));
  }
}

void use_policies(const protocols::own_policies& policies, scheduler_options& options) {
  for (const auto& [name, make] : policies.dispatchers) options.dispatchers.insert_or_assign(name, make);
  put(policies.pair, options.pair);
  put(policies.scale, options.scale);
  put(policies.balance, options.balance);
}

void use_policies(const protocols::own_policies& policies, llumlet_options& options) {
  put(policies.move, options.move);
}

void use_policies(const protocols::own_policies& policies, frontend_options& options) {
  put(policies.lengths, options.lengths);
}

void use_policies(const protocols::own_policies& policies, node_options& options) {
  use_policies(policies, options.scheduler);
  use_policies(policies, options.llumlet);
  use_policies(policies, options.frontend);
}

} // namespace godwit::actors
