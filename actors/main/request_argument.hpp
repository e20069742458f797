#pragma once

#include <godwit/protocols/messages/ids.hpp>

#include <string>

namespace godwit::main {

/// How people name a request on a command line: a number is the request's own, as `godwit status --requests` shows it;
/// anything else is what its client calls it ("cmpl-...").
struct request_argument {
  protocols::request_id number;
  std::string client_id; ///< empty: named by number
};
[[nodiscard]] request_argument parse_request(const std::string& text);

} // namespace godwit::main
