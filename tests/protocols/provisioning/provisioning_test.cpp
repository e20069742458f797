// What the head orders of members and of a provisioner when an operator or autoscaling wants instances to come or to
// go, one rule each.
#include "protocols/second.hpp"

#include <godwit/protocols/provisioning/provisioning.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace godwit::protocols {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing_support::second_ns;
using wish = scaling_decision::kind;
using place = provisioning::place;

namespace {

constexpr std::uint64_t head = 0;

/// What was ordered, in short: "drain 1 #2", "back scaled-1", ...
std::string in_short(const provisioning::effect& e) {
  struct names {
    std::string operator()(const provisioning::tell_all&) const { return {}; }
    std::string operator()(const provisioning::say&) const { return {}; }
    std::string operator()(const provisioning::drain_instance& d) const {
      return (d.drains ? "drain " : "go on ") + std::to_string(d.instance.value());
    }
    std::string operator()(const provisioning::start_instance& s) const {
      return "start " + std::to_string(s.instance.value());
    }
    std::string operator()(const provisioning::order_process& o) const { return "order " + o.name; }
    std::string operator()(const provisioning::run_process&) const { return "run one here"; }
    std::string operator()(const provisioning::give_back& g) const {
      return "back " + g.name + (g.instance ? " of " + std::to_string(g.instance->value()) : std::string());
    }
    std::string operator()(const provisioning::end_process&) const { return "end the one here"; }
    std::string operator()(const provisioning::refuse& r) const { return "no: " + r.why; }
  };
  return std::visit(names{}, e);
}

class Provisioning : public ::testing::Test {
protected:
  /// Two instances of the head's own, and what each test wants.
  void start(provisioning_settings settings, std::uint32_t stopped = 0) {
    settings.timeout_ns = 10 * second_ns;
    books.emplace(settings);
    join(head, "head", place::own, 0, 2);
    std::vector<provisioning::instance_news> all(2, up());
    for (std::uint32_t i = 2 - stopped; i < 2; ++i) all[i] = down();
    hear(head, all);
  }
  static provisioning_settings with_provider() {
    provisioning_settings s;
    s.provider = true;
    return s;
  }
  [[nodiscard]] static provisioning::instance_news up(std::uint64_t order = 0, std::uint64_t generation = 1) {
    return {.generation = generation, .ready = true, .draining = false, .stopped = false, .order = order};
  }
  [[nodiscard]] static provisioning::instance_news loading(std::uint64_t order = 0) {
    return {.generation = 1, .ready = false, .draining = false, .stopped = false, .order = order};
  }
  [[nodiscard]] static provisioning::instance_news down(std::uint64_t order = 0) {
    return {.generation = 1, .ready = false, .draining = false, .stopped = true, .order = order};
  }

  std::vector<std::string> feed(const provisioning::event& e) {
    std::vector<std::string> out;
    for (const auto& effect : books->step(e, now)) {
      if (auto text = in_short(effect); !text.empty()) out.push_back(std::move(text));
      if (const auto* d = std::get_if<provisioning::drain_instance>(&effect)) number = d->number;
      if (const auto* s = std::get_if<provisioning::start_instance>(&effect)) number = s->number;
      if (const auto* line = std::get_if<provisioning::say>(&effect)) log.push_back(line->text);
    }
    return out;
  }
  std::vector<std::string> join(std::uint64_t key, const std::string& name, place where, std::uint32_t first,
                                std::uint32_t count = 1) {
    return feed(provisioning::process_joined{key, name, where, instance_id{first}, count});
  }
  std::vector<std::string> hear(std::uint64_t key, std::vector<provisioning::instance_news> all) {
    return feed(provisioning::process_news{key, std::move(all)});
  }
  std::vector<std::string> scale(wish what, std::uint32_t instance = 0) {
    return feed(provisioning::scaling_wanted{what, instance_id{instance}});
  }
  std::vector<std::string> by_hand(std::uint32_t instance, bool drains = true) {
    return feed(provisioning::drain_wanted{instance_id{instance}, drains});
  }
  /// Its process ends, and asks for this one of its instances.
  std::vector<std::string> leaves(std::uint32_t instance) {
    return feed(provisioning::drain_wanted{instance_id{instance}, true, true});
  }
  std::vector<std::string> wait(std::int64_t time) {
    now += time;
    return feed(provisioning::time_passed{});
  }

  std::optional<provisioning> books;
  std::int64_t now = 0;
  std::uint64_t number = 0; ///< of the last order to a member
  std::vector<std::string> log;
};

} // namespace

TEST_F(Provisioning, AStoppedInstanceIsStartedBeforeAProcessIsOrdered) {
  start(with_provider(), 1);
  EXPECT_THAT(scale(wish::out), ElementsAre("start 1"));
  EXPECT_EQ(books->ordered(), 1U);
  EXPECT_THAT(scale(wish::out), ElementsAre("order scaled-2")) << "and not twice";
  EXPECT_EQ(books->orders(), 2U);
  hear(head, {up(), loading(number)});
  EXPECT_EQ(books->ordered(), 1U) << "the other one is to be seen now";
  now += second_ns;
  hear(head, {up(), up(number)});
  EXPECT_EQ(books->orders(), 1U);
  EXPECT_EQ(books->scaled_out_total(), 1U);
  EXPECT_EQ(log.back(), "scaled out: instance 1 takes requests 1000 ms after it was ordered");
}

// Children of this process are all that it can end; a machine that somebody has joined by hand is not lost for that.
TEST_F(Provisioning, WhoCannotTakeOthersAwayLeavesThemToBeStartedAgain) {
  auto settings = with_provider();
  settings.takes_others = false;
  start(settings);
  join(7, "gpu-7", place::elsewhere, 2, 1);
  hear(7, {up()});
  EXPECT_THAT(scale(wish::in, 2), ElementsAre("drain 2"));
  EXPECT_THAT(hear(7, {down(number)}), IsEmpty()) << "and nothing is given back";
  EXPECT_THAT(scale(wish::out), ElementsAre("start 2"));
  hear(7, {up(number)});
  EXPECT_THAT(scale(wish::out), ElementsAre("order scaled-2"));
  join(8, "scaled-2", place::elsewhere, 3, 1);
  hear(8, {up()});
  EXPECT_THAT(scale(wish::in, 3), ElementsAre("drain 3"));
  EXPECT_THAT(hear(8, {down(number)}), ElementsAre("back scaled-2 of 3")) << "what it has brought it takes away";
}

TEST_F(Provisioning, ByAProvisionerOrHereOrNotAtAll) {
  start(with_provider());
  EXPECT_THAT(scale(wish::out), ElementsAre("order scaled-1"));
  provisioning_settings s;
  s.here = true;
  start(s);
  EXPECT_THAT(scale(wish::out), ElementsAre("run one here"));
  start({});
  EXPECT_THAT(scale(wish::out), IsEmpty());
  EXPECT_EQ(books->failure(), "cannot scale out: no instance is stopped, and nobody provides others");
  EXPECT_EQ(books->orders(), 0U);
  const auto lines = log.size();
  EXPECT_THAT(scale(wish::out), IsEmpty());
  EXPECT_EQ(log.size(), lines) << "said once, not after each hold";
  EXPECT_NE(books->failure(), "") << "but still so";
}

TEST_F(Provisioning, AnOrderThatDoesNotComeEndsAtItsTimeAndIsGivenBackOnce) {
  start(with_provider());
  EXPECT_FALSE(books->next_deadline());
  scale(wish::out);
  EXPECT_EQ(books->next_deadline(), 10 * second_ns);
  EXPECT_THAT(wait(10 * second_ns - 1), IsEmpty());
  EXPECT_THAT(wait(1), ElementsAre("back scaled-1"));
  EXPECT_EQ(books->orders(), 0U);
  EXPECT_EQ(books->failure(), "gave up scaled-1 after 10000 ms: it is not there in time");
  EXPECT_THAT(wait(10 * second_ns), IsEmpty());
  EXPECT_THAT(feed(provisioning::order_failed{1, "too late"}), IsEmpty());
  EXPECT_EQ(books->given_up_total(), 1U);
}

TEST_F(Provisioning, WhatTheProvisionerCannotBringIsGivenUpAtOnce) {
  start(with_provider());
  scale(wish::out);
  EXPECT_THAT(feed(provisioning::order_failed{1, "exit code 3"}), ElementsAre("back scaled-1"));
  EXPECT_THAT(books->failure(), HasSubstr("exit code 3"));
  EXPECT_THAT(scale(wish::out), ElementsAre("order scaled-2"));
  EXPECT_EQ(books->failure(), "") << "a new attempt";
  EXPECT_THAT(feed(provisioning::order_failed{1, "once more"}), IsEmpty()) << "which is not this order's";
  EXPECT_EQ(books->orders(), 1U);
}

// A command's process outlives the head that ordered it, and is there, or comes back, in the next one's life.
TEST_F(Provisioning, AnOrderThatFailsIsNoneOfTheProcessesOfAnEarlierLifeOfTheHead) {
  auto s = with_provider();
  s.life = 0xc0ffee;
  start(s);
  EXPECT_THAT(scale(wish::out), ElementsAre("order scaled-00c0ffee-1"));
  s.life = 0xfedcba98;
  start(s);
  join(7, "scaled-00c0ffee-1", place::elsewhere, 2);
  hear(7, {up()});
  EXPECT_THAT(scale(wish::out), ElementsAre("order scaled-fedcba98-1"));
  join(8, "scaled-00c0ffee-2", place::elsewhere, 3);
  EXPECT_EQ(books->ordered(), 1U) << "the one that comes back is not the one that was ordered";
  EXPECT_THAT(feed(provisioning::order_failed{1, "already exists"}), ElementsAre("back scaled-fedcba98-1"));
  EXPECT_THAT(hear(7, {up()}), IsEmpty());
  EXPECT_THAT(hear(8, {up()}), IsEmpty());
  EXPECT_FALSE(books->draining(instance_id{2}));
  EXPECT_FALSE(books->draining(instance_id{3}));
}

TEST_F(Provisioning, OrdersAreBounded) {
  auto s = with_provider();
  s.orders_max = 2;
  start(s);
  scale(wish::out);
  scale(wish::out);
  EXPECT_THAT(scale(wish::out), IsEmpty());
  EXPECT_EQ(books->failure(), "cannot scale out: too many instances are ordered already");
}

TEST_F(Provisioning, AProcessThatComesForAnOrderIsWaitedForUntilItsInstanceIsReady) {
  start(with_provider());
  scale(wish::out);
  join(7, "scaled-1", place::elsewhere, 2);
  EXPECT_EQ(books->ordered(), 0U);
  EXPECT_EQ(books->orders(), 1U);
  hear(7, {loading()});
  EXPECT_EQ(books->orders(), 1U);
  hear(7, {up()});
  EXPECT_EQ(books->orders(), 0U);
  EXPECT_EQ(books->scaled_out_total(), 1U);
  EXPECT_THAT(wait(20 * second_ns), IsEmpty());
}

TEST_F(Provisioning, OneThatGoesBeforeItIsReadyIsGivenUpAtOnce) {
  start(with_provider());
  scale(wish::out);
  join(7, "scaled-1", place::elsewhere, 2);
  hear(7, {loading()});
  EXPECT_THAT(feed(provisioning::process_left{7}), ElementsAre("back scaled-1"));
  EXPECT_THAT(books->failure(), HasSubstr("its process is gone"));
}

TEST_F(Provisioning, OneThatNeverLoadsIsGivenBackAndStopped) {
  start(with_provider());
  scale(wish::out);
  join(7, "scaled-1", place::elsewhere, 2);
  hear(7, {loading()});
  EXPECT_THAT(wait(10 * second_ns), ElementsAre("back scaled-1", "drain 2"));
  EXPECT_THAT(hear(7, {down(number)}), IsEmpty()) << "not given back twice";
  EXPECT_THAT(scale(wish::out), ElementsAre("order scaled-2")) << "nor is it a spare now";
}

// A cluster manager that is slower than the timeout.
TEST_F(Provisioning, AProcessWhoseOrderWasGivenUpIsStoppedWhenItComesAndGivenBack) {
  start(with_provider());
  scale(wish::out);
  wait(10 * second_ns);
  EXPECT_THAT(join(7, "scaled-1", place::elsewhere, 2, 2), IsEmpty()) << "it cannot hear yet";
  EXPECT_THAT(hear(7, {loading(), down()}), ElementsAre("drain 2"));
  EXPECT_TRUE(books->draining(instance_id{2}));
  EXPECT_THAT(hear(7, {up(), down()}), IsEmpty()) << "before the order reached it";
  EXPECT_TRUE(books->draining(instance_id{2}));
  EXPECT_THAT(scale(wish::out), ElementsAre("order scaled-2")) << "its other instance is no spare";
  feed(provisioning::order_failed{2, "no"});
  EXPECT_THAT(hear(7, {down(number), down()}), ElementsAre("back scaled-1 of 2"));
  EXPECT_THAT(hear(7, {down(number), down()}), IsEmpty());
  EXPECT_THAT(scale(wish::out), ElementsAre("order scaled-3"));
  EXPECT_EQ(books->scaled_in_total(), 0U) << "it was never wanted in";
}

TEST_F(Provisioning, OneThatComesLaterThan256OthersIsAnOrdinaryProcess) {
  start(with_provider());
  for (std::uint64_t i = 1; i <= 257; ++i) {
    scale(wish::out);
    feed(provisioning::order_failed{i, "no"});
  }
  join(7, "scaled-1", place::elsewhere, 2);
  join(8, "scaled-2", place::elsewhere, 3);
  EXPECT_THAT(hear(7, {loading()}), IsEmpty());
  EXPECT_THAT(hear(8, {loading()}), ElementsAre("drain 3"));
}

TEST_F(Provisioning, WithAProcessThatNeverLoadsItsOtherInstancesAreGivenUpToo) {
  start(with_provider());
  scale(wish::out);
  join(7, "scaled-1", place::elsewhere, 2, 2);
  hear(7, {loading(), down()});
  now += second_ns;
  EXPECT_THAT(scale(wish::out), ElementsAre("start 3"));
  EXPECT_THAT(wait(9 * second_ns), ElementsAre("back scaled-1", "drain 2", "drain 3"));
  EXPECT_EQ(books->orders(), 0U);
}

TEST_F(Provisioning, ALateProcessThatAnOperatorWantsStays) {
  start(with_provider());
  scale(wish::out);
  wait(10 * second_ns);
  join(7, "scaled-1", place::elsewhere, 2);
  hear(7, {loading()});
  EXPECT_THAT(by_hand(2, false), ElementsAre("go on 2"));
  EXPECT_THAT(hear(7, {up(number)}), IsEmpty());
  EXPECT_FALSE(books->draining(instance_id{2}));
}

// A command may start a process somewhere that calls itself as it likes.
TEST_F(Provisioning, AProcessUnderAnotherNameIsTheOneThatWasOrderedIfItCameLater) {
  start(with_provider());
  join(5, "somebody", place::elsewhere, 2);
  now += 1;
  scale(wish::out);
  hear(5, {up()});
  EXPECT_EQ(books->orders(), 1U) << "it was there before";
  join(6, "somewhere", place::elsewhere, 3);
  EXPECT_EQ(books->ordered(), 1U);
  hear(6, {up()});
  EXPECT_EQ(books->orders(), 0U);
}

// It lost its connection, say, while the machine that was ordered takes minutes to come.
TEST_F(Provisioning, AProcessThatWasKnownBeforeTheOrderAndJoinsAgainIsNotTheOneThatWasOrdered) {
  start(with_provider());
  join(5, "somebody", place::elsewhere, 2);
  hear(5, {up()});
  now += second_ns;
  EXPECT_THAT(scale(wish::out), ElementsAre("order scaled-1"));
  now += second_ns;
  feed(provisioning::process_left{5});
  join(5, "somebody", place::elsewhere, 2);
  hear(5, {loading()});
  hear(5, {up(0, 2)});
  EXPECT_EQ(books->orders(), 1U);
  EXPECT_EQ(books->scaled_out_total(), 0U);
  EXPECT_THAT(feed(provisioning::order_failed{1, "no machine is left"}), ElementsAre("back scaled-1"));
  EXPECT_THAT(books->failure(), HasSubstr("no machine is left"));
}

TEST_F(Provisioning, AProcessUnderAnotherNameThatLosesItsConnectionMeanwhileIsStillTheOneThatWasOrdered) {
  start(with_provider());
  scale(wish::out);
  join(6, "somewhere", place::elsewhere, 2);
  hear(6, {loading()});
  feed(provisioning::process_left{6});
  now += second_ns;
  join(6, "somewhere", place::elsewhere, 2);
  hear(6, {up()});
  EXPECT_EQ(books->orders(), 0U);
  EXPECT_EQ(books->scaled_out_total(), 1U);
}

TEST_F(Provisioning, AProcessThatIsNotWantedAnyMoreIsNotTheOneThatWasOrderedSince) {
  start(with_provider());
  scale(wish::out);
  wait(10 * second_ns);
  EXPECT_THAT(scale(wish::out), ElementsAre("order scaled-2"));
  join(7, "scaled-1", place::elsewhere, 2);
  EXPECT_THAT(hear(7, {up()}), ElementsAre("drain 2"));
  EXPECT_EQ(books->orders(), 1U);
}

TEST_F(Provisioning, ADrainedInstanceStopsAndItsProcessIsGivenBackOnce) {
  start(with_provider());
  join(7, "process-7", place::elsewhere, 2, 2);
  hear(7, {up(), up()});
  EXPECT_THAT(scale(wish::in, 3), ElementsAre("drain 3"));
  EXPECT_TRUE(books->draining(instance_id{3}));
  EXPECT_THAT(scale(wish::in, 3), IsEmpty()) << "as it is";
  EXPECT_THAT(hear(7, {up(), down(number)}), IsEmpty()) << "the other one runs";
  EXPECT_EQ(books->scaled_in_total(), 1U);
  EXPECT_FALSE(books->draining(instance_id{3})) << "it has stopped";
  scale(wish::in, 2);
  const auto other = number;
  EXPECT_THAT(hear(7, {down(other), down(other - 1)}), ElementsAre("back process-7 of 2"));
  EXPECT_THAT(hear(7, {down(other), down(other - 1)}), IsEmpty());
  EXPECT_EQ(books->scaled_in_total(), 2U);
  EXPECT_THAT(scale(wish::out), ElementsAre("order scaled-1")) << "what was given back is not started";
  now += 1;
  feed(provisioning::process_left{7});
}

TEST_F(Provisioning, TheHeadsOwnInstanceIsNeverGivenBackButStartedAgain) {
  start(with_provider());
  scale(wish::in, 1);
  EXPECT_THAT(hear(head, {up(), down(number)}), IsEmpty());
  EXPECT_EQ(books->scaled_in_total(), 1U);
  EXPECT_THAT(scale(wish::out), ElementsAre("start 1"));
}

TEST_F(Provisioning, ADrainOfAutoscalingIsTakenBackByItOnly) {
  start({});
  scale(wish::in, 1);
  EXPECT_THAT(scale(wish::keep, 1), ElementsAre("go on 1"));
  EXPECT_FALSE(books->draining(instance_id{1}));
  EXPECT_THAT(scale(wish::keep, 1), IsEmpty());
  EXPECT_THAT(by_hand(1), ElementsAre("drain 1"));
  EXPECT_THAT(scale(wish::keep, 1), IsEmpty()) << "an operator's";
  EXPECT_THAT(by_hand(1, false), ElementsAre("go on 1"));
  scale(wish::in, 1);
  EXPECT_THAT(by_hand(1), IsEmpty()) << "drains already, but is the operator's from now on";
  EXPECT_THAT(scale(wish::keep, 1), IsEmpty());
  hear(head, {up(), down(number)});
  EXPECT_EQ(books->scaled_in_total(), 0U);
  EXPECT_THAT(scale(wish::out), IsEmpty()) << "nor started again";
}

// What moves to it would be computed anew in a moment.
TEST_F(Provisioning, NothingIsStartedInAProcessThatLeaves) {
  start(with_provider());
  join(7, "process-7", place::elsewhere, 2, 2);
  hear(7, {up(), up()});
  EXPECT_THAT(scale(wish::in, 2), ElementsAre("drain 2"));
  const auto first = number;
  hear(7, {down(first), up()});
  EXPECT_THAT(leaves(3), ElementsAre("drain 3"));
  EXPECT_THAT(scale(wish::out), ElementsAre("order scaled-1"));
  EXPECT_THAT(hear(7, {down(first), down(number)}), IsEmpty()) << "nor is it given back: it goes by itself";
  EXPECT_THAT(scale(wish::out), ElementsAre("order scaled-2"));
  EXPECT_THAT(by_hand(3, false), ElementsAre("go on 3"));
  EXPECT_THAT(scale(wish::out), ElementsAre("start 2")) << "somebody wants the process after all";
}

TEST_F(Provisioning, WhatIsToStartInAProcessThatLeavesIsGivenUp) {
  start(with_provider());
  join(7, "process-7", place::elsewhere, 2, 2);
  hear(7, {up(), up()});
  scale(wish::in, 2);
  hear(7, {down(number), up()});
  EXPECT_THAT(scale(wish::out), ElementsAre("start 2"));
  now += second_ns;
  EXPECT_THAT(leaves(3), ElementsAre("drain 2", "drain 3"));
  EXPECT_EQ(books->orders(), 0U);
  EXPECT_EQ(books->failure(), "gave up instance 2 after 1000 ms: its process leaves");
  EXPECT_THAT(scale(wish::out), ElementsAre("order scaled-2"));
  EXPECT_THAT(leaves(3), IsEmpty()) << "again";
  hear(7, {down(number - 1), down(number)});
  EXPECT_THAT(leaves(3), IsEmpty()) << "not refused: it has what it wants";
}

TEST_F(Provisioning, WhatLoadsInAProcessThatLeavesIsStoppedAndNotRefused) {
  start({});
  join(7, "process-7", place::elsewhere, 2, 3);
  hear(7, {up(), loading(), loading()});
  EXPECT_THAT(leaves(2), ElementsAre("drain 3", "drain 4", "drain 2"));
  EXPECT_TRUE(books->draining(instance_id{3}));
  EXPECT_THAT(leaves(3), IsEmpty());
  EXPECT_THAT(hear(7, {up(), up(), loading()}), IsEmpty());
  EXPECT_TRUE(books->draining(instance_id{3})) << "though it came up before the order reached it";
  EXPECT_THAT(leaves(9), ElementsAre("no: there is no instance 9"));
}

TEST_F(Provisioning, AutoscalingTakesNothingBackInAProcessThatLeaves) {
  start({});
  join(7, "process-7", place::elsewhere, 2);
  hear(7, {up()});
  scale(wish::in, 2);
  EXPECT_THAT(leaves(2), IsEmpty()) << "it drains already";
  EXPECT_THAT(scale(wish::keep, 2), IsEmpty());
  hear(7, {down(number)});
  feed(provisioning::process_left{7});
  join(7, "process-7", place::elsewhere, 2);
  hear(7, {down()});
  EXPECT_THAT(scale(wish::out), ElementsAre("start 2")) << "it came back";
}

TEST_F(Provisioning, TheLastOneThatTakesRequestsDoesNotDrainThoughItsProcessLeaves) {
  start({}, 2);
  join(7, "process-7", place::elsewhere, 2);
  hear(7, {up()});
  EXPECT_THAT(leaves(2), ElementsAre("no: instance 2 is the last one that takes requests"));
}

TEST_F(Provisioning, WhatCannotBeDrainedIsRefused) {
  start({});
  EXPECT_THAT(by_hand(9), ElementsAre("no: there is no instance 9"));
  EXPECT_THAT(by_hand(9, false), ElementsAre("no: there is no instance 9"));
  EXPECT_THAT(by_hand(0, false), ElementsAre("no: instance 0 is not being drained"));
  EXPECT_THAT(by_hand(0), ElementsAre("drain 0"));
  EXPECT_THAT(by_hand(1), ElementsAre("no: instance 1 is the last one that takes requests"));
  EXPECT_THAT(scale(wish::in, 1), IsEmpty());
  EXPECT_EQ(books->failure(), "cannot scale in: instance 1 is the last one that takes requests");
  hear(head, {down(number), up()});
  EXPECT_THAT(by_hand(0), ElementsAre("no: instance 0 is stopped"));
  EXPECT_THAT(by_hand(0, false), ElementsAre("go on 0"));
  hear(head, {loading(number), up()});
  EXPECT_THAT(scale(wish::in, 0), IsEmpty());
  EXPECT_EQ(books->failure(), "cannot scale in: instance 0 is not ready");
  hear(head, {loading(number), loading()});
  EXPECT_THAT(by_hand(0), ElementsAre("no: instance 0 is not ready, and no other takes requests"));
}

// Its model does not load, or it fails and starts over and over.
TEST_F(Provisioning, AnOperatorStopsWhatIsNotReady) {
  start(with_provider());
  join(7, "process-7", place::elsewhere, 2);
  hear(7, {loading()});
  EXPECT_THAT(by_hand(2), ElementsAre("drain 2"));
  EXPECT_TRUE(books->draining(instance_id{2}));
  EXPECT_THAT(hear(7, {up()}), IsEmpty()) << "before the order reached it";
  EXPECT_TRUE(books->draining(instance_id{2}));
  EXPECT_THAT(hear(7, {down(number)}), IsEmpty()) << "nor is it given back";
  EXPECT_THAT(scale(wish::out), ElementsAre("order scaled-1")) << "nor started again";
  EXPECT_THAT(by_hand(2, false), ElementsAre("go on 2"));
  EXPECT_THAT(by_hand(2), ElementsAre("drain 2")) << "though its last news call it stopped";
  EXPECT_THAT(hear(7, {down(number - 1)}), IsEmpty());
  EXPECT_TRUE(books->draining(instance_id{2})) << "old news";
}

TEST_F(Provisioning, AnOrderForASpareThatAnOperatorStopsHasComeToNothing) {
  start({}, 1);
  EXPECT_THAT(scale(wish::out), ElementsAre("start 1"));
  hear(head, {up(), loading(number)});
  now += second_ns;
  EXPECT_THAT(by_hand(1), ElementsAre("drain 1"));
  EXPECT_EQ(books->orders(), 0U);
  EXPECT_EQ(books->failure(), "gave up instance 1 after 1000 ms: an operator stops it");
  hear(head, {up(), down(number)});
  EXPECT_THAT(scale(wish::out), IsEmpty()) << "it is not started again";
  EXPECT_THAT(by_hand(1, false), ElementsAre("go on 1"));
}

TEST_F(Provisioning, AProcessWhoseInstanceAnOperatorStopsIsNotGivenBackWithItsOrder) {
  start(with_provider());
  scale(wish::out);
  join(7, "scaled-1", place::elsewhere, 2);
  hear(7, {loading()});
  EXPECT_THAT(by_hand(2), ElementsAre("drain 2"));
  EXPECT_THAT(hear(7, {down(number)}), IsEmpty());
  EXPECT_THAT(wait(10 * second_ns), IsEmpty());
  EXPECT_EQ(books->orders(), 0U);
  EXPECT_THAT(books->failure(), HasSubstr("gave up scaled-1"));
  EXPECT_THAT(by_hand(2, false), ElementsAre("go on 2"));
  EXPECT_THAT(hear(7, {up(number)}), IsEmpty());
  EXPECT_FALSE(books->draining(instance_id{2}));
}

// What a member says of an earlier order crosses the next one.
TEST_F(Provisioning, OnlyWhatIsSaidOfTheLastOrderCounts) {
  start(with_provider());
  join(7, "process-7", place::elsewhere, 2);
  hear(7, {up()});
  scale(wish::in, 2);
  const auto first = number;
  scale(wish::keep, 2);
  EXPECT_THAT(scale(wish::in, 2), ElementsAre("drain 2"));
  EXPECT_THAT(hear(7, {down(first)}), IsEmpty()) << "its member has started it again since";
  EXPECT_EQ(books->scaled_in_total(), 0U);
  EXPECT_TRUE(books->draining(instance_id{2}));
  EXPECT_THAT(hear(7, {loading(first + 1)}), IsEmpty());
  EXPECT_THAT(hear(7, {down(number)}), ElementsAre("back process-7 of 2"));
  EXPECT_EQ(books->scaled_in_total(), 1U);
}

TEST_F(Provisioning, ADrainThatIsOrderedAgainIsSentAgainThoughTheFirstOneStillShows) {
  start({});
  by_hand(0);
  auto shown = up(number);
  shown.draining = true;
  by_hand(0, false);
  hear(head, {shown, up()});
  EXPECT_FALSE(books->draining(instance_id{0})) << "old news";
  EXPECT_THAT(by_hand(0), ElementsAre("drain 0"));
}

TEST_F(Provisioning, ASpareThatIsNotReadyInTimeIsStoppedAndLeftAloneForTwiceAsLongEachTime) {
  start(with_provider(), 1);
  std::int64_t pause = 10 * second_ns;
  for (int attempt = 1; attempt <= 4; ++attempt, pause *= 2) {
    SCOPED_TRACE(attempt);
    EXPECT_THAT(scale(wish::out), ElementsAre("start 1"));
    hear(head, {up(), loading(number)});
    EXPECT_THAT(wait(10 * second_ns), ElementsAre("drain 1"));
    EXPECT_THAT(books->failure(), HasSubstr("gave up instance 1 after 10000 ms: it is not ready in time"));
    EXPECT_THAT(books->failure(), HasSubstr(attempt < 4 ? "left alone for " + std::to_string(pause / 1'000'000) + " ms"
                                                        : "4 attempts in a row"));
    hear(head, {up(), down(number)});
    const auto other_comes_instead = [this] {
      const auto ordered = scale(wish::out);
      ASSERT_THAT(ordered, ElementsAre(::testing::StartsWith("order scaled-")));
      feed(provisioning::order_failed{std::stoull(ordered[0].substr(13)), "not today"});
    };
    other_comes_instead();
    wait(pause - 1);
    other_comes_instead();
    wait(1);
  }
  now += 1'000'000 * second_ns;
  EXPECT_THAT(scale(wish::out), ElementsAre(::testing::StartsWith("order scaled-"))) << "and then for good";
  EXPECT_THAT(by_hand(1, false), ElementsAre("go on 1")) << "until somebody starts it";
  hear(head, {up(), up(number)});
  scale(wish::in, 1);
  hear(head, {up(), down(number)});
  EXPECT_THAT(scale(wish::out), ElementsAre("start 1"));
}

TEST_F(Provisioning, ASpareThatComesAfterAllBeginsAnew) {
  start(with_provider(), 1);
  for (int round = 0; round < 3; ++round) {
    EXPECT_THAT(scale(wish::out), ElementsAre("start 1"));
    wait(10 * second_ns);
    EXPECT_THAT(books->failure(), HasSubstr("left alone for 10000 ms"));
    hear(head, {up(), down(number)});
    now += 10 * second_ns;
    EXPECT_THAT(scale(wish::out), ElementsAre("start 1"));
    hear(head, {up(), up(number)});
    scale(wish::in, 1);
    hear(head, {up(), down(number)});
  }
}

TEST_F(Provisioning, WhereASpareIsLeftAloneAndNobodyProvidesOthersItSaysSo) {
  start({}, 1);
  scale(wish::out);
  wait(10 * second_ns);
  hear(head, {up(), down(number)});
  EXPECT_THAT(scale(wish::out), IsEmpty());
  EXPECT_EQ(
      books->failure(),
      "cannot scale out: instance 1 was not ready in time (1 attempt) and is left alone, and nobody provides others");
  now += 10 * second_ns;
  EXPECT_THAT(scale(wish::out), ElementsAre("start 1"));
  hear(head, {up(), up(number)});
  EXPECT_EQ(books->scaled_out_total(), 1U);
  EXPECT_EQ(books->failure(), "");
}

TEST_F(Provisioning, ASpareThatIsReadyJustAfterItWasGivenUpDrains) {
  start({}, 1);
  scale(wish::out);
  const auto started = number;
  wait(10 * second_ns);
  hear(head, {up(), up(started)});
  EXPECT_EQ(books->scaled_out_total(), 0U);
  EXPECT_TRUE(books->draining(instance_id{1})) << "it takes no requests";
  hear(head, {up(), down(number)});
  EXPECT_FALSE(books->draining(instance_id{1}));
}

TEST_F(Provisioning, AProcessThatJoinsAnewIsAsAtItsStart) {
  start({}, 1);
  scale(wish::out);
  wait(10 * second_ns);
  feed(provisioning::process_left{head});
  EXPECT_EQ(books->orders(), 0U);
  join(head, "head", place::own, 0, 2);
  EXPECT_THAT(scale(wish::out), IsEmpty()) << "its news are still on their way";
  hear(head, {up(), down()});
  EXPECT_THAT(scale(wish::out), ElementsAre("start 1"));
  EXPECT_THAT(by_hand(0), ElementsAre(HasSubstr("last one")));
}

TEST_F(Provisioning, AProcessHereIsEndedWhenItsInstanceIsDrainedOrDoesNotCome) {
  provisioning_settings s;
  s.here = true;
  start(s);
  scale(wish::out);
  const auto key = ~std::uint64_t{1};
  join(key, "head", place::further, 2);
  hear(key, {up()});
  EXPECT_EQ(books->scaled_out_total(), 1U);
  scale(wish::in, 2);
  EXPECT_THAT(hear(key, {down(number)}), ElementsAre("end the one here"));
  feed(provisioning::process_left{key});
  scale(wish::out);
  EXPECT_THAT(wait(10 * second_ns), ElementsAre("end the one here"));
  const auto late = ~std::uint64_t{2};
  join(late, "head", place::further, 3);
  EXPECT_THAT(hear(late, {loading()}), ElementsAre("drain 3"));
  EXPECT_THAT(hear(late, {down(number)}), ElementsAre("end the one here"));
}

TEST_F(Provisioning, WhereTheHeadEndsTheLastOneMayDrainAndNothingIsScaledAnyMore) {
  start(with_provider(), 1);
  hear(head, {up(), down()});
  EXPECT_THAT(scale(wish::out), ElementsAre("start 1"));
  EXPECT_EQ(books->orders(), 1U);
  EXPECT_THAT(leaves(0), ::testing::Contains(::testing::HasSubstr("is the last one that takes requests")));
  feed(provisioning::head_ends{});
  EXPECT_TRUE(books->ends());
  EXPECT_EQ(books->orders(), 0U) << "nobody waits for it any more";
  EXPECT_TRUE(scale(wish::out).empty());
  EXPECT_TRUE(scale(wish::in, 0).empty()) << "nobody told that process to end";
  EXPECT_THAT(leaves(0), ::testing::Not(::testing::Contains(::testing::HasSubstr("last one"))));
  EXPECT_TRUE(books->draining(instance_id{0}));
  EXPECT_TRUE(feed(provisioning::head_ends{}).empty()) << "once";
}

TEST_F(Provisioning, WhatBelongsToNothingThatIsKnownChangesNothing) {
  start(with_provider());
  EXPECT_THAT(hear(99, {up()}), IsEmpty());
  EXPECT_THAT(hear(head, {down()}), IsEmpty()) << "it speaks of fewer than there are";
  EXPECT_THAT(feed(provisioning::process_left{99}), IsEmpty());
  EXPECT_THAT(feed(provisioning::order_failed{3, "?"}), IsEmpty());
  EXPECT_THAT(scale(wish::keep, 77), IsEmpty());
  EXPECT_FALSE(books->draining(instance_id{0}));
  EXPECT_FALSE(books->draining(instance_id{77}));
}

} // namespace godwit::protocols
