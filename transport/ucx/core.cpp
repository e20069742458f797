#include "ucx/core.hpp"

#include "fabric/identity.hpp"
#include "ucx/address.hpp"

#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/post.hpp>
#include <boost/system/system_error.hpp>

#include <algorithm>
#include <new>
#include <stdexcept>
#include <string>
#include <utility>

namespace godwit::transport::ucx {

namespace asio = boost::asio;

namespace {
constexpr auto busy_tick = std::chrono::milliseconds(10); ///< how late a deadline may be met
constexpr auto idle_tick = std::chrono::milliseconds(1000);
constexpr auto lonely_tick =
    std::chrono::milliseconds(10'000); ///< without connections: until freed memory is let go of, and the silent

/// What a test has broken.
void find_memory(std::atomic<int>& missing) {
  if (missing.load(std::memory_order_relaxed) > 0 && missing.fetch_sub(1) > 0) throw std::bad_alloc();
}
} // namespace

core::core(const settings& options, std::shared_ptr<faults> broken) : polls_(options.poll_before_sleep) {
  shared_.options = options;
  shared_.broken = std::move(broken);
  shared_.ends = notices(options.on_end);
  shared_.identity = random_identity();
  // Nobody else holds the copier: only who sees to its copies knows when it can go.
  copies_ = std::make_unique<device_copies>(std::exchange(shared_.options.device, {}), [this] { submit([] {}); });
  shared_.copies = copies_.get();
  if (shared_.options.reads != remote_reading::never && may_read(shared_.options.transports)) copies_->enter();
  worker_ =
      std::make_unique<worker>(shared_.options, static_cast<worker::events&>(*this), shared_.broken->reads_by_messages);
  shared_.messages = worker_.get();
  if (worker_->reads()) expose_memory();
  shared_.address = to_string(
      ucx::address{options.advertise.empty() ? options.listen : options.advertise, worker_->port(), shared_.identity});
  shared_.io = &io_;
  shared_.wake = [this] { schedule(); };
  if (options.streams && options.transports == "tcp") listen_for_streams();
  events_.assign(worker_->event_fd());
  thread_ = std::thread([this] { run(); });
}

// What a turn throws, for want of memory, is not the end of the connections.
void core::run() noexcept {
  const auto work = asio::make_work_guard(io_);
  bool enters = exposed_ != nullptr;
  for (bool over = false; !over;) {
    try {
      if (std::exchange(enters, false)) copies_->enter();
      schedule();
      io_.run();
      over = true;
    } catch (const std::exception& failure) {
      tell_failure("a turn", failure);
      std::this_thread::sleep_for(busy_tick);
    }
  }
}

void core::tell_failure(const std::string& what, const std::exception& failure) noexcept {
  try {
    shared_.ends.tell({here(), what + " failed: " + failure.what(), false, 0, true}, std::chrono::steady_clock::now());
  } catch (...) {
  } // there is nobody left to tell
}

void core::expose_memory() {
  const bool trusting = shared_.broken->devices_are_hosts;
  shared_.exposes_host = shared_.options.reads == remote_reading::always;
  exposed_ = std::make_unique<exposed_memory>(
      worker_->context(),
      [this, devices = trusting || worker_->reads_devices()](
          const protocols::memory_region& region) -> std::optional<protocols::memory_extent> {
        if (region.kind == protocols::memory_kind::device)
          return devices ? copies_->extent(region.address) : std::nullopt;
        const auto& shared = shared_.options.shared_memory;
        const auto found = shared_.exposes_host && shared ? shared(region.address) : std::nullopt;
        if (!found) return std::nullopt;
        return protocols::memory_extent{found->id, found->address, found->bytes, true};
      },
      trusting,
      [this](const std::string& why) {
        shared_.ends.tell_once("exposed", why, here(),
                               "UCX cannot have memory of this side read (" + why + "); its blocks go other ways",
                               std::chrono::steady_clock::now());
      });
  shared_.exposed = exposed_.get();
}

void core::listen_for_streams() {
  const auto& options = shared_.options;
  const auto port = static_cast<std::uint16_t>(options.port == 0 ? 0 : options.port + 1);
  try {
    streams_ = std::make_unique<stream_listener>(
        io_, options.listen, port, options.connect_timeout,
        [this](connection of, stream_socket::protocol::socket socket) {
          receiver_.arrived(of, std::make_shared<stream_socket>(std::move(socket), shared_.wake));
          schedule();
        });
  } catch (const boost::system::system_error& failure) {
    throw std::runtime_error("listening for streams at " + options.listen + ":" + std::to_string(port) + ": " +
                             failure.code().message());
  }
  shared_.streams = streams_.get();
}

core::~core() {
  asio::post(io_, [this] { stop(); });
  thread_.join();
}

void core::stop() {
  const struct last {
    asio::io_context& of;
    ~last() { of.stop(); }
  } ends{io_};
  stopped_ = true;
  sender_.stop();
  worker_->stop();
  copies_->finish();
  events_.release();  // UCX closes it
  worker_->destroy(); // what has not ended by now reads and writes no more either
  sender_.forget();
  shared_.exposed = nullptr;
  exposed_.reset();
  shared_.call_all(shared_.table.close_all());
  run_calls();
}

void core::submit(std::function<void()> command) {
  asio::post(io_, [this, command = std::move(command)] {
    command();
    schedule();
  });
}

void core::post(transfer_key key, std::vector<protocols::memory_region> regions, std::shared_ptr<void> keep,
                std::function<void(landing)> on_landed) {
  auto error = kind_of(regions, copies_->present()).error;
  if (error.empty()) error = shared_.table.open(key, std::move(regions), std::move(keep), on_landed);
  if (error.empty()) return;
  submit([this, on_landed = std::move(on_landed), error] {
    shared_.calls.emplace_back([on_landed, error] { on_landed(landing{0, error}); });
  });
}

void core::withdraw(transfer_key key, std::function<void()> done) {
  std::vector<std::uint64_t> writes;
  auto calls = shared_.table.close(key, std::move(done), &writes);
  submit([this, calls = std::move(calls), writes = std::move(writes)]() mutable {
    // Writes are made by this thread, so none is under way: these only wait for their senders' word. But a copy to a
    // device ends by itself, and so does what UCX reads.
    for (const auto write : writes)
      if (!receiver_.withdrawn(write)) shared_.call_all(shared_.table.failed(write, "withdrawn"));
    shared_.call_all(std::move(calls));
  });
}

void core::send(const std::string& peer, transfer_key key, std::uint32_t first_region,
                std::vector<protocols::memory_region> regions, transfer_priority priority,
                std::chrono::nanoseconds timeout, std::shared_ptr<void> keep, std::function<void(std::string)> done) {
  const auto now = std::chrono::steady_clock::now();
  ++shared_.sends_open;
  const auto memory = kind_of(regions, copies_->present());
  const auto deadline = now + std::min<std::chrono::nanoseconds>(timeout, std::chrono::hours(24));
  auto what = std::make_shared<order>(order{peer, key, piece_cutter{first_region, std::move(regions)}, priority,
                                            deadline, std::move(keep), std::move(done), 0, memory.device});
  submit([this, what, error = memory.error, now] {
    if (error.empty()) {
      sender_.submit(std::move(*what), now);
    } else {
      ++shared_.failed;
      --shared_.sends_open;
      shared_.calls.emplace_back([what, error] {
        what->keep.reset();
        what->done(error);
      });
    }
    set_timer();
  });
}

fabric::counters core::figures() const {
  counters out;
  out.bytes_sent = shared_.bytes_sent;
  out.bytes_landed = shared_.bytes_landed;
  out.bytes_read = shared_.bytes_read;
  out.messages_sent = shared_.messages_sent;
  out.messages_landed = shared_.messages_landed;
  out.refused = shared_.table.refused_count();
  out.failed = shared_.failed;
  out.postings_open = shared_.table.open_count();
  out.sends_open = shared_.sends_open;
  out.peers_open = shared_.connections;
  return out;
}

void core::connected(connection from) { receiver_.connected(from, std::chrono::steady_clock::now()); }

void core::received(connection from, std::string_view header, std::string_view payload) {
  find_memory(shared_.broken->messages_without_memory);
  const auto now = std::chrono::steady_clock::now();
  const auto m = wire::decode(header);
  std::string wrong = "not a message of a fabric";
  if (m && receiver_.knows(from))
    wrong = receiver_.received(from, *m, payload, now);
  else if (m && sender_.knows(from))
    wrong = sender_.received(from, *m, now);
  if (wrong.empty()) return;
  shared_.tell_end(from, wrong);
  (void)receiver_.lost(from, wrong);
  (void)sender_.lost(from, wrong);
  worker_->close(from);
}

void core::lost(connection which, const std::string& reason, bool gone) {
  // What nobody uses, its maker closes: that is no news.
  const bool received = receiver_.lost(which, reason);
  const bool sent = sender_.lost(which, reason, gone);
  if (received || sent || !gone) shared_.tell_end(which, reason, gone);
}

std::string core::here() const { return shared_.options.listen + ":" + std::to_string(worker_->port()); }

// Whoever says nothing UCX keeps, and nobody hears of it.
void core::end_silent(time now) {
  if (now < looks_again_) return; // it asks about each descriptor, of which there are many then
  looks_again_ = now + std::chrono::seconds(1);
  const auto ended = worker_->end_silent();
  short_ = ended != 0;
  if (short_)
    shared_.ends.tell({here(),
                       "descriptors run short: " + std::to_string(ended) +
                           " connections over which nothing was ever said were closed",
                       false, 0, true},
                      now);
}

bool core::run_calls() {
  const bool any = !shared_.calls.empty();
  while (!shared_.calls.empty()) {
    const auto next = std::move(shared_.calls.front());
    shared_.calls.pop_front();
    try {
      next();
    } catch (const std::exception& failure) { // it must not, and does where there is no memory to post with
      tell_failure("a callback", failure);
    }
  }
  return any;
}

void core::schedule() {
  if (scheduled_ || stopped_) return;
  asio::post(io_, [this] {
    scheduled_ = false;
    if (!stopped_) turn();
  });
  scheduled_ = true;
}

void core::turn() {
  find_memory(shared_.broken->turns_without_memory);
  const auto began = std::chrono::steady_clock::now();
  const bool happened = worker_->progress();
  const bool copied = copies_->run();
  bool called = run_calls();
  const auto now = std::chrono::steady_clock::now();
  const bool pulls = receiver_.work();
  const bool copies = sender_.work(now);
  called = run_calls() || called;
  shared_.connections = worker_->connections();
  const bool worked = happened || copied || pulls || copies;
  if (worked) polls_.worked(began, std::chrono::steady_clock::now());
  set_timer();
  const auto& options = shared_.options;
  const bool polling = options.busy_poll || polls_.open(now) || receiver_.midway(now - options.poll_midway);
  if (!worked && !polling) return sleep();
  // Whoever was woken would wait for the rest of this thread's time slice, which is milliseconds while bulk keeps it
  // running.
  if (called && (pulls || copies || options.busy_poll)) std::this_thread::yield();
  schedule();
}

void core::sleep() {
  if (!worker_->arm()) return schedule();
  polls_.sleeps();
  if (watching_) return;
  events_.async_wait(asio::posix::stream_descriptor::wait_read, [this](boost::system::error_code) {
    watching_ = false;
    schedule();
  });
  watching_ = true;
}

void core::set_timer() {
  const bool soon = sender_.busy() || receiver_.reading();
  const bool alone = worker_->connections() == 0 && !worker_->holds() && !short_;
  const std::chrono::steady_clock::duration wait = soon    ? std::chrono::steady_clock::duration(busy_tick)
                                                   : alone ? lonely_tick
                                                           : idle_tick;
  if (timed_ && wait_ <= wait) return;
  timed_ = false;
  timer_.expires_after(wait); // ends the slower one
  timer_.async_wait([this](boost::system::error_code error) {
    if (error || stopped_) return;
    timed_ = false;
    const auto now = std::chrono::steady_clock::now();
    // Whoever was stopped himself has not heard the others: what lies in the sockets comes first.
    const bool stood_still = now - timer_.expiry() > idle_tick / 2;
    if (stood_still && !std::exchange(waits_, true)) {
      set_timer();
      return schedule();
    }
    waits_ = false;
    if (exposed_) exposed_->forget_gone();
    worker_->let_go(now);
    end_silent(now);
    receiver_.tick(now);
    sender_.tick(now);
    schedule();
  });
  timed_ = true;
  wait_ = wait;
}

} // namespace godwit::transport::ucx
