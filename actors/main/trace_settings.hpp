#pragma once

#include "main/settings.hpp"

namespace godwit::main {

/// The settings of recording (trace.*); a part of `declare`.
void declare_trace(runtime::config::registry& registry, serve_settings& settings);

/// Every setting that is not the default, by its name, as a user would write it.
[[nodiscard]] std::vector<std::pair<std::string, std::string>> changed_settings(const serve_settings& settings);

} // namespace godwit::main
