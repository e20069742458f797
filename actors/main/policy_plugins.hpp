#pragma once

#include "main/settings.hpp"

#include <godwit/protocols/expected.hpp>
#include <godwit/protocols/policy/own_policies.hpp>

#include <string>

namespace godwit::main {

/// What scheduler.policy_plugin makes of scheduler.policy_arguments, anew each time; nothing where no plug-in is named.
/// Or one line that begins with the setting that is wrong.
[[nodiscard]] protocols::expected<protocols::own_policies, std::string>
load_own_policies(const serve_settings& settings);

/// The same of settings that have been validated: throws std::runtime_error where it fails now.
[[nodiscard]] protocols::own_policies own_policies_of(const serve_settings& settings);

/// While it lives, `file` is loaded in the place of whatever library settings name; empty: those that name one are
/// refused. For replays, since a recording may come from anybody.
class replayed_policies {
public:
  explicit replayed_policies(std::string file);
  replayed_policies(const replayed_policies&) = delete;
  replayed_policies& operator=(const replayed_policies&) = delete;
  ~replayed_policies();
};

} // namespace godwit::main
