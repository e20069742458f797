#pragma once

#include "ucx/context.hpp"
#include "ucx/poll_window.hpp"
#include "ucx/receiver.hpp"
#include "ucx/sender.hpp"

#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/steady_timer.hpp>

#include <exception>
#include <functional>
#include <memory>
#include <string>
#include <thread>

namespace godwit::transport::ucx {

/// A fabric over UCX: one thread that runs an Asio loop and drives the worker within it. When nothing happens it waits
/// for UCX's event fd and for commands in the same place, and uses no time.
class core final : public fabric, private worker::events {
public:
  core(const settings& options, std::shared_ptr<faults> broken);
  ~core() override;

  [[nodiscard]] std::string address() const override { return shared_.address; }
  void post(transfer_key key, std::vector<protocols::memory_region> regions, std::shared_ptr<void> keep,
            std::function<void(landing)> on_landed) override;
  void withdraw(transfer_key key, std::function<void()> done) override;
  void send(const std::string& peer, transfer_key key, std::uint32_t first_region,
            std::vector<protocols::memory_region> regions, transfer_priority priority, std::chrono::nanoseconds timeout,
            std::shared_ptr<void> keep, std::function<void(std::string)> done) override;
  [[nodiscard]] counters figures() const override;

private:
  void connected(connection from) override;
  void received(connection from, std::string_view header, std::string_view payload) override;
  void lost(connection which, const std::string& reason, bool gone) override;

  void listen_for_streams();
  void expose_memory();
  void end_silent(time now);
  [[nodiscard]] std::string here() const; ///< HOST:PORT, for notices
  /// Runs `command` on the thread.
  void submit(std::function<void()> command);
  void run() noexcept; ///< the thread
  void tell_failure(const std::string& what, const std::exception& failure) noexcept;
  void turn();      ///< does what there is to do, then goes on or to sleep
  void schedule();  ///< a turn, soon
  void sleep();     ///< until the event fd is readable
  void set_timer(); ///< deadlines are looked at now and then, while there are any
  bool run_calls(); ///< any
  void stop();

  context shared_;
  boost::asio::io_context io_{1};
  std::unique_ptr<device_copies> copies_;
  std::unique_ptr<worker> worker_;
  std::unique_ptr<exposed_memory> exposed_;
  std::unique_ptr<stream_listener> streams_;
  boost::asio::posix::stream_descriptor events_{io_};
  boost::asio::steady_timer timer_{io_};
  receiver receiver_{shared_};
  sender sender_{shared_};
  bool scheduled_ = false;
  bool watching_ = false;
  bool timed_ = false;
  std::chrono::steady_clock::duration wait_{0}; ///< the timer's
  bool waits_ = false;                          ///< the timer was late, and its work was put off once
  bool short_ = false;                          ///< of descriptors, when it was looked
  time looks_again_{};                          ///< for silent connections
  bool stopped_ = false;
  poll_window polls_;
  std::thread thread_; ///< last: starts when the rest is there
};

} // namespace godwit::transport::ucx
