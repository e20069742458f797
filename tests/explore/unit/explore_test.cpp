// The search's own parts: a search that cannot fail finds nothing.
#include "explore/books.hpp"
#include "explore/client.hpp"
#include "explore/deployment.hpp"
#include "explore/device_timers.hpp"
#include "explore/effects.hpp"
#include "explore/fleet.hpp"
#include "explore/loss_watch.hpp"
#include "explore/requests.hpp"
#include "explore/scenario.hpp"
#include "explore/shrink.hpp"
#include "explore/topology_watch.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

namespace godwit::explore {
namespace {

using numbers = std::set<std::size_t>;

TEST(ExploreNumbers, AreReadAsTheyAreWritten) {
  for (const auto& text : {"none", "0", "0,2", "1-3", "0,3-5,9"}) {
    const auto read = parse_numbers(text);
    ASSERT_TRUE(read) << text;
    EXPECT_EQ(to_string(*read), text);
  }
  EXPECT_EQ(*parse_numbers("0,3-5"), (numbers{0, 3, 4, 5}));
  for (const auto& text : {"", "a", "1,", ",1", "3-1", "1-", "-1", "1 2", "99999999999999999999", "0-100000"})
    EXPECT_FALSE(parse_numbers(text)) << text;
}

TEST(ExploreScenario, FollowsFromItsNameAndSeed) {
  for (const auto& recipe : recipes()) {
    const auto a = draw(recipe.name, 5), again = draw(recipe.name, 5), other = draw(recipe.name, 6);
    EXPECT_EQ(describe(a), describe(again));
    EXPECT_NE(describe(a), describe(other));
    EXPECT_LE(a.machines.size() + 1, 5U);
    EXPECT_GT(a.requests.size(), 0U);
  }
  EXPECT_THROW((void)draw("nothing", 1), std::invalid_argument);
}

TEST(ExploreScenario, AsksForSamplesOfOnePrompt) {
  const auto first = request_of(5), other = request_of(5 + prompts);
  auto same = other;
  same.sampling.seed = first.sampling.seed;
  EXPECT_EQ(same, first);
  EXPECT_NE(other, first);
  std::size_t together = 0;
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    const auto s = draw("chaos", seed);
    for (const auto& a : s.requests)
      for (const auto& b : s.requests)
        if (a.first < b.first && a.second.kind % prompts == b.second.kind % prompts && a.second.at == b.second.at)
          ++together;
  }
  EXPECT_GT(together, 10U);
}

TEST(ExploreScenario, AsksForSchemasThatBindFromTheStartAndBehindWhatAnAnswerThinks) {
  std::set<protocols::reasoning_start> starts;
  for (std::uint32_t kind = 0; kind < request_kinds; ++kind) {
    const auto how = request_of(kind).sampling;
    if (how.constrained()) starts.insert(how.reasoning);
    EXPECT_TRUE(how.constrained() || how.reasoning == protocols::reasoning_start::off) << "binds nothing";
  }
  EXPECT_EQ(starts.size(), 3U);
}

TEST(ExploreDeployment, FaultsThatOverlapEndEachForItself) {
  auto shape = usual_shape();
  shape.machines = {1, 1};
  deployment d(1, shape, nullptr, {});
  const auto cut = [&](std::uint32_t from, std::uint32_t to) {
    const auto name = [](std::uint32_t machine) {
      return machine == 0 ? "head" : "machine-" + std::to_string(machine);
    };
    return d.world().network().is_cut(name(from), name(to));
  };
  d.cut(0, 1, {true, true, true});
  d.cut(1, 0, {true, false, false});
  d.heal(0, 1, {true, true, true});
  EXPECT_FALSE(cut(0, 1));
  EXPECT_TRUE(cut(1, 0)) << "the other fault holds";
  d.cut(0, 1, {false, false, true});
  d.heal(0, 1, {false, false, true});
  EXPECT_TRUE(cut(1, 0)) << "blocks are no control messages";
  d.heal(1, 0, {true, false, false});
  EXPECT_FALSE(cut(1, 0));

  const auto process = d.process(0);
  ASSERT_TRUE(d.freeze(0));
  ASSERT_TRUE(d.freeze(0));
  d.thaw(0, process);
  EXPECT_FALSE(d.can_answer());
  d.thaw(0, process);
  EXPECT_TRUE(d.can_answer());

  ASSERT_TRUE(d.crash(0, runtime::sim::crash_kind::reset));
  EXPECT_FALSE(d.crash(0, runtime::sim::crash_kind::reset)) << "it is dead";
  EXPECT_FALSE(d.freeze(0));
  d.restart(0);
  ASSERT_TRUE(d.freeze(0));
  d.thaw(0, process);
  EXPECT_FALSE(d.can_answer()) << "that was another process";
  EXPECT_FALSE(d.stop_member(0)) << "the head has none";
  ASSERT_TRUE(d.stop_member(1));
  EXPECT_FALSE(d.stop_member(1));
  d.mend();
  EXPECT_TRUE(d.can_answer());
  EXPECT_TRUE(d.stop_member(1)) << "it was brought back";
  d.mend();
}

TEST(ExploreDeployment, ADeviceIsAsSlowAsTheWorstFaultSays) {
  runtime::sim::world world(1);
  device_timers timers(world.timers());
  const auto takes = [&] {
    const auto began = world.now();
    bool over = false;
    timers.call_after(std::chrono::milliseconds(1), [&] { over = true; });
    EXPECT_TRUE(world.run_until([&] { return over; }));
    return world.now() - began;
  };
  timers.stick_until(world.now() + std::chrono::milliseconds(10));
  timers.stick_until(world.now() + std::chrono::milliseconds(3));
  EXPECT_EQ(takes(), std::chrono::milliseconds(10));
  timers.slow_down(4);
  EXPECT_EQ(takes(), std::chrono::milliseconds(4));
}

TEST(ExploreScenario, PartsKeepTheirNumbersWhenOthersAreLeftOut) {
  const auto whole = draw("chaos", 3);
  const auto less = select(whole, {numbers{1}, numbers{0, 2}, numbers{}});
  ASSERT_EQ(less.faults.size(), 1U);
  EXPECT_EQ(to_string(less.faults[0].second), to_string(whole.faults[1].second));
  ASSERT_EQ(less.requests.size(), 2U);
  EXPECT_EQ(less.requests[1].first, 2U);
  EXPECT_EQ(replay_line(less, whole),
            "./run explore --scenario chaos --seed 3 --faults 1 --requests 0,2 --settings none");
  EXPECT_EQ(replay_line(whole, whole), "./run explore --scenario chaos --seed 3");
}

TEST(ExploreShrink, KeepsWhatTheFailureNeedsAndNothingElse) {
  const auto whole = draw("chaos", 4);
  ASSERT_GT(whole.faults.size(), 2U);
  const auto needed = whole.faults[1].first;
  outcome broken;
  broken.broken = "a promise";
  const auto small = shrink(whole, broken, 1000, [&](const scenario& s) {
    outcome out;
    const auto has = [](const auto& parts, std::size_t number) {
      return std::any_of(parts.begin(), parts.end(), [&](const auto& part) { return part.first == number; });
    };
    if (has(s.faults, needed) && has(s.requests, 3)) out.broken = "a promise";
    // Another failure is not this one.
    if (s.requests.empty()) out.broken = "another promise";
    return out;
  });
  ASSERT_EQ(small.smallest.faults.size(), 1U);
  EXPECT_EQ(small.smallest.faults[0].first, needed);
  ASSERT_EQ(small.smallest.requests.size(), 1U);
  EXPECT_EQ(small.smallest.requests[0].first, 3U);
  EXPECT_TRUE(small.smallest.settings.empty());
}

TEST(ExploreShrink, EndsAtTheSameFailureOfAPromise) {
  const auto whole = draw("chaos", 4);
  ASSERT_GT(whole.requests.size(), 3U);
  outcome broken;
  broken.broken = "each answer is the calm one";
  broken.details = "request 7: token 17 is not the calm answer's";
  const auto small = shrink(whole, broken, 1000, [&](const scenario& s) {
    auto out = broken;
    out.details = "request 2: token 3 is not the calm answer's";
    if (s.requests.size() < 3) out.details = "request 2: billed for 3 tokens, got 4";
    return out;
  });
  EXPECT_EQ(small.smallest.requests.size(), 3U);
  EXPECT_EQ(small.what.details, "request 2: token 3 is not the calm answer's");
}

TEST(ExploreShrink, AFailureStaysTheSameWhereLessOfItIsLeft) {
  const auto same = [](const std::string& less, const std::string& whole) {
    outcome a, b;
    a.broken = b.broken = "a promise";
    a.details = less;
    b.details = whole;
    return same_failure(a, b);
  };
  EXPECT_TRUE(same("", ""));
  EXPECT_TRUE(same("open: requests 3 after 10 tokens", "open: requests 12 after 5 tokens, 13 after 7 tokens"));
  EXPECT_FALSE(same("open: requests 3 after 0 tokens", "open: requests 12 after 5 tokens, 13 after 10 tokens"))
      << "it never began";
  EXPECT_TRUE(same("blocks 1 at instance 2; ", "blocks 4 at instance 1; parked 1 at instance 1; "));
  EXPECT_FALSE(same("parked 1 at instance 1; ", "blocks 4 at instance 1; "));
}

TEST(ExploreShrink, EndsAfterSoManyRuns) {
  std::uint32_t runs = 0;
  outcome broken;
  broken.broken = "a promise";
  const auto small = shrink(draw("chaos", 4), broken, 5, [&](const scenario&) {
    ++runs;
    return outcome{};
  });
  EXPECT_EQ(runs, 5U);
  EXPECT_EQ(small.what.broken, "a promise");
}

std::vector<protocols::sampled_token> tokens(std::initializer_list<protocols::token_id> ids) {
  std::vector<protocols::sampled_token> out;
  for (const auto id : ids) out.emplace_back(id);
  return out;
}

TEST(ExploreClient, SeesWhatIsWrongWithAnAnswer) {
  const calm_answer calm{tokens({5, 6, 7}), {}, protocols::finish_reason::length, 12};
  const auto usage = [](std::uint32_t count) {
    actors::answer_usage u;
    u.prompt_tokens = u.cached_tokens = 12;
    u.answer_tokens = count;
    return u;
  };
  {
    client c(&calm);
    EXPECT_TRUE(c.on_tokens(tokens({5, 6}), false));
    EXPECT_TRUE(c.on_tokens(tokens({7}), false));
    c.on_finished(protocols::finish_reason::length, usage(3));
    EXPECT_EQ(c.wrong, "");
    c.on_failed({actors::failure_kind::internal, "late"});
    EXPECT_EQ(c.wrong, "a second ending");
  }
  const auto wrong = [&](auto act) {
    client c(&calm);
    act(c);
    return c.wrong;
  };
  EXPECT_NE(wrong([&](client& c) { (void)c.on_tokens(tokens({5, 7}), false); }), "") << "one is missing";
  EXPECT_NE(wrong([&](client& c) { (void)c.on_tokens(tokens({5, 5}), false); }), "") << "one came twice";
  EXPECT_NE(wrong([&](client& c) { (void)c.on_tokens(tokens({5, 6, 7, 8}), false); }), "") << "one too many";
  EXPECT_NE(wrong([&](client& c) { (void)c.on_tokens(tokens({}), false); }), "");
  EXPECT_NE(wrong([&](client& c) { c.on_finished(protocols::finish_reason::length, usage(0)); }), "") << "too early";
  EXPECT_NE(wrong([&](client& c) { c.on_failed({actors::failure_kind::internal, ""}); }), "") << "no cause";
  EXPECT_NE(wrong([&](client& c) {
              (void)c.on_tokens(tokens({5, 6, 7}), false);
              c.on_finished(protocols::finish_reason::stop, usage(3));
            }),
            "");
  EXPECT_NE(wrong([&](client& c) {
              (void)c.on_tokens(tokens({5, 6, 7}), false);
              c.on_finished(protocols::finish_reason::length, usage(2));
            }),
            "")
      << "billed for another number";
  const auto billed = [&](std::uint32_t prompt, std::uint32_t cached) {
    return wrong([&](client& c) {
      (void)c.on_tokens(tokens({5, 6, 7}), false);
      c.on_finished(protocols::finish_reason::length, {prompt, cached, 3});
    });
  };
  EXPECT_EQ(billed(12, 12), "");
  EXPECT_NE(billed(15, 0), "") << "the answer so far was a prompt for the instance, but not for the client";
  EXPECT_NE(billed(12, 13), "");
}

TEST(ExploreClient, SeesWhatIsWrongWithLogProbabilities) {
  const auto scored = [](protocols::token_id id, float logprob) {
    protocols::sampled_token out(id);
    out.logprob = logprob;
    out.top.emplace_back(id, logprob);
    return out;
  };
  const calm_answer calm{{scored(5, -1), scored(6, -2)}, {scored(4, -3)}, protocols::finish_reason::length, 2};
  const auto wrong = [&](std::vector<protocols::sampled_token> prompt, std::vector<protocols::sampled_token> answer) {
    client c(&calm);
    if (!prompt.empty()) c.on_prompt_scores(std::move(prompt));
    (void)c.on_tokens(answer, false);
    return c.wrong;
  };
  EXPECT_EQ(wrong({scored(4, -3)}, {scored(5, -1), scored(6, -2)}), "");
  EXPECT_NE(wrong({}, {scored(5, -1)}), "");
  EXPECT_NE(wrong({scored(4, -2)}, {scored(5, -1)}), "");
  EXPECT_NE(wrong({scored(4, -3)}, {scored(5, -1), scored(6, -1)}), "");
  EXPECT_NE(wrong({scored(4, -3)}, tokens({5})), "") << "lost on the way";
}

TEST(ExploreClient, LeavesOnce) {
  client c(nullptr);
  int times = 0;
  c.go = [&] { ++times; };
  c.goes_after = 1;
  c.leave();
  (void)c.on_tokens(tokens({5}), false);
  EXPECT_EQ(times, 1);
  EXPECT_TRUE(c.over());
}

TEST(ExploreBooks, ARecountFindsWhatIsNotCounted) {
  protocols::planner_settings planner;
  planner.execution_levels = {{"normal", 0}, {"high", 6}};
  // One runs at the high level with 63 of its 64 tokens computed and wants a block for the next; one of 20 waits.
  protocols::cluster_status status;
  auto& one = status.instances.emplace_back();
  one.state = protocols::instance_state::ready;
  auto& load = one.load;
  load = {protocols::instance_id{1}, 1, 1, true};
  load.blocks_total = 20;
  load.blocks_used = 4;
  load.running = load.waiting = 1;
  load.running_max = 8;
  load.queued_blocks = 1 + 2;
  load.headroom_blocks = 6;
  load.execution_levels = 0b10;
  load.outstanding_blocks = 1;
  load.waiting_blocks = 2;
  using state = protocols::request_state;
  one.requests.emplace_back(protocols::request_id{1}, protocols::epoch{1}, state::running, 0, 60, 4, 4, 0);
  one.requests.back().execution_level = 1;
  one.requests.emplace_back(protocols::request_id{2}, protocols::epoch{1}, state::waiting, 0, 20, 0, 0, 0);
  EXPECT_EQ(compare_books(status, planner), "");

  const auto wrong = [&](auto change) {
    auto changed = status;
    change(changed.instances.front().load);
    return compare_books(changed, planner);
  };
  EXPECT_NE(wrong([](auto& l) { l.blocks_used = 3; }), "");
  EXPECT_NE(wrong([](auto& l) { l.blocks_cached = 17; }), "");
  EXPECT_NE(wrong([](auto& l) { l.running = 2; }), "");
  EXPECT_NE(wrong([](auto& l) { l.waiting = 2; }), "");
  EXPECT_NE(wrong([](auto& l) { l.migrating = 1; }), "");
  EXPECT_NE(wrong([](auto& l) { l.queued_blocks = 2; }), "");
  EXPECT_NE(wrong([](auto& l) { l.headroom_blocks = 12; }), "");
  EXPECT_NE(wrong([](auto& l) { l.execution_levels = 0b11; }), "");
  EXPECT_NE(wrong([](auto& l) { l.outstanding_blocks = 2; }), "");
  EXPECT_NE(wrong([](auto& l) { l.waiting_blocks = 1; }), "");
  EXPECT_NE(wrong([](auto& l) { l.places_kept = 8; }), "") << "with the one that runs there would be nine";
  // Without a place in the batch, all that is free is wanted and of no use.
  EXPECT_NE(wrong([](auto& l) { l.running_max = 1; }), "");
  EXPECT_EQ(wrong([](auto& l) {
              l.running_max = 1;
              l.queued_blocks = 16;
            }),
            "");
  EXPECT_NE(wrong([](auto& l) { l.places_kept = 7; }), "");
  EXPECT_EQ(wrong([](auto& l) {
              l.places_kept = 7;
              l.queued_blocks = 16;
            }),
            "");
  status.instances.push_back(one);
  EXPECT_NE(compare_books(status, planner), "") << "the same request in the same epoch at two instances";
}

TEST(ExploreBooks, TheMeanFreenessIsThatOfTheInstances) {
  protocols::scaling_settings settings;
  settings.freeness_min = 2;
  settings.freeness_max = 8;
  protocols::load_report idle{protocols::instance_id{1}, 1, 1, true}, busy{protocols::instance_id{2}, 1, 1, true};
  idle.blocks_total = busy.blocks_total = 20;
  busy.blocks_used = 10;
  busy.running = 2;
  auto leaving = idle;
  leaving.terminating = true;
  EXPECT_EQ(recounted_mean({idle, busy, leaving}, settings), (16.0 + 5.0) / 2) << "an idle one counts with at most 16";
  EXPECT_EQ(recounted_mean({leaving}, settings), -16);
}

/// What a head tells of its instances, of which nobody asks more than whether they are there.
class Topologies : public ::testing::Test {
protected:
  enum what : std::uint8_t { ready, draining, starting };
  actors::topology told(const std::vector<std::pair<std::uint32_t, what>>& instances, std::uint32_t ordered = 0) {
    if (!somebody_) somebody_ = system_.spawn<actors::llumlet>(actors::llumlet_options{});
    actors::topology out;
    out.version = ++version_;
    actors::instance_list::entries entries;
    for (const auto& [id, how] : instances) {
      entries.emplace_back(protocols::instance_id{id}, 1, how != starting, somebody_);
      entries.back().draining = how == draining;
    }
    out.instances = std::move(entries);
    out.ordered = ordered;
    return out;
  }
  std::chrono::milliseconds at(int ms) { return std::chrono::milliseconds(ms); }
  std::uint64_t version_ = 0;

private:
  runtime::sim::world world_{1};
  runtime::sim::system system_{world_, {}};
  runtime::handle<actors::llumlet_interface> somebody_;
};

TEST_F(Topologies, AnInstanceIsGoneWhenItIsAnotherOne) {
  topology_watch watch;
  (void)watch.see(told({{1, ready}, {2, draining}, {3, ready}}), at(0));
  auto next = told({{1, ready}});
  next.instances.edit().front().generation = 2;
  const auto news = watch.see(next, at(1));
  EXPECT_FALSE(news.other_head);
  ASSERT_EQ(news.gone.size(), 3U);
  EXPECT_TRUE(news.gone[1].draining);
  version_ = 0;
  const auto other = watch.see(told({}), at(2));
  EXPECT_TRUE(other.other_head);
  EXPECT_TRUE(other.gone.empty());
}

TEST_F(Topologies, AutoscalingMayNotOrderMoreThanTheMost) {
  topology_watch watch({{1, 3}});
  (void)watch.see(told({{1, ready}, {2, starting}}), at(0));
  (void)watch.see(told({{1, ready}, {2, starting}}, 1), at(50));
  (void)watch.see(told({{1, ready}, {2, ready}, {3, ready}, {4, ready}}), at(60));
  EXPECT_EQ(watch.wrong(), "") << "a fourth one has joined by itself";
  (void)watch.see(told({{1, ready}, {2, ready}, {3, ready}}, 1), at(65));
  EXPECT_EQ(watch.wrong(), "") << "decided before that was known";
  (void)watch.see(told({{1, ready}, {2, ready}, {3, ready}}), at(70));
  (void)watch.see(told({{1, ready}, {2, ready}, {3, ready}}, 1), at(100));
  EXPECT_NE(watch.wrong(), "");
}

TEST_F(Topologies, AutoscalingMayNotDrainTheLeast) {
  topology_watch watch({{2, 4}});
  (void)watch.see(told({{1, ready}, {2, ready}, {3, ready}}), at(0));
  (void)watch.see(told({{1, ready}, {2, ready}, {3, draining}}), at(50));
  EXPECT_EQ(watch.wrong(), "");
  watch.drained_by_hand(protocols::instance_id{2});
  (void)watch.see(told({{1, ready}, {2, draining}}), at(100));
  EXPECT_EQ(watch.wrong(), "") << "an operator may";
  (void)watch.see(told({{1, draining}, {2, draining}}), at(150));
  EXPECT_NE(watch.wrong(), "");
}

TEST(ExploreLosses, AHomeBesideItsInstanceMayHearOfItsEndBeforeTheHead) {
  using std::chrono::milliseconds;
  const protocols::instance_id instance{7};
  for (const std::uint16_t home : {0, 5}) {
    loss_watch watch({});
    const auto request = protocols::make_request_id(home, 1);
    watch.given(request, instance, milliseconds(100));
    watch.lost(request);
    EXPECT_NE(watch.wrong(), "") << "it has not failed, so far";
    watch.gone(instance, false, milliseconds(101));
    EXPECT_EQ(watch.wrong().empty(), home != 0) << home;
  }
}

TEST(ExploreLosses, ARequestIsLostWithItsInstanceOnly) {
  using std::chrono::milliseconds;
  const auto lost = [](loss_watch::excuses known, auto act) {
    loss_watch watch(known);
    act(watch);
    watch.lost(protocols::request_id{1});
    return watch.wrong();
  };
  const protocols::request_id request{1};
  const protocols::instance_id instance{7};
  EXPECT_EQ(lost({}, [](auto&) {}), "") << "nobody had it";
  const auto given = [&](auto& watch) { watch.given(request, instance, milliseconds(100)); };
  EXPECT_NE(lost({}, given), "");
  const auto drained = [&](auto& watch) {
    given(watch);
    watch.gone(instance, true, milliseconds(200));
  };
  EXPECT_NE(lost({}, drained), "");
  EXPECT_EQ(lost({true, false}, drained), "");
  EXPECT_EQ(lost({},
                 [&](auto& watch) {
                   given(watch);
                   watch.gone(instance, false, milliseconds(200));
                 }),
            "");
  EXPECT_EQ(lost({},
                 [&](auto& watch) {
                   watch.gone(instance, false, milliseconds(99));
                   given(watch);
                 }),
            "")
      << "the home had not heard of it";
  EXPECT_NE(lost({},
                 [&](auto& watch) {
                   watch.gone(instance, false, milliseconds(10));
                   given(watch);
                 }),
            "")
      << "it had been started anew by then";
  const auto moved = [&](auto& watch) { watch.moved(request, instance, milliseconds(100)); };
  EXPECT_NE(lost({}, moved), "");
  EXPECT_EQ(lost({false, true}, moved), "");
  for (const bool moves_lose : {false, true}) {
    loss_watch watch({false, moves_lose});
    given(watch);
    watch.lost(request);
    EXPECT_NE(watch.wrong(), "");
    watch.move_failed(request, instance);
    EXPECT_EQ(watch.wrong().empty(), moves_lose) << "its source let go of it, for all that the home could say";
  }
  EXPECT_EQ(lost({},
                 [&](auto& watch) {
                   given(watch);
                   watch.without_head(0);
                 }),
            "")
      << "of another home";
}

TEST(ExploreEffects, AreCountedByName) {
  effects a, b;
  a.add("crash");
  b.add("crash", 2);
  b.add("nothing that is known");
  a.add(b);
  EXPECT_EQ(a.of("crash"), 3U);
  EXPECT_EQ(std::count(a.counts().begin(), a.counts().end(), 0U) + 1,
            static_cast<std::ptrdiff_t>(effects::names().size()));
}

TEST(ExploreFleet, GivesTheOutcomesOfRunsInThisProcess) {
  const auto s = draw("calm", 11);
  const auto here = run(s), apart = run_apart(s, std::chrono::seconds(60));
  EXPECT_EQ(here.broken, "");
  EXPECT_EQ(apart.hash, here.hash);
  EXPECT_EQ(apart.events, here.events);
  EXPECT_EQ(apart.answered, here.answered);
  EXPECT_GT(here.answered, 0U);
  EXPECT_EQ(apart.seen.counts(), here.seen.counts());
}

TEST(ExploreFleet, RunsTwiceWhereAsked) {
  auto s = draw("calm", 11);
  EXPECT_EQ(run_apart(s, std::chrono::seconds(60), true).broken, "");
  // Whoever looks on at the first run changes nothing.
  std::uint64_t deliveries = 0;
  run_options look;
  look.on_event = [&](const runtime::sim::event&) { ++deliveries; };
  const auto out = run_here(s, true, look);
  EXPECT_EQ(out.broken, "");
  EXPECT_EQ(deliveries, out.events);
}

} // namespace
} // namespace godwit::explore
