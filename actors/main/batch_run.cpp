#include "main/batch_run.hpp"

#include "main/bench_answer.hpp"

#include <algorithm>
#include <condition_variable>
#include <map>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

namespace godwit::main {

namespace http = transport::http;

namespace {

/// More than any answer without a stream has, and few enough for a line that is read again; over it the call counts as
/// failed.
constexpr std::size_t answer_bytes_max = batch_line_bytes_max / 2;

std::string_view code_of(http::client_error_kind kind) {
  switch (kind) {
  case http::client_error_kind::bad_url:
    return "bad_url";
  case http::client_error_kind::resolve:
  case http::client_error_kind::connect:
    return "connect";
  case http::client_error_kind::timeout:
    return "timeout";
  case http::client_error_kind::protocol:
    return "protocol";
  default:
    return "disconnect";
  }
}

constexpr int no_such_key = 401;

/// Whole seconds; a date, or nonsense, is none.
std::chrono::milliseconds retry_after(const http::headers& fields) {
  const auto value = fields.find("Retry-After");
  if (!value || value->empty() || value->size() > 6) return {};
  std::int64_t out = 0;
  for (const char c : *value) {
    if (c < '0' || c > '9') return {};
    out = out * 10 + (c - '0');
  }
  return std::chrono::seconds(out);
}

/// One request, from its first sending to its line. It belongs to the client's I/O thread while its call runs.
struct asked {
  batch_request request;
  std::chrono::nanoseconds sent{0};
  std::uint32_t tries = 0;
  int status = 0;
  std::string request_id, body;
  std::chrono::milliseconds wanted_pause{0};
  std::optional<http::client_error> error;
  bool too_long = false;
  std::shared_ptr<http::call> call;
};

class batch {
public:
  batch(const batch_settings& settings, std::uint64_t total, const std::function<std::optional<batch_request>()>& next,
        std::ostream& to, const runtime::clock& clock)
      : settings_(settings), next_(next), to_(to), clock_(clock), begin_(clock.now()), client_(settings.client) {
    progress_.total = static_cast<std::size_t>(total);
  }

  batch_counts play(const std::function<bool(const load_progress&)>& on_tick) {
    auto next_tick = clock_.now();
    bool goes_on = true;
    for (;;) {
      goes_on = goes_on && counts_.written && !counts_.refused;
      if (!goes_on) break;
      while (open_.size() < settings_.concurrency && !at_end_) begin();
      if (open_.empty()) break;
      const auto now = clock_.now();
      while (!paused_.empty() && paused_.begin()->first <= now) {
        const auto number = paused_.begin()->second;
        paused_.erase(paused_.begin());
        send(*open_.at(number));
      }
      if (now >= next_tick) {
        goes_on = on_tick(shown());
        next_tick = now + settings_.tick;
      }
      if (goes_on) wait_until(paused_.empty() ? next_tick : std::min(paused_.begin()->first, next_tick), true);
    }
    if (!goes_on) cancel();
    counts_.duration_s = std::chrono::duration<double>(clock_.now() - begin_).count();
    static_cast<void>(on_tick(shown()));
    return counts_;
  }

private:
  void begin() {
    auto request = next_();
    if (!request) {
      at_end_ = true;
      return;
    }
    auto fresh = std::make_shared<asked>();
    fresh->request = std::move(*request);
    ++progress_.sent;
    open_.emplace(fresh->request.number, fresh);
    send(*fresh);
  }

  void send(asked& what) {
    what.sent = clock_.now();
    what.status = 0;
    what.request_id.clear();
    what.body.clear();
    what.wanted_pause = {};
    what.error.reset();
    what.too_long = false;
    ++what.tries;
    http::client_request request;
    request.method = "POST";
    request.url = settings_.base + what.request.path;
    request.fields = {{"Content-Type", "application/json"}};
    if (!settings_.api_key.empty()) request.fields.add("Authorization", "Bearer " + settings_.api_key);
    request.body = what.request.body;
    const auto kept = open_.at(what.request.number);
    http::client_callbacks callbacks;
    callbacks.on_head = [kept](int status, const http::headers& fields) {
      kept->status = status;
      kept->request_id = std::string(fields.find("x-request-id").value_or(""));
      kept->wanted_pause = retry_after(fields);
    };
    callbacks.on_data = [kept](std::string_view bytes) {
      kept->too_long = kept->too_long || kept->body.size() + bytes.size() > answer_bytes_max;
      if (!kept->too_long) kept->body += bytes;
    };
    callbacks.on_done = [this, kept](std::optional<http::client_error> error) {
      kept->error = std::move(error);
      const auto lock = std::lock_guard(mutex_);
      done_.push_back(kept->request.number);
      changed_.notify_one();
    };
    what.call = client_.send(std::move(request), std::move(callbacks));
  }

  /// Until then, or until calls are done; what came of them is taken in.
  void wait_until(std::chrono::nanoseconds then, bool may_retry) {
    std::vector<std::uint64_t> done;
    {
      auto lock = std::unique_lock(mutex_);
      const auto left = then - clock_.now();
      if (left.count() > 0) changed_.wait_for(lock, left, [this] { return !done_.empty(); });
      done.swap(done_);
    }
    for (const auto number : done) take(*open_.at(number), may_retry);
  }

  void take(asked& what, bool may_retry) {
    what.call.reset();
    if (what.error) what.status = 0;
    if (what.status == no_such_key) counts_.refused = true;
    may_retry = may_retry && what.status != no_such_key;
    // Who was too slow for --timeout once will be so again; a connection may come up the next time.
    const auto longest = settings_.client.total_timeout;
    const bool too_slow = longest.count() > 0 && clock_.now() - what.sent >= longest;
    const bool hopeless = what.error && (what.error->kind == http::client_error_kind::bad_url || too_slow);
    if (is_transient(what.status) && !hopeless && !what.too_long && may_retry && what.tries <= settings_.retries) {
      const auto doubled = settings_.pause_min * (1U << std::min(what.tries - 1, 20U));
      const auto pause = std::max(std::min<std::chrono::milliseconds>(doubled, settings_.pause_max),
                                  std::min(what.wanted_pause, settings_.pause_max));
      paused_.emplace(clock_.now() + pause, what.request.number);
      ++counts_.retries;
      return;
    }
    if (may_retry || is_answered(what.status))
      write(what);
    else
      ++counts_.unfinished;
    open_.erase(what.request.number);
  }

  void write(const asked& what) {
    const auto line = line_of(what);
    const auto told = parse_batch_answer(line);
    const bool answered = told && is_answered(told->status);
    to_ << line << '\n' << std::flush;
    if (!to_) { // the disk is full: it is as if it had not been asked
      counts_.written = false;
      ++counts_.unfinished;
      return;
    }
    ++progress_.done;
    ++(answered ? counts_.answered : counts_.failed);
    if (!answered) return;
    counts_.prompt_tokens += told->prompt_tokens;
    counts_.answer_tokens += told->answer_tokens;
  }

  static std::string line_of(const asked& what) {
    const auto& id = what.request.custom_id;
    if (what.error)
      return batch_error_line(what.request.number, id, std::string(code_of(what.error->kind)),
                              one_line(what.error->message));
    if (what.too_long)
      return batch_error_line(what.request.number, id, "bad_answer", "the answer is longer than 32 MiB");
    return batch_answer_line(what.request.number, id, what.status, what.request_id, what.body);
  }

  void cancel() {
    counts_.unfinished += paused_.size(); // nobody asks any more
    for (const auto& [when, number] : paused_) open_.erase(number);
    paused_.clear();
    for (const auto& [number, what] : open_)
      if (what->call) what->call->cancel();
    while (!open_.empty()) wait_until(clock_.now() + settings_.tick, false);
  }

  [[nodiscard]] load_progress shown() const {
    auto out = progress_;
    out.failed = static_cast<std::size_t>(counts_.failed);
    out.pieces = counts_.answer_tokens;
    out.elapsed_s = std::chrono::duration<double>(clock_.now() - begin_).count();
    return out;
  }

  const batch_settings& settings_;
  const std::function<std::optional<batch_request>()>& next_;
  std::ostream& to_;
  const runtime::clock& clock_;
  const std::chrono::nanoseconds begin_;
  batch_counts counts_;
  load_progress progress_;
  bool at_end_ = false;
  std::map<std::uint64_t, std::shared_ptr<asked>> open_;
  std::multimap<std::chrono::nanoseconds, std::uint64_t> paused_; ///< until then
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<std::uint64_t> done_; ///< under mutex_
  http::client client_;             ///< last: its threads use the members above until they are joined
};

} // namespace

batch_counts run_batch(const batch_settings& settings, std::uint64_t total,
                       const std::function<std::optional<batch_request>()>& next, std::ostream& to,
                       const runtime::clock& clock, const std::function<bool(const load_progress&)>& on_tick) {
  return batch(settings, total, next, to, clock).play(on_tick);
}

} // namespace godwit::main
