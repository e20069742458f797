#pragma once

#include <godwit/protocols/messages/status.hpp>

#include <string>

namespace godwit::main {

/// `godwit status` for people.
[[nodiscard]] std::string status_table(const protocols::cluster_status& status);

} // namespace godwit::main
