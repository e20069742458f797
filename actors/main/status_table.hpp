#pragma once

#include <godwit/protocols/messages/status.hpp>

#include <string>
#include <vector>

namespace godwit::main {

/// `godwit status` for people.
[[nodiscard]] std::string status_table(const protocols::cluster_status& status);
/// All instances, those that are stopped too, by id. Valid as long as `status`.
[[nodiscard]] std::vector<const protocols::instance_status*> by_id(const protocols::cluster_status& status);

} // namespace godwit::main
