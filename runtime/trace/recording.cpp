#include <godwit/runtime/trace/recording.hpp>

namespace godwit::runtime::trace {

std::string_view to_string(event_kind kind) noexcept {
  switch (kind) {
  case event_kind::delivery:
    return "delivery";
  case event_kind::sent:
    return "sent";
  case event_kind::spawned:
    return "spawned";
  case event_kind::ended:
    return "ended";
  case event_kind::span:
    return "span";
  case event_kind::note:
    return "note";
  case event_kind::gap:
    return "gap";
  }
  return "unknown";
}

std::string_view to_string(message_kind kind) noexcept {
  switch (kind) {
  case message_kind::message:
    return "message";
  case message_kind::request:
    return "request";
  case message_kind::answer:
    return "answer";
  case message_kind::failure:
    return "failure";
  case message_kind::timer:
    return "timer";
  case message_kind::down:
    return "down";
  case message_kind::stop:
    return "stop";
  }
  return "unknown";
}

std::string_view recording::fact(std::uint32_t which, std::string_view name) const noexcept {
  if (which >= processes.size()) return {};
  for (const auto& fact : processes[which].facts)
    if (fact.name == name) return fact.value;
  return {};
}

} // namespace godwit::runtime::trace
