#include "main/migration_parts.hpp"

#include <algorithm>
#include <array>
#include <atomic>
#include <charconv>
#include <csignal>
#include <map>
#include <memory>
#include <string_view>

#include <unistd.h>

namespace godwit::main {

namespace {

constexpr std::array<std::string_view, 15> places{
    "source.opened",      "source.copying",       "source.copied",       "source.parked",        "source.last_copy",
    "source.committing",  "source.committed",     "destination.opened",  "destination.reserved", "destination.landed",
    "destination.commit", "destination.adopting", "destination.adopted", "destination.answered", "destination.expired"};

struct trap {
  int signal = SIGKILL;
  std::atomic<std::uint64_t> passes_left{1};
};

std::string names() {
  std::string out;
  for (const auto place : places) out += (out.empty() ? "" : ", ") + std::string(place);
  return out;
}

} // namespace

protocols::expected<actors::failpoints, std::string> parse_failpoints(const std::string& text) {
  using protocols::unexpected;
  if (text.empty()) return actors::failpoints{};
  const auto traps = std::make_shared<std::map<std::string, trap, std::less<>>>();
  std::string_view rest = text;
  while (!rest.empty()) {
    const auto comma = std::min(rest.find(','), rest.size());
    const auto one = rest.substr(0, comma);
    rest.remove_prefix(std::min(comma + 1, rest.size()));
    const auto equals = one.find('=');
    if (equals == std::string_view::npos)
      return unexpected("'" + std::string(one) + "' is not NAME=ACTION, such as source.committing=kill");
    const auto name = one.substr(0, equals);
    auto action = one.substr(equals + 1);
    if (std::find(places.begin(), places.end(), name) == places.end())
      return unexpected("no place is called '" + std::string(name) + "'; known are " + names());
    auto& made = (*traps)[std::string(name)];
    if (const auto at = action.find('@'); at != std::string_view::npos) {
      std::uint64_t count = 0;
      const auto digits = action.substr(at + 1);
      const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), count);
      if (error != std::errc{} || end != digits.data() + digits.size() || count == 0)
        return unexpected("'" + std::string(digits) + "' is no count of passings");
      made.passes_left = count;
      action = action.substr(0, at);
    }
    if (action == "kill")
      made.signal = SIGKILL;
    else if (action == "stop" && ::getpid() == 1)
      return unexpected(std::string("'stop' does nothing to the first process of a container; start it with an init"));
    else if (action == "stop")
      made.signal = SIGSTOP;
    else
      return unexpected("'" + std::string(action) + "' is none of kill, stop");
  }
  return actors::failpoints{[traps](std::string_view place) {
    const auto found = traps->find(place);
    if (found == traps->end()) return;
    if (found->second.passes_left.fetch_sub(1) != 1) return;
    // The first process of a container gets neither from itself.
    if (::getpid() == 1 && found->second.signal == SIGKILL) ::_exit(128 + SIGKILL);
    (void)std::raise(found->second.signal);
  }};
}

} // namespace godwit::main
