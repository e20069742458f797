#include <godwit/runtime/sim/event_log.hpp>

namespace godwit::runtime::sim {

namespace {

std::string_view name_of(event::kind_type kind) {
  switch (kind) {
  case event::kind_type::message:
    return "message";
  case event::kind_type::request:
    return "request";
  case event::kind_type::answer:
    return "answer";
  case event::kind_type::failure:
    return "failure";
  case event::kind_type::timer:
    return "timer";
  case event::kind_type::down:
    return "down";
  case event::kind_type::stop:
    return "stop";
  case event::kind_type::connected:
    return "connected";
  case event::kind_type::lost:
    return "lost";
  case event::kind_type::cut:
    return "cut";
  case event::kind_type::healed:
    return "healed";
  case event::kind_type::delayed:
    return "delayed";
  case event::kind_type::crashed:
    return "crashed";
  case event::kind_type::frozen:
    return "frozen";
  case event::kind_type::thawed:
    return "thawed";
  case event::kind_type::clock_jumped:
    return "clock_jumped";
  }
  return "?";
}

void mix(std::uint64_t& hash, std::string_view bytes) {
  for (const char c : bytes) {
    hash ^= static_cast<unsigned char>(c);
    hash *= 1099511628211ULL;
  }
}

} // namespace

std::string to_string(const event& e) {
  std::string line = std::to_string(e.time.count());
  line += ' ';
  line += std::to_string(e.sender_node) + '.' + std::to_string(e.sender);
  line += '>';
  line += std::to_string(e.receiver_node) + '.' + std::to_string(e.receiver);
  line += ' ';
  line += name_of(e.kind);
  if (!e.type.empty()) {
    line += ' ';
    line += e.type;
    line += ' ';
    line += std::to_string(e.content);
  }
  return line;
}

void event_log::add(const event& e) {
  ++count_;
  const std::uint64_t numbers[] = {static_cast<std::uint64_t>(e.time.count()),
                                   static_cast<std::uint64_t>(e.kind),
                                   e.receiver,
                                   e.sender,
                                   e.content,
                                   std::uint64_t{e.receiver_node} << 32 | e.sender_node};
  mix(hash_, {reinterpret_cast<const char*>(numbers), sizeof numbers});
  mix(hash_, e.type);
  if (sink_) sink_(e);
}

} // namespace godwit::runtime::sim
