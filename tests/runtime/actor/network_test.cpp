#include "runtime/actor/slow_way.hpp"
#include "runtime/actor/stranger.hpp"
#include "runtime/actor/test_actors.hpp"

#include "actor/multiplexer.hpp"
#include "actor/network.hpp"

#include <godwit/protocols/batching/step.hpp>
#include <godwit/runtime/actor_system.hpp>

#include <caf/actor_system.hpp>
#include <caf/actor_system_config.hpp>
#include <caf/io/basp_broker.hpp>
#include <caf/send.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cerrno>
#include <functional>
#include <future>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <arpa/inet.h>
#include <malloc.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

namespace godwit::runtime::test {

/// Cannot be written as bytes.
struct pinned {
  std::shared_ptr<int> value;
  pinned() = default;
  explicit pinned(std::shared_ptr<int> v) : value(std::move(v)) {}
};

struct greet {
  std::string name;
  std::map<std::string, std::vector<double>> table;
  std::optional<std::uint32_t> maybe;
  greet() = default;
  auto fields() { return std::tie(name, table, maybe); }
};
struct call_me;
using phone_interface = interface<void(number)>;
struct call_me {
  handle<phone_interface> back;
  std::int64_t value = 0;
  call_me() = default;
  call_me(handle<phone_interface> b, std::int64_t v) : back(std::move(b)), value(v) {}
  auto fields() { return std::tie(back, value); }
};

using remote_interface = interface<greet(greet), number(question), void(call_me), number(pinned),
                                   protocols::step_output(protocols::step_input)>;
using smaller_interface = interface<number(question), greet(greet)>;
using other_interface = interface<number(slow_question)>;

} // namespace godwit::runtime::test

GODWIT_LOCAL_MESSAGE(godwit::runtime::test::pinned)

namespace godwit::runtime::test {
namespace {

using async::error_code;
using way = question::way;

class far final : public actor<remote_interface> {
public:
  explicit far(actor_context context) : actor(context) {}
  behavior_of<remote_interface> make_behavior() override {
    return {[](greet& g) {
              g.name += "!";
              return std::move(g);
            },
            [this](question& q) { return respond(answer(std::move(q))); },
            [this](call_me& c) { tell(c.back, number{c.value + 1}); }, [](pinned& p) { return number{*p.value}; },
            [](protocols::step_input& in) {
              protocols::step_output out;
              out.step = in.step + in.slices.at(0).tokens.size();
              out.tokens.emplace_back(protocols::token_id{7});
              return out;
            }};
  }

private:
  async::task<number> answer(question q) {
    if (q.how == way::never) co_await sleep_for(1h);
    co_return number{q.value + static_cast<std::int64_t>(q.padding.size())};
  }
};

class near final : public actor<interface<void(number), number(question), number(poke)>> {
public:
  near(actor_context context, handle<remote_interface> to) : actor(context), to_(std::move(to)) {}
  behavior_of<interface_type> make_behavior() override {
    monitor(to_, [this](stop_reason why) { down_ = why; });
    return {[this](number n) { called_ = n.value; }, [this](question& q) { return respond(forward(std::move(q))); },
            [this](poke) { return respond(tour()); }};
  }

private:
  async::task<async::expected<number>> forward(question q) { co_return co_await ask(to_, 30s, std::move(q)); }
  async::task<async::expected<number>> tour() {
    greet g;
    g.name = "godwit";
    g.table["a"] = {1.5, -2.0};
    g.maybe = 9;
    auto back = co_await ask(to_, 5s, g);
    if (!back) co_return back.error();
    if (back->name != "godwit!" || back->table != g.table || back->maybe != g.maybe) co_return number{-1};
    tell(to_, call_me{handle<phone_interface>{self()}, 41});
    for (int i = 0; i < 500 && called_ == 0; ++i) co_await sleep_for(2ms);
    if (called_ != 42) co_return number{-2};
    auto stuck = co_await ask(to_, 5s, pinned{std::make_shared<int>(1)});
    if (stuck || stuck.error().code != error_code::unsupported) co_return number{-3};
    protocols::step_input step;
    step.step = 5;
    step.slices.emplace_back();
    step.slices[0].tokens = {1, 2, 3};
    auto out = co_await ask(to_, 5s, step);
    if (!out || out->step != 8 || out->tokens.size() != 1 || out->tokens[0].id != 7) co_return number{-4};
    co_return number{1};
  }
  handle<remote_interface> to_;
  std::int64_t called_ = 0;
  std::optional<stop_reason> down_;
};

actor_system_settings on_the_network() {
  actor_system_settings s;
  s.network = true;
  s.connection_timeout = 10s; // none of these is about silence, and machines stand still for a while
  return s;
}

TEST(Network, MessagesHandlesAndErrorsGoBetweenSystems) {
  actor_system a{on_the_network()};
  actor_system b{on_the_network()};
  auto f = a.spawn<far>();
  EXPECT_EQ(*a.ask(f, 1s, pinned{std::make_shared<int>(3)}), number{3}) << "on its own node it is an ordinary message";
  const auto port = a.publish(f, "127.0.0.1", 0);
  ASSERT_TRUE(port) << to_string(port.error());
  auto r = b.remote<remote_interface>("127.0.0.1", *port);
  ASSERT_TRUE(r) << to_string(r.error());
  EXPECT_TRUE(r->ref().remote());
  EXPECT_EQ(*b.ask(*r, 5s, question{way::value, 40}), number{42});
  auto n = b.spawn<near>(*r);
  const auto x = b.ask(n, 10s, poke{});
  ASSERT_TRUE(x) << to_string(x.error());
  EXPECT_EQ(*x, number{1});
}

TEST(Network, AnActorIsFoundWithTheLongestTimeoutThatThereIs) {
  actor_system a{on_the_network()};
  actor_system b{on_the_network()};
  const auto port = a.publish(a.spawn<far>(), "127.0.0.1", 0);
  ASSERT_TRUE(port) << to_string(port.error());
  const auto r = b.remote<remote_interface>("127.0.0.1", *port, std::chrono::milliseconds::max());
  ASSERT_TRUE(r) << to_string(r.error());
  EXPECT_EQ(*b.ask(*r, 5s, question{way::value, 40}), number{42});
}

TEST(Network, AHandleIsCheckedAgainstWhatTheActorUnderstands) {
  actor_system a{on_the_network()};
  actor_system b{on_the_network()};
  const auto port = a.publish(a.spawn<far>(), "127.0.0.1", 0);
  ASSERT_TRUE(port);
  EXPECT_TRUE(b.remote<smaller_interface>("127.0.0.1", *port));
  const auto wrong = b.remote<other_interface>("127.0.0.1", *port);
  ASSERT_FALSE(wrong);
  EXPECT_EQ(wrong.error().code, error_code::unsupported);
  EXPECT_NE(wrong.error().message.find("slow_question"), std::string::npos);
}

// CAF leaves a request to a dead or vanished remote actor to its timeout.
TEST(Network, AnAskEndsWhenTheRemoteActorOrItsNodeIsGone) {
  for (const bool whole_node : {false, true}) {
    auto a = std::make_unique<actor_system>(on_the_network());
    actor_system b{on_the_network()};
    auto f = a->spawn<far>();
    const auto port = a->publish(f, "127.0.0.1", 0);
    ASSERT_TRUE(port);
    auto r = b.remote<remote_interface>("127.0.0.1", *port);
    ASSERT_TRUE(r);
    auto n = b.spawn<near>(*r);
    std::thread ender{[&] {
      std::this_thread::sleep_for(100ms);
      if (whole_node)
        a.reset();
      else
        a->stop(f, stop_reason::killed);
    }};
    const auto begin = std::chrono::steady_clock::now();
    const auto x = b.ask(n, 20s, question{way::never});
    ender.join();
    ASSERT_FALSE(x);
    EXPECT_EQ(x.error().code, error_code::down);
    EXPECT_LT(std::chrono::steady_clock::now() - begin, 5s);
    // and the next fails at once, from an actor and from outside
    EXPECT_EQ(b.ask(n, 20s, question{way::value}).error().code, error_code::down);
    EXPECT_EQ(b.ask(*r, 20s, question{way::value}).error().code, error_code::down);
    EXPECT_LT(std::chrono::steady_clock::now() - begin, 10s);
  }
}

// Of an actor that is reached by way of another node no end is reported; whoever knows better says so.
TEST(Network, AnActorDeclaredDownIsDownForAllWhoWatchOrAskIt) {
  actor_system a{on_the_network()};
  actor_system b{on_the_network()};
  auto f = a.spawn<far>();
  const auto port = a.publish(f, "127.0.0.1", 0);
  ASSERT_TRUE(port);
  auto r = b.remote<remote_interface>("127.0.0.1", *port);
  ASSERT_TRUE(r);
  auto n = b.spawn<near>(*r);
  std::thread declares{[&] {
    std::this_thread::sleep_for(100ms);
    b.declare_down(*r);
  }};
  const auto begin = std::chrono::steady_clock::now();
  const auto under_way = b.ask(n, 20s, question{way::never});
  declares.join();
  ASSERT_FALSE(under_way);
  EXPECT_EQ(under_way.error().code, error_code::down);
  EXPECT_EQ(b.ask(b.spawn<near>(*r), 20s, question{way::value}).error().code, error_code::down) << "later ones too";
  EXPECT_LT(std::chrono::steady_clock::now() - begin, 5s);
  a.declare_down(f);
  EXPECT_EQ(*a.ask(f, 1s, question{way::value, 1}), number{3}) << "one of this host is not touched";
}

// A process that is stopped still has its port open: the kernel accepts for it.
TEST(Network, APlaceThatAcceptsAndSaysNothingIsGivenUpInTime) {
  sockaddr_in address{};
  const int listener = listen_in_vain(5, address);
  {
    actor_system b{on_the_network()};
    const auto begin = std::chrono::steady_clock::now();
    const auto r = b.remote<remote_interface>("127.0.0.1", ntohs(address.sin_port), 300ms);
    EXPECT_FALSE(r);
    EXPECT_GE(std::chrono::steady_clock::now() - begin, 300ms) << "a busy place has until then";
    EXPECT_LT(std::chrono::steady_clock::now() - begin, 3s);
  }
  ::close(listener);
}

// As where a machine or the way to it is gone: what is sent is dropped, and TCP tries for two minutes. A socket whose
// queue of connections is full drops them too.
TEST(Network, APlaceThatDropsWhatIsSentIsGivenUpInTimeAndHoldsUpNobody) {
  sockaddr_in address{};
  const int listener = listen_in_vain(0, address);
  std::vector<pollfd> waiting;
  while (waiting.size() < 8) {
    waiting.push_back({::socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0), POLLOUT, 0});
    (void)::connect(waiting.back().fd, reinterpret_cast<const sockaddr*>(&address), sizeof address);
    if (::poll(&waiting.back(), 1, 200) == 0) break; // the last one is dropped
  }
  ASSERT_EQ(waiting.back().revents, 0) << "this system queues more than it was told";
  const auto begin = std::chrono::steady_clock::now();
  {
    actor_system a{on_the_network()};
    const auto port = a.publish(a.spawn<far>(), "127.0.0.1", 0);
    ASSERT_TRUE(port);
    actor_system b{on_the_network()};
    const auto r = b.remote<remote_interface>("127.0.0.1", ntohs(address.sin_port), 300ms);
    ASSERT_FALSE(r);
    EXPECT_EQ(r.error().code, error_code::down);
    EXPECT_EQ(r.error().message.find("no actor at 127.0.0.1:"), 0U) << r.error().message;
    EXPECT_GE(std::chrono::steady_clock::now() - begin, 300ms);
    EXPECT_TRUE(b.remote<remote_interface>("127.0.0.1", *port, 2s)) << "the next one is not held up";
  }
  EXPECT_LT(std::chrono::steady_clock::now() - begin, 5s) << "nor is the end of the system";
  for (const auto& one : waiting) ::close(one.fd);
  ::close(listener);
}

/// Occupies its thread.
class drowsy final : public actor<interface<void(poke)>> {
public:
  using actor::actor;
  behavior_of<interface_type> make_behavior() override {
    return {[](const poke&) { std::this_thread::sleep_for(5ms); }};
  }
};

// CAF calls a connection by its descriptor, which the system gives to the next one at once, and tidies up after one
// that has ended a while later, when its threads are busy: a port scan, a check of health or an operator's command may
// end in such a moment.
TEST(Network, WhoConnectsAndGoesAwayDoesNotEndTheNextConnection) {
  auto settings = on_the_network();
  settings.worker_threads = 1;
  actor_system a{settings};
  const auto port = a.publish(a.spawn<far>(), "127.0.0.1", 0);
  ASSERT_TRUE(port);
  std::jthread keeps_busy([&, sleeper = a.spawn<drowsy>()](const std::stop_token& over) {
    actor_system other{on_the_network()};
    const auto r = other.remote<remote_interface>("127.0.0.1", *port);
    while (r && !over.stop_requested()) {
      a.tell(sleeper, poke{});
      (void)other.ask(*r, 5s, question{way::value, 40});
    }
  });
  std::jthread passers_by([&](const std::stop_token& over) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    address.sin_port = htons(*port);
    while (!over.stop_requested()) {
      const int one = ::socket(AF_INET, SOCK_STREAM, 0);
      (void)::connect(one, reinterpret_cast<const sockaddr*>(&address), sizeof address);
      ::close(one);
      std::this_thread::sleep_for(100us);
    }
  });
  for (int i = 0; i < 30; ++i) {
    actor_system b{on_the_network()};
    const auto r = b.remote<remote_interface>("127.0.0.1", *port);
    ASSERT_TRUE(r) << i << ": " << to_string(r.error());
    for (int j = 0; j < 5; ++j) {
      const auto x = b.ask(*r, 5s, question{way::value, 40});
      ASSERT_TRUE(x) << i << ", " << j << ": " << to_string(x.error());
    }
  }
}

// CAF gives up a connection that has said nothing by the next heartbeat, which is after 100 ms.
TEST(Network, APlaceThatIsFarAwayIsReached) {
  actor_system a{on_the_network()};
  const auto port = a.publish(a.spawn<far>(), "127.0.0.1", 0);
  ASSERT_TRUE(port);
  const slow_way distance(*port, 400ms);
  actor_system b{on_the_network()};
  const auto r = b.remote<remote_interface>("127.0.0.1", distance.port());
  ASSERT_TRUE(r) << to_string(r.error());
  EXPECT_EQ(*b.ask(*r, 5s, question{question::way::value, 40}), number{42});
}

// As to a process that is stopped, or across a network that drops what is sent: what waits to be written is not waited
// for.
TEST(Network, ASystemEndsThoughItsPeerTakesNothing) {
  actor_system b{on_the_network()};
  const auto port = b.publish(b.spawn<far>(), "127.0.0.1", 0);
  ASSERT_TRUE(port);
  slow_way way_there(*port, 0ms);
  auto a = std::make_unique<actor_system>(on_the_network());
  const auto r = a->remote<remote_interface>("127.0.0.1", way_there.port());
  ASSERT_TRUE(r) << to_string(r.error());
  way_there.block();
  question large{way::value, 1};
  large.padding.assign(64, std::string(1U << 20U, 'x'));
  EXPECT_FALSE(a->ask(*r, 200ms, std::move(large)));
  const auto begin = std::chrono::steady_clock::now();
  a.reset();
  EXPECT_LT(std::chrono::steady_clock::now() - begin, 30s);
}

// A header of CAF's, or what a scanner of ports sends and looks like one.
TEST(Network, AStrangerThatAnnouncesALotIsLeft) {
  auto settings = on_the_network();
  settings.connection_timeout = 1h; // which is not why
  actor_system a{settings};
  const auto port = a.publish(a.spawn<far>(), "127.0.0.1", 0);
  ASSERT_TRUE(port);
  const int stranger = connect_to(*port);
  std::vector<char> packet(32 + 1000);
  packet[0] = 1;    // a client's handshake
  packet[4] = 0x20; // of 512 MB
  ASSERT_EQ(::send(stranger, packet.data(), packet.size(), 0), static_cast<ssize_t>(packet.size()));
  EXPECT_TRUE(ends(stranger, 20s));
  ::close(stranger);
  actor_system b{on_the_network()};
  EXPECT_TRUE(b.remote<remote_interface>("127.0.0.1", *port));
}

/// A header of CAF's: 32 bytes.
std::string header(std::uint8_t operation, std::uint32_t payload_bytes, std::uint64_t data, std::uint64_t to = 0) {
  std::string out(32, '\0');
  out[0] = static_cast<char>(operation);
  for (int i = 0; i < 4; ++i) out[static_cast<std::size_t>(7 - i)] = static_cast<char>(payload_bytes >> (8 * i));
  for (int i = 0; i < 8; ++i) out[static_cast<std::size_t>(15 - i)] = static_cast<char>(data >> (8 * i));
  for (int i = 0; i < 8; ++i) out[static_cast<std::size_t>(31 - i)] = static_cast<char>(to >> (8 * i));
  return out;
}

// CAF 0.17 dies of them, on whichever side it is.
TEST(Network, WhatCafWouldDieOfEndsTheConnection) {
  auto settings = on_the_network();
  settings.connection_timeout = 1h; // which is not why
  actor_system a{settings};
  const auto published = a.spawn<far>();
  const auto port = a.publish(published, "127.0.0.1", 0);
  ASSERT_TRUE(port);
  constexpr std::uint64_t upstream = std::uint64_t{2} << 60U, downstream = std::uint64_t{3} << 60U;
  constexpr std::uint64_t version = 3; // of CAF 0.17's protocol
  const auto to = published.id();
  const std::string content(16, '\0');
  for (const auto& packet :
       {header(0, 0, version), header(1, 0, 0), header(2, 16, upstream | 7, to) + content,
        header(2, 16, downstream | 7, to) + content, header(3, 16, downstream | 7, to) + content}) {
    const int stranger = connect_to(*port);
    ASSERT_EQ(::send(stranger, packet.data(), packet.size(), 0), static_cast<ssize_t>(packet.size()));
    EXPECT_TRUE(ends(stranger, 20s));
    ::close(stranger);
  }
  actor_system b{on_the_network()};
  const auto r = b.remote<remote_interface>("127.0.0.1", *port);
  ASSERT_TRUE(r) << to_string(r.error());
  EXPECT_EQ(*b.ask(*r, 20s, question{way::value, 40}), number{42});
}

/// A server that is none of ours, which greets whoever connects to it, or the first `greeted_max` of them, until
/// `meanwhile` has returned.
void with_server_that_says(const std::string& greeting, const std::function<void(std::uint16_t port)>& meanwhile,
                           int greeted_max = 1000) {
  const int listener = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  ASSERT_EQ(::bind(listener, reinterpret_cast<const sockaddr*>(&address), sizeof address), 0);
  ASSERT_EQ(::listen(listener, 8), 0);
  socklen_t size = sizeof address;
  ASSERT_EQ(::getsockname(listener, reinterpret_cast<sockaddr*>(&address), &size), 0);
  std::thread server([&] {
    for (int fd = 0; (fd = ::accept(listener, nullptr, nullptr)) >= 0;) {
      if (greeted_max-- > 0) (void)::send(fd, greeting.data(), greeting.size(), MSG_NOSIGNAL);
      (void)ends(fd, 20s);
      ::close(fd);
    }
  });
  meanwhile(ntohs(address.sin_port));
  ::shutdown(listener, SHUT_RDWR);
  server.join();
  ::close(listener);
}

TEST(Network, AGreetingThatSaysNothingIsAnError) {
  with_server_that_says(header(0, 0, 3), [](std::uint16_t port) {
    actor_system b{on_the_network()};
    EXPECT_FALSE(b.remote<remote_interface>("127.0.0.1", port, 2s));
  });
}

TEST(Network, OneThatResetsTheConnectionIsNamedInTheSystemsWords) {
  sockaddr_in address{};
  const int listener = listen_in_vain(5, address);
  std::thread resets([listener] {
    const int fd = ::accept(listener, nullptr, nullptr);
    const linger at_once{1, 0};
    ::setsockopt(fd, SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once);
    ::close(fd);
  });
  actor_system b{on_the_network()};
  const auto r = b.remote<remote_interface>("127.0.0.1", ntohs(address.sin_port), 2s);
  resets.join();
  ::close(listener);
  ASSERT_FALSE(r);
  EXPECT_THAT(to_string(r.error()), ::testing::HasSubstr("Connection reset by peer"));
}

TEST(Network, AGreetingThatIsCutOffIsNoneOfOurs) {
  sockaddr_in address{};
  const int listener = listen_in_vain(8, address);
  std::thread cuts([listener] {
    const int fd = ::accept(listener, nullptr, nullptr);
    (void)::send(fd, "\0\0\0", 3, MSG_NOSIGNAL);
    ::close(fd);
  });
  actor_system b{on_the_network()};
  const auto r = b.remote<remote_interface>("127.0.0.1", ntohs(address.sin_port), 2s);
  cuts.join();
  ::close(listener);
  ASSERT_FALSE(r);
  EXPECT_THAT(to_string(r.error()), ::testing::HasSubstr("before it had greeted as a process of godwit would"));
}

TEST(Network, AGreetingThatIsShorterThanOneOfOursIsNoSilence) {
  with_server_that_says("220 ESMTP\r\n", [](std::uint16_t port) {
    actor_system b{on_the_network()};
    const auto r = b.remote<remote_interface>("127.0.0.1", port, 2s);
    ASSERT_FALSE(r);
    EXPECT_THAT(to_string(r.error()), ::testing::HasSubstr("does not greet as a process of godwit would"));
  });
}

// Whether the second attempt, which begins when the first is given up, hears anything in time is chance.
TEST(Network, WhatTheFirstAttemptHeardCountsWhereTheSecondHearsNothing) {
  with_server_that_says(
      "220 ESMTP\r\n",
      [](std::uint16_t port) {
        actor_system b{on_the_network()};
        const auto r = b.remote<remote_interface>("127.0.0.1", port, 2s);
        ASSERT_FALSE(r);
        EXPECT_THAT(to_string(r.error()), ::testing::HasSubstr("does not greet as a process of godwit would"));
      },
      1);
}

// What strangers announce takes memory as it comes, and nobody waits while it is filled with zeros.
TEST(Network, ManyWhoAnnounceALotTakeLittle) {
  actor_system a{on_the_network()};
  const auto port = a.publish(a.spawn<far>(), "127.0.0.1", 0);
  ASSERT_TRUE(port);
  actor_system b{on_the_network()};
  const auto r = b.remote<remote_interface>("127.0.0.1", *port);
  ASSERT_TRUE(r) << to_string(r.error());
  EXPECT_EQ(*b.ask(*r, 20s, question{way::value, 40}), number{42});
  const auto before = ::mallinfo2();
  std::vector<int> strangers;
  const auto packet = header(1, 250U << 20U, 0);
  for (int i = 0; i < 8; ++i) {
    strangers.push_back(connect_to(*port));
    ASSERT_EQ(::send(strangers.back(), packet.data(), packet.size(), 0), static_cast<ssize_t>(packet.size()));
  }
  for (int i = 0; i < 50; ++i) EXPECT_EQ(*b.ask(*r, 20s, question{way::value, 40}), number{42});
  const auto after = ::mallinfo2();
  EXPECT_LT(after.uordblks + after.hblkhd, before.uordblks + before.hblkhd + (std::size_t{100} << 20U));
  for (const auto fd : strangers) ::close(fd);
}

TEST(Network, AMessageOfSeveralPiecesArrivesAsItWas) {
  actor_system a{on_the_network()};
  const auto port = a.publish(a.spawn<far>(), "127.0.0.1", 0);
  ASSERT_TRUE(port);
  actor_system b{on_the_network()};
  const auto r = b.remote<remote_interface>("127.0.0.1", *port);
  ASSERT_TRUE(r) << to_string(r.error());
  for (const std::size_t bytes : {(1U << 20U) - 200U, 1U << 20U, (1U << 20U) + 1U, 5U << 20U, 17U << 20U, 10U}) {
    greet large;
    for (std::size_t i = 0; i < bytes; ++i) large.name += static_cast<char>('a' + i % 23);
    const auto wanted = large.name + "!";
    const auto back = b.ask(*r, 60s, std::move(large));
    ASSERT_TRUE(back) << to_string(back.error());
    EXPECT_TRUE(back->name == wanted) << bytes;
  }
}

// One who asks from outside leaves nothing with the actor of another node, which may live for long.
TEST(Network, AsksFromOutsideLeaveNothingBehind) {
  actor_system a{on_the_network()};
  actor_system b{on_the_network()};
  const auto port = a.publish(a.spawn<far>(), "127.0.0.1", 0);
  ASSERT_TRUE(port);
  const auto r = b.remote<remote_interface>("127.0.0.1", *port);
  ASSERT_TRUE(r) << to_string(r.error());
  const auto ask = [&](int times) {
    for (int i = 0; i < times; ++i) ASSERT_EQ(*b.ask(*r, 20s, question{way::value, 40}), number{42});
    EXPECT_FALSE(b.ask(*r, 1ms, question{way::never, 1}));
  };
  ask(500);
  const auto before = ::mallinfo2().uordblks;
  ask(2000);
  EXPECT_LT(::mallinfo2().uordblks, before + std::size_t{100'000});
}

/// CAF's first word, which comes when the connection was accepted.
bool is_greeted(int fd) {
  char word = 0;
  pollfd one{fd, POLLIN, 0};
  return ::poll(&one, 1, 20'000) > 0 && ::recv(fd, &word, 1, 0) == 1;
}

TEST(Network, WhoSaysNothingIsLeftWhenOthersCome) {
  auto settings = on_the_network();
  settings.connection_timeout = 1h; // which is not why
  actor_system a{settings};
  const auto port = a.publish(a.spawn<far>(), "127.0.0.1", 0);
  ASSERT_TRUE(port);
  const int silent = connect_to(*port);
  ASSERT_TRUE(is_greeted(silent));
  actor_system b{settings};
  const auto r = b.remote<remote_interface>("127.0.0.1", *port);
  ASSERT_TRUE(r) << to_string(r.error());
  std::this_thread::sleep_for(5500ms);
  const int other = connect_to(*port);
  EXPECT_TRUE(is_greeted(other));
  EXPECT_TRUE(ends(silent, 20s));
  const auto answer = b.ask(*r, 20s, question{way::value, 40});
  EXPECT_TRUE(answer) << "who has spoken stays: " << to_string(answer.error());
  ::close(silent);
  ::close(other);
}

// The kernel keeps who comes in its queue, and says so again and again to a loop that asks.
TEST(Network, WhenNoDescriptorIsLeftNewcomersAreClosedAndThoseWhoSayNothingToo) {
  actor_system a{on_the_network()};
  const auto port = a.publish(a.spawn<far>(), "127.0.0.1", 0);
  ASSERT_TRUE(port);
  actor_system b{on_the_network()};
  const int late[] = {::socket(AF_INET, SOCK_STREAM, 0), ::socket(AF_INET, SOCK_STREAM, 0),
                      ::socket(AF_INET, SOCK_STREAM, 0)};
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &before), 0);
  const rlimit little{256, before.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &little), 0);
  std::vector<int> own; // of the sockets on this side
  std::vector<int> silent;
  for (int i = 0; i < 60; ++i) {
    silent.push_back(connect_to(*port));
    EXPECT_TRUE(is_greeted(silent.back()));
  }
  for (int fd = 0; (fd = ::dup(late[0])) >= 0;) own.push_back(fd);
  EXPECT_EQ(errno, EMFILE);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  address.sin_port = htons(*port);
  const auto is_closed = [&](int fd) {
    EXPECT_EQ(::connect(fd, reinterpret_cast<const sockaddr*>(&address), sizeof address), 0);
    return ends(fd, 10s);
  };
  EXPECT_TRUE(is_closed(late[0]));
  EXPECT_TRUE(is_closed(late[1]));
  std::this_thread::sleep_for(5500ms);
  EXPECT_TRUE(is_closed(late[2])) << "it makes room";
  for (const auto fd : silent) EXPECT_TRUE(ends(fd, 10s));
  bool found = false; // CAF closes what has ended soon
  for (int i = 0; i < 1000 && !found; ++i, std::this_thread::sleep_for(10ms))
    found = b.remote<remote_interface>("127.0.0.1", *port).has_value();
  EXPECT_TRUE(found);
  for (const auto* all : {&own, &silent})
    for (const auto fd : *all) ::close(fd);
  for (const auto fd : late) ::close(fd);
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &before), 0);
}

// Two systems of one process, or two processes with one number, are two nodes.
TEST(Network, NodesHaveIdsOfTheirOwn) {
  const auto one = detail::unique_node();
  const auto other = detail::unique_node();
  EXPECT_TRUE(one);
  EXPECT_NE(one, other);
}

TEST(Network, AHostIsFoundByItsNameToo) {
  actor_system a{on_the_network()};
  actor_system b{on_the_network()};
  const auto port = a.publish(a.spawn<far>(), "127.0.0.1", 0);
  ASSERT_TRUE(port);
  const auto r = b.remote<remote_interface>("localhost", *port); // which may be ::1 as well
  ASSERT_TRUE(r) << to_string(r.error());
}

TEST(Network, APortInUseAndAnEmptyPlaceAreErrors) {
  actor_system a{on_the_network()};
  auto f = a.spawn<far>();
  const auto port = a.publish(f, "127.0.0.1", 0);
  ASSERT_TRUE(port);
  EXPECT_FALSE(a.publish(a.spawn<far>(), "127.0.0.1", *port));
  EXPECT_EQ(a.remote<remote_interface>("127.0.0.1", 1).error().code, error_code::down);
  actor_system without;
  EXPECT_EQ(without.publish(without.spawn<far>(), "127.0.0.1", 0).error().code, error_code::unsupported);
}

/// CAF's system with our network.
caf::actor_system_config with_network() {
  caf::actor_system_config out;
  out.module_factories.emplace_back([](caf::actor_system& system) -> caf::actor_system::module* {
    return new detail::network(system, nullptr, nullptr, nullptr);
  });
  return out;
}

// CAF's workers do so with a lock held that the loop may be waiting for, two times for each actor of which a message
// speaks; its pipe has room for 8192.
TEST(Network, WhoGivesTheLoopALotToDoDoesNotWaitForIt) {
  auto config = with_network();
  caf::actor_system system(config);
  auto& loop = system.middleman().backend();
  std::promise<void> go;
  loop.post([waits = go.get_future().share()] { waits.wait(); });
  static constexpr int many = 50'000;
  std::vector<int> done; // the loop's
  std::promise<void> over;
  const auto posted = std::async(std::launch::async, [&] {
    for (int i = 0; i < many; ++i)
      loop.post([&done, &over, i] {
        done.push_back(i);
        if (i + 1 == many) over.set_value();
      });
  });
  EXPECT_EQ(posted.wait_for(20s), std::future_status::ready);
  go.set_value();
  over.get_future().wait();
  EXPECT_EQ(done.size(), static_cast<std::size_t>(many));
  EXPECT_TRUE(std::ranges::is_sorted(done));
}

// An order that is lost might be the network's next turn.
static_assert(noexcept(std::declval<detail::multiplexer&>().exec_later(nullptr)));

TEST(Network, WhatTheLoopHasNotDoneEndsWithItAndMayOrderMore) {
  constexpr int many = 100;
  int ended = 0;
  {
    caf::actor_system_config config;
    caf::actor_system system(config);
    detail::multiplexer loop(&system, nullptr, nullptr);
    loop.thread_id(std::thread::id()); // it has ended
    const auto counts = [&ended](std::nullptr_t) { ++ended; };
    for (int i = 0; i < many; ++i) {
      const std::shared_ptr<void> order(nullptr, [&, counts](std::nullptr_t) {
        ++ended;
        loop.post([last = std::shared_ptr<void>(nullptr, counts)] {});
      });
      loop.post([order] {});
    }
  }
  EXPECT_EQ(ended, 2 * many);
}

// It would go on, hear nothing from others and nothing of that.
TEST(NetworkDeathTest, AProcessWhoseNetworkHasFailedEnds) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_DEATH(
      {
        auto config = with_network();
        caf::actor_system system(config);
        caf::anon_send_exit(system.middleman().named_broker<caf::io::basp_broker>(caf::atom("BASP")),
                            caf::exit_reason::kill);
        std::this_thread::sleep_for(20s);
      },
      "the network between processes has failed");
}

} // namespace
} // namespace godwit::runtime::test
