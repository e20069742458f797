#include <godwit/runtime/async/name_resolver.hpp>

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <future>
#include <memory>
#include <new>
#include <string>
#include <thread>
#include <utility>

#include <netinet/in.h>

namespace godwit::runtime::async {

using namespace std::chrono_literals;

namespace {

using found = name_resolver::answer;

/// Says nothing until it is let go.
struct mute_system {
  std::promise<void> speaks;
  std::shared_future<void> spoken = speaks.get_future().share();
  std::atomic<int> asked{0}, ended{0};
};

name_resolver::system_function asks(const std::shared_ptr<mute_system>& system) {
  return [system](const std::string&, std::uint16_t) -> found {
    ++system->asked;
    system->spoken.wait_for(60s);
    ++system->ended;
    return std::vector<socket_address>(1);
  };
}

template <class Condition> bool comes_true(Condition condition) {
  for (int look = 0; look < 10'000 && !condition(); ++look) std::this_thread::sleep_for(1ms);
  return condition();
}

std::chrono::steady_clock::time_point in(std::chrono::milliseconds time) {
  return std::chrono::steady_clock::now() + time;
}

} // namespace

TEST(NameResolver, FindsWhatTheSystemKnows) {
  name_resolver names;
  const auto here = names.find_by("localhost", 4711, in(60s));
  ASSERT_TRUE(here) << here.error().message;
  ASSERT_FALSE(here->empty());
  const auto& first = here->front();
  ASSERT_TRUE(first.bytes.ss_family == AF_INET || first.bytes.ss_family == AF_INET6);
  // at the same place for both families
  EXPECT_EQ(ntohs(reinterpret_cast<const sockaddr_in&>(first.bytes).sin_port), 4711);
}

TEST(NameResolver, WhomNobodyAnswersForIsNotWaitedForBeyondTheDeadline) {
  const auto system = std::make_shared<mute_system>();
  {
    name_resolver names(asks(system));
    const auto before = std::chrono::steady_clock::now();
    for (int i = 0; i < 3; ++i) {
      const auto nothing = names.find_by("somewhere", 1, in(50ms));
      ASSERT_FALSE(nothing);
      EXPECT_EQ(nothing.error().code, error_code::down);
    }
    EXPECT_LT(std::chrono::steady_clock::now() - before, 20s);
  }
  EXPECT_LE(system->asked, 1) << "those that nobody waits for are not begun";
  EXPECT_EQ(system->ended, 0) << "nor does the resolver's end wait";
  system->speaks.set_value();
  EXPECT_TRUE(comes_true([&] { return system->ended == system->asked && system.use_count() == 1; }))
      << "nothing is left";
}

TEST(NameResolver, AnAddressNeedsNobodysAnswer) {
  const auto system = std::make_shared<mute_system>();
  name_resolver names(asks(system));
  for (const auto* address : {"127.0.0.1", "::1"}) {
    const auto itself = names.find_by(address, 4711, in(0ms));
    ASSERT_TRUE(itself) << address;
    EXPECT_EQ(itself->size(), 1U);
  }
  EXPECT_EQ(system->asked, 0);
  system->speaks.set_value();
}

TEST(NameResolver, WhatIsForgottenIsNotToldAndGoesAtOnce) {
  const auto system = std::make_shared<mute_system>();
  name_resolver names(asks(system));
  const auto held = std::make_shared<int>(0);
  const auto tell = [held](const found&) { ++*held; };
  const auto first = names.find("first", 1, tell);
  const auto second = names.find("second", 1, tell);
  std::promise<bool> third;
  names.find("third", 1, [&third](const found& where) { third.set_value(where.has_value()); });
  ASSERT_TRUE(comes_true([&] { return system->asked == 1; }));
  names.forget(first);
  names.forget(second);
  names.forget(second);
  EXPECT_EQ(held.use_count(), 2) << "but for `tell`, none";
  system->speaks.set_value();
  EXPECT_TRUE(third.get_future().get());
  EXPECT_EQ(*held, 0);
  EXPECT_EQ(system->asked, 2);
}

TEST(NameResolver, WhoComesAgainTakesOverWhatIsBeingAsked) {
  const auto system = std::make_shared<mute_system>();
  name_resolver names(asks(system));
  EXPECT_FALSE(names.find_by("somewhere", 1, in(20ms)));
  EXPECT_FALSE(names.find_by("somewhere", 1, in(20ms)));
  std::promise<bool> told[2];
  for (auto& one : told) names.find("somewhere", 1, [&one](const found& where) { one.set_value(where.has_value()); });
  system->speaks.set_value();
  for (auto& one : told) EXPECT_TRUE(one.get_future().get());
  EXPECT_EQ(system->asked, 1);
}

TEST(NameResolver, WhoComesAgainWhenTheAnswerIsThereHasItOnce) {
  const auto system = std::make_shared<mute_system>();
  name_resolver names(asks(system));
  EXPECT_FALSE(names.find_by("somewhere", 1, in(500ms)));
  system->speaks.set_value();
  ASSERT_TRUE(comes_true([&] { return system->ended == 1; }));
  EXPECT_TRUE(names.find_by("somewhere", 1, in(60s)));
  EXPECT_EQ(system->asked, 1);
  EXPECT_TRUE(names.find_by("somewhere", 2, in(60s)));
  EXPECT_TRUE(names.find_by("somewhere", 1, in(60s)));
  EXPECT_EQ(system->asked, 3);
}

TEST(NameResolver, WhatTheSystemThrowsIsAnErrorAndTheNextIsFound) {
  std::atomic<int> asked{0};
  name_resolver names([&asked](const std::string&, std::uint16_t) -> found {
    if (asked++ == 0) throw std::bad_alloc();
    return std::vector<socket_address>(1);
  });
  EXPECT_FALSE(names.find_by("somewhere", 1, in(60s)));
  EXPECT_TRUE(names.find_by("somewhere", 1, in(60s)));
}

} // namespace godwit::runtime::async
