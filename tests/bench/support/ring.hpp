#pragma once

#include <godwit/runtime/actor.hpp>

#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <tuple>
#include <utility>
#include <vector>

/// Two programs that do nothing but exchange messages: tokens that go round a ring of actors, and pairs of actors of
/// which one asks the other, waits for the answer and asks again.
///
/// `Line` is what they begin at and cross at their end: `begin()` is called by each that starts, `cross()` by each that
/// has ended.
namespace godwit::bench {

/// A token with the way it has to go, or the question of a pair.
struct hop {
  std::uint64_t left = 0;
  std::uint64_t sum = 0;
  hop() = default;
  hop(std::uint64_t n, std::uint64_t s) : left(n), sum(s) {}
  auto fields() { return std::tie(left, sum); }
};
struct reply {
  std::uint64_t sum = 0;
  reply() = default;
  explicit reply(std::uint64_t s) : sum(s) {}
  auto fields() { return std::tie(sum); }
};
struct go {
  std::uint64_t count = 0;
  go() = default;
  explicit go(std::uint64_t n) : count(n) {}
  auto fields() { return std::tie(count); }
};

using relay_interface = runtime::interface<void(hop)>;
using server_interface = runtime::interface<reply(hop)>;
using asker_interface = runtime::interface<void(go)>;

template <class Line> class relay final : public runtime::actor<relay_interface> {
public:
  /// A token with `full` hops left is one that starts.
  relay(runtime::actor_context context, const std::vector<runtime::handle<relay_interface>>& ring, std::uint64_t index,
        std::uint64_t full, Line& line)
      : actor(context), ring_(ring), index_(index), full_(full), line_(line) {}
  runtime::behavior_of<relay_interface> make_behavior() override {
    return {[this](hop& h) {
      if (h.left == full_) line_.begin();
      if (h.left == 0) return line_.cross();
      const auto next = index_ + 1 == ring_.size() ? 0 : index_ + 1;
      tell(ring_[next], hop{h.left - 1, h.sum + next});
    }};
  }

private:
  const std::vector<runtime::handle<relay_interface>>& ring_;
  std::uint64_t index_, full_;
  Line& line_;
};

class server final : public runtime::actor<server_interface> {
public:
  using actor::actor;
  runtime::behavior_of<server_interface> make_behavior() override {
    return {[](hop& h) { return reply{h.sum + h.left}; }};
  }
};

template <class Line> class asker final : public runtime::actor<asker_interface> {
public:
  asker(runtime::actor_context context, runtime::handle<server_interface> to, Line& line)
      : actor(context), to_(std::move(to)), line_(line) {}
  runtime::behavior_of<asker_interface> make_behavior() override {
    return {[this](go g) {
      line_.begin();
      start(run(g.count));
    }};
  }

private:
  runtime::async::task<void> run(std::uint64_t count) {
    std::uint64_t sum = 0;
    for (; count > 0; --count) {
      auto answer = co_await ask(to_, std::chrono::seconds(60), hop{count, sum});
      if (!answer) std::abort(); // it would measure something else
      sum = answer->sum;
    }
    line_.cross();
  }
  runtime::handle<server_interface> to_;
  Line& line_;
};

} // namespace godwit::bench
