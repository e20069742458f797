#include "main/child_runner.hpp"

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <deque>
#include <exception>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/eventfd.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

namespace godwit::main {

namespace {

using clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

constexpr milliseconds look_again{50};

std::vector<char*> pointers(std::vector<std::string>& texts) {
  std::vector<char*> out;
  for (auto& text : texts) out.push_back(text.data());
  out.push_back(nullptr);
  return out;
}

const std::string& program_of(const child_order& order) {
  return order.program.empty() ? order.arguments.front() : order.program;
}

/// The process id, or an error number below zero.
int spawn(child_order& order) {
  const auto arguments = pointers(order.arguments), environment = pointers(order.environment);
  posix_spawn_file_actions_t files;
  posix_spawnattr_t attributes;
  posix_spawn_file_actions_init(&files);
  posix_spawnattr_init(&attributes);
  posix_spawn_file_actions_addopen(&files, 0, "/dev/null", O_RDONLY, 0);
  if (order.drops_output)
    posix_spawn_file_actions_addopen(&files, 1, "/dev/null", O_WRONLY, 0);
  else
    posix_spawn_file_actions_adddup2(&files, 2, 1);
  posix_spawn_file_actions_addclosefrom_np(&files, 3);
  sigset_t none, all;
  sigemptyset(&none);
  sigfillset(&all);
  posix_spawnattr_setsigmask(&attributes, &none);
  posix_spawnattr_setsigdefault(&attributes, &all);
  posix_spawnattr_setpgroup(&attributes, 0);
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
  pid_t pid = -1;
  const auto failure =
      ::posix_spawn(&pid, program_of(order).c_str(), &files, &attributes, arguments.data(), environment.data());
  posix_spawnattr_destroy(&attributes);
  posix_spawn_file_actions_destroy(&files);
  return failure == 0 ? pid : -failure;
}

std::string how_it_ended(int status) {
  if (WIFEXITED(status) && WEXITSTATUS(status) == 0) return {};
  if (WIFEXITED(status)) return "exit code " + std::to_string(WEXITSTATUS(status));
  return "signal " + std::to_string(WTERMSIG(status));
}

} // namespace

class child_runner::impl {
public:
  explicit impl(milliseconds patience)
      : patience_(patience), wake_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)), thread_([this] { work(); }) {}
  ~impl() {
    stop_all();
    ::close(wake_);
  }

  void start(child_order order) {
    {
      const std::lock_guard lock(mutex_);
      if (!stopping_) {
        ++running_;
        orders_.push_back(std::move(order));
        ring();
        return;
      }
    }
    if (order.ended) order.ended("this process is shutting down");
  }
  void stop(const std::string& name) {
    const std::lock_guard lock(mutex_);
    unwanted_.push_back(name);
    ring();
  }
  void stop_all() {
    {
      const std::lock_guard lock(mutex_);
      stopping_ = true;
      ring();
    }
    if (thread_.joinable()) thread_.join();
  }
  std::size_t running() const {
    const std::lock_guard lock(mutex_);
    return running_;
  }

private:
  struct child {
    child_order order;
    pid_t pid = -1;
    int descriptor = -1; ///< readable once it has ended
    std::optional<clock::time_point> kill_at;
    bool asked = false; ///< to end
    bool killed = false;
  };

  void ring() const {
    const std::uint64_t one = 1;
    (void)!::write(wake_, &one, sizeof one);
  }

  void work() noexcept {
    for (bool over = false; !over;) {
      try {
        over = look();
      } catch (const std::exception&) { // no memory, of which nobody here can be told: it looks again in a moment
        std::this_thread::sleep_for(look_again);
      }
    }
  }

  /// True: it was the last time.
  bool look() {
    bool stopping = false;
    for (auto next = take(stopping); next; next = take(stopping)) begin(std::move(*next));
    for (auto& c : children_)
      if (stopping) ask_to_end(c);
    if (stopping && children_.empty()) return true;
    wait();
    reap();
    return false;
  }

  /// The next order. Those who are not wanted any more are asked to end.
  std::optional<child_order> take(bool& stopping) {
    const std::lock_guard lock(mutex_);
    stopping = stopping_;
    if (!orders_.empty()) {
      auto first = std::move(orders_.front());
      orders_.pop_front();
      return first;
    }
    for (; !unwanted_.empty(); unwanted_.pop_front())
      for (auto& c : children_)
        if (c.order.name == unwanted_.front()) ask_to_end(c);
    return std::nullopt;
  }

  void begin(child_order order) {
    child c;
    c.order = std::move(order);
    try {
      children_.reserve(children_.size() + 1); // whoever runs is known
      c.pid = spawn(c.order);
    } catch (const std::exception& failure) {
      return end(c, failure.what());
    }
    if (c.pid < 0) {
      const int failure = -c.pid;
      c.pid = -1;
      return end(c, "cannot start " + program_of(c.order) + ": " + std::strerror(failure));
    }
    c.descriptor = static_cast<int>(::syscall(SYS_pidfd_open, c.pid, 0));
    if (c.order.time_max.count() > 0) c.kill_at = clock::now() + c.order.time_max;
    children_.push_back(std::move(c));
  }

  // Its group too, unless it has made itself another one.
  void ask_to_end(child& c) {
    if (std::exchange(c.asked, true)) return;
    ::kill(-c.pid, SIGTERM);
    const auto last = clock::now() + patience_;
    c.kill_at = c.kill_at ? std::min(*c.kill_at, last) : last;
  }

  void wait() {
    std::vector<pollfd> watched{{wake_, POLLIN, 0}};
    auto until = std::optional<clock::time_point>();
    bool blind = false;
    for (const auto& c : children_) {
      if (c.descriptor >= 0)
        watched.push_back({c.descriptor, POLLIN, 0});
      else
        blind = true; // no descriptor to be had: look again in a moment
      if (c.kill_at && !c.killed && (!until || *c.kill_at < *until)) until = c.kill_at;
    }
    auto left = until ? std::chrono::ceil<milliseconds>(*until - clock::now()).count() : -1;
    if (until) left = std::max<std::int64_t>(left, 0);
    if (blind) left = left < 0 ? look_again.count() : std::min<std::int64_t>(left, look_again.count());
    (void)::poll(watched.data(), watched.size(), static_cast<int>(std::min<std::int64_t>(left, 3'600'000)));
    std::uint64_t rung = 0;
    (void)!::read(wake_, &rung, sizeof rung);
  }

  void reap() {
    for (auto c = children_.begin(); c != children_.end();) {
      if (c->kill_at && !c->killed && clock::now() >= *c->kill_at) {
        ::kill(-c->pid, SIGKILL);
        c->killed = true;
      }
      int status = 0;
      const auto ended = ::waitpid(c->pid, &status, WNOHANG);
      if (ended == 0 || (ended < 0 && errno == EINTR)) {
        ++c;
        continue;
      }
      auto how = ended < 0 ? std::string("lost") : how_it_ended(status);
      if (c->killed && !c->asked) how = "killed, since it took too long";
      if (c->descriptor >= 0) ::close(c->descriptor);
      auto gone = std::move(*c);
      c = children_.erase(c);
      end(gone, std::move(how));
    }
  }

  void end(child& c, std::string how) {
    {
      const std::lock_guard lock(mutex_);
      --running_;
    }
    if (!c.order.ended) return;
    try {
      c.order.ended(std::move(how));
    } catch (...) { // it must not; the other children are none of its business
    }
  }

  milliseconds patience_;
  int wake_;
  mutable std::mutex mutex_;
  std::deque<child_order> orders_;
  std::deque<std::string> unwanted_;
  bool stopping_ = false;
  std::size_t running_ = 0; ///< those ordered included
  // Of the thread:
  std::vector<child> children_;
  std::thread thread_;
};

child_runner::child_runner(milliseconds patience) : impl_(std::make_unique<impl>(patience)) {}
child_runner::~child_runner() = default;
void child_runner::start(child_order order) { impl_->start(std::move(order)); }
void child_runner::stop(const std::string& name) { impl_->stop(name); }
void child_runner::stop_all() { impl_->stop_all(); }
std::size_t child_runner::running() const { return impl_->running(); }

} // namespace godwit::main
