// Actors of two systems whose connections are in TLS, and whoever should not get in.
#include "runtime/actor/test_actors.hpp"
#include "support/certificates.hpp"

#include <godwit/runtime/actor_system.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

namespace godwit::runtime::test {
namespace {

using async::error_code;
using godwit::test::authority;
using testing::HasSubstr;
using way = question::way;

class NetworkTls : public testing::Test {
protected:
  NetworkTls() {
    own_.sign("node", "IP:127.0.0.1,DNS:localhost");
    own_.sign("elsewhere", "IP:192.0.2.7,DNS:elsewhere.example");
    foreign_.sign("node", "IP:127.0.0.1,DNS:localhost");
  }

  static tls_files files(const authority& whose, const std::string& subject) {
    return {whose.certificate_of(subject), whose.key_of(subject), whose.file()};
  }
  actor_system_settings networked(std::optional<tls_files> tls) {
    actor_system_settings s;
    s.network = true;
    s.connection_timeout = 10s;
    s.tls = std::move(tls);
    s.tls_warning = [this](std::string_view line) {
      const std::lock_guard lock(mutex_);
      warnings_.emplace_back(line);
    };
    return s;
  }
  actor_system_settings networked() { return networked(files(own_, "node")); }
  /// The first warning that begins so, within a while; else all of them.
  std::string warning(const std::string& begin) {
    for (int i = 0; i < 1000; ++i, std::this_thread::sleep_for(10ms)) {
      const std::lock_guard lock(mutex_);
      for (const auto& one : warnings_)
        if (one.starts_with(begin)) return one;
    }
    const std::lock_guard lock(mutex_);
    return testing::PrintToString(warnings_);
  }
  std::uint16_t publish(actor_system& system, const std::string& host = "127.0.0.1") {
    const auto port = system.publish(system.spawn<server>(live_), host, 0);
    EXPECT_TRUE(port) << to_string(port.error());
    return port ? *port : 0;
  }
  static int connect_to(std::uint16_t port) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    address.sin_port = htons(port);
    const int fd = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    EXPECT_EQ(::connect(fd, reinterpret_cast<const sockaddr*>(&address), sizeof address), 0);
    return fd;
  }
  /// Whether the other side ends the connection within `limit`; it is closed then.
  static bool ends(int fd, std::chrono::milliseconds limit) {
    pollfd one{fd, POLLIN, 0};
    bool left = false;
    for (char bytes[4096]; !left && ::poll(&one, 1, static_cast<int>(limit.count())) > 0;)
      left = ::recv(fd, bytes, sizeof bytes, 0) <= 0;
    ::close(fd);
    return left;
  }

  authority own_{"own"};
  authority foreign_{"foreign"};
  std::atomic<int> live_{0};
  std::mutex mutex_;
  std::vector<std::string> warnings_;
};

TEST_F(NetworkTls, ActorsReachEachOtherByAddressAndByName) {
  actor_system a{networked()};
  const auto port = publish(a);
  actor_system b{networked()};
  for (const auto* host : {"127.0.0.1", "localhost"}) {
    const auto r = b.remote<server_interface>(host, port);
    ASSERT_TRUE(r) << to_string(r.error());
    EXPECT_TRUE(r->ref().remote());
    for (int i = 0; i < 100; ++i) EXPECT_EQ(*b.ask(*r, 5s, question{way::value, i}), number{i});
  }
  const std::lock_guard lock(mutex_);
  EXPECT_THAT(warnings_, testing::IsEmpty());
}

TEST_F(NetworkTls, LargeMessagesArriveBothWaysAtOnce) {
  actor_system a{networked()};
  const auto port = publish(a);
  actor_system b{networked()};
  const auto there = b.remote<server_interface>("127.0.0.1", port);
  ASSERT_TRUE(there) << to_string(there.error());
  const auto back = publish(b);
  const auto here = a.remote<server_interface>("127.0.0.1", back);
  ASSERT_TRUE(here) << to_string(here.error());
  const auto burden = [](std::int64_t value) {
    question q{way::value, value};
    q.padding.assign(8, std::string(1U << 20U, 'x'));
    return q;
  };
  std::jthread other([&] {
    for (int i = 0; i < 8; ++i) EXPECT_EQ(*a.ask(*here, 30s, burden(i)), number{i});
  });
  for (int i = 0; i < 8; ++i) EXPECT_EQ(*b.ask(*there, 30s, burden(i)), number{i});
}

TEST_F(NetworkTls, WithoutACertificateOfTheClusterNobodyGetsIn) {
  actor_system a{networked()};
  const auto port = publish(a);
  auto stranger = files(foreign_, "node");
  stranger.authorities = own_.file(); // it would let us in
  actor_system b{networked(stranger)};
  const auto r = b.remote<server_interface>("127.0.0.1", port, 5s);
  ASSERT_FALSE(r);
  EXPECT_EQ(r.error().code, error_code::down);
  EXPECT_THAT(r.error().message, HasSubstr("unknown ca")) << "it hears why";
  EXPECT_THAT(warning("turned away 127.0.0.1:"), HasSubstr("certificate verify failed"));
}

TEST_F(NetworkTls, AServerOfAnotherAuthorityIsNotSpokenTo) {
  actor_system a{networked(files(foreign_, "node"))};
  const auto port = publish(a);
  actor_system b{networked()};
  const auto r = b.remote<server_interface>("127.0.0.1", port, 5s);
  ASSERT_FALSE(r);
  EXPECT_THAT(r.error().message, HasSubstr("certificate verify failed"));
}

TEST_F(NetworkTls, AServerWhoseCertificateIsForAnotherHostIsNotSpokenTo) {
  actor_system a{networked(files(own_, "elsewhere"))};
  const auto port = publish(a);
  actor_system b{networked()};
  EXPECT_THAT(b.remote<server_interface>("127.0.0.1", port, 5s).error().message, HasSubstr("IP address mismatch"));
  EXPECT_THAT(b.remote<server_interface>("localhost", port, 5s).error().message, HasSubstr("hostname mismatch"));
  // One that only connects has a certificate for whatever host.
  const auto back = publish(b);
  EXPECT_TRUE(a.remote<server_interface>("127.0.0.1", back));
}

TEST_F(NetworkTls, OneSideInTheClearReachesNobody) {
  actor_system plain{networked(std::nullopt)};
  actor_system safe{networked()};
  const auto in_tls = publish(safe);
  const auto in_the_clear = publish(plain);
  const auto begin = std::chrono::steady_clock::now();
  EXPECT_FALSE(plain.remote<server_interface>("127.0.0.1", in_tls, 2s));
  EXPECT_THAT(safe.remote<server_interface>("127.0.0.1", in_the_clear, 2s).error().message,
              HasSubstr("does not speak it"));
  EXPECT_LT(std::chrono::steady_clock::now() - begin, 10s);
}

TEST_F(NetworkTls, WhoSaysNothingIsLeftAfterAWhileAndHoldsUpNobody) {
  actor_system a{networked()};
  const auto port = publish(a);
  std::vector<int> silent(8);
  for (auto& one : silent) one = connect_to(port);
  const int noisy = connect_to(port);
  ASSERT_EQ(::send(noisy, "GET / HTTP/1.1\r\n\r\n", 18, 0), 18);
  EXPECT_TRUE(ends(noisy, 5s));
  actor_system b{networked()};
  const auto r = b.remote<server_interface>("127.0.0.1", port);
  ASSERT_TRUE(r) << to_string(r.error());
  for (const auto one : silent) EXPECT_TRUE(ends(one, 20s));
  EXPECT_EQ(*b.ask(*r, 5s, question{way::value, 1}), number{1});
}

TEST_F(NetworkTls, TooManyWhoSayNothingAreClosedAtOnce) {
  actor_system a{networked()};
  const auto port = publish(a);
  std::vector<int> silent(256);
  for (auto& one : silent) one = connect_to(port);
  std::this_thread::sleep_for(50ms);
  EXPECT_TRUE(ends(connect_to(port), 4s));
  for (const auto one : silent) ::close(one);
  actor_system b{networked()};
  async::expected<handle<server_interface>> r{async::error{}};
  for (int i = 0; !r && i < 100; ++i) { // until it has seen them go
    r = b.remote<server_interface>("127.0.0.1", port, 10s);
    if (!r) std::this_thread::sleep_for(20ms);
  }
  EXPECT_TRUE(r);
}

TEST_F(NetworkTls, AnAskEndsWithTheOtherSystem) {
  auto a = std::make_unique<actor_system>(networked());
  const auto port = publish(*a);
  actor_system b{networked()};
  const auto r = b.remote<server_interface>("127.0.0.1", port);
  ASSERT_TRUE(r) << to_string(r.error());
  std::thread ender{[&] {
    std::this_thread::sleep_for(100ms);
    a.reset();
  }};
  const auto begin = std::chrono::steady_clock::now();
  const auto x = b.ask(*r, 20s, question{way::never});
  ender.join();
  ASSERT_FALSE(x);
  EXPECT_EQ(x.error().code, error_code::down);
  EXPECT_LT(std::chrono::steady_clock::now() - begin, 5s);
}

TEST_F(NetworkTls, ASystemEndsSoonWhoeverConnects) {
  std::vector<int> silent;
  std::chrono::steady_clock::time_point begin;
  {
    actor_system a{networked()};
    const auto port = publish(a);
    for (int i = 0; i < 4; ++i) silent.push_back(connect_to(port));
    std::this_thread::sleep_for(50ms);
    begin = std::chrono::steady_clock::now();
  }
  EXPECT_LT(std::chrono::steady_clock::now() - begin, 900ms) << "they are not waited for";
  for (const auto one : silent) EXPECT_TRUE(ends(one, 5s));
}

TEST_F(NetworkTls, ManyComeAndGoAtOnce) {
  actor_system a{networked()};
  const auto port = publish(a);
  std::vector<std::jthread> all;
  for (int t = 0; t < 4; ++t)
    all.emplace_back([&] {
      for (int i = 0; i < 8; ++i) {
        actor_system b{networked()};
        const auto r = b.remote<server_interface>("127.0.0.1", port);
        ASSERT_TRUE(r) << to_string(r.error());
        EXPECT_EQ(*b.ask(*r, 10s, question{way::value, i}), number{i});
      }
    });
}

TEST_F(NetworkTls, FilesThatChangeAreReadAgain) {
  actor_system a{networked()};
  const auto port = publish(a);
  actor_system b{networked()};
  const auto before = b.remote<server_interface>("127.0.0.1", port);
  ASSERT_TRUE(before) << to_string(before.error());
  const auto later = [](const std::string& file) {
    std::filesystem::last_write_time(file, std::filesystem::last_write_time(file) + 2s);
  };
  own_.sign("node", "IP:192.0.2.7");
  later(own_.certificate_of("node"));
  later(own_.key_of("node"));
  actor_system c{networked()};
  EXPECT_THAT(c.remote<server_interface>("127.0.0.1", port, 5s).error().message, HasSubstr("IP address mismatch"));
  EXPECT_EQ(*b.ask(*before, 5s, question{way::value, 3}), number{3}) << "who is in stays in";
  std::ofstream(own_.key_of("node")) << "half a file";
  later(own_.key_of("node"));
  EXPECT_THAT(b.remote<server_interface>("127.0.0.1", port, 5s).error().message, HasSubstr("IP address mismatch"))
      << "it stays with what it had";
  EXPECT_THAT(warning("cannot use the key " + own_.key_of("node")), HasSubstr("what was read before stays in use"));
}

TEST_F(NetworkTls, FilesThatCannotBeUsedAreNamed) {
  EXPECT_EQ(check_tls(files(own_, "node")), "");
  auto none = files(own_, "node");
  none.certificate = own_.certificate_of("nobody");
  EXPECT_THAT(check_tls(none), HasSubstr("cannot use the certificate " + none.certificate));
  auto other_key = files(own_, "node");
  other_key.key = own_.key_of("elsewhere");
  EXPECT_THAT(check_tls(other_key), HasSubstr("the key " + other_key.key));
  auto no_authorities = files(own_, "node");
  no_authorities.authorities = own_.key_of("node");
  EXPECT_THAT(check_tls(no_authorities), HasSubstr("cannot use the authorities"));
  EXPECT_THROW(actor_system{networked(none)}, std::runtime_error);
}

} // namespace
} // namespace godwit::runtime::test
