#include "runtime/actor/slow_way.hpp"
#include "runtime/actor/stranger.hpp"
#include "runtime/actor/test_actors.hpp"

#include "actor/network.hpp"
#include "actor/packets.hpp"

#include <godwit/runtime/actor_system.hpp>

#include <caf/atom.hpp>
#include <caf/io/basp_broker.hpp>
#include <caf/node_id.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <cstdint>
#include <string>
#include <thread>

#include <malloc.h>
#include <sys/socket.h>
#include <unistd.h>

/// Packets as CAF 0.17 writes them, and what somebody makes who wants this process to take memory, or to end.
namespace godwit::runtime::test {
namespace {

using namespace std::string_literals;
using way = question::way;

constexpr std::uint8_t client_handshake = 1, direct = 2, routed = 3, down = 5, heartbeat = 6;
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

actor_system_settings networked() {
  actor_system_settings s;
  s.network = true;
  s.connection_timeout = 1h; // which is not why connections end
  return s;
}

bool send_all(int fd, const std::string& bytes) {
  return ::send(fd, bytes.data(), bytes.size(), MSG_NOSIGNAL) == static_cast<ssize_t>(bytes.size());
}

class HostilePackets : public testing::Test {
protected:
  std::atomic<int> live_{0};
  actor_system system_{networked()};
  handle<server_interface> actor_ = system_.spawn<server>(live_);
  std::uint16_t port_ = *system_.publish(actor_, "127.0.0.1", 0);

  int stranger(std::uint64_t as) {
    const int fd = connect_to(port_);
    EXPECT_TRUE(send_all(fd, packet(client_handshake, 0, 0, 0, 0, node(as))));
    return fd;
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
  testing::internal::CaptureStdout();
  const int fd = stranger(1);
  ASSERT_TRUE(send_all(fd, to_spawn_server(content("@<>+@atom+@strong_actor_ptr", std::string(24, '\0')))));
  expect_alive();
  ::close(fd);
  EXPECT_EQ(testing::internal::GetCapturedStdout(), "");
}

TEST(Packets, WhatSystemsSayIsHarmless) {
  const auto is_harmless = [](const std::string& bytes) {
    const detail::packet_header header(bytes.data());
    return header.is_harmless() && (header.payload_bytes == 0 || detail::is_harmless(header, bytes.substr(32)));
  };
  const auto envelope = content("@<>+godwit.envelope", std::string(32, '\x01') + "\x0F"s + "any @<>+@charbuf"s + "\0"s);
  const auto nothing = big_endian(0, 1) + big_endian(0, 8) + content("@<>", "");
  EXPECT_TRUE(is_harmless(packet(client_handshake, 0, 0, 0, 0, node(1))));
  EXPECT_TRUE(is_harmless(packet(heartbeat, 0, 0, 0, 0, "")));
  EXPECT_TRUE(is_harmless(packet(direct, 0, no_request, 7, 8, "\0"s + envelope)));
  EXPECT_TRUE(is_harmless(packet(routed, 0, no_request, 7, 8, node(1) + node(2) + "\0"s + envelope)));
  EXPECT_TRUE(is_harmless(packet(down, 0, 0, 7, 0, node(1) + node(2) + nothing)));
  EXPECT_TRUE(is_harmless(packet(direct, 0, no_request, 7, 8, "\0"s + content("@<>+@error", nothing))));
  EXPECT_FALSE(is_harmless(packet(direct, 0, no_request, 7, 8, "")));
  EXPECT_FALSE(is_harmless(packet(client_handshake, 0, 0, 0, 0, "")));
  EXPECT_FALSE(is_harmless(packet(client_handshake, 0, 0, 0, 0, std::string(1U << 20U, 'n'))));
  EXPECT_FALSE(is_harmless(packet(direct, 0, no_request, 7, 8, std::string(1U << 20U, '\0')))) << "no envelope";
  EXPECT_FALSE(is_harmless(packet(direct, 0, no_request, 7, 8, node(1) + node(2) + "\0"s + envelope)))
      << "only a routed one begins with nodes";
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
