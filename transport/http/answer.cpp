#include "http/answer.hpp"

#include <algorithm>
#include <utility>

namespace godwit::transport::http {

namespace {
constexpr std::size_t chunk_frame_max = 20; // 16 digits of a length and two line ends
}

answer::answer(std::shared_ptr<server_core> core, answer_form form, std::function<void()> wake)
    : core_(std::move(core)), form_(form), wake_(std::move(wake)) {}

bool answer::keep_alive_locked() const {
  return form_.keep_alive && !close_delimited_ && !core_->draining.load(std::memory_order_relaxed);
}

void answer::wake_locked() {
  if (woken_ || !wake_) return;
  wake_();
  woken_ = true;
}

void answer::count_locked() {
  const auto now = queued_.size() + in_flight_;
  if (now != counted_) core_->answer_bytes.fetch_add(now - counted_, std::memory_order_relaxed);
  counted_ = now;
}

// In the functions below what `gone_` owns is destroyed after the lock is released: it may own the exchange, whose
// destructor comes back here. What may throw, for want of memory, comes before what it is said to have done.

void answer::respond(const response& r) {
  auto release = std::function<void()>();
  const auto lock = std::lock_guard(mutex_);
  if (phase_ != phase::waiting) return;
  queued_ = serialize(r, form_, keep_alive_locked());
  phase_ = phase::complete;
  count_locked();
  release.swap(gone_);
  wake_locked();
}

void answer::begin_stream(int status, const headers& fields) {
  const auto lock = std::lock_guard(mutex_);
  if (phase_ != phase::waiting) return;
  silent_ = form_.head || bodiless(status);
  close_delimited_ = form_.version < 11 && !silent_;
  queued_ = serialize_stream_head(status, fields, form_, keep_alive_locked());
  phase_ = phase::streaming;
  count_locked();
  wake_locked();
}

void answer::write(std::string_view chunk) {
  const auto lock = std::lock_guard(mutex_);
  write_locked(chunk);
}

void answer::write_in_full(std::string_view chunk) {
  const auto lock = std::lock_guard(mutex_);
  allowed_ += chunk.size() + chunk_frame_max; // in the queue it has its frame
  write_locked(chunk);
}

void answer::write_locked(std::string_view chunk) {
  if (phase_ != phase::streaming || silent_ || chunk.empty()) return;
  if (queued_.size() + in_flight_ + chunk.size() > core_->settings.queued_bytes_max + allowed_) {
    phase_ = phase::broken;
    too_slow_ = true;
    queued_ = std::string();
    core_->slow_readers_total.fetch_add(1, std::memory_order_relaxed);
    woken_ = false; // the session may be waiting for the slow reader
  } else if (close_delimited_) {
    queued_.append(chunk);
  } else {
    append_chunk(queued_, chunk);
  }
  count_locked();
  if (in_flight_ > 0 && core_->too_much_waits()) woken_ = false; // for the same reason
  wake_locked();
}

void answer::finish() {
  auto release = std::function<void()>();
  const auto lock = std::lock_guard(mutex_);
  if (phase_ != phase::streaming) return;
  if (!close_delimited_ && !silent_) queued_.append(last_chunk);
  phase_ = phase::complete;
  count_locked();
  release.swap(gone_);
  wake_locked();
}

void answer::on_close(std::function<void()> gone) {
  {
    const auto lock = std::lock_guard(mutex_);
    if (phase_ == phase::complete) return;
    if (phase_ != phase::closed) {
      gone_.swap(gone);
      return;
    }
  }
  if (gone) gone();
}

bool answer::closed() const {
  const auto lock = std::lock_guard(mutex_);
  return phase_ == phase::closed || phase_ == phase::broken;
}

void answer::abandon() {
  auto release = std::function<void()>();
  const auto lock = std::lock_guard(mutex_);
  if (phase_ != phase::waiting && phase_ != phase::streaming) return;
  auto whole = phase_ == phase::waiting;
  if (whole) try {
      queued_ = serialize(core_->error(500, "the request was dropped without an answer"), form_, keep_alive_locked());
      count_locked();
    } catch (const std::exception&) { // no memory for it: the connection ends without
      whole = false;
    }
  phase_ = whole ? phase::complete : phase::broken;
  if (!whole) woken_ = false;
  release.swap(gone_);
  try {
    wake_locked();
  } catch (const std::exception&) { // a destructor calls this; the client's end, or another event, wakes the session
  }
}

void answer::keep_alive_every(std::chrono::milliseconds interval, std::string bytes) {
  const auto lock = std::lock_guard(mutex_);
  heartbeat_interval_ = bytes.empty() ? std::chrono::milliseconds(0) : interval;
  heartbeat_ = std::move(bytes);
  wake_locked(); // the session may be waiting for ever
}

std::chrono::milliseconds answer::heartbeat_interval() const {
  const auto lock = std::lock_guard(mutex_);
  return phase_ == phase::streaming ? heartbeat_interval_ : std::chrono::milliseconds(0);
}

void answer::send_heartbeat() {
  const auto lock = std::lock_guard(mutex_);
  if (queued_.empty()) write_locked(heartbeat_);
}

answer::progress answer::take(std::string& bytes) {
  bytes.clear();
  const auto lock = std::lock_guard(mutex_);
  woken_ = false;
  queued_.swap(bytes);
  in_flight_ = bytes.size();
  count_locked();
  if (phase_ == phase::complete) return progress::complete;
  return phase_ == phase::broken ? progress::broken : progress::pending;
}

void answer::taken(std::size_t bytes) {
  const auto lock = std::lock_guard(mutex_);
  in_flight_ -= std::min(bytes, in_flight_); // after `gone` there are none
  count_locked();
}

answer::progress answer::state() const {
  const auto lock = std::lock_guard(mutex_);
  if (phase_ == phase::complete) return progress::complete;
  return phase_ == phase::broken ? progress::broken : progress::pending;
}

bool answer::too_slow() const {
  const auto lock = std::lock_guard(mutex_);
  return too_slow_;
}

bool answer::keep_alive() const {
  const auto lock = std::lock_guard(mutex_);
  return keep_alive_locked();
}

void answer::gone() {
  auto fire = std::function<void()>();
  {
    const auto lock = std::lock_guard(mutex_);
    wake_ = nullptr;
    queued_ = std::string();
    in_flight_ = 0;
    count_locked();
    if (phase_ == phase::complete || phase_ == phase::closed) return;
    phase_ = phase::closed;
    fire.swap(gone_);
  }
  core_->disconnects_total.fetch_add(1, std::memory_order_relaxed);
  if (fire) fire();
}

void answer::detach() {
  const auto lock = std::lock_guard(mutex_);
  wake_ = nullptr;
}

} // namespace godwit::transport::http
