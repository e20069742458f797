#include <godwit/actors/policy_plugin.hpp>

#include <godwit/protocols/policy/policy_plugin.hpp>
#include <godwit/runtime/context.hpp>
#include <godwit/runtime/shared_library.hpp>

#include <algorithm>
#include <array>
#include <exception>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

namespace godwit::actors {

using protocols::expected;
using protocols::unexpected;

namespace {

template <class Policy> void put(const Policy& from, Policy& to) {
  if (from) to = from;
}

/// In labels of metrics, in command lines and in tables.
bool is_name(std::string_view text) {
  constexpr std::string_view of_names = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.+-";
  return !text.empty() && text.find_first_not_of(of_names) == std::string_view::npos;
}

/// In one line that does nothing to a terminal.
std::string line_of(std::string_view text) {
  std::string out;
  for (const char c : text) out += static_cast<unsigned char>(c) < ' ' || c == 127 ? ' ' : c;
  return out;
}

std::string thrown() {
  const auto why = line_of(runtime::detail::describe(std::current_exception()).message);
  return why.empty() ? "an exception without words" : why;
}

std::string wrong_with_dispatcher(const std::string& name,
                                  const std::function<std::unique_ptr<protocols::dispatcher>()>& make) {
  constexpr std::array taken{"bypass", "retry", "sibling"}; // what dispatches are counted by besides
  const auto policy = "the dispatch policy '" + line_of(name) + "'";
  if (!is_name(name)) return policy + " has a name that is not of letters, digits and _.+- only";
  if (const auto built_in = protocols::dispatcher_names();
      std::ranges::count(built_in, name) > 0 || std::ranges::count(taken, name) > 0)
    return "something built in is called '" + name + "' already";
  try {
    const auto made = make ? make() : nullptr;
    if (!made) return "nothing makes " + policy;
    if (made->name() != name) return policy + " calls itself '" + line_of(made->name()) + "'";
  } catch (...) {
    return policy + " cannot be made: " + thrown();
  }
  return {};
}

std::string wrong_with(const protocols::own_policies& policies) {
  for (const auto& [name, make] : policies.dispatchers)
    if (auto wrong = wrong_with_dispatcher(name, make); !wrong.empty()) return wrong;
  return {};
}

} // namespace

expected<policy_plugin, std::string> policy_plugin::open(const std::filesystem::path& file) {
  const auto library = runtime::shared_library::load(file);
  if (!library) return unexpected("it cannot be loaded: " + library.error());
  auto* const function = library->function<protocols::policy_plugin_function_type>(protocols::policy_plugin_function);
  if (function == nullptr)
    return unexpected(file.string() + " has no policies for godwit; a library of these says GODWIT_POLICIES(function)");
  const protocols::policy_plugin_entry* entry = nullptr;
  try {
    entry = function();
  } catch (...) {
    return unexpected(file.string() + " throws as it is loaded: " + thrown());
  }
  if (entry == nullptr) return unexpected(file.string() + " gives no policies");
  if (entry->abi != protocols::policy_plugin_abi)
    return unexpected(file.string() + " speaks version " + std::to_string(entry->abi) +
                      " of the plug-in's interface, " + "this program version " +
                      std::to_string(protocols::policy_plugin_abi) + "; build it against the godwit that loads it");
  if (entry->build == nullptr || entry->make == nullptr) return unexpected(file.string() + " gives no policies");
  if (protocols::policy_build_in_words() != entry->build)
    return unexpected(file.string() + " is of another build (" + line_of(entry->build) + ") than this program (" +
                      protocols::policy_build_in_words() + "); build it against the godwit that loads it");
  return policy_plugin(*entry);
}

expected<protocols::own_policies, policy_plugin::refusal> policy_plugin::make(std::string_view arguments) const {
  protocols::own_policies made;
  try {
    made = entry_->make(arguments);
  } catch (...) {
    return unexpected(refusal{thrown(), true});
  }
  if (auto wrong = wrong_with(made); !wrong.empty()) return unexpected(refusal{std::move(wrong), false});
  return made;
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
