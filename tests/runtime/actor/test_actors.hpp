#pragma once

#include <godwit/runtime/actor.hpp>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <stdexcept>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

/// Messages and actors that the tests of actors share.
namespace godwit::runtime::test {

using namespace std::chrono_literals;

/// Counts itself through an atomic: frames may end on any worker.
class probe {
public:
  explicit probe(std::atomic<int>& count) : live_(&count) { ++*live_; }
  probe(const probe& other) : live_(other.live_) { ++*live_; }
  probe& operator=(const probe&) = delete;
  ~probe() { --*live_; }

private:
  std::atomic<int>* live_;
};

struct number {
  std::int64_t value = 0;
  number() = default;
  explicit number(std::int64_t v) : value(v) {}
  friend bool operator==(const number&, const number&) = default;
  auto fields() { return std::tie(value); }
};

/// Asks for an answer, in one of the ways in which a handler can give it.
struct question {
  enum class way : std::uint8_t { value, coroutine, error, throws, throws_later, never, nested_never, quits_and_waits };
  way how = way::value;
  std::int64_t value = 0;
  std::vector<std::string> padding;
  question() = default;
  explicit question(way w, std::int64_t v = 0) : how(w), value(v), padding{"a", "b"} {}
  auto fields() { return std::tie(how, value, padding); }
};

struct slow_question {
  std::chrono::nanoseconds delay{0};
  std::int64_t value = 0;
  slow_question() = default;
  slow_question(std::chrono::nanoseconds d, std::int64_t v) : delay(d), value(v) {}
  auto fields() { return std::tie(delay, value); }
};

struct poke {
  poke() noexcept {}
  auto fields() { return std::tie(); }
};

using server_interface = interface<number(question), number(slow_question), void(poke)>;

class server final : public actor<server_interface> {
public:
  server(actor_context context, std::atomic<int>& live) : actor(context), live_(live) {}
  [[nodiscard]] std::string_view name() const noexcept override { return "server"; }
  behavior_of<server_interface> make_behavior() override {
    return {[this](question& q) { return respond(answer(std::move(q))); },
            [this](slow_question q) -> async::task<number> { return slow(q); }, [this](const poke&) { ++pokes_; }};
  }

private:
  async::task<async::expected<number>> answer(question q) {
    const probe p{live_};
    using way = question::way;
    switch (q.how) {
    case way::value:
      co_return number{q.value};
    case way::coroutine: {
      co_await sleep_for(1ms);
      co_return number{q.value + 1};
    }
    case way::error:
      co_return async::error{async::error_code::refused, "not today"};
    case way::throws:
      throw std::runtime_error("thrown at once");
    case way::throws_later: {
      co_await sleep_for(1ms);
      throw std::runtime_error("thrown later");
    }
    case way::never: {
      co_await sleep_for(std::chrono::hours{1});
      co_return number{0};
    }
    case way::nested_never:
      co_return number{co_await nest(5)};
    case way::quits_and_waits: {
      quit();
      co_await sleep_for(1ms);
      co_return number{1};
    }
    }
    co_return number{-1};
  }
  async::task<std::int64_t> nest(int depth) {
    const probe p{live_};
    if (depth > 0) co_return co_await nest(depth - 1) + 1;
    co_await sleep_for(std::chrono::hours{1});
    co_return 0;
  }
  async::task<number> slow(slow_question q) {
    const probe p{live_};
    co_await sleep_for(q.delay);
    co_return number{q.value};
  }
  std::atomic<int>& live_;
  int pokes_ = 0;
};

/// Forwards questions: what a coroutine that asks looks like.
using relay_interface = interface<number(question), number(slow_question), void(poke)>;
class relay final : public actor<relay_interface> {
public:
  relay(actor_context context, handle<server_interface> to, std::atomic<int>& live,
        std::chrono::nanoseconds patience = std::chrono::milliseconds(20))
      : actor(context), to_(std::move(to)), live_(live), patience_(patience) {}
  behavior_of<relay_interface> make_behavior() override {
    return {[this](question& q) { return respond(forward(std::move(q))); },
            [this](slow_question& q) { return respond(forward_slow(q)); }, [this](poke) { quit(stop_reason::failed); }};
  }

private:
  async::task<async::expected<number>> forward(question q) {
    const probe p{live_};
    auto x = co_await ask(to_, 500ms, std::move(q));
    co_return x;
  }
  async::task<async::expected<number>> forward_slow(slow_question q) {
    const probe p{live_};
    auto x = co_await ask(to_, patience_, q);
    co_return x;
  }
  handle<server_interface> to_;
  std::atomic<int>& live_;
  const std::chrono::nanoseconds patience_; ///< with slow questions
};

} // namespace godwit::runtime::test
