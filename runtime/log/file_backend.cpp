#include <godwit/runtime/log/file_backend.hpp>

#include <spdlog/async_logger.h>
#include <spdlog/details/thread_pool.h>
#include <spdlog/pattern_formatter.h>
#include <spdlog/sinks/basic_file_sink.h>
#include <spdlog/sinks/stdout_sinks.h>

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <cstdio>
#include <filesystem>
#include <mutex>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace godwit::runtime::log {

namespace {

std::chrono::nanoseconds system_now() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::system_clock::now().time_since_epoch());
}

protocols::expected<spdlog::sink_ptr, open_error> open_sink(const std::string& file) {
  try {
    if (file.empty()) return spdlog::sink_ptr(std::make_shared<spdlog::sinks::stderr_sink_mt>());
    // It would be made, whatever a slip of the pen says.
    const auto folder = std::filesystem::path(file).parent_path();
    if (std::error_code none; !folder.empty() && !std::filesystem::is_directory(folder, none))
      return protocols::unexpected(
          open_error{"cannot write the log file " + file + ": there is no folder " + folder.string()});
    return spdlog::sink_ptr(std::make_shared<spdlog::sinks::basic_file_sink_mt>(file));
  } catch (const std::exception& e) {
    return protocols::unexpected(open_error{"cannot write the log file " + file + ": " + e.what()});
  }
}

/// Writes each line through, tells of lost ones, and acknowledges a flush, which spdlog's queue does not.
class through_sink final : public spdlog::sinks::sink {
public:
  through_sink(spdlog::sink_ptr to, const file_settings& settings) : file_(settings.file), style_(settings.style) {
    write_to(std::move(to));
  }

  void write_to(spdlog::sink_ptr to) {
    to->set_pattern("%v");
    const auto lock = std::lock_guard(mutex_);
    to_ = std::move(to);
  }
  void watch(std::weak_ptr<spdlog::details::thread_pool> queue) { queue_ = std::move(queue); }

  // Both on the writing thread only.
  void log(const spdlog::details::log_msg& line) override {
    const auto to = target();
    if (tell_unwritten(*to) && tell_lost(*to) && put(*to, line)) return;
    ++unwritten_;
    ++unwritten_total_;
  }
  void flush() override {
    const auto to = target();
    if (tell_unwritten(*to)) (void)tell_lost(*to);
    const auto lock = std::lock_guard(mutex_);
    ++flushes_;
    flushed_.notify_all();
  }

  void set_pattern(const std::string&) override {}
  void set_formatter(std::unique_ptr<spdlog::formatter>) override {}

  /// Lines that a full disk, or the like, had no room for.
  [[nodiscard]] std::uint64_t unwritten_total() const noexcept { return unwritten_total_.load(); }
  [[nodiscard]] std::uint64_t flushes() {
    const auto lock = std::lock_guard(mutex_);
    return flushes_;
  }
  /// False: it did not come. A flush can be lost like a line, and a full disk or a stopped terminal must not stop us.
  [[nodiscard]] bool wait_for_flush_after(std::uint64_t before) {
    auto lock = std::unique_lock(mutex_);
    return flushed_.wait_for(lock, std::chrono::seconds(2), [&] { return flushes_ > before; });
  }

private:
  [[nodiscard]] spdlog::sink_ptr target() {
    const auto lock = std::lock_guard(mutex_);
    return to_;
  }

  [[nodiscard]] bool tell_lost(spdlog::sinks::sink& to) {
    const auto lost = lost_by_now(); // not holding the queue while writing: its last owner joins this thread
    if (lost == told_) return true;
    const auto message =
        std::to_string(lost - told_) + " lines were lost, since they came faster than they could be written";
    if (!put(to, own_line(message))) return false;
    told_ = lost;
    return true;
  }

  // What was written of the one that failed may have been half a line. False: still no room.
  [[nodiscard]] bool tell_unwritten(spdlog::sinks::sink& to) {
    if (unwritten_ == 0 && !torn_) return true;
    if (torn_ && !put(to, "")) return false;
    torn_ = false;
    if (unwritten_ > 0 &&
        !put(to, own_line(std::to_string(unwritten_) + " lines were lost, since they could not be written")))
      return false;
    unwritten_ = 0;
    return true;
  }

  [[nodiscard]] std::string own_line(std::string_view message) const {
    auto r = record();
    r.time = system_now();
    r.severity = level::warning;
    r.component = "log";
    r.message = message;
    return to_line(r, style_);
  }

  [[nodiscard]] bool put(spdlog::sinks::sink& to, std::string_view line) {
    return put(to, spdlog::details::log_msg("", spdlog::level::info, spdlog::string_view_t(line.data(), line.size())));
  }
  // What fails is said once for each time that it happens, on the only other place that there is.
  [[nodiscard]] bool put(spdlog::sinks::sink& to, const spdlog::details::log_msg& line) {
    try {
      to.log(line);
      to.flush();
      return true;
    } catch (const spdlog::spdlog_ex& e) {
      if (!torn_ && !file_.empty()) {
        const auto told = own_line("lines of the log are lost until there is room for them: " + std::string(e.what()));
        (void)std::fwrite((told + "\n").data(), 1, told.size() + 1, stderr);
      }
      torn_ = true;
      return false;
    }
  }

  [[nodiscard]] std::size_t lost_by_now() const {
    const auto queue = queue_.lock();
    return queue ? queue->overrun_counter() : told_;
  }

  const std::string file_;
  const format style_;
  std::weak_ptr<spdlog::details::thread_pool> queue_;
  std::size_t told_ = 0;
  std::uint64_t unwritten_ = 0; // and not told in the file
  bool torn_ = false;           // the last one that was written may have no end
  std::atomic<std::uint64_t> unwritten_total_{0};
  std::mutex mutex_;
  spdlog::sink_ptr to_; // with the lock; another one after a reopening
  std::condition_variable flushed_;
  std::uint64_t flushes_ = 0;
};

class file_backend final : public backend {
public:
  file_backend(std::shared_ptr<through_sink> sink, const file_settings& settings)
      : file_(settings.file), style_(settings.style), sink_(std::move(sink)),
        queue_(std::make_shared<spdlog::details::thread_pool>(std::max<std::uint32_t>(2, settings.queue_lines_max), 1)),
        // Not registered with spdlog: its registry is global.
        logger_(
            std::make_shared<spdlog::async_logger>("", sink_, queue_, spdlog::async_overflow_policy::overrun_oldest)) {
    sink_->watch(queue_);
    logger_->set_level(spdlog::level::trace);
  }
  ~file_backend() override {
    if (flushed()) return;
    // The writing thread stands still, and whoever destroys its queue would wait for it: so nobody does.
    static auto& left = *new std::vector<std::shared_ptr<spdlog::details::thread_pool>>;
    static std::mutex mutex;
    const auto lock = std::lock_guard(mutex);
    left.push_back(queue_);
  }
  file_backend(const file_backend&) = delete;
  file_backend& operator=(const file_backend&) = delete;

  [[nodiscard]] std::chrono::nanoseconds now() override { return system_now(); }
  void write(const record& r) override { logger_->log(spdlog::level::info, spdlog::string_view_t(to_line(r, style_))); }
  void flush() override { (void)flushed(); }
  [[nodiscard]] std::string reopen() override {
    if (file_.empty()) return backend::reopen();
    std::error_code ignored; // opening a pipe that nobody reads would wait
    if (std::filesystem::exists(file_, ignored) && !std::filesystem::is_regular_file(file_, ignored))
      return file_ + " is no regular file";
    auto to = open_sink(file_);
    if (!to) return to.error().message;
    sink_->write_to(*std::move(to));
    return {};
  }
  [[nodiscard]] std::uint64_t dropped() const override { return queue_->overrun_counter() + sink_->unwritten_total(); }

private:
  [[nodiscard]] bool flushed() {
    const auto before = sink_->flushes();
    logger_->flush();
    return sink_->wait_for_flush_after(before);
  }

  const std::string file_;
  const format style_;
  const std::shared_ptr<through_sink> sink_;
  const std::shared_ptr<spdlog::details::thread_pool> queue_;
  const std::shared_ptr<spdlog::async_logger> logger_;
};

} // namespace

protocols::expected<std::shared_ptr<backend>, open_error> open_file(const file_settings& settings) {
  auto to = open_sink(settings.file);
  if (!to) return protocols::unexpected(to.error());
  auto sink = std::make_shared<through_sink>(*std::move(to), settings);
  return std::shared_ptr<backend>(std::make_shared<file_backend>(std::move(sink), settings));
}

} // namespace godwit::runtime::log
