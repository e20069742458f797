#include "main/trace_dumper.hpp"

#include "main/crash_signals.hpp"

#include <godwit/runtime/trace/file.hpp>

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <filesystem>
#include <system_error>
#include <utility>
#include <vector>

#include <fcntl.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/signalfd.h>
#include <unistd.h>

namespace godwit::main {

namespace trace = runtime::trace;

namespace {

constexpr std::string_view prefix = "godwit-dump-";
constexpr std::string_view suffix = ".gwt";
constexpr std::size_t jobs_max = 64;
constexpr std::size_t files_remembered = 64;
constexpr std::chrono::minutes quiet_time{1};
/// What is being handled when something goes wrong is in the recording when that is over.
constexpr std::chrono::milliseconds let_it_end{50};
constexpr auto whole = std::chrono::nanoseconds::max();

/// Sorts by time: "godwit-dump-20260131T235959.123Z-4711-1-sigsegv.gwt".
std::string file_name(std::uint64_t number, std::string reason) {
  using namespace std::chrono;
  const auto now = system_clock::now();
  const auto ms = duration_cast<milliseconds>(now.time_since_epoch()).count() % 1000;
  const auto seconds = system_clock::to_time_t(now);
  std::tm utc{};
  ::gmtime_r(&seconds, &utc);
  for (auto& c : reason)
    if (std::isalnum(static_cast<unsigned char>(c)) == 0 && c != '_') c = '-';
  if (reason.size() > 64) reason.resize(64);
  return fmt::format("{}{:04}{:02}{:02}T{:02}{:02}{:02}.{:03}Z-{}-{}-{}{}", prefix, utc.tm_year + 1900, utc.tm_mon + 1,
                     utc.tm_mday, utc.tm_hour, utc.tm_min, utc.tm_sec, ms, ::getpid(), number, reason, suffix);
}

std::string describe_filter(const trace::filter& keep) {
  if (keep.everything()) return "everything";
  std::string out;
  const auto add = [&out](const char* what, const std::string& which) {
    out += (out.empty() ? "" : " ") + std::string(what) + "=" + which;
  };
  for (const auto& a : keep.actors) add("actor", a);
  for (const auto& t : keep.types) add("type", t);
  for (const auto r : keep.requests) add("request", std::to_string(r));
  if (keep.sample < 1) add("sample", fmt::format("{}", keep.sample));
  return out;
}

} // namespace

void prune_dumps(const std::string& directory, std::uint32_t files_max) {
  std::error_code failure;
  // Several processes may share the folder, and somebody may be fetching what another one has just written.
  constexpr std::chrono::minutes at_least{1};
  std::size_t young = 0;
  std::vector<std::filesystem::path> dumps;
  for (std::filesystem::directory_iterator at(directory, failure), end; !failure && at != end; at.increment(failure)) {
    const auto name = at->path().filename().string();
    if (!name.starts_with(prefix) || !name.ends_with(suffix) || !at->is_regular_file(failure)) continue;
    const auto written = at->last_write_time(failure);
    if (failure || written + at_least > std::filesystem::file_time_type::clock::now()) {
      if (!failure) ++young;
      continue;
    }
    dumps.push_back(at->path());
  }
  std::sort(dumps.begin(), dumps.end());
  for (std::size_t i = 0; i + files_max < dumps.size() + young && i < dumps.size(); ++i)
    std::filesystem::remove(dumps[i], failure);
}

trace_dumper::trace_dumper(std::shared_ptr<trace::recorder> recorder, dump_settings settings, runtime::log::logger log)
    : recorder_(std::move(recorder)), settings_(std::move(settings)), log_(std::move(log)) {
  sigset_t usr2;
  sigemptyset(&usr2);
  sigaddset(&usr2, SIGUSR2);
  wake_ = ::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  signals_ = ::signalfd(-1, &usr2, SFD_CLOEXEC | SFD_NONBLOCK);
  if (wake_ < 0 || signals_ < 0) throw std::system_error(errno, std::generic_category(), "cannot wait for signals");
  crash_ = std::make_unique<crash_signals>(wake_);
  thread_ = std::thread([this] { work(); });
}

trace_dumper::~trace_dumper() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  const std::uint64_t one = 1;
  (void)!::write(wake_, &one, sizeof one);
  thread_.join();
  crash_.reset();
  ::close(wake_);
  ::close(signals_);
}

void trace_dumper::post(std::function<void()> job) {
  {
    const std::lock_guard lock(mutex_);
    jobs_.push_back(std::move(job));
  }
  const std::uint64_t one = 1;
  (void)!::write(wake_, &one, sizeof one);
}

void trace_dumper::settle() {
  std::unique_lock lock(mutex_);
  settled_.wait(lock, [this] { return jobs_.empty() && !busy_; });
}

void trace_dumper::work() {
  for (;;) {
    pollfd what[] = {{wake_, POLLIN, 0}, {signals_, POLLIN, 0}};
    (void)::poll(what, 2, -1);
    if (crash_->signal() != 0) return after_crash();
    std::uint64_t count = 0;
    (void)!::read(wake_, &count, sizeof count);
    signalfd_siginfo told{};
    if (::read(signals_, &told, sizeof told) == sizeof told) (void)write("sigusr2", whole);
    std::unique_lock lock(mutex_);
    while (!jobs_.empty()) {
      const auto job = std::move(jobs_.front());
      jobs_.pop_front();
      busy_ = true;
      lock.unlock();
      try {
        job();
      } catch (const std::exception& failure) {
        log_.error("a dump of the flight recorder failed: {}", failure.what());
      }
      lock.lock();
      busy_ = false;
    }
    settled_.notify_all();
    if (stopping_) return;
  }
}

void trace_dumper::after_crash() {
  (void)write(std::string(name_of_signal(crash_->signal())), whole);
  log_.flush();
  crash_->saved();
}

actors::dumped_file trace_dumper::write(const std::string& reason, std::chrono::nanoseconds last) {
  try {
    return write_now(reason, last);
  } catch (const std::exception& failure) { // for want of memory, most likely that of the fault which is dumped
    actors::dumped_file out;
    out.error = failure.what();
    log_.error("cannot dump the flight recorder ({}): {}", reason, failure.what());
    return out;
  }
}

actors::dumped_file trace_dumper::write_now(const std::string& reason, std::chrono::nanoseconds last) {
  actors::dumped_file out;
  auto recording = recorder_->snapshot(last);
  if (!recording.processes.empty()) recording.processes.front().facts.emplace_back("dumped", reason);
  out.number = ++numbers_;
  out.events = recording.events.size();
  out.path = (std::filesystem::path(settings_.directory) / file_name(out.number, reason)).string();
  std::error_code failure;
  std::filesystem::create_directories(settings_.directory, failure);
  if (const auto written = trace::write_file(out.path, recording); !written) {
    out.error = written.error().message;
    std::filesystem::remove(out.path, failure); // what is there of it is of no use, and would count as one
    log_.error("cannot dump the flight recorder ({}): {}", reason, out.error);
    return out;
  }
  out.bytes = std::filesystem::file_size(out.path, failure);
  files_[out.number] = out.path;
  if (files_.size() > files_remembered) files_.erase(files_.begin());
  log_.warning("dumped the last {} events in {} ({})", out.events, out.path, reason);
  prune_dumps(settings_.directory, settings_.files_max);
  return out;
}

void trace_dumper::dump(const actors::dump_order& order, std::function<void(actors::dumped_file)> done) {
  {
    const std::lock_guard lock(mutex_);
    if (jobs_.size() >= jobs_max) return done(actors::dumped_file({}, "too many dumps are waiting already"));
  }
  const auto last = order.last_ns <= 0 ? whole : std::chrono::nanoseconds(order.last_ns);
  post([this, last, done = std::move(done)] { done(write("order", last)); });
}

void trace_dumper::dump_because(const std::string& reason) {
  {
    const std::lock_guard lock(mutex_);
    const auto now = std::chrono::steady_clock::now();
    if (now < quiet_until_) return;
    quiet_until_ = now + quiet_time;
  }
  post([this, reason] {
    std::this_thread::sleep_for(let_it_end);
    (void)write(reason, whole);
  });
}

actors::dump_part trace_dumper::read_now(const actors::dump_part_query& query) const {
  const auto found = files_.find(query.number);
  if (found == files_.end()) return actors::dump_part("there is no such dump");
  const int file = ::open(found->second.c_str(), O_RDONLY | O_CLOEXEC);
  if (file < 0) return actors::dump_part(found->second + ": " + std::generic_category().message(errno));
  actors::dump_part out;
  out.bytes.resize(actors::dump_part_query::bytes_max);
  const auto size = ::pread(file, out.bytes.data(), out.bytes.size(), static_cast<off_t>(query.offset));
  if (size < 0) out.error = found->second + ": " + std::generic_category().message(errno);
  out.bytes.resize(static_cast<std::size_t>(std::max<ssize_t>(size, 0)));
  ::close(file);
  return out;
}

void trace_dumper::read(const actors::dump_part_query& query, std::function<void(actors::dump_part)> done) {
  {
    const std::lock_guard lock(mutex_);
    if (jobs_.size() >= jobs_max) return done(actors::dump_part("too many parts are asked for at once"));
  }
  post([this, query, done = std::move(done)] { done(read_now(query)); });
}

actors::trace_state trace_dumper::set(const actors::trace_order& order) {
  actors::trace_state out;
  const auto level = order.level.empty() ? std::optional(recorder_->level()) : trace::parse_level(order.level);
  if (!level)
    out.error = "no level is called '" + order.level + "'; there are off, headers, content";
  else if (order.replaces && !(order.sample >= 0 && order.sample <= 1))
    out.error = "the share of requests is between 0 and 1";
  else {
    trace::filter keep;
    if (order.replaces) {
      keep.actors = order.actors;
      keep.types = order.types;
      keep.requests = order.requests;
      keep.sample = order.sample;
      recorder_->set_filter(keep);
      const std::lock_guard lock(mutex_);
      keeps_ = keep.everything() ? std::string() : describe_filter(keep);
    }
    const bool was_on = recorder_->level() != trace::level::off;
    if (!was_on) recorder_->set_level(*level); // so that the switch itself is recorded, either way
    if (!order.level.empty() || order.replaces) {
      std::vector<trace::attribute> said{{"level", std::string(to_string(*level))}};
      if (order.replaces) said.emplace_back("keeps", describe_filter(keep));
      recorder_->note("recording", said);
      recorder_->set_level(*level);
      log_.info("records {} from now on{}", to_string(*level),
                order.replaces ? ", of " + describe_filter(keep) : std::string());
    }
  }
  out.level = to_string(recorder_->level());
  const std::lock_guard lock(mutex_);
  if (!keeps_.empty()) out.level += ", of " + keeps_;
  out.lost = file_ != nullptr ? file_->lost() : recorder_->lost();
  return out;
}

void trace_dumper::follow(const trace::file_recorder* file) {
  const std::lock_guard lock(mutex_);
  file_ = file;
}

} // namespace godwit::main
