// Roles that follow the load of the two phases: how it is measured, and who goes over.
#include "loads.hpp"
#include "protocols/second.hpp"

#include <godwit/protocols/policy/role_balance.hpp>
#include <godwit/protocols/policy/scaling.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace godwit::protocols {

namespace {

using testing_support::second_ns;

role_settings balancing() {
  role_settings s;
  s.policy = role_policy::balance;
  s.hold_ns = 10 * second_ns;
  return s;
}

/// Instances, the first ones for prefill, under a load that is shared out evenly among those of a role.
class cluster {
public:
  cluster(std::uint32_t prefill, std::uint32_t decode) {
    for (std::uint32_t i = 0; i < prefill + decode; ++i) {
      auto& r = loads.emplace_back(load_of(i));
      r.role = i < prefill ? instance_role::prefill : instance_role::decode;
      r.blocks_total = 1000;
      r.running_max = 0;
      r.pace.knows_prompts = true;
      r.pace.token = 1000;
    }
  }

  double prompts = 0;         ///< seconds of them that arrive each second
  double blocks = 0;          ///< of what decodes, in all
  std::uint32_t decoding = 0; ///< requests, in all

  [[nodiscard]] std::uint32_t count(instance_role role) const {
    return static_cast<std::uint32_t>(std::ranges::count(loads, role, &load_report::role));
  }

  std::vector<role_decision> pass(role_balancer& balancer, std::int64_t ns, bool obeys = true) {
    std::vector<role_decision> all;
    for (const auto end = now + ns; now < end;) {
      now += second_ns / 5;
      const auto prefill = count(instance_role::prefill), decode = count(instance_role::decode);
      for (auto& r : loads) {
        ++r.sequence;
        if (r.role == instance_role::prefill) {
          r.blocks_used = r.running = 0;
          auto& left = backlog[r.instance];
          left += 0.2 * prompts / prefill;
          const auto done = std::min(left, 0.2);
          left -= done;
          r.prompt_ns_total += static_cast<std::uint64_t>(done * second_ns);
          r.prefill_tokens = static_cast<std::uint64_t>(left * 1e6);
        } else {
          r.prefill_tokens = 0;
          r.blocks_used = static_cast<std::uint32_t>(blocks / decode);
          r.running = decoding / decode;
          r.decoding = r.running;
        }
      }
      for (auto& decision : balancer.step(now, loads)) {
        if (obeys)
          for (const auto id : decision.instances)
            std::ranges::find(loads, id, &load_report::instance)->role = decision.to;
        all.push_back(std::move(decision));
      }
    }
    return all;
  }

  std::vector<load_report> loads;
  std::map<instance_id, double> backlog; ///< seconds of prompts
  std::int64_t now = 0;
};

TEST(RolePolicies, HaveNamesThatAreReadBack) {
  for (const auto& [policy, name] : role_policies) EXPECT_EQ(parse_role_policy(to_string(policy)), policy) << name;
  EXPECT_FALSE(parse_role_policy("flip"));
  EXPECT_EQ(to_string(static_cast<role_policy>(9)), "unknown");
  EXPECT_EQ(role_policy_names().front(), "fixed");
}

TEST(RoleBalance, GivesAnInstanceToThePhaseThatIsShortOnceAHold) {
  cluster c(2, 4);
  c.prompts = 1.4; // all that is good for two
  c.blocks = 400;  // a tenth of the memory
  role_balancer balancer(balancing());
  EXPECT_TRUE(c.pass(balancer, 10 * second_ns).empty());
  EXPECT_FALSE(balancer.loads());
  const auto decisions = c.pass(balancer, second_ns);
  ASSERT_EQ(decisions.size(), 1U);
  EXPECT_EQ(decisions[0].to, instance_role::prefill);
  EXPECT_EQ(decisions[0].instances, std::vector{instance_id{5}}) << "of equals the youngest";
  EXPECT_EQ(decisions[0].why,
            "instance 5 for prefill: the load of 2 for prefill is 1.00, of 4 that decode 0.10; then 0.67 and 0.13");
  EXPECT_TRUE(balancer.settling());
  EXPECT_TRUE(c.pass(balancer, 9 * second_ns).empty()) << "what it brought is not known before another hold";
}

TEST(RoleBalance, GivesAQuarterAtOnceAndNeverTheLast) {
  cluster c(4, 20);
  c.prompts = 8;
  role_balancer balancer(balancing());
  const auto first = c.pass(balancer, 11 * second_ns);
  ASSERT_EQ(first.size(), 1U);
  EXPECT_EQ(first[0].instances.size(), 5U);

  cluster two(1, 1);
  two.prompts = 5;
  role_balancer other(balancing());
  EXPECT_TRUE(two.pass(other, 60 * second_ns).empty());
}

TEST(RoleBalance, SettlesUnderAnyLoadThatStaysAsItIs) {
  for (const double prompts : {0.1, 0.7, 1.5, 2.9, 4.0, 7.0})
    for (const double blocks : {100.0, 900.0, 2000.0, 4000.0, 6500.0}) {
      cluster c(4, 4);
      c.prompts = prompts;
      c.blocks = blocks;
      c.decoding = static_cast<std::uint32_t>(blocks / 20);
      role_balancer balancer(balancing());
      (void)c.pass(balancer, 120 * second_ns);
      const auto prefill = c.count(instance_role::prefill);
      EXPECT_TRUE(c.pass(balancer, 300 * second_ns).empty()) << prompts << ' ' << blocks;
      // And where all can be served, it is.
      if (std::ceil(prompts / 0.7) + std::ceil(blocks / 600) <= 8) {
        EXPECT_GE(prefill, prompts) << blocks;
        EXPECT_LE(blocks / (8 - prefill), 1000) << prompts;
      }
    }
}

// Prompts come in lumps, so that each hold sees another load.
TEST(RoleBalance, GoesBackMoreAndMoreSeldomUnderALoadThatVaries) {
  cluster c(1, 3);
  workload::counter_random random(5, 1);
  role_balancer balancer(balancing());
  std::vector<std::size_t> changes;
  for (int part = 0; part < 8; ++part) {
    changes.push_back(0);
    for (int i = 0; i < 36; ++i) { // ten minutes
      const bool crowd = random.below(2) == 0;
      c.prompts = crowd ? 1.0 : 0.0;
      c.blocks = crowd ? 100 : 2600;
      c.decoding = crowd ? 5 : 100;
      changes.back() += c.pass(balancer, 50 * second_ns / 3).size();
    }
  }
  EXPECT_GT(changes.front(), 1U);
  EXPECT_LE(changes.back(), 6U) << "of some thirty without";
  // What is clear does not wait for long.
  c.prompts = 0;
  c.blocks = 100;
  c.decoding = 5;
  (void)c.pass(balancer, 200 * second_ns);
  c.prompts = 1.6;
  std::int64_t waited = 0;
  while (c.count(instance_role::prefill) < 3 && waited < 600) {
    (void)c.pass(balancer, second_ns);
    ++waited;
  }
  EXPECT_LE(waited, 100);
  for (auto& r : c.loads) r.role = instance_role::decode;
  c.loads[0].role = instance_role::prefill;
  c.prompts = 0.2;
  c.backlog.clear();
  (void)c.pass(balancer, 20 * second_ns);
  for (auto& r : c.loads) r.terminating = r.role == instance_role::prefill;
  waited = 0;
  while (
      std::ranges::none_of(c.loads, [](const auto& r) { return r.role == instance_role::prefill && !r.terminating; }) &&
      waited < 600) {
    (void)c.pass(balancer, second_ns);
    ++waited;
  }
  EXPECT_LE(waited, 21) << "nor the first one of a role";
}

TEST(RoleBalance, AsksThoseWithTheLeastToDo) {
  cluster c(6, 2);
  c.blocks = 1900;
  c.decoding = 20;
  c.backlog[instance_id{5}] = 11; // some of which is left then
  role_balancer balancer(balancing());
  const auto decisions = c.pass(balancer, 11 * second_ns);
  ASSERT_EQ(decisions.size(), 1U);
  EXPECT_EQ(decisions[0].to, instance_role::decode);
  EXPECT_EQ(decisions[0].instances, std::vector{instance_id{4}});
}

TEST(RoleBalance, LeavesThePhasesAloneThatHaveEnough) {
  cluster c(2, 6);
  c.prompts = 0.63; // 0.45 of what is good
  role_balancer balancer(balancing());
  EXPECT_TRUE(c.pass(balancer, 60 * second_ns).empty());
  ASSERT_TRUE(balancer.loads());
  EXPECT_NEAR(balancer.loads()->prefill, 0.45, 0.02);
  EXPECT_EQ(balancer.loads()->decode, 0);
  EXPECT_NEAR(balancer.loads_with(-1)->prefill, 0.9, 0.04);
  EXPECT_EQ(balancer.loads_with(-2)->prefill, phase_load_most);
  EXPECT_EQ(balancer.prefill_missing(), 0U);
  EXPECT_FALSE(balancer.settling());
}

TEST(RoleBalance, OnlyMeasuresWhereRolesAreFixed) {
  cluster c(2, 4);
  c.prompts = 4;
  role_settings settings;
  settings.hold_ns = 10 * second_ns;
  role_balancer balancer(settings);
  EXPECT_TRUE(c.pass(balancer, 60 * second_ns).empty());
  ASSERT_TRUE(balancer.loads());
  EXPECT_GT(balancer.loads()->prefill, 1);
  EXPECT_FALSE(balancer.settling());
  balancer.set_policy(role_policy::balance);
  EXPECT_EQ(c.pass(balancer, 11 * second_ns).size(), 1U);
}

// What cannot be computed waits, and is asked for all the same.
TEST(RoleBalance, CountsPromptsThatWait) {
  cluster c(2, 6);
  c.prompts = 4;
  auto settings = balancing();
  settings.policy = role_policy::fixed;
  role_balancer balancer(settings);
  (void)c.pass(balancer, 21 * second_ns);
  ASSERT_TRUE(balancer.loads());
  EXPECT_GT(balancer.loads()->prefill, 3) << "though instances cannot be more than busy, which is 1.43";
}

// Or one that comes and goes would keep all others from what they need.
TEST(RoleBalance, GoesOnWhoeverComesAndGoes) {
  cluster c(2, 6);
  c.prompts = 1.6;
  c.blocks = 600;
  role_balancer balancer(balancing());
  std::vector<role_decision> all;
  for (int i = 0; i < 20 && all.empty(); ++i) {
    c.loads[7].terminating = i % 2 == 0;
    if (i % 3 == 0) ++c.loads[6].generation;
    all = c.pass(balancer, second_ns);
  }
  ASSERT_EQ(all.size(), 1U);
  EXPECT_NE(all[0].why.find("the load of 2 for prefill is 1.1"), std::string::npos) << all[0].why;
}

TEST(RoleBalance, ForgetsWhatWasBeforeAnotherPolicy) {
  cluster c(2, 4);
  c.prompts = 4;
  role_balancer balancer(balancing());
  (void)c.pass(balancer, 8 * second_ns);
  balancer.set_policy(role_policy::fixed);
  balancer.set_policy(role_policy::balance);
  EXPECT_TRUE(c.pass(balancer, 9 * second_ns).empty()) << "in which roles may not have counted";
  EXPECT_EQ(c.pass(balancer, 3 * second_ns).size(), 1U);
}

TEST(RoleBalance, LooksAtObjectives) {
  cluster c(2, 4);
  c.backlog = {{instance_id{0}, 12}, {instance_id{1}, 12}}; // 7 s of prompts in the mean of ten seconds
  auto settings = balancing();
  settings.policy = role_policy::fixed;
  role_balancer without(settings);
  settings.objectives.ttft_ns = 2 * second_ns;
  role_balancer by_ttft(settings);
  auto d = c;
  (void)c.pass(without, 11 * second_ns);
  (void)d.pass(by_ttft, 11 * second_ns);
  ASSERT_TRUE(without.loads() && by_ttft.loads());
  EXPECT_NEAR(without.loads()->prefill, 1.7 / 0.7, 0.07);
  EXPECT_NEAR(by_ttft.loads()->prefill, 7, 0.3) << "of half of it";
  EXPECT_EQ(by_ttft.prefill_missing(), 2U) << "for what is gone in half a minute";

  cluster e(3, 2);
  e.blocks = 200;
  e.decoding = 4;
  for (auto& r : e.loads) {
    r.pace.decode = second_ns / 60.0;
    r.pace.light = second_ns / 100.0; // whatever the number of instances
  }
  settings = balancing();
  settings.objectives.tpot_ns = second_ns / 55;
  role_balancer by_tpot(settings);
  auto f = e;
  const auto decisions = e.pass(by_tpot, 11 * second_ns);
  ASSERT_EQ(decisions.size(), 1U);
  EXPECT_EQ(decisions[0].to, instance_role::decode);
  EXPECT_NE(decisions[0].why.find("of 2 that decode 0.81; then 0.00 and 0.54"), std::string::npos) << decisions[0].why;
  settings.objectives.tpot_ns = second_ns / 101;
  role_balancer by_none(settings);
  EXPECT_TRUE(f.pass(by_none, 60 * second_ns).empty()) << "what nobody can keep makes nothing short";
}

// They are to come, and do not for want of room.
TEST(RoleBalance, CountsWhatDecodesOnPrefillInstances) {
  cluster c(4, 2);
  c.blocks = 1200;
  c.decoding = 20;
  auto settings = balancing();
  settings.policy = role_policy::fixed;
  role_balancer balancer(settings);
  auto d = c;
  (void)c.pass(balancer, 11 * second_ns);
  ASSERT_TRUE(balancer.loads());
  EXPECT_NEAR(balancer.loads()->decode, 1200.0 / (2000 - 6 * 20), 0.02);
  d.loads[0].decoding = 10;
  role_balancer other(settings);
  (void)d.pass(other, 11 * second_ns);
  ASSERT_TRUE(other.loads());
  EXPECT_NEAR(other.loads()->decode, 1800.0 / (2000 - 6 * 30), 0.02);
}

TEST(RoleBalance, MakesOneWhereThereIsNoneOfARole) {
  cluster c(3, 0);
  role_balancer balancer(balancing());
  const auto decisions = c.pass(balancer, 11 * second_ns);
  ASSERT_EQ(decisions.size(), 1U);
  EXPECT_EQ(decisions[0].to, instance_role::decode);
  EXPECT_EQ(decisions[0].why, "instance 2 for decode: all others are for prefill");
  EXPECT_EQ(c.count(instance_role::decode), 1U);
  cluster alone(1, 0);
  role_balancer other(balancing());
  EXPECT_TRUE(alone.pass(other, 30 * second_ns).empty());
}

TEST(RoleBalance, IsOfOneKindOfKvAndWithoutMixedInstances) {
  cluster c(2, 4);
  c.prompts = 1.8;
  for (std::size_t i : {0U, 1U}) c.loads[i].kv_kind = 7; // whose requests the others cannot take
  role_balancer balancer(balancing());
  const auto decisions = c.pass(balancer, 11 * second_ns, false);
  ASSERT_EQ(decisions.size(), 2U) << "one of each kind gets the role that its kind lacks";
  EXPECT_NE(decisions[0].to, decisions[1].to);

  cluster mixed(2, 4);
  mixed.prompts = 1.8;
  for (std::size_t i : {3U, 4U, 5U}) mixed.loads[i].role = instance_role::mixed;
  role_balancer other(balancing());
  EXPECT_TRUE(mixed.pass(other, 30 * second_ns).empty()) << "the last one for decoding stays";
}

// With autoscaling, whose instances come for decoding: what is ordered for prompts gets to them, and then it is enough.
TEST(RoleBalance, AndAutoscalingComeToAnEndUnderALoadThatStaysAsItIs) {
  struct pace {
    std::int64_t hold, start; // seconds
  };
  for (const auto [hold, start] : {pace{5, 3}, pace{120, 20}, pace{5, 60}})
    for (const auto& [prompts, blocks] : std::vector<std::pair<double, double>>{
             {0.3, 200}, {0.66, 1700}, {1.2, 3000}, {1.2, 200}, {1.9, 1700}, {1.9, 200}, {2.6, 3000}, {2.6, 200}}) {
      cluster c(1, 2);
      c.prompts = prompts;
      c.blocks = blocks;
      c.decoding = static_cast<std::uint32_t>(blocks / 40);
      auto settings = balancing();
      settings.hold_ns = hold * second_ns;
      role_balancer balancer(settings);
      scaling_settings s;
      s.mode = scaling_mode::on;
      autoscaler scaler(s);
      std::vector<std::int64_t> coming;
      std::int64_t changed = 0;
      std::size_t changes = 0;
      std::int64_t ordered = 0;
      for (int i = 0; i < 5 * 6000; ++i) {
        auto moved = c.pass(balancer, second_ns / 5).size();
        if (std::erase_if(coming, [&](auto at) { return at <= c.now; }) > 0) {
          auto& r = c.loads.emplace_back(c.loads.back());
          r.instance = instance_id{c.loads[c.loads.size() - 2].instance.value() + 1};
          r.role = instance_role::decode;
          r.prompt_ns_total = 0;
          r.blocks_total = 1000;
        }
        scaling_view view;
        view.now_ns = c.now;
        view.loads = c.loads;
        view.ordered = static_cast<std::uint32_t>(coming.size());
        scaling_roles roles;
        roles.settling = balancer.settling();
        if (const auto now = balancer.loads()) roles.prefill = now->prefill;
        if (const auto less = balancer.loads_with(-1)) roles.prefill_with_less = less->prefill;
        roles.prefill_missing = balancer.prefill_missing();
        roles.measured_since = balancer.measured_since();
        view.roles = roles;
        if (const auto decision = scaler.step(view)) {
          ++moved;
          if (decision->what == scaling_decision::kind::in)
            std::erase_if(c.loads, [&](const auto& r) { return r.instance == decision->instance; });
          for (std::uint32_t n = 0; decision->what == scaling_decision::kind::out && n < decision->count; ++n)
            coming.push_back(c.now + (start + n) * second_ns);
          if (decision->what == scaling_decision::kind::out) ordered = c.now;
        }
        changes += moved;
        if (moved > 0) changed = c.now;
      }
      EXPECT_LT(changed, 4500 * second_ns) << hold << ' ' << prompts << ' ' << blocks << ": " << changes << " changes";
      EXPECT_LT(ordered, 1500 * second_ns) << hold << ' ' << start << ' ' << prompts << ' ' << blocks;
      EXPECT_GT(c.count(instance_role::prefill), prompts) << blocks;
      EXPECT_LT(c.count(instance_role::prefill), prompts / 0.4 + 1) << blocks;
      EXPECT_GT(1000.0 * c.count(instance_role::decode), blocks) << prompts;
    }
}

TEST(RoleBalance, TakesWhateverReportsSay) {
  workload::counter_random random(17, 1);
  auto settings = balancing();
  settings.objectives.ttft_ns = 1;
  settings.objectives.tpot_ns = 1;
  role_balancer balancer(settings);
  std::vector<load_report> loads;
  for (int round = 0; round < 20'000; ++round) {
    if (round % 100 == 0) {
      loads.clear();
      for (std::uint32_t i = 0; i < random.below(8); ++i) loads.push_back(load_of(i));
      for (auto& r : loads) r.role = instance_roles[random.below(3)].first;
    }
    for (auto& r : loads) {
      const auto before = r;
      r = random_load(r.instance.value(), before.sequence + 1, random);
      r.role = before.role;
      r.ready = true;
      r.terminating = false;
      r.decoding = static_cast<std::uint32_t>(random.below(r.running + 1U));
      r.prompt_ns_total = random.below(1U << 30U);
    }
    for (const auto& decision : balancer.step(round * second_ns, loads)) {
      ASSERT_FALSE(decision.instances.empty());
      std::size_t givers = 0;
      for (const auto& r : loads) givers += r.role != decision.to && r.role != instance_role::mixed ? 1U : 0U;
      ASSERT_LT(decision.instances.size(), givers);
      for (const auto id : decision.instances) {
        auto& r = *std::ranges::find(loads, id, &load_report::instance);
        ASSERT_TRUE(r.role != decision.to && r.role != instance_role::mixed);
        r.role = decision.to;
      }
    }
    if (const auto now = balancer.loads()) {
      ASSERT_TRUE(now->prefill >= 0 && now->prefill <= phase_load_most && now->decode >= 0 &&
                  now->decode <= phase_load_most);
    }
  }
}

} // namespace

} // namespace godwit::protocols
