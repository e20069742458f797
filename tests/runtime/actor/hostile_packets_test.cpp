#include "runtime/actor/slow_way.hpp"
#include "runtime/actor/stranger.hpp"
#include "runtime/actor/test_actors.hpp"

#include "actor/network.hpp"
#include "actor/packets.hpp"

#include <godwit/runtime/actor_system.hpp>

#include <caf/actor_system.hpp>
#include <caf/actor_system_config.hpp>
#include <caf/atom.hpp>
#include <caf/binary_serializer.hpp>
#include <caf/io/basp_broker.hpp>
#include <caf/node_id.hpp>
#include <caf/scoped_execution_unit.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <cstdint>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include <malloc.h>
#include <sys/socket.h>
#include <unistd.h>

/// Packets as CAF 0.17 writes them, and what somebody makes who wants this process to take memory, or to end.
namespace godwit::runtime::test {
namespace {

using namespace std::string_literals;
using way = question::way;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr std::uint8_t server_handshake = 0, client_handshake = 1, direct = 2, routed = 3, monitor = 4, down = 5,
                       heartbeat = 6;
constexpr std::uint8_t named = 1; ///< the receiver
constexpr auto no_request = std::uint64_t{1} << 60U;

std::string big_endian(std::uint64_t value, std::size_t bytes) {
  std::string out(bytes, '\0');
  for (std::size_t i = 0; i < bytes; ++i) out[bytes - 1 - i] = static_cast<char>(value >> (8 * i));
  return out;
}

std::string packet(std::uint8_t operation, std::uint8_t flags, std::uint64_t data, std::uint64_t from, std::uint64_t to,
                   const std::string& payload) {
  return big_endian(operation, 1) + big_endian(flags, 3) + big_endian(payload.size(), 4) + big_endian(data, 8) +
         big_endian(from, 8) + big_endian(to, 8) + payload;
}

/// The id of a node that nobody is, for each `seed`.
std::string node(std::uint64_t seed) {
  return big_endian(caf::atom_uint("default"), 8) + big_endian(7, 4) + std::string(12, 'n') + big_endian(seed, 8);
}

/// The handle of an actor of a node.
std::string actor(std::uint64_t id, const std::string& node) { return big_endian(id, 8) + node; }

std::string nobody() { return actor(0, big_endian(caf::atom_uint(""), 8)); }

/// A message as it lies in others.
std::string content(const std::string& types, const std::string& values) {
  return "\0\0"s + static_cast<char>(types.size()) + types + values;
}

/// A string, or a list of bytes, that says how long it is; of 7 bits each, the lowest first.
std::string length(std::uint64_t value) {
  std::string out;
  for (; value > 0x7F; value >>= 7U) out += static_cast<char>(value | 0x80U);
  return out + static_cast<char>(value);
}

std::string to_spawn_server(const std::string& content) {
  return packet(direct, named, no_request, 7, caf::atom_uint("SpawnServ"), "\0"s + content);
}

/// That says nothing and names `actors`, which are handles one after the other.
std::string envelope(std::uint64_t count, const std::string& actors) {
  return content("@<>+godwit.envelope", std::string(32, '\0') + length(0) + length(count) + actors);
}

actor_system_settings networked() {
  actor_system_settings s;
  s.network = true;
  s.connection_timeout = 1h; // which is not why connections end
  return s;
}

/// One that says what it ended connections for.
class warned_system {
public:
  warned_system() : system_(settings()) {}
  actor_system* operator->() { return &system_; }
  std::vector<std::string> warnings() {
    const std::lock_guard lock(mutex_);
    return warnings_;
  }
  std::vector<std::string> reports() {
    const std::lock_guard lock(mutex_);
    return reports_;
  }

private:
  actor_system_settings settings() {
    auto s = networked();
    s.report = [this](std::string_view, std::string_view text) {
      const std::lock_guard lock(mutex_);
      reports_.emplace_back(text);
    };
    s.warn = [this](std::string_view text) {
      const std::lock_guard lock(mutex_);
      warnings_.emplace_back(text);
    };
    return s;
  }
  std::mutex mutex_;
  std::vector<std::string> warnings_, reports_;
  actor_system system_;
};

bool send_all(int fd, const std::string& bytes) {
  return ::send(fd, bytes.data(), bytes.size(), MSG_NOSIGNAL) == static_cast<ssize_t>(bytes.size());
}

class HostilePackets : public ::testing::Test {
protected:
  std::atomic<int> live_{0};
  warned_system system_;
  handle<server_interface> actor_ = system_->spawn<server>(live_);
  std::uint16_t port_ = *system_->publish(actor_, "127.0.0.1", 0);

  int stranger(std::uint64_t as) {
    const int fd = connect_to(port_);
    EXPECT_TRUE(send_all(fd, packet(client_handshake, 0, 0, 0, 0, node(as))));
    return fd;
  }
  bool reported(std::size_t times) {
    for (int ms = 0; ms < 60'000 && system_.reports().size() < times; ++ms) std::this_thread::sleep_for(1ms);
    return system_.reports().size() >= times;
  }
  void expect_alive() {
    actor_system other{networked()};
    const auto r = other.remote<server_interface>("127.0.0.1", port_);
    ASSERT_TRUE(r) << to_string(r.error());
    EXPECT_EQ(*other.ask(*r, 20s, question{way::value, 42}), number{42});
  }
};

// One packet of some 70 bytes had CAF make a list of 4 GB, whose zeros it filled in.
TEST_F(HostilePackets, TypesThatTakeWhateverTheyAnnounceEndTheConnection) {
  const auto large = content("@<>+@charbuf", length(0xFFFF'FFFF));
  const auto error = big_endian(1, 1) + big_endian(0, 8) + large;
  std::uint64_t seed = 0;
  for (const auto& one :
       {to_spawn_server(large), to_spawn_server(content("@<>+@atom+@charbuf", big_endian(1, 8) + length(0xFFFF'FFFF))),
        to_spawn_server(content("@<>+@message", large)), to_spawn_server(content("@<>+@error", error)),
        to_spawn_server(content("@<>+@unknown", "")),
        // a length of two bytes: the list goes on behind what looks like one
        to_spawn_server("\0\0"s + length(8 + 1024) + "@<>+@str" + "+@charbuf" + std::string(1015, '+') +
                        length(0xFFFF'FFFF)),
        packet(direct, 0, no_request, 7, actor_.id(), "\0"s + large),
        packet(routed, 0, no_request, 7, actor_.id(), node(1) + node(2) + "\0"s + large),
        packet(down, 0, 0, 7, 0, node(1) + node(2) + error)}) {
    const auto before = ::mallinfo2();
    const int fd = stranger(++seed);
    ASSERT_TRUE(send_all(fd, one));
    EXPECT_TRUE(ends(fd, 20s)) << seed;
    ::close(fd);
    const auto after = ::mallinfo2();
    EXPECT_LT(after.uordblks + after.hblkhd, before.uordblks + before.hblkhd + (std::size_t{64} << 20U)) << seed;
  }
  expect_alive();
}

TEST_F(HostilePackets, WhatCafsOwnActorsDoNotExpectIsNotPrinted) {
  ::testing::internal::CaptureStdout();
  const int fd = stranger(1);
  ASSERT_TRUE(send_all(fd, to_spawn_server(content("@<>+@atom+@strong_actor_ptr", big_endian(1, 8) + nobody()))));
  expect_alive();
  ::close(fd);
  EXPECT_EQ(::testing::internal::GetCapturedStdout(), "");
}

// A line each would fill the log's disk.
TEST_F(HostilePackets, MessagesThatCannotBeReadAreReportedOnceASecond) {
  const int fd = stranger(1);
  std::string many;
  for (int i = 0; i < 1000; ++i) many += packet(direct, 0, no_request, 7, actor_.id(), "\0"s + envelope(0, ""));
  const auto begin = std::chrono::steady_clock::now();
  ASSERT_TRUE(send_all(fd, many));
  ASSERT_TRUE(reported(1));
  std::this_thread::sleep_for(1s);
  ASSERT_TRUE(send_all(fd, many));
  expect_alive(); // and has handled them, but perhaps for the last
  ASSERT_TRUE(reported(2));
  const auto seconds = std::chrono::ceil<std::chrono::seconds>(std::chrono::steady_clock::now() - begin).count();
  const auto reports = system_.reports();
  EXPECT_LE(reports.size(), static_cast<std::size_t>(seconds) + 1);
  EXPECT_EQ(reports[0], "a message from another node cannot be read");
  EXPECT_THAT(reports[1], HasSubstr("a message from another node cannot be read (and "));
  ::close(fd);
}

TEST_F(HostilePackets, AMessageOfAsManyActorsAsAClusterHasIsTaken) {
  const int fd = stranger(1);
  std::string actors;
  for (std::uint64_t i = 0; i < detail::envelope_actors_max; ++i) actors += actor(5 + i, node(2 + i % 1000));
  EXPECT_TRUE(send_all(fd, packet(direct, named, no_request, 7, caf::atom_uint("SpawnServ"),
                                  "\0"s + envelope(detail::envelope_actors_max, actors))));
  expect_alive();
  ::close(fd);
  expect_alive();
  EXPECT_THAT(system_.warnings(), IsEmpty());
}

// 4 MB took some hundred times that, for good.
TEST_F(HostilePackets, WhoSpeaksOfTooManyNodesIsLeft) {
  const int fd = stranger(1);
  for (std::uint64_t i = 0; i < 2 * detail::nodes_heard_of::max; i += 256) {
    std::string actors;
    for (std::uint64_t j = 0; j < 256; ++j) actors += actor(5, node(2 + i + j));
    if (!send_all(fd, packet(direct, 0, no_request, 7, actor_.id(), "\0"s + envelope(256, actors)))) break;
  }
  EXPECT_TRUE(ends(fd, 20s));
  ::close(fd);
  EXPECT_THAT(system_.warnings(),
              ElementsAre(AllOf(HasSubstr("the connection of 127.0.0.1:"), HasSubstr("speaks of too many processes"))));
  expect_alive();
}

// Each message may come from another actor.
TEST_F(HostilePackets, WhoSpeaksOfTooManyActorsIsLeft) {
  const int fd = stranger(1);
  std::string many;
  bool takes = true;
  for (std::uint64_t from = 1; from <= 1'000'000 && takes; ++from) {
    many += packet(direct, 0, no_request, from, actor_.id(), "\0"s + envelope(0, ""));
    if (from % 1000 != 0) continue;
    takes = send_all(fd, many);
    many.clear();
  }
  EXPECT_FALSE(takes);
  ::close(fd);
  EXPECT_THAT(system_.warnings(), ElementsAre(HasSubstr("speaks of too many actors")));
  expect_alive();
}

TEST(Packets, ANodeIsTheOneThatItWas) {
  const auto here = detail::unique_node();
  caf::actor_system_config config;
  caf::actor_system system(config);
  caf::scoped_execution_unit unit(&system);
  std::vector<char> bytes;
  caf::binary_serializer out(&unit, bytes);
  ASSERT_FALSE(out(here));
  EXPECT_EQ(detail::node_of({bytes.data(), bytes.size()}), here);
}

TEST(Packets, ASecondAllowsOneNodeMore) {
  std::vector<std::string> names;
  for (std::uint64_t i = 0; i < detail::nodes_heard_of::max; ++i) names.push_back(node(i));
  const std::vector<std::string_view> all(names.begin(), names.end());
  detail::nodes_heard_of nodes;
  EXPECT_TRUE(nodes.admit(all, 0s));
  EXPECT_TRUE(nodes.admit(all, 0s)) << "it knows these";
  EXPECT_TRUE(nodes.admit({"one more"}, 1s));
  EXPECT_FALSE(nodes.admit({"and one"}, 1s));
}

// A connection that has said little for a day may not say all of it at once then.
TEST(Packets, WhatAConnectionDidNotSayIsNotSavedUp) {
  std::vector<std::string> names;
  for (std::uint64_t i = 0; i <= detail::nodes_heard_of::max; ++i) names.push_back(node(i));
  const std::vector<std::string_view> all(names.begin(), names.end());
  detail::nodes_heard_of nodes;
  EXPECT_TRUE(nodes.admit({all.front()}, 0s));
  EXPECT_TRUE(nodes.admit({all.begin() + 1, all.end()}, 24h));
  EXPECT_FALSE(nodes.admit({"one more"}, 24h));
}

std::optional<std::size_t> nodes_of(const std::string& bytes) {
  const detail::packet_header header(bytes.data());
  if (!header.is_harmless()) return {};
  if (header.payload_bytes == 0) return 0;
  const auto nodes = detail::nodes_of_harmless(header, std::string_view(bytes).substr(32));
  return nodes ? std::optional(nodes->size()) : std::nullopt;
}

TEST(Packets, WhatSystemsSayIsHarmless) {
  const auto says = content("@<>+godwit.envelope", std::string(32, '\x01') + length(16) + "any @<>+@charbuf"s + "\0"s);
  const auto names = envelope(3, actor(1, node(1)) + nobody() + actor(2, node(2)));
  const auto nothing = big_endian(0, 1) + big_endian(0, 8) + content("@<>", "");
  const auto spawn_server = content("@<>+@atom+@str+@strong_actor_ptr+@str",
                                    big_endian(1, 8) + length(4) + "info" + actor(1, node(1)) + length(2) + "it");
  const auto error = big_endian(1, 1) + big_endian(2, 8) + content("@<>+@str", length(300) + std::string(300, 'w'));
  EXPECT_EQ(nodes_of(packet(client_handshake, 0, 0, 0, 0, node(1))), 1U);
  EXPECT_EQ(nodes_of(packet(server_handshake, 0, 0, 0, 0, node(1) + "\x01\x03" + "app" + "what it is"s)), 1U);
  EXPECT_EQ(nodes_of(packet(heartbeat, 0, 0, 0, 0, "")), 0U);
  EXPECT_EQ(nodes_of(packet(monitor, 0, 0, 0, 9, node(1) + node(2))), 2U);
  EXPECT_EQ(nodes_of(packet(direct, 0, no_request, 7, 8, "\0"s + says)), 0U);
  EXPECT_EQ(nodes_of(packet(routed, 0, no_request, 7, 8, node(1) + node(2) + "\0"s + names)), 4U);
  EXPECT_EQ(nodes_of(packet(down, 0, 0, 7, 0, node(1) + node(2) + nothing)), 2U);
  EXPECT_EQ(nodes_of(packet(direct, 0, no_request, 7, 8, "\0"s + content("@<>+@error", error))), 0U);
  EXPECT_EQ(nodes_of(packet(direct, 0, no_request, 7, 8, "\0"s + spawn_server)), 1U);
  EXPECT_EQ(nodes_of(packet(direct, 0, no_request, 7, 8, "\0"s + content("@<>+@down", actor(1, node(1)) + nothing))),
            1U);
}

// The number of an actor may look like the beginning of a list of types.
TEST(Packets, WhatOnlyLooksLikeTypesIsNone) {
  const auto link = content("@<>+@atom+@strong_actor_ptr", big_endian(1, 8) + actor(0x403C3E, node(1)));
  EXPECT_EQ(nodes_of(packet(direct, 0, no_request, 7, 8, "\0"s + link)), 1U);
}

TEST(Packets, WhatSystemsDoNotSayIsNot) {
  const auto says = envelope(0, "");
  EXPECT_FALSE(nodes_of(packet(direct, 0, no_request, 7, 8, "")));
  EXPECT_FALSE(nodes_of(packet(client_handshake, 0, 0, 0, 0, "")));
  EXPECT_FALSE(nodes_of(packet(client_handshake, 0, 0, 0, 0, std::string(1U << 20U, 'n'))));
  EXPECT_FALSE(nodes_of(packet(client_handshake, 0, 0, 0, 0, big_endian(caf::atom_uint("uri"), 8) + "\x03tcp")));
  EXPECT_FALSE(nodes_of(packet(9, 0, 0, 0, 0, node(1)))) << "no such operation";
  EXPECT_FALSE(nodes_of(packet(direct, 0, no_request, 7, 8, std::string(1U << 20U, '\0')))) << "no envelope";
  EXPECT_FALSE(nodes_of(packet(direct, 0, no_request, 7, 8,
                               "\0"s + content("@<>+@str", length(1U << 20U) + std::string(1U << 20U, 'x')))))
      << "nor are so many of CAF's own words";
  EXPECT_FALSE(nodes_of(packet(direct, 0, no_request, 7, 8, node(1) + node(2) + "\0"s + says)))
      << "only a routed one begins with nodes";
  EXPECT_FALSE(nodes_of(packet(direct, 0, no_request, 7, 8, length(1) + actor(1, node(1)) + says)))
      << "to be sent on to another actor";
  EXPECT_FALSE(nodes_of(packet(direct, 0, no_request, 7, 8, "\0"s + envelope(2, actor(1, node(1))))))
      << "it ends early";
  EXPECT_FALSE(nodes_of(packet(direct, 0, no_request, 7, 8, "\0"s + says + "x"))) << "and goes on";
  std::string actors;
  for (std::size_t i = 0; i <= detail::envelope_actors_max; ++i) actors += nobody();
  EXPECT_FALSE(
      nodes_of(packet(direct, 0, no_request, 7, 8, "\0"s + envelope(detail::envelope_actors_max + 1, actors))));
  auto error = content("@<>", "");
  for (int i = 0; i < 100; ++i) error = content("@<>+@error", big_endian(1, 1) + big_endian(2, 8) + error);
  EXPECT_FALSE(nodes_of(packet(direct, 0, no_request, 7, 8, "\0"s + error))) << "as deep as a stranger likes";
}

// CAF would keep what waits for it, up to the last byte of memory.
TEST(Packets, WhoTakesNothingOfALotLosesTheConnection) {
  std::atomic<int> live{0};
  actor_system b{networked()};
  const auto port = b.publish(b.spawn<server>(live), "127.0.0.1", 0);
  ASSERT_TRUE(port);
  slow_way way_there(*port, 0ms);
  actor_system a{networked()};
  const auto r = a.remote<server_interface>("127.0.0.1", way_there.port());
  ASSERT_TRUE(r) << to_string(r.error());
  way_there.block();
  async::error why;
  for (int i = 0; i < 12 && why.code != async::error_code::down; ++i) {
    question large{way::value, 1};
    large.padding.assign(32, std::string(1U << 20U, 'x'));
    why = a.ask(*r, 100ms, std::move(large)).error();
  }
  EXPECT_EQ(a.ask(*r, 20s, question{way::value, 1}).error().code, async::error_code::down);
}

// CAF keeps an actor for each node that was ever connected.
TEST_F(HostilePackets, NodesThatAreGoneLeaveNothing) {
  const auto come_and_go = [this](int times) {
    for (int i = 0; i < times; ++i) {
      static std::uint64_t seed = 1000;
      const int fd = stranger(++seed);
      ::shutdown(fd, SHUT_WR);
      EXPECT_TRUE(ends(fd, 20s));
      ::close(fd);
    }
    expect_alive();
  };
  come_and_go(300);
  const auto before = ::mallinfo2().uordblks;
  come_and_go(2000);
  EXPECT_LT(::mallinfo2().uordblks, before + std::size_t{500'000});
}

} // namespace
} // namespace godwit::runtime::test
