#include "main/load_generator.hpp"

#include "main/bench_answer.hpp"

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <mutex>
#include <optional>

namespace godwit::main {

using protocols::workload::workload_request;

namespace {

/// One run. The thread of `run` sends; the client's I/O thread fills the records and reports requests that are done.
/// A record belongs to the I/O thread from its sending until it is reported.
class load_run {
public:
  load_run(const load_generator::settings& chosen, const prompt_writer& prompts, const runtime::clock& clock,
           std::span<const workload_request> workload)
      : settings_(chosen), prompts_(prompts), clock_(clock), begin_(clock.now()), workload_(workload),
        records_(workload.size()), calls_(workload.size()), client_(chosen.client) {
    for (std::size_t i = 0; i < workload.size(); ++i) {
      records_[i].index = i;
      records_[i].prompt_tokens = workload[i].prompt_tokens;
      records_[i].answer_tokens = workload[i].answer_tokens;
      records_[i].priority = workload[i].priority;
      records_[i].scheduled_ns = workload[i].arrival_ns;
    }
  }

  std::vector<request_record> play(const std::function<bool(const load_progress&)>& on_tick) {
    auto next_tick_ns = now_ns();
    while (done_ < workload_.size()) {
      const auto now = now_ns();
      if (may_send() && workload_[sent_].arrival_ns <= now) send(sent_++);
      if (now >= next_tick_ns) {
        if (!on_tick(progress())) break;
        next_tick_ns = now + std::chrono::nanoseconds(settings_.tick).count();
      }
      wait_until(may_send() ? std::min(workload_[sent_].arrival_ns, next_tick_ns) : next_tick_ns);
    }
    if (done_ < workload_.size())
      cancel(); // what is broken off so is not done, and what was last said of it holds
    else
      static_cast<void>(on_tick(progress()));
    return std::move(records_);
  }

private:
  [[nodiscard]] std::int64_t now_ns() const { return (clock_.now() - begin_).count(); }

  [[nodiscard]] bool may_send() const {
    return sent_ < workload_.size() && (settings_.concurrency == 0 || sent_ - done_ < settings_.concurrency);
  }

  void send(std::size_t i) {
    auto request = transport::http::client_request{};
    request.method = "POST";
    request.url = settings_.url;
    request.fields = {{"Content-Type", "application/json"}, {"Accept", "text/event-stream"}};
    if (!settings_.api_key.empty()) request.fields.add("Authorization", "Bearer " + settings_.api_key);
    request.body = prompts_.body(workload_[i], i);
    const auto reader = std::make_shared<answer_reader>(records_[i]);
    auto callbacks = transport::http::client_callbacks{};
    callbacks.on_head = [reader](int status, const transport::http::headers&) { reader->head(status); };
    callbacks.on_data = [this, reader, i](std::string_view bytes) {
      const auto before = records_[i].pieces;
      reader->data(bytes, now_ns());
      pieces_.fetch_add(records_[i].pieces - before, std::memory_order_relaxed);
    };
    callbacks.on_done = [this, reader, i](const std::optional<transport::http::client_error>& error) {
      reader->end(error, now_ns());
      const auto lock = std::lock_guard(mutex_);
      reported_.push_back(i);
      changed_.notify_one();
    };
    records_[i].outcome = bench_outcome::unfinished;
    records_[i].started_ns = now_ns();
    calls_[i] = client_.send(std::move(request), std::move(callbacks));
  }

  /// Until then, or until requests are done; they are taken in.
  void wait_until(std::int64_t then_ns) {
    auto lock = std::unique_lock(mutex_);
    const auto left = std::chrono::nanoseconds(then_ns - now_ns());
    if (left.count() > 0) changed_.wait_for(lock, left, [this] { return !reported_.empty(); });
    for (const auto i : reported_) {
      calls_[i].reset();
      ++done_;
      if (records_[i].outcome == bench_outcome::failed) ++failed_;
    }
    reported_.clear();
  }

  /// The client ends every cancelled call with `on_done`, so this waits for the sockets to close and no longer.
  void cancel() {
    for (std::size_t i = 0; i < sent_; ++i)
      if (calls_[i]) calls_[i]->cancel();
    while (done_ < sent_) wait_until(now_ns() + std::chrono::nanoseconds(settings_.tick).count());
  }

  [[nodiscard]] load_progress progress() const {
    auto out = load_progress{};
    out.total = workload_.size();
    out.sent = sent_;
    out.done = done_;
    out.failed = failed_;
    out.pieces = pieces_.load(std::memory_order_relaxed);
    out.elapsed_s = static_cast<double>(now_ns()) * 1e-9;
    return out;
  }

  const load_generator::settings& settings_;
  const prompt_writer& prompts_;
  const runtime::clock& clock_;
  const std::chrono::nanoseconds begin_;
  const std::span<const workload_request> workload_;
  std::vector<request_record> records_;
  std::vector<std::shared_ptr<transport::http::call>> calls_;
  std::size_t sent_ = 0;
  std::size_t done_ = 0;
  std::size_t failed_ = 0;
  std::atomic<std::uint64_t> pieces_{0};
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<std::size_t> reported_; // under mutex_
  transport::http::client client_;    // last: its threads use the members above until they are joined
};

} // namespace

load_generator::load_generator(settings chosen, prompt_writer prompts, const runtime::clock& clock)
    : settings_(std::move(chosen)), prompts_(std::move(prompts)), clock_(clock) {}

std::vector<request_record> load_generator::run(std::span<const workload_request> workload,
                                                const std::function<bool(const load_progress&)>& on_tick) {
  auto run = load_run(settings_, prompts_, clock_, workload);
  return run.play(on_tick);
}

} // namespace godwit::main
