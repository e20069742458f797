#include "main/crash_signals.hpp"

#include <array>
#include <atomic>
#include <cerrno>
#include <cstdint>
#include <ctime>

#include <unistd.h>

namespace godwit::main {

namespace {

constexpr std::array numbers{SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGABRT};
constexpr int looks_max = 400; // of 5 ms

// A handler is given nothing but the signal's number: what it needs can only be here.
std::atomic<int> wake_descriptor{-1};
std::atomic<int> came{0};
std::atomic<bool> done{false};
std::array<struct sigaction, numbers.size()> before;
static_assert(std::atomic<int>::is_always_lock_free && std::atomic<bool>::is_always_lock_free);

// Only what POSIX allows within a handler.
void on_crash(int number) {
  const auto saved_errno = errno;
  int none = 0;
  if (came.compare_exchange_strong(none, number)) {
    const std::uint64_t one = 1;
    (void)!::write(wake_descriptor.load(), &one, sizeof one);
  }
  const timespec pause{0, 5'000'000};
  for (int i = 0; i < looks_max && !done.load(); ++i) ::nanosleep(&pause, nullptr);
  for (std::size_t i = 0; i < numbers.size(); ++i)
    if (numbers[i] == number) ::sigaction(number, &before[i], nullptr);
  errno = saved_errno;
  ::raise(number); // waits until this returns; a fault would come again by itself
}

} // namespace

crash_signals::crash_signals(int wake) {
  wake_descriptor = wake;
  came = 0;
  done = false;
  struct sigaction ours {};
  ours.sa_handler = on_crash;
  ours.sa_flags = SA_ONSTACK;
  sigemptyset(&ours.sa_mask);
  for (std::size_t i = 0; i < numbers.size(); ++i) ::sigaction(numbers[i], &ours, &before[i]);
}

crash_signals::~crash_signals() {
  for (std::size_t i = 0; i < numbers.size(); ++i) ::sigaction(numbers[i], &before[i], nullptr);
  wake_descriptor = -1;
}

int crash_signals::signal() const noexcept { return came; }
void crash_signals::saved() noexcept { done = true; }

std::string_view name_of_signal(int number) noexcept {
  switch (number) {
  case SIGSEGV:
    return "sigsegv";
  case SIGBUS:
    return "sigbus";
  case SIGILL:
    return "sigill";
  case SIGFPE:
    return "sigfpe";
  case SIGABRT:
    return "sigabrt";
  case SIGUSR2:
    return "sigusr2";
  default:
    return "signal";
  }
}

} // namespace godwit::main
