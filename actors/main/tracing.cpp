#include "main/tracing.hpp"

#include "main/output_file.hpp"
#include "main/trace_settings.hpp"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <bit>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <utility>

#include <unistd.h>

namespace godwit::main {

namespace trace = runtime::trace;

namespace {

/// Between two looks of the thread that stores, a thread of actors writes about so many at its fastest.
constexpr std::size_t events_per_look = std::size_t{1} << 16U;

/// A recorder's clock counts from its making.
std::int64_t unix_ns_now() {
  const std::chrono::nanoseconds wall = std::chrono::system_clock::now().time_since_epoch();
  return wall.count();
}

std::vector<std::string> command_line() {
  std::ifstream file("/proc/self/cmdline", std::ios::binary);
  const std::string text(std::istreambuf_iterator<char>(file), {});
  std::vector<std::string> out;
  for (std::size_t at = 0; at < text.size();) {
    const auto end = std::min(text.find('\0', at), text.size());
    out.push_back(text.substr(at, end - at));
    at = end + 1;
  }
  return out;
}

} // namespace

std::string host_and_pid() {
  char host[256] = {};
  if (::gethostname(host, sizeof host - 1) != 0) host[0] = '\0';
  return std::string(host[0] == '\0' ? "?" : host) + "/" + std::to_string(::getpid());
}

std::vector<trace::attribute> facts_of(const recorded_process& what, const serve_settings& settings) {
  std::vector<trace::attribute> out{{"version", GODWIT_VERSION},
                                    {"command", what.command},
                                    {"level", std::string(to_string(settings.trace.level))},
                                    {"prompts", settings.trace.prompts ? "true" : "false"},
                                    {"model", what.model.empty() ? "default" : what.model}};
  const auto arguments = command_line();
  for (std::size_t i = 0; i < arguments.size(); ++i) out.emplace_back("argument:" + std::to_string(i), arguments[i]);
  for (auto& [name, value] : changed_settings(settings)) out.emplace_back("setting:" + name, std::move(value));
  return out;
}

tracing::tracing(const serve_settings& settings, const recorded_process& what, runtime::log::logger log)
    : settings_(settings), log_(std::move(log)) {
  const bool stores = !settings_.trace.file.empty();
  if (!stores && !settings_.trace.flight) return;
  trace::process who; // its key is the actor system's
  who.name = what.name;
  who.started_unix_ns = unix_ns_now();
  who.facts = facts_of(what, settings_);
  trace::recorder_settings r;
  r.level = settings_.trace.level;
  r.prompts = settings_.trace.prompts;
  r.events_per_thread = std::bit_ceil(std::size_t{settings_.trace.flight_events});
  if (stores) {
    r.events_per_thread = std::max(r.events_per_thread, events_per_look);
    r.events_beside = std::max(r.events_beside, events_per_look);
  }
  recorder_ = std::make_shared<trace::recorder>(std::move(who), std::move(r));
  if (settings_.trace.flight)
    dumper_ = std::make_shared<trace_dumper>(recorder_,
                                             dump_settings{settings_.trace.dump_dir, settings_.trace.dumps_max}, log_);
}

tracing::~tracing() { (void)end(); }

void tracing::settle() {
  if (dumper_) dumper_->settle();
}

void tracing::failed(std::string_view actor) noexcept {
  try {
    if (dumper_) dumper_->dump_because("fault-" + std::string(actor));
  } catch (const std::exception&) { // no memory for it; what failed is in the log
  }
}

void tracing::ended(const actors::ended_request& request) {
  const auto limit = settings_.trace.slow_request;
  if (dumper_ && limit.count() > 0 && request.took > limit)
    dumper_->dump_because("slow-" + (request.client_id.empty() ? std::string("request") : request.client_id));
}

// The folder is made when the first dump is, and nothing is said then to whoever mistyped it.
std::optional<start_error> tracing::why_no_dumps() const {
  const auto& folder = settings_.trace.dump_dir;
  std::error_code none;
  auto there = std::filesystem::absolute(folder, none);
  while (!std::filesystem::exists(there, none) && there.has_relative_path()) there = there.parent_path();
  const auto why_not = why_not_writable((there / "godwit-dump").string());
  if (!why_not) return std::nullopt;
  // Whoever mistyped it is told; a disk that is full now may not be then.
  const bool wrong = !std::filesystem::is_directory(there, none) || ::access(there.c_str(), W_OK | X_OK) != 0;
  if (wrong && folder != serve_settings{}.trace.dump_dir)
    return start_error{"trace.dump_dir: cannot write into " + there.string() + ": " + *why_not +
                           "; name a folder that can be written (--trace-dump-dir DIR)",
                       2};
  log_.warning("no dumps of the flight recorder: cannot write into {}: {} (--trace-dump-dir DIR)", there.string(),
               *why_not);
  return std::nullopt;
}

std::optional<start_error> tracing::begin() {
  if (dumper_)
    if (auto error = why_no_dumps()) return error;
  if (!recorder_ || settings_.trace.file.empty()) return std::nullopt;
  trace::file_recorder_settings how;
  how.file.bytes_max = settings_.trace.file_bytes_max;
  how.on_end = [path = settings_.trace.file, flight = settings_.trace.flight, log = log_](const trace::file_end& end) {
    log.warning("the recording {} ends here, at {:.1f} MiB: {}; {}", path, static_cast<double>(end.bytes) / (1 << 20),
                end.error.empty() ? "that is trace.file_bytes_max" : end.error,
                flight ? "only the flight recorder goes on" : "nothing records from now on");
  };
  auto file = trace::file_recorder::start(recorder_, settings_.trace.file, how);
  if (!file)
    return start_error{"cannot record: " + file.error().message +
                           "; name another file, in a folder that can be written (--trace FILE)",
                       2};
  file_ = std::move(*file);
  if (dumper_) dumper_->follow(file_.get());
  return std::nullopt;
}

std::optional<tracing::stored> tracing::end() {
  if (!file_) return std::nullopt;
  stored out;
  const auto result = file_->stop();
  if (!result) out.error = result.error().message;
  if (dumper_) dumper_->follow(nullptr);
  out.path = file_->path();
  out.events = file_->events();
  out.lost = file_->lost();
  out.bytes = file_->bytes();
  file_.reset();
  if (!out.error.empty()) log_.error("the recording {} is not complete: {}", out.path, out.error);
  return out;
}

std::string describe(const tracing::stored& file) {
  auto out = fmt::format("recorded {} events in {} ({:.1f} MiB)", file.events, file.path,
                         static_cast<double>(file.bytes) / (1 << 20));
  if (file.lost > 0) out += fmt::format(", {} were lost", file.lost);
  if (!file.error.empty()) return out + ", and then: " + file.error;
  return out + "; see godwit trace list " + file.path;
}

} // namespace godwit::main
