#include "runtime/actor/test_actors.hpp"

#include <godwit/runtime/actor_system.hpp>
#include <godwit/runtime/sim/replay.hpp>
#include <godwit/runtime/trace/recorder.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <string>
#include <thread>
#include <vector>

namespace godwit::runtime::test {
namespace {

using way = question::way;

/// What a double was given to call back, for as long as anybody could miss it.
std::vector<completer<std::int64_t>>& kept() {
  static std::vector<completer<std::int64_t>> all;
  return all;
}

/// Asks two servers at once, sleeps, starts helpers, reads a value from outside, and decides by the clock.
using worker_interface = interface<number(number), void(poke)>;
class worker final : public actor<worker_interface> {
public:
  worker(actor_context context, handle<server_interface> to, std::atomic<int>& live, std::atomic<int>* world,
         int bias = 0)
      : actor(context), to_(std::move(to)), live_(live), world_(world), bias_(bias) {}
  [[nodiscard]] std::string_view name() const noexcept override { return "worker"; }
  behavior_of<worker_interface> make_behavior() override {
    start(tick());
    return {[this](number n) { return respond(work(n)); }, [this](poke) { ++pokes_; }};
  }

private:
  async::task<void> tick() {
    for (int i = 0; i < 3; ++i) {
      co_await sleep_for(2ms);
      tell(self(), poke{});
      tell_after(1ms, self(), poke{});
    }
  }
  async::task<async::expected<number>> work(number n) {
    const auto helper = spawn<server>(live_);
    auto first = ask(to_, 1s, question{n.value % 3 == 0 ? way::coroutine : way::value, n.value});
    auto second = ask(helper, 1s, question{way::value, n.value});
    auto a = co_await std::move(first);
    auto b = co_await std::move(second);
    const auto given = trace::input<std::int64_t>("world", [&] { return std::int64_t{world_->fetch_add(7)}; });
    const auto later = co_await callback<std::int64_t>([this](completer<std::int64_t> done) {
      if (world_) std::thread([done, value = world_->fetch_add(1)] { done(value); }).detach();
      if (!world_) kept().push_back(std::move(done)); // nobody calls it, and it must not be dropped
    });
    stop(helper);
    const auto odd = now().count() % 2; // known to the recording only
    trace::note("choice", {{"odd", std::to_string(odd)}, {"bias", std::to_string(bias_)}});
    if (!a || !b || !later) co_return async::error{async::error_code::failed, "no"};
    tell(self(), poke{});
    if (bias_ != 0 && n.value == 5) tell(self(), poke{});
    co_return number{a->value + b->value + given + *later + odd};
  }
  handle<server_interface> to_;
  std::atomic<int>& live_;
  std::atomic<int>* world_;
  int bias_;
  int pokes_ = 0;
};

trace::recording record(int questions) {
  trace::recorder_settings settings;
  settings.level = trace::level::content;
  settings.prompts = true;
  trace::process who;
  who.name = "recorded";
  const auto recorder = std::make_shared<trace::recorder>(who, settings);
  std::atomic<int> live{0}, world{3};
  {
    actor_system_settings options;
    options.worker_threads = 3;
    options.recorder = recorder;
    actor_system system(options);
    const auto asked = system.spawn<server>(live);
    const auto asking = system.spawn<worker>(asked, live, &world);
    std::vector<std::thread> clients;
    for (int c = 0; c < 3; ++c)
      clients.emplace_back([&, c] {
        for (int i = 0; i < questions; ++i) EXPECT_TRUE(system.ask(asking, 5s, number{3 * i + c}));
      });
    for (auto& client : clients) client.join();
  }
  return recorder->snapshot();
}

sim::replay_result replay(const trace::recording& recorded, int bias, const sim::replay_limits& limits = {}) {
  auto again = sim::replay::make(recorded);
  if (!again) throw std::runtime_error(again.error().message);
  static std::atomic<int> live{0};
  (*again)->know({&message_type_of<local<std::int64_t>>});
  const auto asked = (*again)->host().spawn<server>(live);
  (*again)->host().spawn<worker>(asked, live, nullptr, bias);
  auto result = (*again)->run(limits);
  kept().clear(); // while there is a system
  return result;
}

TEST(Replay, WhatThreadsDidComesAgainMessageByMessage) {
  for (int round = 0; round < 100; ++round) {
    const auto recorded = record(6);
    const auto result = replay(recorded, 0);
    ASSERT_EQ(result.difference, "") << result.recorded << "\n" << result.replayed;
    EXPECT_TRUE(result.complete);
    EXPECT_GT(result.handled, 150U);
    EXPECT_EQ(result.notes, 18U);
  }
}

TEST(Replay, AnotherDecisionIsFoundWhereItIsMade) {
  const auto recorded = record(4);
  const auto result = replay(recorded, 1);
  EXPECT_FALSE(result.complete);
  EXPECT_EQ(result.difference, "a decision or state differs");
  EXPECT_NE(result.recorded.find("bias=0"), std::string::npos) << result.recorded;
  EXPECT_NE(result.replayed.find("bias=1"), std::string::npos) << result.replayed;
  const auto first = std::find_if(recorded.events.begin(), recorded.events.end(), [&](const trace::event& e) {
    return e.kind == trace::event_kind::note && recorded.name_of(e) == "choice";
  });
  ASSERT_NE(first, recorded.events.end());
  EXPECT_EQ(result.at, first->cause);
}

TEST(Replay, ItStopsWhereItIsTold) {
  const auto recorded = record(2);
  sim::replay_limits limits;
  std::string type;
  limits.stop_before = [&](const trace::event& e, const std::string& name) {
    type = name;
    return name.find("question") != std::string::npos && e.request == 0;
  };
  const auto result = replay(recorded, 0, limits);
  EXPECT_EQ(result.difference, "");
  EXPECT_FALSE(result.complete);
  EXPECT_NE(type.find("question"), std::string::npos);
  sim::replay_limits until;
  until.until = result.at;
  EXPECT_EQ(replay(recorded, 0, until).handled, result.handled);
}

TEST(Replay, WhatCannotBeReplayedIsRefusedWithTheReason) {
  auto recorded = record(1);
  auto bare = recorded;
  for (auto& e : bare.events) e.content.clear();
  EXPECT_NE(sim::replay::make(bare).error().message.find("contents"), std::string::npos);
  auto lost = recorded;
  lost.events[3].kind = trace::event_kind::gap;
  EXPECT_NE(sim::replay::make(lost).error().message.find("lost"), std::string::npos);
  EXPECT_NE(sim::replay::make(trace::recording{}).error().message.find("empty"), std::string::npos);
}

} // namespace
} // namespace godwit::runtime::test
