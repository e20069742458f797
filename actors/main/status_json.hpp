#pragma once

#include <godwit/protocols/messages/status.hpp>

#include <string>

namespace godwit::main {

/// `godwit status --json`: one object, without a line's end. docs/serving.md says what the keys are.
[[nodiscard]] std::string status_json(const protocols::cluster_status& status, bool with_requests);

} // namespace godwit::main
