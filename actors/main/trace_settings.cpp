#include "main/trace_settings.hpp"

#include <utility>

namespace godwit::main {

namespace {

using runtime::trace::level;

constexpr double day_ms = 86'400'000;

} // namespace

void declare_trace(runtime::config::registry& r, serve_settings& s) {
  r.add("trace.file", s.trace.file,
        {.doc = "Record every message in this file, for godwit trace. Each process of a cluster needs its own. Empty: "
                "none.",
         .flag = "--trace"});
  r.add("trace.level", s.trace.level, {{"off", level::off}, {"headers", level::headers}, {"content", level::content}},
        {.doc = "What is recorded. headers: who, whom, which type, when, because of what. content: the messages too, "
                "which replay needs. godwit trace level switches it while the process runs."});
  r.add("trace.prompts", s.trace.prompts,
        {.doc = "With trace.level content: keep what clients and the model said. Otherwise only how long it was."});
  r.add(
      "trace.file_bytes_max", s.trace.file_bytes_max,
      {.doc = "Largest trace.file. What comes later is left out, and counted there; the log says so once. 0: no limit.",
       .unit = "bytes",
       .min = 0});
  r.add("trace.flight", s.trace.flight,
        {.doc =
             "Flight recorder: keep the last messages in memory, to be written when something goes wrong or somebody "
             "asks (godwit trace dump). Without it and without trace.file nothing is recorded, and nothing can be "
             "switched on later."});
  r.add("trace.flight_events", s.trace.flight_events,
        {.doc = "How many messages each thread keeps; 128 bytes of memory each. The next power of two is taken.",
         .unit = "messages",
         .min = 64,
         .max = 16'777'216});
  r.add("trace.dump_dir", s.trace.dump_dir,
        {.doc = "Directory for dumps of the flight recorder: when the process crashes, on SIGUSR2, when an invariant "
                "fails, when a request is slow, and by godwit trace dump."});
  r.add("trace.dumps_max", s.trace.dumps_max,
        {.doc = "Dumps that may lie in trace.dump_dir; the oldest ones are removed, but none younger than a minute.",
         .unit = "files",
         .min = 1,
         .max = 100'000});
  r.add("trace.slow_request", s.trace.slow_request,
        {.doc = "An HTTP request that takes longer makes a dump, at most once a minute. 0: none does.",
         .unit = "ms",
         .min = 0,
         .max = day_ms});
}

std::vector<std::pair<std::string, std::string>> changed_settings(const serve_settings& settings) {
  serve_settings usual, now = settings;
  runtime::config::registry before, after;
  declare(before, usual);
  declare(after, now); // what is set now becomes that one's default
  std::vector<std::pair<std::string, std::string>> out;
  for (std::size_t i = 0; i < before.settings().size(); ++i)
    if (auto text = after.text(after.settings()[i]); text != before.text(before.settings()[i]))
      out.emplace_back(before.settings()[i].name, std::move(text));
  return out;
}

} // namespace godwit::main
