#pragma once

#include "runtime/actor/test_actors.hpp"

#include <godwit/runtime/sim/world.hpp>

#include <gtest/gtest.h>

#include <memory>
#include <optional>
#include <string>
#include <vector>

/// Actors that talk between the nodes of a simulated world.
namespace godwit::runtime::test {

/// Cannot be written as bytes.
struct anchored {
  std::shared_ptr<int> value;
  anchored() = default;
  explicit anchored(std::shared_ptr<int> v) : value(std::move(v)) {}
};

using phone = interface<void(number)>;
/// Asks for `value + 1` to be told to somebody.
struct introduce {
  handle<phone> to;
  std::int64_t value = 0;
  introduce() = default;
  introduce(handle<phone> t, std::int64_t v) : to(std::move(t)), value(v) {}
  auto fields() { return std::tie(to, value); }
};
struct whoami {
  whoami() noexcept {}
  auto fields() { return std::tie(); }
};
struct phone_book {
  std::vector<handle<phone>> all;
  phone_book() = default;
  auto fields() { return std::tie(all); }
};

using far_interface =
    interface<number(question), void(number), void(introduce), number(anchored), phone_book(whoami), void(poke)>;

} // namespace godwit::runtime::test

GODWIT_LOCAL_MESSAGE(godwit::runtime::test::anchored)

namespace godwit::runtime::test {

/// Answers, and keeps what it was told.
class far_actor final : public actor<far_interface> {
public:
  explicit far_actor(actor_context context, std::vector<std::int64_t>* told = nullptr) : actor(context), told_(told) {}
  behavior_of<far_interface> make_behavior() override {
    return {[this](question& q) { return respond(answer(std::move(q))); },
            [this](number n) {
              if (told_) told_->push_back(n.value);
            },
            [this](introduce& i) { tell(i.to, number{i.value + 1}); },
            [](anchored& a) { return number{*a.value}; },
            [this](whoami) {
              phone_book mine;
              mine.all.emplace_back(self());
              return mine;
            },
            [this](poke) { quit(stop_reason::failed); }};
  }

private:
  async::task<async::expected<number>> answer(question q) {
    using way = question::way;
    if (q.how == way::never) co_await sleep_for(1h);
    if (q.how == way::coroutine) co_await sleep_for(1ms);
    if (q.how == way::error) co_return async::error{async::error_code::refused, "not today"};
    if (q.how == way::throws) throw std::runtime_error("thrown");
    co_return number{q.value + 2};
  }
  std::vector<std::int64_t>* told_;
};

/// What a near_actor saw.
struct sightings {
  std::vector<std::int64_t> told;
  std::vector<std::pair<stop_reason, std::chrono::nanoseconds>> downs;
  std::vector<async::expected<number>> answers;
  bool stopped = false;
};

using near_interface = interface<number(question), void(number), void(poke), void(whoami)>;

/// Asks somebody far away, watches him, and keeps what comes.
class near_actor final : public actor<near_interface> {
public:
  near_actor(actor_context context, handle<far_interface> to, sightings& seen, std::chrono::nanoseconds patience = 30s)
      : actor(context), to_(std::move(to)), seen_(seen), patience_(patience) {}
  void on_stop() override { seen_.stopped = true; }
  behavior_of<near_interface> make_behavior() override {
    monitor(to_, [this](stop_reason why) { seen_.downs.emplace_back(why, now()); });
    return {[this](question& q) { return respond(forward(std::move(q))); },
            [this](number n) { seen_.told.push_back(n.value); }, [this](poke) { start(collect()); },
            [this](whoami) { link(to_); }};
  }

private:
  async::task<async::expected<number>> forward(question q) { co_return co_await ask(to_, patience_, std::move(q)); }
  async::task<void> collect() {
    auto x = co_await ask(to_, patience_, question{question::way::value, 1});
    seen_.answers.push_back(std::move(x));
  }
  handle<far_interface> to_;
  sightings& seen_;
  std::chrono::nanoseconds patience_;
};

/// Two nodes, `a` with an actor and `b` with its handle, that notice each other's silence in 500 to 600 ms.
class two_nodes : public ::testing::Test {
protected:
  explicit two_nodes(std::uint64_t seed = 1) : world(seed) {
    world.network().set_detection({std::chrono::milliseconds(500), std::chrono::milliseconds(600)});
    a = make("a");
    b = make("b");
    far = a->spawn<far_actor>(&told);
    port = *a->publish(far, "a", 0);
    auto found = b->remote<far_interface>("a", port);
    EXPECT_TRUE(found) << (found ? "" : to_string(found.error()));
    if (found) remote = *found;
  }
  std::unique_ptr<sim::system> make(const std::string& name) {
    sim::system_settings settings;
    settings.name = name;
    settings.report = [this](std::string_view who, std::string_view text) {
      reports.push_back(std::string(who) + ": " + std::string(text));
    };
    return std::make_unique<sim::system>(world, std::move(settings));
  }

  std::vector<std::string> reports;
  std::vector<std::int64_t> told; ///< to `far`
  // outlive the actors that write them
  sightings seen;
  sightings other;
  sim::world world;
  std::unique_ptr<sim::system> a;
  std::unique_ptr<sim::system> b;
  handle<far_interface> far;
  handle<far_interface> remote; ///< of `far`, on b
  std::uint16_t port = 0;
};

} // namespace godwit::runtime::test
