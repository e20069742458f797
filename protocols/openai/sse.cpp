#include <godwit/protocols/openai/sse.hpp>

namespace godwit::protocols::openai {

std::string sse_event(std::string_view payload) {
  std::string event;
  event.reserve(payload.size() + 8);
  while (true) {
    // A carriage return ends a line too; JSON has neither, other payloads may.
    const auto end = payload.find_first_of("\r\n");
    event += "data: ";
    event += payload.substr(0, end);
    event += '\n';
    if (end == std::string_view::npos) break;
    payload.remove_prefix(end + (payload.substr(end, 2) == "\r\n" ? 2 : 1));
  }
  event += '\n';
  return event;
}

std::string sse_event(std::string_view name, std::string_view payload) {
  return "event: " + std::string(name) + "\n" + sse_event(payload);
}

std::string_view sse_done() noexcept { return "data: [DONE]\n\n"; }

std::string_view sse_keep_alive() noexcept { return ": keep-alive\n\n"; }

} // namespace godwit::protocols::openai
