#include "trace/messages.hpp"

#include <godwit/runtime/actor.hpp>
#include <godwit/runtime/actor_system.hpp>

#include <chrono>
#include <future>
#include <utility>
#include <vector>

namespace godwit::bench {

namespace {

using namespace std::chrono_literals;

constexpr std::uint64_t ring_actors = 64;
constexpr std::uint64_t ring_tokens = 16;
constexpr std::uint64_t ring_hops = 60'000;
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

struct finish_line {
  std::uint64_t left = 0; ///< one worker: no two actors run at once
  std::promise<void> over;
  void cross() {
    if (--left == 0) over.set_value();
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
    return {[this](go g) { start(run(g.count)); }};
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

double seconds_since(std::chrono::steady_clock::time_point begin) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

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
  auto begin = std::chrono::steady_clock::now();
  for (std::uint64_t i = 0; i < ring_tokens; ++i) system.tell(ring[i * (ring_actors / ring_tokens)], hop{ring_hops, 0});
  round.over.get_future().wait();
  const auto told = ring_tokens * (ring_hops + 1);
  out.tell_ns = seconds_since(begin) * 1e9 / static_cast<double>(told);

  std::vector<runtime::handle<asker_interface>> askers;
  for (std::uint64_t i = 0; i < pairs; ++i) askers.push_back(system.spawn<asker>(system.spawn<server>(), asked));
  begin = std::chrono::steady_clock::now();
  for (const auto& one : askers) system.tell(one, go{pair_asks});
  asked.over.get_future().wait();
  const auto exchanged = 2 * pairs * pair_asks;
  out.ask_ns = seconds_since(begin) * 1e9 / static_cast<double>(exchanged);
  out.messages = told + exchanged;
  return out;
}

} // namespace godwit::bench
