#include "trace/messages.hpp"

#include <godwit/runtime/actor.hpp>
#include <godwit/runtime/actor_system.hpp>

#include <chrono>
#include <future>
#include <utility>
#include <vector>

#include <time.h>

namespace godwit::bench {

namespace {

using namespace std::chrono_literals;

constexpr std::uint64_t ring_actors = 64;
constexpr std::uint64_t ring_tokens = 1; // several would run in lockstep or bunch up, by chance, which is another cost
constexpr std::uint64_t ring_hops = 600'000;
constexpr std::uint64_t pairs = 16;
constexpr std::uint64_t pair_asks = 12'000;

struct hop {
  std::uint64_t left = 0;
  std::uint64_t sum = 0;
  hop() = default;
  hop(std::uint64_t n, std::uint64_t s) : left(n), sum(s) {}
  auto fields() { return std::tie(left, sum); }
};
struct reply {
  std::uint64_t sum = 0;
  reply() = default;
  explicit reply(std::uint64_t s) : sum(s) {}
  auto fields() { return std::tie(sum); }
};
struct go {
  std::uint64_t count = 0;
  go() = default;
  explicit go(std::uint64_t n) : count(n) {}
  auto fields() { return std::tie(count); }
};

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

using relay_interface = runtime::interface<void(hop)>;

class relay final : public runtime::actor<relay_interface> {
public:
  relay(runtime::actor_context context, std::vector<runtime::handle<relay_interface>>& ring, std::uint64_t index,
        finish_line& line)
      : actor(context), ring_(ring), next_((index + 1) % ring_actors), line_(line) {}
  runtime::behavior_of<relay_interface> make_behavior() override {
    return {[this](hop& h) {
      if (h.left == ring_hops) line_.begin();
      if (h.left == 0) return line_.cross();
      tell(ring_[next_], hop{h.left - 1, h.sum + next_});
    }};
  }

private:
  std::vector<runtime::handle<relay_interface>>& ring_;
  std::uint64_t next_;
  finish_line& line_;
};

using server_interface = runtime::interface<reply(hop)>;

class server final : public runtime::actor<server_interface> {
public:
  using actor::actor;
  runtime::behavior_of<server_interface> make_behavior() override {
    return {[](hop& h) { return reply{h.sum + h.left}; }};
  }
};

using asker_interface = runtime::interface<void(go)>;

class asker final : public runtime::actor<asker_interface> {
public:
  asker(runtime::actor_context context, runtime::handle<server_interface> to, finish_line& line)
      : actor(context), to_(std::move(to)), line_(line) {}
  runtime::behavior_of<asker_interface> make_behavior() override {
    return {[this](go g) {
      line_.begin();
      start(run(g.count));
    }};
  }

private:
  runtime::async::task<void> run(std::uint64_t count) {
    std::uint64_t sum = 0;
    for (std::uint64_t i = 0; i < count; ++i) {
      const auto got = co_await ask(to_, 60s, hop{i, sum});
      if (got) sum = got->sum;
    }
    line_.cross();
  }
  runtime::handle<server_interface> to_;
  finish_line& line_;
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
  for (std::uint64_t i = 0; i < ring_actors; ++i) ring[i] = system.spawn<relay>(ring, i, round);
  for (std::uint64_t i = 0; i < ring_tokens; ++i) system.tell(ring[i * (ring_actors / ring_tokens)], hop{ring_hops, 0});
  round.over.get_future().wait();
  const auto told = ring_tokens * (ring_hops + 1);
  out.tell_ns = round.took * 1e9 / static_cast<double>(told);

  std::vector<runtime::handle<asker_interface>> askers;
  for (std::uint64_t i = 0; i < pairs; ++i) askers.push_back(system.spawn<asker>(system.spawn<server>(), asked));
  for (const auto& one : askers) system.tell(one, go{pair_asks});
  asked.over.get_future().wait();
  const auto exchanged = 2 * pairs * pair_asks;
  out.ask_ns = asked.took * 1e9 / static_cast<double>(exchanged);
  out.messages = told + exchanged;
  return out;
}

} // namespace godwit::bench
