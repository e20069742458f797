#pragma once

#include <godwit/actors/trace_control.hpp>
#include <godwit/runtime/log/logger.hpp>
#include <godwit/runtime/trace/file_recorder.hpp>
#include <godwit/runtime/trace/recorder.hpp>

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>

namespace godwit::main {

class crash_signals;

struct dump_settings {
  std::string directory = ".";
  std::uint32_t files_max = 8; ///< dumps in the directory; the oldest are removed
};

/// Writes what the flight recorder has into files, on a thread of its own: by order of an operator, on SIGUSR2, when
/// this process crashes, and for whatever else is a reason.
///
/// SIGUSR2 must be blocked in every thread (main::signals). One at a time in a process, since signals are the
/// process's.
class trace_dumper final : public actors::trace_control {
public:
  trace_dumper(std::shared_ptr<runtime::trace::recorder> recorder, dump_settings settings, runtime::log::logger log);
  ~trace_dumper() override;

  [[nodiscard]] actors::trace_state set(const actors::trace_order& order) override;
  void dump(const actors::dump_order& order, std::function<void(actors::dumped_file)> done) override;
  void read(const actors::dump_part_query& query, std::function<void(actors::dump_part)> done) override;

  /// At most one of these in a minute. `reason` becomes a part of the file's name.
  void dump_because(const std::string& reason);
  /// What this file lacks is lost too; null: no file any more.
  void follow(const runtime::trace::file_recorder* file);
  /// Waits until everything that was ordered is done.
  void settle();

private:
  void post(std::function<void()> job);
  void work();
  void after_crash();
  [[nodiscard]] actors::dumped_file write(const std::string& reason, std::chrono::nanoseconds last);
  [[nodiscard]] actors::dumped_file write_now(const std::string& reason, std::chrono::nanoseconds last);
  [[nodiscard]] actors::dump_part read_now(const actors::dump_part_query& query) const;

  std::shared_ptr<runtime::trace::recorder> recorder_;
  dump_settings settings_;
  runtime::log::logger log_;
  std::mutex mutex_;
  std::string keeps_; ///< the choice of messages that holds; empty: all
  std::condition_variable settled_;
  std::deque<std::function<void()>> jobs_; ///< bounded
  bool busy_ = false;
  const runtime::trace::file_recorder* file_ = nullptr;
  bool stopping_ = false;
  std::chrono::steady_clock::time_point quiet_until_;
  std::map<std::uint64_t, std::string> files_; ///< the thread's: the last ones dumped, by number
  std::uint64_t numbers_ = 0;
  int wake_ = -1;    ///< an eventfd
  int signals_ = -1; ///< a signalfd for SIGUSR2
  std::unique_ptr<crash_signals> crash_;
  std::thread thread_;
};

/// Removes the oldest dumps in the directory, so that at most `files_max` are left, but none of the last minute. Only
/// files named as dumps are.
void prune_dumps(const std::string& directory, std::uint32_t files_max);

} // namespace godwit::main
