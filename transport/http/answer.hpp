#pragma once

#include "http/server_core.hpp"
#include "http/wire.hpp"

#include <chrono>
#include <functional>
#include <memory>
#include <mutex>
#include <string>

namespace godwit::transport::http {

/// The answer to one request, between any thread that produces it and the session that sends it.
///
/// Producers append framed bytes under a mutex and wake the session at most once until it takes them, so a burst of
/// tokens costs one wake and one write.
class answer {
public:
  /// `wake` is called with the mutex held, from any thread; it must only post to the session.
  answer(std::shared_ptr<server_core> core, answer_form form, std::function<void()> wake);

  // Any thread.
  void respond(const response& r);
  void begin_stream(int status, const headers& fields);
  void write(std::string_view chunk);
  void write_in_full(std::string_view chunk);
  void finish();
  void keep_alive_every(std::chrono::milliseconds interval, std::string bytes);
  void on_close(std::function<void()> gone);
  [[nodiscard]] bool closed() const;
  /// Nobody can complete it any more.
  void abandon();

  // The session's thread.
  enum class progress : std::uint8_t { pending, complete, broken };
  /// Moves what waits into `bytes` (cleared before), which counts as queued until `taken`, the next call, or `gone`.
  progress take(std::string& bytes);
  /// The client has so many of those bytes, which wait no more.
  void taken(std::size_t bytes);
  [[nodiscard]] progress state() const;
  /// Broken because more would have waited than may.
  [[nodiscard]] bool too_slow() const;
  [[nodiscard]] bool keep_alive() const;
  /// How long a stream may have nothing to send before `send_heartbeat`; 0: for ever.
  [[nodiscard]] std::chrono::milliseconds heartbeat_interval() const;
  /// Queues the heartbeat, unless there is something to send meanwhile.
  void send_heartbeat();
  /// The connection has ended. Fires `on_close` if the answer was not complete.
  void gone();
  /// The session has sent it all and forgets it.
  void detach();

private:
  enum class phase : std::uint8_t { waiting, streaming, complete, broken, closed };
  void wake_locked();
  [[nodiscard]] bool keep_alive_locked() const;
  void write_locked(std::string_view chunk);
  void count_locked(); ///< what waits, among that of all

  const std::shared_ptr<server_core> core_;
  const answer_form form_;
  mutable std::mutex mutex_;
  std::function<void()> wake_;
  std::function<void()> gone_;
  std::string queued_;
  std::string heartbeat_;
  std::chrono::milliseconds heartbeat_interval_{0};
  std::size_t in_flight_ = 0;
  std::size_t counted_ = 0;
  std::size_t allowed_ = 0; ///< above the bound
  phase phase_ = phase::waiting;
  bool close_delimited_ = false;
  bool too_slow_ = false;
  bool silent_ = false; // no body, whatever is written
  bool woken_ = true;   // the session looks by itself once the handler has returned
};

/// What a handler holds.
class exchange_handle final : public exchange {
public:
  explicit exchange_handle(std::shared_ptr<answer> a) : answer_(std::move(a)) {}
  ~exchange_handle() override { answer_->abandon(); }
  exchange_handle(const exchange_handle&) = delete;
  exchange_handle& operator=(const exchange_handle&) = delete;

  void respond(response r) override { answer_->respond(r); }
  void begin_stream(int status, headers fields) override { answer_->begin_stream(status, fields); }
  void write(std::string chunk) override { answer_->write(chunk); }
  void write_in_full(std::string chunk) override { answer_->write_in_full(chunk); }
  void finish() override { answer_->finish(); }
  void keep_alive_every(std::chrono::milliseconds interval, std::string bytes) override {
    answer_->keep_alive_every(interval, std::move(bytes));
  }
  void on_close(std::function<void()> gone) override { answer_->on_close(std::move(gone)); }
  [[nodiscard]] bool closed() const override { return answer_->closed(); }

private:
  const std::shared_ptr<answer> answer_;
};

} // namespace godwit::transport::http
