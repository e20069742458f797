// What recording costs: a message without it, with it switched off, in the flight recorder, into a file; and a server
// with its flight recorder beside one without.

#include "support/bench.hpp"
#include "trace/messages.hpp"
#include "trace/serving.hpp"

#include <godwit/runtime/trace/file_recorder.hpp>
#include <godwit/runtime/trace/recorder.hpp>

#include <cstdio>
#include <filesystem>
#include <functional>
#include <memory>
#include <stdexcept>
#include <string>

#include <unistd.h>

namespace {

namespace trace = godwit::runtime::trace;
using godwit::bench::figure;

struct child_result {
  godwit::bench::message_costs costs;
  double bytes = 0; ///< a message, before compression
  double lost = 0;  ///< share
};

/// In a process of its own, so that neither finds the other's memory.
int child(const std::string& mode) {
  trace::recorder_settings settings;
  settings.level = mode == "off" ? trace::level::off : trace::level::headers;
  if (mode == "file") settings.events_per_thread = std::size_t{1} << 17U;
  const auto recorder = std::make_shared<trace::recorder>(trace::process{}, settings);
  const auto path =
      (std::filesystem::temp_directory_path() / ("godwit-bench-" + std::to_string(::getpid()) + ".gwt")).string();
  std::unique_ptr<trace::file_recorder> file;
  if (mode == "file") {
    auto made = trace::file_recorder::start(recorder, path);
    if (!made) return std::fprintf(stderr, "%s\n", made.error().message.c_str()), 1;
    file = std::move(*made);
  }
  const auto costs = godwit::bench::measure_messages(mode == "none" ? nullptr : recorder);
  double bytes = 0, lost = 0;
  if (file) {
    (void)file->stop();
    bytes = static_cast<double>(file->raw_bytes()) / static_cast<double>(file->events());
    lost = static_cast<double>(file->lost()) / static_cast<double>(file->lost() + file->events());
    std::filesystem::remove(path);
  }
  std::printf("%.3f %.3f %llu %.3f %.6f\n", costs.tell_ns, costs.ask_ns,
              static_cast<unsigned long long>(costs.messages), bytes, lost);
  return 0;
}

child_result run(const std::string& command) {
  child_result out;
  auto* pipe = ::popen(command.c_str(), "r");
  if (!pipe) throw std::runtime_error("cannot run " + command);
  unsigned long long messages = 0;
  const int read = std::fscanf(pipe, "%lf %lf %llu %lf %lf", &out.costs.tell_ns, &out.costs.ask_ns, &messages,
                               &out.bytes, &out.lost);
  if (::pclose(pipe) != 0 || read < 3) throw std::runtime_error("failed: " + command);
  out.costs.messages = messages;
  return out;
}

} // namespace

int main(int argc, char** argv) {
  if (argc == 3 && std::string(argv[1]) == "--child") return child(argv[2]);
  godwit::bench::session session{argc, argv, 7};
  const auto self = std::filesystem::read_symlink("/proc/self/exe");
  const auto with = [&](const std::string& mode) { return "'" + self.string() + "' --child " + mode; };
  const auto without = "'" + (self.parent_path() / "untraced_messages").string() + "'";
  const auto compare_with = [&](const std::string& name, const std::string& mode, double bound) {
    const auto measure = [&](const std::string& command, double godwit::bench::message_costs::*which) {
      return [command, which] { return run(command).costs.*which; };
    };
    using costs = godwit::bench::message_costs;
    if (session.wants(name + "/tell"))
      session.add(
          godwit::bench::compare(name + "/tell",
                                 godwit::bench::interleave(session.repetitions(), measure(with(mode), &costs::tell_ns),
                                                           measure(without, &costs::tell_ns)),
                                 "ns/message", figure::direction::at_most, bound));
    if (session.wants(name + "/ask"))
      session.add(
          godwit::bench::compare(name + "/ask",
                                 godwit::bench::interleave(session.repetitions(), measure(with(mode), &costs::ask_ns),
                                                           measure(without, &costs::ask_ns)),
                                 "ns/message", figure::direction::at_most, bound));
  };
  compare_with("trace/off", "off", 1.01);
  compare_with("trace/headers", "ring", 1.3);
  compare_with("trace/file", "file", 1.3);
  if (session.wants("trace/bytes")) {
    const auto stored = run(with("file"));
    session.add({"trace/bytes",
                 stored.bytes,
                 "bytes/message before zstd",
                 {},
                 {},
                 figure::goal_type{figure::direction::at_most, 40, stored.bytes}});
    session.add({"trace/lost", stored.lost, "share of messages at the peak rate of one core", {}, {}, {}});
  }
  if (session.wants("trace/flight_recorder")) {
    const auto served = godwit::bench::interleave(
        session.repetitions(), [] { return godwit::bench::serve_requests(true); },
        [] { return godwit::bench::serve_requests(false); });
    session.add(godwit::bench::compare("trace/flight_recorder", served, "s", figure::direction::at_most, 1.02));
  }
  return session.result();
}
