#include "http/session.hpp"

#include <utility>

namespace godwit::transport::http {

session::session(socket s, std::shared_ptr<ssl::context> tls, const tcp::endpoint& peer,
                 std::shared_ptr<server_core> core, surroundings& around, refusal refuse)
    : connection_(std::move(s), std::move(tls)), from_(peer.address()), core_(std::move(core)), around_(around),
      event_(connection_.get().get_executor()), deadline_(connection_.get().get_executor()), peer_(to_string(peer)),
      refuse_(refuse) {}

/// Ends its session when the coroutine has ended, or, destroyed, when that has not begun or was given up by Asio. Both
/// for want of memory.
struct session::ending {
  explicit ending(std::shared_ptr<session> s) noexcept : of(std::move(s)) {}
  ending(ending&&) noexcept = default;
  ending& operator=(ending&&) = delete;
  ~ending() {
    if (of) of->end();
  }
  void operator()(const std::exception_ptr&) { std::exchange(of, nullptr)->end(); }
  std::shared_ptr<session> of;
};

void session::start() {
  auto held = ending(shared_from_this()); // first: what follows may throw
  around_.sessions.insert(this);
  deadline_.expect([self = shared_from_this()] { self->on_deadline(); });
  auto ec = error_code();
  // A token must not wait for the acknowledgement of the one before.
  connection_.get().set_option(tcp::no_delay(true), ec);
  asio::co_spawn(connection_.get().get_executor(), run(), std::move(held));
}

void session::end() noexcept {
  abort();
  try {
    if (answer_) answer_->gone();
  } catch (...) { // of whoever was told
  }
  (void)count_body(0);
  deadline_.cancel();
  set_idle(false);
  set_writing(false);
  around_.sessions.erase(this);
  if (refuse_ == refusal::none) core_->addresses.leave(from_);
  if (!makes_way_) // else another one has its place
    (refuse_ == refusal::none ? core_->connections : core_->refusing).fetch_sub(1);
  try {
    core_->drained();
  } catch (...) { // likewise
  }
}

awaitable<> session::run() {
  if (core_->stopping.load()) co_return;
  if (refuse_ == refusal::full) co_await reject(503, "the server has as many connections as it may have");
  if (refuse_ == refusal::full_address)
    co_await reject(429, "the server has as many connections from this address as it may have");
  if (refuse_ != refusal::none) co_return;
  if (connection_.encrypted()) {
    const auto safe = co_await shake_hands();
    if (!safe) co_return;
  }
  while (true) {
    auto in = co_await read_request();
    (void)count_body(0);
    if (!in) break;
    const auto again = co_await respond(std::move(in->wanted), in->form);
    if (!again) break;
  }
  if (!aborted_) co_await linger();
}

awaitable<bool> session::shake_hands() {
  only_ends_ = greets_ = true;
  expect_within(core_->settings.header_timeout);
  const auto done = co_await connection_.shake_hands();
  greets_ = false;
  expect_nothing();
  only_ends_ = false;
  if (!done) {
    core_->handshakes_failed_total.fetch_add(1, std::memory_order_relaxed);
    abort();
  }
  co_return done && !aborted_;
}

awaitable<bool> session::respond(request wanted, answer_form form) {
  core_->requests_total.fetch_add(1, std::memory_order_relaxed);
  const struct claim {
    std::atomic<std::uint64_t>& held;
    explicit claim(std::atomic<std::uint64_t>& exchanges) : held(exchanges) { held.fetch_add(1); }
    ~claim() { held.fetch_sub(1); }
  } counted(core_->exchanges);
  answer_ = std::make_shared<answer>(core_, form, [self = shared_from_this()] {
    asio::post(self->connection_.get().get_executor(), [self] { self->on_answer(); });
  });
  if (wanted.method == "OPTIONS" && wanted.target == "*") {
    // About the server, not about a resource of the handler.
    auto about = response{};
    about.status = 204;
    about.fields.add("Allow", "GET, HEAD, POST, OPTIONS");
    answer_->respond(about);
  } else {
    auto exchange = std::make_shared<exchange_handle>(answer_);
    try {
      core_->on_request(std::move(wanted), exchange);
    } catch (...) {
      exchange->respond(core_->error(500, "the request's handler failed"));
    }
  }
  auto bytes = std::string();
  auto complete = false;
  while (!aborted_) {
    const auto state = answer_->take(bytes);
    if (state == answer::progress::broken) {
      if (answer_->too_slow()) drop("more waited for it than http.queued_bytes_max");
      break;
    }
    complete = state == answer::progress::complete;
    if (!complete) {
      if (end_) break;
      read_on();
    }
    if (!bytes.empty()) {
      const auto sent = send_now(bytes);
      if (!sent) break;
      if (*sent < bytes.size()) {
        answer_->taken(*sent);
        const auto all = co_await send_rest(std::string_view(bytes).substr(*sent));
        if (!all) break;
      }
      if (complete) break;
    } else {
      if (complete) break;
      const auto heartbeat = answer_->heartbeat_interval();
      const auto signalled = co_await event(heartbeat);
      if (!signalled) answer_->send_heartbeat();
    }
  }
  complete = complete && !aborted_ && !late_;
  const auto again = complete && answer_->keep_alive();
  if (!complete) abort();
  answer_->gone(); // does nothing after a complete answer
  answer_.reset();
  co_return again;
}

awaitable<bool> session::reject(int status, std::string message) {
  auto answer = core_->error(status, message, head_);
  if (head_ != nullptr && core_->settings.on_own_answer) core_->settings.on_own_answer(*head_, answer.fields);
  co_return co_await reject(std::move(answer));
}

awaitable<bool> session::reject(response answer) {
  (refuse_ != refusal::none ? core_->refused_total : core_->rejected_total).fetch_add(1, std::memory_order_relaxed);
  if (refuse_ == refusal::none && core_->settings.on_rejected) core_->settings.on_rejected(peer_, head_, answer);
  late_ = false;
  auto bytes = serialize(answer, {11, false, false}, false);
  const auto sent = co_await send(std::move(bytes));
  if (refuse_ != refusal::none && sent) co_await linger();
  co_return false;
}

// Closing a socket with unread input resets the connection, and the reset may overtake the answer. So the client gets
// the end of our stream first and some time to see it.
awaitable<> session::linger() {
  expect_within(std::chrono::seconds(1));
  only_ends_ = connection_.encrypted();
  const auto ended = co_await connection_.end();
  only_ends_ = false;
  in_.clear();
  if (connection_.bare()) end_ = false; // it was of the encrypted stream
  while (ended && co_await more()) in_.clear();
}

awaitable<bool> session::more() {
  const auto before = in_.size();
  while (true) {
    if (aborted_) co_return false;
    if (in_.size() > before) co_return true;
    if (end_ || late_) co_return false;
    read_on();
    co_await event();
  }
}

awaitable<bool> session::send(std::string bytes) {
  const auto n = send_now(bytes);
  if (!n) co_return false;
  if (*n == bytes.size()) co_return true;
  co_return co_await send_rest(std::string_view(bytes).substr(*n));
}

std::optional<std::size_t> session::send_now(std::string_view bytes) {
  auto ec = error_code();
  const auto n = connection_.write_now(bytes, ec);
  core_->bytes_written_total.fetch_add(n, std::memory_order_relaxed);
  return ec ? std::nullopt : std::optional(n);
}

awaitable<bool> session::send_rest(std::string_view bytes) {
  set_writing(true);
  around_.make_room();
  deadline_.in(core_->settings.write_timeout); // for all of them: bytes that are taken do not renew it
  auto failed = false;
  while (!failed && !bytes.empty()) {
    const auto [ec, n] = co_await connection_.write_some(bytes);
    core_->bytes_written_total.fetch_add(n, std::memory_order_relaxed);
    bytes.remove_prefix(n);
    taken(n);
    failed = ec.failed();
  }
  deadline_.none();
  set_writing(false);
  co_return !failed;
}

awaitable<bool> session::event(std::chrono::milliseconds most) {
  if (!signalled_) {
    if (most.count() > 0)
      event_.expires_after(most);
    else
      event_.expires_at(std::chrono::steady_clock::time_point::max());
    co_await event_.async_wait(as_value);
  }
  co_return std::exchange(signalled_, false);
}

void session::signal() {
  signalled_ = true;
  event_.cancel();
}

void session::read_on() {
  if (reading_ || end_ || aborted_ || in_.size() >= unparsed_bytes_max()) return;
  reading_ = true;
  connection_.read(around_.received,
                   [self = shared_from_this()](error_code ec, std::string_view bytes) { self->received(ec, bytes); });
}

void session::received(error_code ec, std::string_view bytes) {
  reading_ = false;
  try {
    if (!bytes.empty()) in_.commit(asio::buffer_copy(in_.prepare(bytes.size()), asio::buffer(bytes)));
  } catch (const std::exception&) { // no memory for them: what follows would make no sense
    end_ = true;
    abort();
  }
  if (ec) {
    end_ = true;
    // A client that has its whole answer on the way may well close its side first.
    if (answer_ && answer_->state() != answer::progress::complete) abort();
  } else if (answer_) {
    read_on(); // a pipelined request; the end of the stream may be behind it
  }
  signal();
}

void session::on_deadline() {
  late_ = true;
  if (writes_) {
    core_->slow_readers_total.fetch_add(1, std::memory_order_relaxed);
    drop("it did not take all of a write within http.write_timeout");
  }
  if (only_ends_) abort();
  signal();
}

void session::on_answer() {
  if (answer_ && answer_->state() == answer::progress::broken) {
    if (answer_->too_slow()) drop("more waited for it than http.queued_bytes_max");
    abort();
  }
  if (writes_) around_.make_room();
  signal();
}

void session::give_way() {
  core_->slow_readers_total.fetch_add(1, std::memory_order_relaxed);
  set_writing(false); // first: what follows may throw
  drop("more waited for all clients together than http.answers_bytes_max, for it longest");
  if (answer_) answer_->gone();
}

bool session::count_body(std::size_t now) {
  const auto before = std::exchange(body_bytes_, now);
  const auto all = core_->body_bytes.fetch_add(now - before, std::memory_order_relaxed) + (now - before);
  return now == 0 || all <= core_->settings.bodies_bytes_max;
}

void session::drop(std::string_view why) noexcept {
  const auto to_tell = !aborted_ && core_->settings.on_dropped;
  abort();
  try {
    if (to_tell) core_->settings.on_dropped(peer_, std::string(why));
  } catch (...) { // no memory for the log's line
  }
}

void session::expect_within(std::chrono::milliseconds d) {
  late_ = false;
  deadline_.in(d);
}

void session::expect_nothing() noexcept {
  late_ = false;
  deadline_.none();
}

void session::abort() {
  if (std::exchange(aborted_, true)) return;
  connection_.close();
  signal();
}

void session::close_if_idle() {
  if (idle() || greets_) abort();
}

void session::set_idle(bool now) {
  if (now == waits_.has_value()) return;
  if (now) {
    waits_since_ = std::chrono::steady_clock::now();
    waits_ = around_.idle.insert(around_.idle.end(), this);
  } else {
    around_.idle.erase(*waits_);
    waits_.reset();
  }
  const auto none = std::chrono::steady_clock::time_point::max();
  around_.idle_since.store(around_.idle.empty() ? none : around_.idle.front()->waits_since_);
}

void session::set_writing(bool now) {
  if (now == writes_.has_value()) return;
  if (now) {
    writes_ = around_.writing.insert(around_.writing.end(), this);
    stalls_since_ = std::chrono::steady_clock::now();
    core_->writing.fetch_add(1);
  } else {
    around_.writing.erase(*writes_);
    writes_.reset();
    core_->writing.fetch_sub(1);
  }
  const auto none = std::chrono::steady_clock::time_point::max();
  around_.stalled_since.store(around_.writing.empty() ? none : around_.writing.front()->stalls_since_);
}

void session::taken(std::size_t bytes) {
  if (bytes == 0) return;
  if (answer_) answer_->taken(bytes);
  if (!writes_) return; // it has given way
  stalls_since_ = std::chrono::steady_clock::now();
  around_.writing.splice(around_.writing.end(), around_.writing, *writes_);
  around_.stalled_since.store(around_.writing.front()->stalls_since_);
}

bool session::make_way(bool place_is_taken) {
  if (!idle() || std::chrono::steady_clock::now() - waits_since_ < idle_least) return false;
  set_idle(false);
  makes_way_ = place_is_taken;
  drop(place_is_taken ? "it waited for its next request, and another one came when there were http.connections_max"
                      : "it waited for its next request, and another one came when this process had all files open "
                        "that it may have");
  return true;
}

} // namespace godwit::transport::http
