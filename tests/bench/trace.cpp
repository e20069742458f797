// What recording costs: a message without it, with it switched off, in the flight recorder, into a file; and a server
// with its flight recorder beside one without.

#include "support/bench.hpp"
#include "support/child.hpp"
#include "trace/messages.hpp"
#include "trace/serving.hpp"

#include <godwit/runtime/trace/file_recorder.hpp>
#include <godwit/runtime/trace/recorder.hpp>

#include <cstdio>
#include <filesystem>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include <unistd.h>

namespace {

namespace trace = godwit::runtime::trace;
using godwit::bench::figure;

/// In a process of its own, so that neither finds the other's memory.
int child(const std::string& mode) {
  trace::recorder_settings settings;
  settings.level = mode == "off" ? trace::level::off : trace::level::headers;
  if (mode == "file") settings.events_per_thread = std::size_t{1} << 16U; // as a server
  const auto recorder = std::make_shared<trace::recorder>(trace::process{}, settings);
  const auto path =
      (std::filesystem::temp_directory_path() / ("godwit-bench-" + std::to_string(::getpid()) + ".gwt")).string();
  std::unique_ptr<trace::file_recorder> file;
  if (mode == "file") {
    auto made = trace::file_recorder::start(recorder, path);
    if (!made) return std::fprintf(stderr, "%s\n", made.error().message.c_str()), 1;
    file = std::move(*made);
  }
  {
    godwit::bench::message_load load(recorder);
    godwit::bench::answer_slices(load);
  }
  if (file) {
    (void)file->stop();
    const auto bytes = static_cast<double>(file->raw_bytes()) / static_cast<double>(file->events());
    const auto lost = static_cast<double>(file->lost()) / static_cast<double>(file->lost() + file->events());
    std::filesystem::remove(path);
    std::printf("%.3f %.6f\n", bytes, lost);
  }
  return 0;
}

using command = std::vector<std::string>;

double slice(godwit::bench::child& of, const std::string& what) {
  of.tell(what);
  return std::stod(of.hear());
}

/// Two processes that work in turns, some milliseconds each: what the machine does meanwhile meets both. `launches`
/// pairs of processes, since where a process's memory lies makes a difference of its own.
godwit::bench::comparison in_turns(int launches, const command& ours, const command& reference,
                                   const std::string& what) {
  constexpr int slices = 45;
  std::vector<double> a, b, ratios;
  for (int launch = 0; launch < launches; ++launch) {
    godwit::bench::child first(ours), second(reference);
    const auto c = godwit::bench::interleave(
        slices, [&] { return slice(first, what); }, [&] { return slice(second, what); });
    a.push_back(c.ours);
    b.push_back(c.reference);
    ratios.push_back(c.ratio);
    for (auto* one : {&first, &second}) {
      one->tell("end"); // they have files to remove
      (void)one->rest();
    }
  }
  return {godwit::bench::median(a), godwit::bench::median(b), godwit::bench::median(ratios)};
}

struct stored_messages {
  double bytes = 0; ///< a message, before compression
  double lost = 0;  ///< share
};

stored_messages store(const command& with_file) {
  godwit::bench::child process(with_file);
  for (int i = 0; i < 100; ++i) (void)slice(process, i % 2 == 0 ? "tell" : "ask");
  process.tell("end");
  stored_messages out;
  if (std::sscanf(process.hear().c_str(), "%lf %lf", &out.bytes, &out.lost) != 2)
    throw std::runtime_error("the process that stores says nothing of it");
  return out;
}

} // namespace

int main(int argc, char** argv) {
  if (argc == 3 && std::string(argv[1]) == "--child") return child(argv[2]);
  godwit::bench::session session{argc, argv, 7};
  const auto self = std::filesystem::read_symlink("/proc/self/exe");
  const auto with = [&](const std::string& mode) { return command{self.string(), "--child", mode}; };
  const command without{(self.parent_path() / "untraced_messages").string()};
  const auto compare_with = [&](const std::string& name, const std::string& mode, double bound) {
    for (const std::string what : {"tell", "ask"})
      if (session.wants(name + "/" + what))
        session.add(godwit::bench::compare(name + "/" + what,
                                           in_turns(session.repetitions(), with(mode), without, what), "ns/message",
                                           figure::direction::at_most, bound));
  };
  compare_with("trace/off", "off", 1.01);
  compare_with("trace/headers", "ring", 1.3);
  compare_with("trace/file", "file", 1.3);
  if (session.wants("trace/bytes")) {
    const auto stored = store(with("file"));
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
        3 * session.repetitions(), [] { return godwit::bench::serve_requests(true); },
        [] { return godwit::bench::serve_requests(false); });
    session.add(godwit::bench::compare("trace/flight_recorder", served, "s", figure::direction::at_most, 1.02));
  }
  return session.result();
}
