#include "runtime/actor/test_actors.hpp"

#include <godwit/runtime/sim/world.hpp>

#include <gtest/gtest.h>

#include <sstream>

namespace godwit::runtime::test {
namespace {

struct hop {
  std::uint32_t from = 0;
  std::uint64_t sequence = 0;
  std::uint32_t left = 0;
  hop() = default;
  hop(std::uint32_t f, std::uint64_t s, std::uint32_t l) : from(f), sequence(s), left(l) {}
  auto fields() { return std::tie(from, sequence, left); }
};
struct tick {
  tick() noexcept {}
  auto fields() { return std::tie(); }
};
struct peers;
using walker_interface = interface<void(hop), number(number), void(tick), void(peers)>;
struct peers {
  std::vector<handle<walker_interface>> all;
  peers() = default;
  explicit peers(std::vector<handle<walker_interface>> a) : all(std::move(a)) {}
  auto fields() { return std::tie(all); }
};

struct tally {
  std::uint64_t hops = 0;
  std::uint64_t order_errors = 0;
  std::uint64_t timeouts = 0;
  std::uint64_t downs = 0;
  std::uint64_t budget = 0;
};

/// Sends hops to random peers, asks them with a tight timeout, sleeps, watches one that dies.
class walker final : public actor<walker_interface> {
public:
  walker(actor_context context, std::uint32_t index, async::counter_random random, tally& t)
      : actor(context), index_(index), random_(random), tally_(t) {}
  behavior_of<walker_interface> make_behavior() override {
    return {[this](const hop& h) {
              if (h.sequence <= last_[h.from]) ++tally_.order_errors;
              last_[h.from] = h.sequence;
              if (h.left > 0) send_hop(h.left - 1);
            },
            [this](number n) { return respond(answer(n)); }, [this](tick) { on_tick(); },
            [this](peers& p) {
              peers_ = std::move(p.all);
              tell(self(), tick{});
            }};
  }

private:
  void send_hop(std::uint32_t left) {
    ++tally_.hops;
    const auto to = random_.below(peers_.size());
    tell(peers_[to], hop{index_, ++sent_[to], left});
  }
  async::task<number> answer(number n) {
    if (random_.below(4) == 0) co_await sleep_for(std::chrono::microseconds{random_.below(200)});
    co_return number{n.value + 1};
  }
  async::task<void> chat() {
    const auto to = random_.below(peers_.size());
    auto x = co_await ask(peers_[to], 100us, number{static_cast<std::int64_t>(to)});
    if (!x && x.error().code == async::error_code::timeout) ++tally_.timeouts;
  }
  async::task<void> hedge() {
    const auto a = random_.below(peers_.size());
    const auto b = random_.below(peers_.size());
    (void)co_await async::race(ask(peers_[a], 150us, number{1}), ask(peers_[b], 150us, number{2}), sleep_for(90us));
  }
  void on_tick() {
    if (index_ == 7 && ++ticks_ == 40) return quit(stop_reason::failed);
    if (index_ != 7 && !watching_) {
      watching_ = true;
      monitor(peers_[7], [this](stop_reason) { ++tally_.downs; });
    }
    send_hop(3);
    send_hop(3);
    start(chat());
    start(hedge());
    if (tally_.hops < tally_.budget)
      tell_after(std::chrono::microseconds{random_.below(20)}, self(), tick{});
    else
      quit();
  }
  std::uint32_t index_;
  async::counter_random random_;
  tally& tally_;
  std::vector<handle<walker_interface>> peers_;
  std::map<std::uint32_t, std::uint64_t> last_;
  std::map<std::uint64_t, std::uint64_t> sent_;
  int ticks_ = 0;
  bool watching_ = false;
};

struct run_result {
  std::string lines;
  std::uint64_t hash = 0;
  std::uint64_t events = 0;
  std::chrono::nanoseconds time{};
  tally counts;
};

run_result run(std::uint64_t seed, std::uint64_t budget, bool keep_lines) {
  run_result out;
  out.counts.budget = budget;
  sim::world world{seed};
  std::string lines;
  sim::event_log log{keep_lines ? std::function<void(const sim::event&)>{[&](const sim::event& e) {
    lines += to_string(e);
    lines += '\n';
  }}
                                : nullptr};
  world.log_to(&log);
  {
    sim::system host{world};
    std::vector<handle<walker_interface>> all;
    for (std::uint32_t i = 0; i < 50; ++i)
      all.push_back(host.spawn<walker>(i, async::counter_random{99, i}, out.counts)); // the same draws for every seed
    for (const auto& w : all) host.tell(w, peers{all});
    EXPECT_TRUE(world.run(20'000'000));
    EXPECT_EQ(host.alive(), 0U);
  }
  out.lines = std::move(lines);
  out.hash = log.hash();
  out.events = log.count();
  out.time = world.now();
  return out;
}

TEST(World, TheSameSeedGivesTheSameRunByteForByte) {
  const auto a = run(11, 60'000, true);
  const auto b = run(11, 60'000, true);
  EXPECT_GE(a.events, 100'000U);
  EXPECT_GT(a.counts.timeouts, 100U) << "the run should have timeouts in it";
  EXPECT_GE(a.counts.downs, 40U);
  EXPECT_TRUE(a.lines == b.lines);
  EXPECT_EQ(a.hash, b.hash);
  EXPECT_EQ(a.time, b.time);
}

TEST(World, AnotherSeedGivesAnotherOrder) {
  const auto a = run(1, 2'000, false);
  const auto b = run(2, 2'000, false);
  EXPECT_NE(a.hash, b.hash);
}

TEST(World, MessagesBetweenAPairStayInOrderUnderEverySeed) {
  for (std::uint64_t seed = 0; seed < 20; ++seed) EXPECT_EQ(run(seed, 3'000, false).counts.order_errors, 0U) << seed;
}

// Two messages from different senders to one receiver come in either order.
TEST(World, MessagesOfDifferentSendersComeInEveryOrder) {
  struct sink final : actor<interface<void(number)>> {
    sink(actor_context c, std::string& o) : actor(c), out(o) {}
    behavior_of<interface<void(number)>> make_behavior() override {
      return {[this](number n) { out += std::to_string(n.value); }};
    } std::string& out;
  };
  struct source final : actor<interface<void(poke)>> {
    source(actor_context c, handle<interface<void(number)>> t, std::int64_t n) : actor(c), to(std::move(t)), value(n) {}
    behavior_of<interface<void(poke)>> make_behavior() override {
      tell(to, number{value});
      return {[](poke) {}};
    } handle<interface<void(number)>> to;
    std::int64_t value;
  };
  std::map<std::string, int> seen;
  for (std::uint64_t seed = 0; seed < 60; ++seed) {
    sim::world world{seed};
    sim::system host{world};
    std::string out;
    auto s = host.spawn<sink>(out);
    for (std::int64_t i = 1; i <= 3; ++i) host.spawn<source>(s, i);
    world.run();
    ++seen[out];
  }
  EXPECT_EQ(seen.size(), 6U);
}

TEST(World, RunForLetsExactlySoMuchTimePass) {
  sim::world world{1};
  sim::system host{world};
  world.run_for(5ms);
  EXPECT_EQ(world.now(), 5ms);
  EXPECT_FALSE(world.run_until([] { return false; }));
  EXPECT_EQ(world.now(), 5ms);
}

TEST(World, TimersFireInOrderAndCanBeCancelled) {
  sim::world world{1};
  std::string out;
  auto& timers = world.timers();
  timers.call_after(3ms, [&] { out += 'c'; });
  timers.call_after(1ms, [&] { out += 'a'; });
  const auto gone = timers.call_after(2ms, [&] { out += 'x'; });
  timers.call_after(1ms, [&] {
    out += 'b';
    timers.call_after(0ns, [&] { out += '!'; });
  });
  EXPECT_TRUE(timers.cancel(gone));
  EXPECT_FALSE(timers.cancel(gone));
  EXPECT_TRUE(world.run());
  EXPECT_EQ(out, "ab!c");
  EXPECT_EQ(world.now(), 3ms);
}

TEST(World, RandomStreamsAreIndependentOfEachOther) {
  const sim::world a{4};
  const sim::world b{4};
  EXPECT_EQ(a.random(3).next(), b.random(3).next());
  EXPECT_NE(a.random(3).next(), a.random(4).next());
}

} // namespace
} // namespace godwit::runtime::test
