#include "http/session.hpp"

#include <utility>

namespace godwit::transport::http {

session::session(socket s, std::shared_ptr<server_core> core, set& siblings, bool refuse)
    : socket_(std::move(s)), core_(std::move(core)), siblings_(siblings), event_(socket_.get_executor()),
      deadline_(socket_.get_executor()), refuse_(refuse) {}

void session::start() {
  siblings_.insert(this);
  deadline_.expect([self = shared_from_this()] { self->on_deadline(); });
  auto ec = error_code();
  socket_.set_option(tcp::no_delay(true), ec); // a token must not wait for the acknowledgement of the one before
  const auto peer = socket_.remote_endpoint(ec);
  if (!ec) peer_ = to_string(peer);
  asio::co_spawn(socket_.get_executor(), run(), [self = shared_from_this()](std::exception_ptr) {
    self->abort();
    if (self->answer_) self->answer_->gone();
    self->deadline_.cancel();
    self->siblings_.erase(self.get());
    (self->refuse_ ? self->core_->refusing : self->core_->connections).fetch_sub(1);
    self->core_->drained();
  });
}

awaitable<> session::run() {
  if (core_->stopping.load()) co_return;
  if (refuse_) {
    co_await reject(503, "the server has as many connections as it may have");
    co_return;
  }
  while (true) {
    auto in = co_await read_request();
    if (!in) break;
    const auto again = co_await respond(std::move(in->wanted), in->form);
    if (!again) break;
  }
  if (!aborted_) co_await linger();
}

awaitable<bool> session::respond(request wanted, answer_form form) {
  core_->requests_total.fetch_add(1, std::memory_order_relaxed);
  core_->exchanges.fetch_add(1, std::memory_order_relaxed);
  answer_ = std::make_shared<answer>(core_, form, [self = shared_from_this()] {
    asio::post(self->socket_.get_executor(), [self] { self->on_answer(); });
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
    if (state == answer::progress::broken) break;
    complete = state == answer::progress::complete;
    if (!complete) {
      if (end_) break;
      read_on();
    }
    if (!bytes.empty()) {
      const auto sent = co_await send_buffer(bytes);
      if (!sent) break;
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
  core_->exchanges.fetch_sub(1, std::memory_order_relaxed);
  co_return again;
}

awaitable<bool> session::reject(int status, std::string message) {
  (refuse_ ? core_->refused_total : core_->rejected_total).fetch_add(1, std::memory_order_relaxed);
  late_ = false;
  auto bytes = serialize(core_->error(status, message), {11, false, false}, false);
  const auto sent = co_await send(std::move(bytes));
  if (refuse_ && sent) co_await linger();
  co_return false;
}

// Closing a socket with unread input resets the connection, and the reset may overtake the answer. So the client gets
// the end of our stream first and some time to see it.
awaitable<> session::linger() {
  auto ec = error_code();
  socket_.shutdown(tcp::socket::shutdown_send, ec);
  late_ = false;
  deadline_.in(std::chrono::seconds(1));
  in_.clear();
  while (!ec && co_await more()) in_.clear();
}

awaitable<bool> session::more() {
  const auto before = in_.size();
  while (true) {
    if (in_.size() > before) co_return true;
    if (end_ || late_ || aborted_) co_return false;
    read_on();
    co_await event();
  }
}

awaitable<bool> session::send(std::string bytes) { co_return co_await send_buffer(bytes); }

awaitable<bool> session::send_buffer(const std::string& bytes) {
  writing_ = true;
  deadline_.in(core_->settings.write_timeout);
  const auto [ec, n] = co_await asio::async_write(socket_, asio::buffer(bytes), as_value);
  deadline_.none();
  writing_ = false;
  core_->bytes_written_total.fetch_add(n, std::memory_order_relaxed);
  co_return !ec;
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
  socket_.async_read_some(asio::buffer(received_), [self = shared_from_this()](error_code ec, std::size_t n) {
    self->reading_ = false;
    if (n > 0) self->in_.commit(asio::buffer_copy(self->in_.prepare(n), asio::buffer(self->received_, n)));
    if (ec) {
      self->end_ = true;
      // A client that has its whole answer on the way may well close its side first.
      if (self->answer_ && self->answer_->state() != answer::progress::complete) self->abort();
    } else if (self->answer_) {
      self->read_on(); // a pipelined request; the end of the stream may be behind it
    }
    self->signal();
  });
}

void session::on_deadline() {
  late_ = true;
  if (writing_) {
    core_->slow_readers_total.fetch_add(1, std::memory_order_relaxed);
    abort();
  }
  signal();
}

void session::on_answer() {
  if (answer_ && answer_->state() == answer::progress::broken) abort();
  signal();
}

void session::abort() {
  if (std::exchange(aborted_, true)) return;
  auto ec = error_code();
  socket_.close(ec);
  signal();
}

void session::close_if_idle() {
  if (idle()) abort();
}

} // namespace godwit::transport::http
