#include "trace/messages.hpp"

#include "support/ring.hpp"

#include <godwit/runtime/actor_system.hpp>

#include <cstdio>
#include <future>
#include <iostream>
#include <string>
#include <utility>
#include <vector>

#include <time.h>

namespace godwit::bench {

namespace {

constexpr std::uint64_t ring_actors = 64;
constexpr std::uint64_t ring_hops = 20'000; // of one token: several would run in lockstep or bunch up, by chance
constexpr std::uint64_t pairs = 16;
constexpr std::uint64_t pair_asks = 500;

/// Of the calling thread: what others on the machine take meanwhile does not count, nor does a thread that stores.
double thread_seconds() {
  timespec now{};
  ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) * 1e-9;
}

/// Who runs, and for how long the only worker was busy with it.
struct finish_line {
  std::uint64_t left = 0;
  double began = -1;
  double took = 0;
  std::promise<void> over, before; ///< of this slice, and the one before, whose worker may still be telling
  /// Before a slice.
  void set(std::uint64_t runners) {
    left = runners;
    began = -1;
    before = std::exchange(over, {});
  }
  void begin() {
    if (began < 0) began = thread_seconds();
  }
  void cross() {
    if (--left != 0) return;
    took = thread_seconds() - began;
    over.set_value();
  }
  /// ns of each of so many messages.
  [[nodiscard]] double wait(std::uint64_t messages) {
    over.get_future().wait();
    return took * 1e9 / static_cast<double>(messages);
  }
};

runtime::actor_system_settings settings_with(std::shared_ptr<runtime::trace::recorder> recorder) {
  runtime::actor_system_settings settings;
  settings.worker_threads = 1;
  settings.recorder = std::move(recorder);
  return settings;
}

} // namespace

struct message_load::parts {
  explicit parts(std::shared_ptr<runtime::trace::recorder> recorder) : system(settings_with(std::move(recorder))) {
    ring.resize(ring_actors);
    for (std::uint64_t i = 0; i < ring_actors; ++i)
      ring[i] = system.spawn<relay<finish_line>>(ring, i, ring_hops, line);
    for (std::uint64_t i = 0; i < pairs; ++i)
      askers.push_back(system.spawn<asker<finish_line>>(system.spawn<server>(), line));
  }
  finish_line line; // the actors use both until the system has ended
  std::vector<runtime::handle<relay_interface>> ring;
  runtime::actor_system system;
  std::vector<runtime::handle<asker_interface>> askers;
};

message_load::message_load(std::shared_ptr<runtime::trace::recorder> recorder)
    : parts_(std::make_unique<parts>(std::move(recorder))) {}
message_load::~message_load() = default;

double message_load::tell() {
  parts_->line.set(1);
  parts_->system.tell(parts_->ring.front(), hop{ring_hops, 0});
  return parts_->line.wait(ring_hops + 1);
}

double message_load::ask() {
  parts_->line.set(pairs);
  for (const auto& one : parts_->askers) parts_->system.tell(one, go{pair_asks});
  return parts_->line.wait(2 * pairs * pair_asks);
}

void answer_slices(message_load& load) {
  std::string wanted;
  while (std::getline(std::cin, wanted) && (wanted == "tell" || wanted == "ask")) {
    std::printf("%.3f\n", wanted == "tell" ? load.tell() : load.ask());
    std::fflush(stdout);
  }
}

} // namespace godwit::bench
