#include "trace/messages.hpp"

#include "support/ring.hpp"

#include <godwit/runtime/actor_system.hpp>

#include <future>
#include <utility>
#include <vector>

#include <time.h>

namespace godwit::bench {

namespace {

constexpr std::uint64_t ring_actors = 64;
constexpr std::uint64_t ring_tokens = 1; // several would run in lockstep or bunch up, by chance, which is another cost
constexpr std::uint64_t ring_hops = 600'000;
constexpr std::uint64_t pairs = 16;
constexpr std::uint64_t pair_asks = 12'000;

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
  std::promise<void> over;
  void begin() {
    if (began < 0) began = thread_seconds();
  }
  void cross() {
    if (--left != 0) return;
    took = thread_seconds() - began;
    over.set_value();
  }
};

} // namespace

message_costs measure_messages(std::shared_ptr<runtime::trace::recorder> recorder) {
  message_costs out;
  std::vector<runtime::handle<relay_interface>> ring(ring_actors);
  finish_line round, asked;
  round.left = ring_tokens;
  asked.left = pairs;
  runtime::actor_system_settings settings;
  settings.worker_threads = 1;
  settings.recorder = std::move(recorder);
  runtime::actor_system system(settings);
  for (std::uint64_t i = 0; i < ring_actors; ++i) ring[i] = system.spawn<relay<finish_line>>(ring, i, ring_hops, round);
  for (std::uint64_t i = 0; i < ring_tokens; ++i) system.tell(ring[i * (ring_actors / ring_tokens)], hop{ring_hops, 0});
  round.over.get_future().wait();
  const auto told = ring_tokens * (ring_hops + 1);
  out.tell_ns = round.took * 1e9 / static_cast<double>(told);

  std::vector<runtime::handle<asker_interface>> askers;
  for (std::uint64_t i = 0; i < pairs; ++i)
    askers.push_back(system.spawn<asker<finish_line>>(system.spawn<server>(), asked));
  for (const auto& one : askers) system.tell(one, go{pair_asks});
  asked.over.get_future().wait();
  const auto exchanged = 2 * pairs * pair_asks;
  out.ask_ns = asked.took * 1e9 / static_cast<double>(exchanged);
  out.messages = told + exchanged;
  return out;
}

} // namespace godwit::bench
