#include "access_log.hpp"

#include "passing_exchange.hpp"

#include <mutex>
#include <string_view>
#include <utility>

namespace godwit::actors {

namespace http = transport::http;
namespace log = runtime::log;

namespace {

constexpr std::size_t text_max = 256;
constexpr int first_refusal = 400;
constexpr int first_failure = 500;

std::string request_id(const http::headers& fields) {
  return std::string(fields.find("X-Request-Id").value_or(std::string_view{}));
}

} // namespace

struct access_log::entry {
  std::string peer;
  std::string method; ///< empty: its head could not be read
  std::string target;
  int status = 0; ///< 0: none
  std::string id;
  std::string error;   ///< what the client was told
  std::string outcome; ///< complete, disconnected (by the client) or dropped (by us)
  std::chrono::nanoseconds took{0};
};

/// The answer's status and id may come from the front end's context, its end from an I/O thread.
class access_log::watched final : public passing_exchange {
  struct state {
    std::shared_ptr<access_log> to;
    std::chrono::nanoseconds began;
    std::mutex mutex;
    entry what;
    bool over = false;

    void begin(int status, const http::headers& fields) {
      const std::lock_guard lock(mutex);
      what.status = status;
      what.id = request_id(fields);
    }
    void fail(std::string_view error) {
      const std::lock_guard lock(mutex);
      what.error = std::string(error.substr(0, text_max));
    }
    void end(const char* outcome) {
      const std::lock_guard lock(mutex);
      if (std::exchange(over, true)) return;
      what.outcome = outcome;
      what.took = to->clock_->now() - began;
      to->write(what);
    }
  };

public:
  watched(std::shared_ptr<access_log> to, std::shared_ptr<http::exchange> inner, const http::request& request)
      : passing_exchange(std::move(inner)), state_(std::make_shared<state>()) {
    state_->began = to->clock_->now();
    state_->to = std::move(to);
    state_->what.peer = request.peer;
    state_->what.method = request.head ? "HEAD" : request.method.substr(0, text_max);
    state_->what.target = request.target.substr(0, text_max);
  }
  ~watched() override { state_->end(closed() ? "disconnected" : "dropped"); }
  void respond(http::response answer) override {
    state_->begin(answer.status, answer.fields);
    state_->fail(answer.error);
    state_->end(closed() ? "disconnected" : "complete");
    inner().respond(std::move(answer));
  }
  void begin_stream(int status, http::headers fields) override {
    state_->begin(status, fields);
    inner().begin_stream(status, std::move(fields));
  }
  void stream_failed(std::string_view error) override {
    state_->fail(error);
    inner().stream_failed(error);
  }
  void finish() override {
    state_->end(closed() ? "disconnected" : "complete");
    inner().finish();
  }
  void on_close(std::function<void()> gone) override {
    inner().on_close([state = state_, gone = std::move(gone)] {
      state->end("disconnected");
      if (gone) gone();
    });
  }

private:
  std::shared_ptr<state> state_;
};

access_log::access_log(log::logger log, std::shared_ptr<const runtime::clock> clock)
    : log_(std::move(log)), clock_(std::move(clock)) {}

access_log::~access_log() { tell_left_out(refusals_.rest() + failures_.rest()); }

void access_log::tell_left_out(std::uint64_t count) const {
  if (count > 0) log_.info("refused {} more requests", count);
}

std::shared_ptr<http::exchange> access_log::watch(const http::request& request,
                                                  std::shared_ptr<http::exchange> exchange) {
  if (!log_.enabled(log::level::info)) return exchange;
  return std::make_shared<watched>(shared_from_this(), std::move(exchange), request);
}

void access_log::refused(const std::string& peer, const http::request* head, const http::response& answer) {
  entry what;
  what.peer = peer;
  if (head != nullptr) {
    what.method = head->method.substr(0, text_max);
    what.target = head->target.substr(0, text_max);
  }
  what.status = answer.status;
  what.id = request_id(answer.fields);
  what.error = answer.error;
  write(what);
}

void access_log::write(const entry& what) {
  const bool refused = what.status >= first_refusal;
  const bool failed = refused || !what.error.empty(); // the second: within a stream
  const bool probe = what.target == "/health" || what.target == "/ping";
  const auto level = failed && !probe ? log::level::info : log::level::debug;
  if (!log_.enabled(level)) return;
  if (level == log::level::info && !log_.enabled(log::level::debug)) {
    const auto before = (what.status >= first_failure || !refused ? failures_ : refusals_).take(clock_->now());
    if (!before) return;
    tell_left_out(*before);
  }
  auto line = what.id.empty() ? log_ : log_.request(what.id);
  line = line.with("peer", what.peer);
  if (what.status != 0) line = line.with("status", std::to_string(what.status));
  const auto asked =
      what.method.empty() ? std::string("a request that could not be read") : what.method + " " + what.target;
  const double ms = std::chrono::duration<double, std::milli>(what.took).count();
  if (refused)
    line.write(level, "{}: refused{}{}", asked, what.error.empty() ? "" : ": ", what.error.substr(0, text_max));
  else if (failed)
    line.write(level, "{}: failed after {:.1f} ms: {}", asked, ms, what.error.substr(0, text_max));
  else
    line.write(level, "{}: {} after {:.1f} ms", asked, what.outcome, ms);
}

} // namespace godwit::actors
