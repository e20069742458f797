#pragma once

#include <godwit/protocols/messages/scheduling.hpp>

#include <string>

namespace godwit::main {

/// What `godwit status --request` tells of one request: where it went and why, with the numbers of each decision.
[[nodiscard]] std::string request_story(const protocols::request_history& history);
/// The same as one JSON object, without a line's end.
[[nodiscard]] std::string request_story_json(const protocols::request_history& history);

} // namespace godwit::main
