#include "sim/timetable.hpp"
#include "sim/world_state.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace godwit::runtime::test {
namespace {

using namespace std::chrono_literals;
using std::chrono::nanoseconds;
using visits = std::vector<std::pair<std::uint32_t, nanoseconds>>; ///< by the node's number

/// Nodes without actors, in a timetable and in a list of which all are asked.
struct both {
  sim::detail::world_timers time;
  sim::detail::timetable table;
  std::vector<std::unique_ptr<sim::detail::node>> nodes;
  std::vector<sim::detail::node*> list;
  async::counter_random random{5};

  sim::detail::node& any() { return *nodes[random.below(nodes.size())]; }
  bool has(sim::detail::node& n) const { return std::find(list.begin(), list.end(), &n) != list.end(); }
  void add(sim::detail::node& n) {
    list.push_back(&n);
    table.add(n);
  }
  void remove(sim::detail::node& n) {
    std::erase(list, &n);
    table.remove(n);
  }
  void make() {
    const auto number = static_cast<std::uint32_t>(nodes.size());
    nodes.push_back(std::make_unique<sim::detail::node>(time, table, number, "", number, caf::node_id{}));
    add(*nodes.back());
  }

  [[nodiscard]] visits asked(nanoseconds earliest) const {
    visits out;
    for (auto* n : list) {
      if (n->timers.empty() || n->timers.earliest() > earliest) continue;
      earliest = std::max(n->timers.earliest(), time.now());
      out.emplace_back(n->number, earliest);
    }
    return out;
  }
  [[nodiscard]] visits visited(nanoseconds earliest) {
    visits out;
    table.each_due(earliest, [&](sim::detail::node& n) {
      out.emplace_back(n.number, std::max(n.timers.earliest(), time.now()));
      return out.back().second;
    });
    return out;
  }
};

} // namespace

TEST(Timetable, ShowsThoseThatMatterAsIfAllHadBeenAsked) {
  both b;
  std::vector<std::pair<sim::detail::node*, timer_source::timer_id>> set;
  for (int i = 0; i < 20'000; ++i) {
    if (b.nodes.empty() || (b.nodes.size() < 70 && b.random.below(50) == 0)) b.make();
    auto& n = b.any();
    switch (b.random.below(12)) {
    case 0:
      b.has(n) ? b.remove(n) : b.add(n); // as when it is frozen; behind the others when it is thawed
      break;
    case 1:
      n.timers.jump(nanoseconds(b.random.below(3)));
      break;
    case 2:
      b.time.advance(b.time.now() + 2ns); // some are overdue
      break;
    case 3:
    case 4:
      if (set.empty()) break;
      std::swap(set[b.random.below(set.size())], set.back());
      set.back().first->timers.cancel(set.back().second);
      set.pop_back();
      break;
    case 5:
    case 6:
    case 7:
      if (!n.timers.empty()) n.timers.fire_one();
      break;
    default: // few times, so many are equal
      set.emplace_back(&n, n.timers.call_after(nanoseconds(b.random.below(8)), [] {}));
    }
    const auto earliest = b.random.below(2) == 0 ? nanoseconds::max() : b.time.now() + nanoseconds(b.random.below(8));
    ASSERT_EQ(b.visited(earliest), b.asked(earliest)) << "after " << i;
  }
  EXPECT_EQ(b.nodes.size(), 70U);
}

TEST(Timetable, HasNobodyToShowWhereNothingIsDue) {
  both b;
  EXPECT_TRUE(b.visited(nanoseconds::max()).empty()) << "nobody is there";
  for (int i = 0; i < 3; ++i) b.make();
  EXPECT_TRUE(b.visited(nanoseconds::max()).empty()) << "nobody has a timer";
  b.nodes[1]->timers.call_after(5ns, [] {});
  EXPECT_TRUE(b.visited(4ns).empty());
  EXPECT_EQ(b.visited(5ns), (visits{{1, 5ns}}));
  b.remove(*b.nodes[1]);
  EXPECT_TRUE(b.visited(nanoseconds::max()).empty());
}

} // namespace godwit::runtime::test
