#include <godwit/runtime/trace/file.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <map>
#include <random>

namespace godwit::runtime::trace {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr std::int64_t us = 1'000;
constexpr std::int64_t ms = 1'000'000;
constexpr std::int64_t second = 1'000'000'000;

/// Processes that send each other messages, each with a clock of its own and a recording of its own, in which the
/// others are known by their keys.
class cluster {
public:
  struct clock {
    std::int64_t zero = 0; ///< true time at its 0
    double rate = 1;
    bool wall = true; ///< whether its wall clock is known, and right
  };
  explicit cluster(std::vector<clock> clocks, std::uint64_t seed = 1)
      : random_(seed), clocks_(std::move(clocks)), parts_(clocks_.size()), next_(clocks_.size(), 1) {
    for (std::size_t p = 0; p < parts_.size(); ++p) {
      parts_[p].names.resize(1); // and each part numbers names in its own way
      for (std::size_t i = 0; i <= p; ++i) parts_[p].names.push_back("spare " + std::to_string(p) + std::to_string(i));
      parts_[p].names.push_back("ping");
      index(p, p);
      parts_[p].processes[0].name = "node " + std::to_string(p);
      if (clocks_[p].wall) parts_[p].processes[0].started_unix_ns = wall + clocks_[p].zero;
    }
  }

  void send(std::size_t from, std::size_t to, std::int64_t at, std::int64_t latency) {
    event sent;
    sent.kind = event_kind::sent;
    sent.id = {0, next_[from]++};
    sent.name = static_cast<std::uint32_t>(2 + from);
    sent.sender = {0, 7};
    sent.receiver = {index(from, to), 8};
    sent.queued_ns = sent.begin_ns = sent.end_ns = local(from, at);
    parts_[from].events.push_back(sent);
    event got;
    got.id = {0, next_[to]++};
    got.cause = {index(to, from), sent.id.number};
    got.name = static_cast<std::uint32_t>(2 + to);
    got.sender = {index(to, from), 7};
    got.receiver = {0, 8};
    got.queued_ns = local(to, at + latency);
    got.begin_ns = got.queued_ns + 10 * us;
    got.end_ns = got.begin_ns + 20 * us;
    parts_[to].events.push_back(got);
  }

  /// Every few ms one message each way between the two, of 50 to 250 us.
  void talk(std::size_t a, std::size_t b, std::int64_t length) {
    for (std::int64_t t = ms; t < length; t += 3 * ms) {
      send(a, b, t, 50 * us + draw(200 * us));
      send(b, a, t + draw(ms), 50 * us + draw(200 * us));
    }
  }
  std::int64_t draw(std::int64_t bound) {
    return static_cast<std::int64_t>(random_() % static_cast<std::uint64_t>(bound));
  }
  [[nodiscard]] std::vector<recording> parts() const { return parts_; }
  /// What should be added to p's times for those of the first process.
  [[nodiscard]] std::int64_t offset(std::size_t p) const { return clocks_[p].zero - clocks_[0].zero; }

private:
  static constexpr std::int64_t wall = 1'700'000'000 * second;
  std::uint32_t index(std::size_t part, std::size_t of) {
    auto& processes = parts_[part].processes;
    const auto key = 100 + of;
    const auto found = std::find_if(processes.begin(), processes.end(), [&](const auto& p) { return p.key == key; });
    if (found == processes.end()) {
      processes.emplace_back().key = key;
      return static_cast<std::uint32_t>(processes.size() - 1);
    }
    return static_cast<std::uint32_t>(found - processes.begin());
  }
  [[nodiscard]] std::int64_t local(std::size_t p, std::int64_t at) const {
    return static_cast<std::int64_t>(static_cast<double>(at - clocks_[p].zero) * clocks_[p].rate);
  }
  std::mt19937_64 random_;
  std::vector<clock> clocks_;
  std::vector<recording> parts_;
  std::vector<std::uint64_t> next_;
};

/// Messages between processes, and how many of them arrived before they were sent. Also checks that events are in
/// order.
struct judged {
  std::size_t messages = 0;
  std::size_t too_early = 0;
  std::int64_t mean_ns = 0; ///< of the time that they took
  std::int64_t most_ns = 0;
};
judged judge(const recording& of) {
  judged result;
  std::map<event_id, const event*> sent;
  for (const auto& e : of.events)
    if (e.kind == event_kind::sent) sent[e.id] = &e;
  std::int64_t sum = 0;
  for (std::size_t i = 0; i < of.events.size(); ++i) {
    const auto& e = of.events[i];
    if (i != 0) {
      EXPECT_LE(of.at(of.events[i - 1]), of.at(e));
    }
    EXPECT_LE(e.queued_ns, e.begin_ns);
    EXPECT_LE(e.begin_ns, e.end_ns);
    if (e.kind != event_kind::delivery) continue;
    const auto by = sent.find(e.cause);
    if (by == sent.end()) continue;
    ++result.messages;
    EXPECT_EQ(e.sender, by->second->sender);
    EXPECT_EQ(e.receiver, by->second->receiver);
    const auto taken = e.queued_ns + of.processes[e.id.process].offset_ns - of.at(*by->second);
    sum += taken;
    result.most_ns = std::max(result.most_ns, taken);
    if (taken < 0) ++result.too_early;
  }
  if (result.messages != 0) result.mean_ns = sum / static_cast<std::int64_t>(result.messages);
  return result;
}

TEST(Merge, BringsClocksSecondsApartTogetherByMessagesInBothDirections) {
  // the wall clock of one is wrong by minutes, which messages in both directions tell
  cluster two({{0, 1, true}, {-400 * second, 1, false}});
  two.talk(0, 1, 2 * second);
  const auto merged = merge(two.parts());
  ASSERT_EQ(merged.processes.size(), 2U);
  EXPECT_EQ(merged.processes[0].name, "node 0");
  EXPECT_EQ(merged.processes[1].name, "node 1");
  EXPECT_THAT(merged.remarks, IsEmpty());
  EXPECT_NEAR(static_cast<double>(merged.processes[1].offset_ns), static_cast<double>(two.offset(1)), 10.0 * us);
  const auto result = judge(merged);
  EXPECT_EQ(result.messages, 2 * 667U);
  EXPECT_EQ(result.too_early, 0U);
  EXPECT_NEAR(static_cast<double>(result.mean_ns), 150.0 * us, 10.0 * us);
  for (const auto& e : merged.events) ASSERT_EQ(merged.name_of(e), "ping");
}

TEST(Merge, IsTheSameWhateverTheOrderOfParts) {
  cluster three({{0, 1, true}, {5 * second, 1, true}, {-9 * second, 1, true}});
  three.talk(0, 1, second);
  three.talk(1, 2, second);
  auto parts = three.parts();
  const auto merged = merge(parts);
  std::reverse(parts.begin(), parts.end());
  const auto reversed = merge(parts);
  EXPECT_EQ(judge(merged).too_early, 0U);
  EXPECT_EQ(judge(reversed).too_early, 0U);
  EXPECT_EQ(judge(reversed).messages, judge(merged).messages);
  EXPECT_EQ(reversed.processes[2].key, merged.processes[0].key);
}

TEST(Merge, FollowsAChainOfProcesses) {
  std::vector<cluster::clock> clocks;
  for (std::int64_t i = 0; i < 6; ++i) clocks.push_back({i * 7 * second * (i % 2 == 0 ? 1 : -1), 1, false});
  cluster chain(clocks);
  for (std::size_t i = 0; i + 1 < clocks.size(); ++i) chain.talk(i, i + 1, second);
  const auto merged = merge(chain.parts());
  EXPECT_THAT(merged.remarks, IsEmpty());
  EXPECT_EQ(judge(merged).too_early, 0U);
  for (std::size_t i = 0; i < clocks.size(); ++i) {
    EXPECT_NEAR(static_cast<double>(merged.processes[i].offset_ns), static_cast<double>(chain.offset(i)), 100.0 * us);
  }
}

class DriftingClocks : public ::testing::TestWithParam<double> {};

TEST_P(DriftingClocks, StillMergeInCausalOrder) {
  cluster three({{0, 1, true}, {3 * second, 1 + GetParam(), true}, {-2 * second, 1 - 2 * GetParam(), true}});
  three.talk(0, 1, 10 * second);
  three.talk(1, 2, 10 * second);
  three.talk(2, 0, 10 * second);
  const auto merged = merge(three.parts());
  const auto result = judge(merged);
  EXPECT_EQ(result.messages, 3 * 2 * 3333U);
  EXPECT_EQ(result.too_early, 0U);
  EXPECT_NEAR(static_cast<double>(result.mean_ns), 150.0 * us, 30.0 * us) << "what was made right by more than needed";
  const auto in_a_stretch = static_cast<std::int64_t>(300e6 * std::abs(GetParam()));
  EXPECT_LE(result.most_ns, 350 * us + in_a_stretch) << "none took longer than 250 us";
  EXPECT_THAT(merged.remarks, Contains(HasSubstr("node 1 drifts against others, by ")));
}
INSTANTIATE_TEST_SUITE_P(PartsOfAMillion, DriftingClocks, ::testing::Values(50e-6, 200e-6, -200e-6, 2e-3));

TEST(Merge, MovesTimesOnWhereAClockWasSlowForAWhile) {
  cluster two({{0, 1, true}, {3 * second, 1, true}});
  two.talk(0, 1, 60 * ms); // too few messages for stretches
  auto parts = two.parts();
  constexpr auto slow = 30 * ms - 3 * second;
  std::int64_t length = 0;
  for (auto& e : parts[1].events) {
    for (auto* t : {&e.queued_ns, &e.begin_ns, &e.end_ns}) *t -= std::clamp<std::int64_t>((*t - slow) / 2, 0, 5 * ms);
    length += e.end_ns - e.begin_ns;
  }
  const auto merged = merge(parts);
  const auto result = judge(merged);
  EXPECT_EQ(result.messages, 40U);
  EXPECT_EQ(result.too_early, 0U);
  EXPECT_THAT(merged.remarks, Contains(HasSubstr("arrived before they were sent")));
  for (const auto& e : merged.events)
    if (e.id.process == 1) length -= e.end_ns - e.begin_ns;
  EXPECT_NEAR(static_cast<double>(length), 0.0, 20.0 * us) << "what handling takes stays as it is, nearly";
}

TEST(Merge, BelievesWallClocksWhereNobodySpokeAndSaysSo) {
  cluster two({{0, 1, true}, {-33 * second, 1, true}});
  two.send(0, 0, second, 0); // each with itself only
  two.send(1, 1, second, 0);
  const auto merged = merge(two.parts());
  EXPECT_EQ(merged.processes[1].offset_ns, two.offset(1));
  EXPECT_THAT(merged.remarks, Contains(HasSubstr("the clock of process node 1 is a guess: no messages with others; its "
                                                 "wall clock was believed")));
}

TEST(Merge, BelievesWallClocksAsFarAsMessagesOfOneDirectionAllow) {
  cluster right({{0, 1, true}, {-33 * second, 1, true}});
  for (int i = 0; i < 100; ++i) right.send(0, 1, i * ms, 100 * us + right.draw(ms));
  auto merged = merge(right.parts());
  EXPECT_EQ(merged.processes[1].offset_ns, right.offset(1));
  EXPECT_THAT(merged.remarks, Contains(HasSubstr("one way only")));
  EXPECT_EQ(judge(merged).too_early, 0U);

  auto parts = right.parts();
  parts[1].processes[0].started_unix_ns -= 5 * second; // all would arrive seconds before they were sent
  merged = merge(parts);
  EXPECT_EQ(judge(merged).too_early, 0U);
  EXPECT_NEAR(static_cast<double>(merged.processes[1].offset_ns), static_cast<double>(right.offset(1)), 1.2 * ms);

  parts[1].processes[0].started_unix_ns = 0; // nobody knows: as if the fastest had taken no time
  merged = merge(parts);
  EXPECT_EQ(judge(merged).too_early, 0U);
  EXPECT_NEAR(static_cast<double>(merged.processes[1].offset_ns), static_cast<double>(right.offset(1)), 1.2 * ms);
}

TEST(Merge, KeepsWhatIsInTwoPartsOnce) {
  cluster two({{0, 1, true}, {5 * second, 1, true}});
  two.talk(0, 1, second);
  auto parts = two.parts();
  const auto events = parts[0].events.size() + parts[1].events.size();
  parts.push_back(parts[0]);
  parts.push_back(parts[1]);
  parts[2].events.resize(10); // a dump made earlier
  const auto merged = merge(parts);
  EXPECT_EQ(merged.processes.size(), 2U);
  EXPECT_EQ(merged.events.size(), events);
  EXPECT_EQ(judge(merged).too_early, 0U);
}

// Times that are counted in ticks come out some ns apart in two dumps, since the rate is known better with each.
TEST(Merge, KnowsAMessageAgainWhoseTimesWereReadAnew) {
  cluster two({{0, 1, true}, {5 * second, 1, true}});
  two.talk(0, 1, second);
  auto parts = two.parts();
  const auto events = parts[0].events.size() + parts[1].events.size();
  for (const auto which : {0, 1}) {
    auto again = parts[static_cast<std::size_t>(which)];
    for (auto& e : again.events)
      for (auto* t : {&e.queued_ns, &e.begin_ns, &e.end_ns}) *t += 4;
    parts.push_back(std::move(again));
  }
  const auto merged = merge(parts);
  EXPECT_EQ(merged.events.size(), events);
  EXPECT_THAT(merged.remarks, IsEmpty());
}

TEST(Merge, MergesWhatWasMerged) {
  cluster three({{0, 1, true}, {5 * second, 1, true}, {-9 * second, 1, true}});
  three.talk(0, 1, second);
  three.talk(1, 2, second);
  const auto parts = three.parts();
  const auto once = merge(parts);
  auto pair = merge({parts[0], parts[1]});
  const auto twice = merge({pair, parts[2], parts[1]}); // parts[1] has a clock of its own again
  EXPECT_EQ(twice.events.size(), once.events.size());
  const auto result = judge(twice);
  EXPECT_EQ(result.too_early, 0U);
  EXPECT_EQ(result.messages, judge(once).messages);
  EXPECT_THAT(twice.remarks, IsEmpty());
}

TEST(Merge, LeavesTheClocksOfASimulationAlone) {
  cluster simulated({{0, 1, false}, {0, 1, false}});
  simulated.talk(0, 1, second);
  const auto parts = simulated.parts();
  auto whole = merge(parts);
  for (auto& p : whole.processes) p.offset_ns = 0; // one file, one clock
  const auto again = merge({whole});
  EXPECT_EQ(again.processes, whole.processes);
  EXPECT_EQ(again.events, whole.events);
  EXPECT_THAT(again.remarks, IsEmpty());
}

TEST(Merge, SaysSoWhereNoClockCanBeRight) {
  cluster two({{0, 1, true}, {0, 1, true}});
  two.send(0, 1, 5 * ms, 0);
  two.send(1, 0, 5 * ms, 0);
  auto parts = two.parts();
  for (auto& part : parts)
    for (auto& e : part.events) // every process gets its message before it sends its own
      for (auto* t : {&e.queued_ns, &e.begin_ns, &e.end_ns}) *t += e.kind == event_kind::sent ? ms : 0;
  const auto merged = merge(parts);
  EXPECT_EQ(merged.events.size(), 4U);
  EXPECT_THAT(merged.remarks, Contains(HasSubstr("cannot have arrived when they did")));
}

// All simulations have one key: their events would be one another's.
TEST(Merge, SaysSoWhereTwoRunsHaveOneKey) {
  cluster run({{0, 1, false}, {0, 1, false}});
  run.talk(0, 1, second);
  auto one = merge(run.parts());
  EXPECT_THAT(merge({one, one}).remarks, IsEmpty()) << "the same run twice is one";
  auto other = one;
  for (auto& e : other.events) e.message = message_kind::answer;
  EXPECT_THAT(merge({one, other}).remarks, Contains(HasSubstr("recordings of different runs")));
}

TEST(Merge, OfNothingIsNothing) {
  const auto merged = merge({});
  EXPECT_TRUE(merged.events.empty());
  EXPECT_EQ(merged.names, std::vector<std::string>{""});
}

} // namespace
} // namespace godwit::runtime::trace
