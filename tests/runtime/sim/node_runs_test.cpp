#include "runtime/sim/node_actors.hpp"

#include <cstdio>

// Whole runs of several nodes: the same seed, the same run; and a crash at any step ends in good order.
namespace godwit::runtime::test {
namespace {

using way = question::way;

struct peer_list;
using chatter_interface = interface<number(question), void(number), void(peer_list), void(poke)>;
struct peer_list {
  std::vector<handle<chatter_interface>> all;
  peer_list() = default;
  explicit peer_list(std::vector<handle<chatter_interface>> a) : all(std::move(a)) {}
  auto fields() { return std::tie(all); }
};

struct node_tally {
  std::uint64_t answers = 0;
  std::uint64_t timeouts = 0;
  std::uint64_t downs = 0;
  std::uint64_t numbers = 0;
};

/// Asks, tells and watches random peers of all nodes for ever, and passes handles on.
class chatter final : public actor<chatter_interface> {
public:
  chatter(actor_context context, std::uint64_t stream, std::chrono::nanoseconds pause, node_tally& t)
      : actor(context), random_(5, stream), pause_(pause), tally_(t) {}
  behavior_of<chatter_interface> make_behavior() override {
    return {[this](question& q) { return respond(answer(std::move(q))); }, [this](number) { ++tally_.numbers; },
            [this](peer_list& p) {
              for (auto& h : p.all) meet(std::move(h));
              if (!talking_ && !peers_.empty()) {
                talking_ = true;
                tell(self(), poke{});
              }
            },
            [this](poke) {
              start(talk());
              const auto more = random_.below(static_cast<std::uint64_t>(2 * pause_.count()));
              tell_after(pause_ + std::chrono::nanoseconds{static_cast<std::int64_t>(more)}, self(), poke{});
            }};
  }

private:
  void meet(handle<chatter_interface> whom) {
    if (!whom || peers_.size() >= 20) return;
    peers_.push_back(whom);
    monitor(whom, [this](stop_reason) { ++tally_.downs; });
  }
  async::task<async::expected<number>> answer(question q) {
    if (q.how == way::coroutine) co_await sleep_for(std::chrono::microseconds{random_.below(500)});
    co_return number{q.value};
  }
  async::task<void> talk() {
    const auto to = peers_[random_.below(peers_.size())];
    tell(to, number{1});
    if (random_.below(4) == 0) {
      peer_list some;
      some.all.push_back(peers_[random_.below(peers_.size())]);
      tell(to, std::move(some));
    }
    const auto x = co_await ask(to, 2ms, question{way::coroutine, 1});
    if (x)
      ++tally_.answers;
    else if (x.error().code == async::error_code::timeout)
      ++tally_.timeouts;
  }
  async::counter_random random_;
  std::chrono::nanoseconds pause_;
  node_tally& tally_;
  std::vector<handle<chatter_interface>> peers_;
  bool talking_ = false;
};

/// Four nodes with three chatters each; node 0 is everybody's door.
class exchange {
public:
  explicit exchange(std::uint64_t seed, sim::event_log* log = nullptr, std::chrono::nanoseconds pause = 200us)
      : world(seed) {
    world.log_to(log);
    for (int n = 0; n < 4; ++n) {
      sim::system_settings settings;
      settings.name = "n" + std::to_string(n);
      nodes.push_back(std::make_unique<sim::system>(world, std::move(settings)));
    }
    std::vector<std::vector<handle<chatter_interface>>> own(4);
    std::uint64_t stream = 0;
    for (std::size_t n = 0; n < 4; ++n)
      for (int i = 0; i < 3; ++i) own[n].push_back(nodes[n]->spawn<chatter>(++stream, pause, counts));
    EXPECT_TRUE(nodes[0]->publish(own[0][0], "n0", 1));
    EXPECT_TRUE(nodes[1]->publish(own[1][0], "n1", 1));
    for (std::size_t n = 0; n < 4; ++n) {
      auto known = own[n];
      if (n != 0) known.push_back(*nodes[n]->remote<chatter_interface>("n0", 1));
      if (n > 1) known.push_back(*nodes[n]->remote<chatter_interface>("n1", 1));
      for (const auto& h : own[n]) nodes[n]->tell(h, peer_list{known});
    }
  }
  void run(std::uint64_t steps) {
    for (std::uint64_t i = 0; i < steps; ++i) ASSERT_TRUE(world.step());
  }

  node_tally counts;
  sim::world world;
  std::vector<std::unique_ptr<sim::system>> nodes;
};

struct node_run_result {
  std::string lines;
  std::uint64_t hash = 0;
  node_tally counts;
};

node_run_result run_with_faults(std::uint64_t seed) {
  node_run_result out;
  sim::event_log log{[&](const sim::event& e) { out.lines += to_string(e) + "\n"; }};
  {
    exchange x{seed, &log};
    x.run(5'000);
    x.world.network().cut("n0", "n2");
    x.nodes[1]->freeze();
    x.run(5'000);
    x.world.network().heal("n0", "n2");
    x.nodes[1]->thaw();
    x.nodes[3]->jump_clock(1s);
    x.run(5'000);
    x.nodes[2]->crash();
    x.world.run_for(100ms);
    x.world.network().delay("n0", "n1", 10ms);
    x.world.run_for(1s);
    out.counts = x.counts;
    x.world.log_to(nullptr);
  }
  out.hash = log.hash();
  return out;
}

TEST(NodeRuns, TheSameSeedGivesTheSameRunAcrossNodesByteForByte) {
  const auto a = run_with_faults(11);
  const auto b = run_with_faults(11);
  EXPECT_GT(a.counts.answers, 1'000U);
  EXPECT_GT(a.counts.timeouts, 100U) << "the run should have timeouts in it";
  EXPECT_GT(a.counts.downs, 0U) << "and broken connections";
  EXPECT_TRUE(a.lines == b.lines);
  EXPECT_EQ(a.hash, b.hash);
  EXPECT_NE(a.hash, run_with_faults(12).hash);
  // the log says who was where, and what went wrong
  EXPECT_NE(a.lines.find(" cut n0>n2 "), std::string::npos);
  EXPECT_NE(a.lines.find(" 2.0>2.0 crashed"), std::string::npos);
  EXPECT_NE(a.lines.find(" 3.0>0.0 connected"), std::string::npos) << a.lines.substr(0, 2000);
}

TEST(NodeRuns, ACrashAtEveryStepOfABusyExchangeEndsClean) {
  for (std::uint64_t step = 0; step < 120; ++step) {
    exchange x{7, nullptr, 2ms};
    x.run(30 + 3 * step);
    const auto victim = step % 4;
    x.nodes[victim]->crash(step % 3 == 0 ? sim::crash_kind::silent : sim::crash_kind::reset);
    const auto before = x.counts.answers;
    x.world.run_for(20ms);
    EXPECT_GT(x.counts.answers, before) << "the others go on, " << step;
    if (step % 2 == 0) x.nodes[victim].reset(); // in the middle, or at the end
    if (step % 5 == 0) x.nodes[(victim + 1) % 4]->freeze();
    x.world.run_for(700ms);
    for (const auto& n : x.nodes)
      EXPECT_TRUE(!n || n->state() != sim::system::state_type::running || n->shutdown()) << step;
  }
}

// A crash from within a step of the node itself.
TEST(NodeRuns, ANodeMayCrashWhileOneOfItsActorsRuns) {
  struct bomb final : actor<interface<void(poke)>> {
    bomb(actor_context c, sim::system& s, int& r) : actor(c), own(s), runs(r) {}
    behavior_of<interface<void(poke)>> make_behavior() override {
      return {[this](poke) {
        ++runs;
        own.crash();
        tell(self(), poke{});
      }};
    } sim::system& own;
    int& runs;
  };
  int runs = 0;
  sim::world world{1};
  sim::system node{world};
  const auto b = node.spawn<bomb>(node, runs);
  node.tell(b, poke{});
  node.tell(b, poke{});
  EXPECT_TRUE(world.run());
  EXPECT_EQ(runs, 1);
}

TEST(NodeRuns, TheCostOfAMessageBetweenNodesIsMeasured) {
  // A sink that counts, told by actors of its own node or of another.
  struct count final : actor<interface<void(number)>> {
    count(actor_context c, std::uint64_t& s) : actor(c), sum(s) {}
    behavior_of<interface<void(number)>> make_behavior() override {
      return {[this](number) { ++sum; }};
    } std::uint64_t& sum;
  };
  constexpr std::uint64_t messages = 200'000;
  for (const bool across : {false, true}) {
    sim::world world{1};
    sim::system a{world};
    sim::system b{world};
    std::uint64_t sum = 0;
    auto sink = a.spawn<count>(sum);
    (void)a.publish(sink, a.name(), 1);
    auto& from = across ? b : a;
    const auto to = *from.remote<interface<void(number)>>(a.name(), 1);
    const auto begin = std::chrono::steady_clock::now();
    for (std::uint64_t i = 0; i < messages; i += 100) {
      for (int k = 0; k < 100; ++k) from.tell(to, number{k});
      world.run_until([&] { return sum == i + 100; });
    }
    const auto time = std::chrono::steady_clock::now() - begin;
    EXPECT_EQ(sum, messages);
    std::printf("%s: %.0f ns per message\n", across ? "another node" : "own node",
                std::chrono::duration<double, std::nano>(time).count() / static_cast<double>(messages));
  }
}

} // namespace
} // namespace godwit::runtime::test
