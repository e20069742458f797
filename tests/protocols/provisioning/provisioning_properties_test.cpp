// What holds of provisioning whatever happens in whatever order: members that obey late, instances that never load,
// a provisioner that brings processes late, under other names, twice or never, operators and deaths in between.
#include "protocols/second.hpp"

#include <godwit/protocols/provisioning/provisioning.hpp>
#include <godwit/protocols/workload/random.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <deque>
#include <map>
#include <set>
#include <string>
#include <vector>

namespace godwit::protocols {
namespace {

using workload::counter_random;
using place = provisioning::place;
using wish = scaling_decision::kind;
using testing_support::second_ns;

/// A member and its instances, with what is on its way in both directions.
struct member_model {
  struct instance {
    enum class state { stopped, loading, ready, draining } now = state::stopped;
    std::uint64_t order = 0, generation = 0;
    bool broken = false; ///< never loads
  };
  std::uint64_t key = 0;
  std::string name;
  place where = place::elsewhere;
  std::uint32_t first = 0;
  std::vector<instance> instances;
  std::deque<provisioning::drain_instance> to_member; ///< a start is a drain taken back
  std::deque<std::vector<provisioning::instance_news>> to_head;
  // As the head has heard last:
  std::vector<provisioning::instance_news> heard;
  std::vector<std::uint64_t> numbers; ///< of the last order about each
  std::vector<bool> by_hand;
  bool given_back = false;
  bool leaves = false; ///< and has told the head

  void tell() {
    std::vector<provisioning::instance_news> news;
    for (const auto& i : instances) {
      using state = instance::state;
      news.push_back({i.generation, i.now == state::ready || i.now == state::draining, i.now == state::draining,
                      i.now == state::stopped, i.order});
    }
    to_head.push_back(std::move(news));
  }
  void obey(const provisioning::drain_instance& order) {
    using state = instance::state;
    auto& i = instances[order.instance.value() - first];
    i.order = order.number;
    if (order.drains && i.now == state::ready) i.now = state::draining;
    if (order.drains && i.now == state::loading) i.now = state::stopped;
    if (!order.drains && i.now == state::draining) i.now = state::ready;
    if (!order.drains && i.now == state::stopped) {
      i.now = state::loading;
      ++i.generation;
    }
    tell();
  }
  /// Something happens to one of its instances by itself.
  void go_on(std::size_t which) {
    using state = instance::state;
    auto& i = instances[which];
    if (i.now == state::loading && !i.broken)
      i.now = state::ready;
    else if (i.now == state::draining)
      i.now = state::stopped;
    else
      return;
    tell();
  }
};

class provisioning_world {
public:
  provisioning_world(std::uint64_t seed, bool provider, bool here) : random(seed) {
    settings.timeout_ns = 10 * second_ns;
    settings.provider = provider;
    settings.here = here;
    settings.orders_max = 3;
    books.emplace(settings);
    join("head", place::own, 3, 2);
    if (provider) join("member", place::elsewhere, 2, 2);
  }

  void act() {
    now += static_cast<std::int64_t>(random.below(2) * random.below(second_ns));
    switch (random.below(12)) {
    case 0:
      scale(wish::out, {});
      break;
    case 1:
      scale(random.below(4) != 0 ? wish::in : wish::keep, any_instance());
      break;
    case 2:
      if (random.below(8) == 0)
        announce_end(any_instance());
      else
        by_hand(any_instance(), random.below(2) != 0);
      break;
    case 3:
      now += static_cast<std::int64_t>(random.below(8)) * second_ns;
      feed(provisioning::time_passed{});
      break;
    case 4:
      provide();
      break;
    case 5:
      if (random.below(6) == 0 && members.size() > 1)
        leave(std::next(members.begin(), some(members.size() - 1) + 1)->first);
      else if (random.below(4) == 0 && !gone.empty())
        join_again();
      break;
    default:
      if (!members.empty()) move(std::next(members.begin(), some(members.size()))->second);
    }
    check();
  }

  /// Nobody wants anything any more, nothing more is brought, and all that is on its way arrives.
  void settle() {
    awaited.clear();
    for (int round = 0; round < 40; ++round) {
      for (auto& [key, m] : members) {
        while (!m.to_member.empty()) take_order(m);
        for (std::size_t i = 0; i < m.instances.size(); ++i) m.go_on(i);
      }
      for (auto key : keys())
        while (members.contains(key) && !members.at(key).to_head.empty()) take_news(members.at(key));
      now += second_ns;
      feed(provisioning::time_passed{});
      check();
    }
    EXPECT_EQ(books->orders(), 0U) << "every order ends";
    EXPECT_EQ(books->ordered(), 0U);
    EXPECT_FALSE(books->next_deadline());
    for (const auto& [key, m] : members)
      for (std::size_t i = 0; i < m.instances.size(); ++i) {
        using state = member_model::instance::state;
        const auto id = instance_id{m.first + static_cast<std::uint32_t>(i)};
        EXPECT_NE(m.instances[i].now, state::draining);
        EXPECT_FALSE(books->draining(id)) << "every drain ends";
        EXPECT_EQ(m.instances[i].order, m.numbers[i]) << "its member has heard all";
        if (!cancelled.contains(m.name) || wanted_again.contains(key)) continue;
        EXPECT_EQ(m.instances[i].now, state::stopped) << m.name << " is not wanted any more";
        const bool kept = std::ranges::any_of(m.by_hand, [](bool b) { return b; });
        EXPECT_TRUE(m.given_back || kept) << "given back, unless an operator has stopped something there";
      }
  }

  std::uint64_t late = 0, reordered = 0, returned = 0;
  std::uint64_t given_back = 0, given_up = 0;
  std::optional<provisioning> books;

private:
  std::size_t some(std::size_t count) { return static_cast<std::size_t>(random.below(count)); }
  std::vector<std::uint64_t> keys() const {
    std::vector<std::uint64_t> out;
    for (const auto& [key, m] : members) out.push_back(key);
    return out;
  }
  instance_id any_instance() { return instance_id{static_cast<std::uint32_t>(random.below(next_instance + 1))}; }
  member_model* keeper_of(instance_id id) {
    for (auto& [key, m] : members)
      if (id.value() >= m.first && id.value() - m.first < m.instances.size()) return &m;
    return nullptr;
  }

  // --- what happens

  void join(const std::string& name, place where, std::uint32_t count, std::uint32_t running, std::uint64_t key = 0,
            std::optional<std::uint32_t> first = {}) {
    member_model m;
    m.key = where == place::own ? 0 : key != 0 ? key : ++next_key;
    m.name = name;
    m.where = where;
    m.first = first.value_or(next_instance);
    m.instances.resize(count);
    m.heard.resize(count);
    m.numbers.resize(count);
    m.by_hand.resize(count);
    if (!first) next_instance += count;
    for (std::uint32_t i = 0; i < count; ++i) {
      m.instances[i].broken = random.below(4) == 0;
      if (i < running) m.instances[i].now = member_model::instance::state::loading;
    }
    late += cancelled.contains(name) ? 1 : 0;
    if (names.contains(name) && !cancelled.contains(name)) came_for.try_emplace(name, m.key); // the first one
    m.tell();
    const auto joined = provisioning::process_joined{m.key, m.name, m.where, instance_id{m.first}, count};
    members[m.key] = std::move(m);
    feed(joined);
  }
  void leave(std::uint64_t key) {
    gone.push_back(std::move(members.at(key)));
    members.erase(key);
    wanted_again.erase(key);
    feed(provisioning::process_left{key});
  }
  /// With the ids that it had.
  void join_again() {
    const auto at = gone.begin() + static_cast<std::ptrdiff_t>(some(gone.size()));
    const auto m = std::move(*at);
    gone.erase(at);
    if (members.contains(m.key)) return;
    const auto count = static_cast<std::uint32_t>(m.instances.size());
    join(m.name, m.where, count, static_cast<std::uint32_t>(random.below(count + 1)), m.key, m.first);
    ++returned;
  }
  /// Each fate that an order may have, late ones too.
  void provide() {
    if (awaited.empty()) return;
    const auto at = awaited.begin() + static_cast<std::ptrdiff_t>(some(awaited.size()));
    const auto order = *at;
    const auto fate = random.below(6);
    if (fate != 0) awaited.erase(at); // 0: it will come twice, say
    if (fate == 1) return;            // never
    if (order.key != 0) return join("head", place::further, 1, 1, order.key);
    if (fate == 2) return feed(provisioning::order_failed{order.number, "not today"});
    const auto count = 1 + static_cast<std::uint32_t>(random.below(2));
    join(fate == 3 ? "somewhere-" + std::to_string(order.number) : order.name, place::elsewhere, count,
         static_cast<std::uint32_t>(random.below(count + 1)));
  }
  void move(member_model& m) {
    const auto what = random.below(3);
    if (what == 0 && !m.to_member.empty()) take_order(m);
    if (what == 1 && !m.to_head.empty()) take_news(m);
    if (what == 2) m.go_on(some(m.instances.size()));
  }
  void take_order(member_model& m) {
    const auto order = m.to_member.front();
    m.to_member.pop_front();
    m.obey(order);
  }
  void take_news(member_model& m) {
    auto news = std::move(m.to_head.front());
    m.to_head.pop_front();
    for (std::size_t i = 0; i < news.size(); ++i) reordered += news[i].order < m.numbers[i] ? 1 : 0;
    m.heard = news;
    feed(provisioning::process_news{m.key, std::move(news)});
  }
  void scale(wish what, instance_id id) {
    outs += what == wish::out ? 1 : 0;
    scaling = what;
    feed(provisioning::scaling_wanted{what, id});
    scaling.reset();
  }
  void by_hand(instance_id id, bool drains) {
    auto* m = keeper_of(id);
    refused = false;
    feed(provisioning::drain_wanted{id, drains});
    EXPECT_TRUE(refused || m != nullptr) << "of what is not there";
    if (refused) return;
    m->by_hand[id.value() - m->first] = drains;
    if (drains) return;
    m->given_back = m->leaves = false;
    wanted_again.insert(m->key);
    cancelled.erase(m->name);
  }

  /// The keeper of this one says that it ends, and what of it loads is not to start. Whether it ends is another matter.
  void announce_end(instance_id id) {
    auto* m = keeper_of(id);
    if (m == nullptr || m->where != place::elsewhere) return;
    m->leaves = true;
    for (std::size_t i = 0; i < m->heard.size(); ++i) {
      const bool stopped = m->heard[i].stopped && m->heard[i].order >= m->numbers[i];
      if (!stopped && (!m->heard[i].ready || m->heard[i].stopped)) m->by_hand[i] = true;
    }
    refused = false;
    feed(provisioning::drain_wanted{id, true, true});
    if (!refused) m->by_hand[id.value() - m->first] = true;
  }

  // --- what it wants

  void feed(const provisioning::event& e) {
    orders_in_step = 0;
    for (const auto& effect : books->step(e, now)) std::visit([this](const auto& x) { perform(x); }, effect);
    if (!std::holds_alternative<provisioning::time_passed>(e)) return;
    EXPECT_TRUE(!books->next_deadline() || *books->next_deadline() > now) << "no order outlives its time";
  }
  void perform(const provisioning::tell_all&) {}
  void perform(const provisioning::say& s) { EXPECT_FALSE(s.text.empty()); }
  void perform(const provisioning::refuse&) { refused = true; }
  void perform(const provisioning::drain_instance& order) {
    auto* m = keeper_of(order.instance);
    ASSERT_NE(m, nullptr);
    EXPECT_GT(order.number, numbers);
    numbers = order.number;
    m->numbers[order.instance.value() - m->first] = order.number;
    m->to_member.push_back(order);
  }
  void perform(const provisioning::start_instance& order) {
    count_order();
    auto* m = keeper_of(order.instance);
    ASSERT_NE(m, nullptr);
    const auto i = order.instance.value() - m->first;
    EXPECT_TRUE(m->heard[i].stopped && m->heard[i].order >= m->numbers[i]) << "only what has stopped is started";
    EXPECT_FALSE(m->by_hand[i]) << "an operator stopped it";
    EXPECT_FALSE(m->given_back);
    EXPECT_FALSE(m->leaves) << m->name << " ends";
    perform(provisioning::drain_instance{order.instance, false, order.number});
  }
  void perform(const provisioning::order_process& order) {
    count_order();
    EXPECT_TRUE(settings.provider);
    EXPECT_TRUE(names.insert(order.name).second);
    awaited.push_back({order.order, order.name, 0});
  }
  void perform(const provisioning::run_process& order) {
    count_order();
    EXPECT_TRUE(settings.here && !settings.provider);
    awaited.push_back({order.order, {}, order.key});
  }
  void perform(const provisioning::give_back& g) {
    EXPECT_TRUE(settings.provider);
    if (!g.instance) {
      EXPECT_TRUE(names.contains(g.name)) << "never ordered";
      EXPECT_TRUE(cancelled.insert(g.name).second) << "an order is given up once";
      ++given_up;
      const auto came = came_for.find(g.name);
      const auto m = came == came_for.end() ? members.end() : members.find(came->second);
      if (m == members.end()) return;
      m->second.given_back = true; // with it
      EXPECT_TRUE(std::ranges::none_of(m->second.by_hand, [](bool b) { return b; })) << "an operator stopped it";
      return;
    }
    auto* m = keeper_of(*g.instance);
    ASSERT_NE(m, nullptr);
    EXPECT_EQ(m->name, g.name);
    hand_back(*m);
  }
  void perform(const provisioning::end_process& e) {
    if (const auto found = members.find(e.key); found != members.end()) found->second.given_back = true;
  }
  void hand_back(member_model& m) {
    ++given_back;
    EXPECT_EQ(m.where, place::elsewhere) << "never the head's own";
    EXPECT_FALSE(m.given_back) << m.name << " was given back already";
    m.given_back = true;
    for (std::size_t i = 0; i < m.heard.size(); ++i) {
      EXPECT_TRUE(m.heard[i].stopped && m.heard[i].order >= m.numbers[i]) << "while an instance runs";
      EXPECT_FALSE(m.by_hand[i]) << "an operator stopped it";
    }
  }
  void count_order() {
    EXPECT_EQ(scaling, wish::out) << "nobody wanted one more";
    EXPECT_EQ(++orders_in_step, 1) << "one wish, one order";
    ++ordered;
  }
  void check() {
    EXPECT_LE(books->orders(), settings.orders_max);
    EXPECT_LE(books->ordered(), books->orders());
    EXPECT_LE(books->scaled_out_total() + books->orders(), ordered) << "never more than were ordered";
    EXPECT_LE(ordered, outs);
    EXPECT_EQ(books->next_deadline().has_value(), books->orders() > 0);
  }

  struct awaited_order {
    std::uint64_t number = 0;
    std::string name;
    std::uint64_t key = 0;
  };
  counter_random random;
  provisioning_settings settings;
  std::int64_t now = 0;
  std::map<std::uint64_t, member_model> members;
  std::vector<awaited_order> awaited; ///< by the provisioner
  std::vector<member_model> gone;
  std::set<std::string> names, cancelled;
  std::map<std::string, std::uint64_t> came_for; ///< key of the process that came for the order of this name
  std::set<std::uint64_t> wanted_again;
  std::optional<wish> scaling;
  std::uint32_t next_instance = 0;
  std::uint64_t next_key = 0, numbers = 0, outs = 0, ordered = 0;
  int orders_in_step = 0;
  bool refused = false;
};

void run(std::uint64_t seeds, bool provider, bool here) {
  std::uint64_t out = 0, in = 0, late = 0, crossed = 0, back = 0, up = 0, returned = 0;
  for (std::uint64_t seed = 1; seed <= seeds && !::testing::Test::HasFailure(); ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    provisioning_world w(seed, provider, here);
    for (int i = 0; i < 400; ++i) w.act();
    w.settle();
    out += w.books->scaled_out_total();
    in += w.books->scaled_in_total();
    late += w.late;
    crossed += w.reordered;
    returned += w.returned;
    back += w.given_back;
    up += w.given_up;
  }
  EXPECT_GT(out, seeds / 2);
  EXPECT_GT(in, seeds / 4);
  EXPECT_GT(crossed, seeds) << "no order crosses news";
  if (provider) {
    EXPECT_GT(late, seeds / 4);
    EXPECT_GT(back, seeds);
    EXPECT_GT(up, seeds);
    EXPECT_GT(returned, seeds / 2);
  }
}

TEST(ProvisioningProperties, EveryOrderEndsAndNothingIsGivenBackTwiceWithAProvisioner) { run(2000, true, false); }
TEST(ProvisioningProperties, EveryOrderEndsAndNothingIsGivenBackTwiceWithinTheHeadsProcess) { run(1000, false, true); }
TEST(ProvisioningProperties, EveryOrderEndsWhereStoppedInstancesAreAllThereIs) { run(1000, false, false); }

} // namespace
} // namespace godwit::protocols
