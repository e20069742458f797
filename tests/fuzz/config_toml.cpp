// Configuration files: settings are set, or every problem is a line; what is printed reads back the same.
#include <godwit/runtime/config/registry.hpp>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>
#include <vector>

namespace {

struct sample {
  std::uint32_t threads = 2;
  std::uint64_t bytes = 1024;
  double share = 0.5;
  bool on = false;
  std::string name = "none";
  std::vector<std::string> names;
  std::chrono::milliseconds pause{100};
  enum class mode : std::uint8_t { slow, fast } way = mode::slow;
};

void declare(godwit::runtime::config::registry& r, sample& s) {
  r.add("engine.threads", s.threads, {.doc = "Threads.", .unit = "threads", .min = 1, .max = 64});
  r.add("engine.bytes", s.bytes, {.doc = "Bytes.", .unit = "bytes", .min = 0});
  r.add("engine.share", s.share, {.doc = "Share.", .min = 0, .max = 1});
  r.add("engine.on", s.on, {.doc = "On."});
  r.add("engine.name", s.name, {.doc = "Name."});
  r.add("engine.names", s.names, {.doc = "Names."});
  r.add("engine.pause", s.pause, {.doc = "Pause.", .unit = "ms", .min = 0, .max = 3'600'000});
  r.add("engine.mode", s.way, {{"slow", sample::mode::slow}, {"fast", sample::mode::fast}}, {.doc = "Mode."});
}

/// toml++ 3.3 asserts where a table's header begins with what no key begins with, before it can say so.
bool trips_assertion(std::string_view text) {
  bool line_begins = true;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '[' && line_begins) {
      const auto key = text.find_first_not_of(" \t[", i);
      constexpr std::string_view begins_key = "\"'-_0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ";
      if (key == std::string_view::npos || begins_key.find(text[key]) == std::string_view::npos) return true;
    }
    line_begins = text[i] == '\n' || (line_begins && text[i] <= ' ');
  }
  return false;
}

} // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  if (trips_assertion(text)) return 0;
  sample first;
  godwit::runtime::config::registry settings;
  declare(settings, first);
  for (const auto& problem : settings.load_toml(text, "fuzzed.toml"))
    if (problem.empty()) std::abort();
  if (!settings.validate().empty()) std::abort(); // a value out of its bounds is refused when it is set

  sample second;
  godwit::runtime::config::registry again;
  declare(again, second);
  const auto printed = settings.print_config();
  if (!again.load_toml(printed, "printed.toml").empty()) std::abort();
  if (again.print_config().size() == 0 || second.name != first.name || second.threads != first.threads ||
      second.names != first.names || second.pause != first.pause || second.way != first.way)
    std::abort();
  return 0;
}
