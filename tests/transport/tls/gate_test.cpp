// Actors of two systems whose connections are in TLS, and whoever should not get in.
#include "runtime/actor/slow_way.hpp"
#include "runtime/actor/stranger.hpp"
#include "runtime/actor/test_actors.hpp"
#include "support/certificates.hpp"

#include <godwit/runtime/actor_system.hpp>
#include <godwit/transport/tls/gate.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <openssl/err.h>
#include <openssl/ssl.h>

#include <fstream>
#include <future>
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

namespace godwit::transport::tls {
namespace {

using namespace std::chrono_literals;
using namespace runtime;
using namespace runtime::test;

using async::error_code;
using godwit::test::authority;
using ::testing::HasSubstr;
using way = question::way;

class NetworkTls : public ::testing::Test {
protected:
  NetworkTls() {
    own_.sign("node", "IP:127.0.0.1,DNS:localhost");
    own_.sign("elsewhere", "IP:192.0.2.7,DNS:elsewhere.example");
    foreign_.sign("node", "IP:127.0.0.1,DNS:localhost");
  }

  static node_files files(const authority& whose, const std::string& subject) {
    return {whose.certificate_of(subject), whose.key_of(subject), whose.file()};
  }
  std::shared_ptr<async::connection_gate> gate(const node_files& tls) {
    auto made = make_gate(tls, [this](std::string_view line) {
      const std::lock_guard lock(mutex_);
      warnings_.emplace_back(line);
    });
    EXPECT_TRUE(made) << to_string(made.error());
    return made ? *made : nullptr;
  }
  actor_system_settings networked(const std::optional<node_files>& tls) {
    actor_system_settings s;
    s.network = true;
    s.connection_timeout = 60s; // none of these is about silence, and machines stand still for a while
    if (tls) s.gate = gate(*tls);
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
    return ::testing::PrintToString(warnings_);
  }
  std::uint16_t publish(actor_system& system, const std::string& host = "127.0.0.1") {
    const auto port = system.publish(system.spawn<server>(live_), host, 0);
    EXPECT_TRUE(port) << to_string(port.error());
    return port ? *port : 0;
  }
  /// Why `system` does not reach a server there; empty: it does.
  static std::string refusal(actor_system& system, const std::string& host, std::uint16_t port,
                             std::chrono::milliseconds timeout) {
    const auto r = system.remote<server_interface>(host, port, timeout);
    return r ? std::string() : r.error().message;
  }
  /// Its answer; -1: none came.
  static std::int64_t ask(actor_system& system, const handle<server_interface>& whom, question q) {
    const auto answer = system.ask(whom, 60s, std::move(q));
    EXPECT_TRUE(answer) << to_string(answer.error());
    return answer ? answer->value : -1;
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
    for (int i = 0; i < 100; ++i) EXPECT_EQ(ask(b, *r, question{way::value, i}), i);
  }
  const std::lock_guard lock(mutex_);
  EXPECT_THAT(warnings_, ::testing::IsEmpty());
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
    q.padding.assign(2, std::string(1U << 20U, 'x'));
    return q;
  };
  std::jthread other([&] {
    for (int i = 0; i < 8; ++i) EXPECT_EQ(ask(a, *here, burden(i)), i);
  });
  for (int i = 0; i < 8; ++i) EXPECT_EQ(ask(b, *there, burden(i)), i);
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

/// A client of OpenSSL's own: what it hears, or an empty line.
std::string greet(int fd, int version_max) {
  std::unique_ptr<SSL_CTX, decltype(&SSL_CTX_free)> context(SSL_CTX_new(TLS_client_method()), SSL_CTX_free);
  SSL_CTX_set_max_proto_version(context.get(), version_max);
  std::unique_ptr<SSL, decltype(&SSL_free)> ssl(SSL_new(context.get()), SSL_free);
  SSL_set_fd(ssl.get(), fd);
  char bytes[64];
  ERR_clear_error();
  if (SSL_connect(ssl.get()) == 1 && SSL_read(ssl.get(), bytes, sizeof bytes) > 0) return {};
  char why[256];
  ERR_error_string_n(ERR_get_error(), why, sizeof why);
  return why;
}

TEST_F(NetworkTls, WhoShowsNoCertificateOrSpeaksAnOlderTlsHearsNothing) {
  actor_system a{networked()};
  const auto port = publish(a);
  for (const auto& [version, said] :
       {std::pair{TLS1_3_VERSION, "certificate required"}, std::pair{TLS1_2_VERSION, "protocol version"}}) {
    const auto fd = connect_to(port);
    EXPECT_THAT(greet(fd, version), HasSubstr(said));
    ::close(fd);
  }
  EXPECT_THAT(warning("turned away 127.0.0.1:"), HasSubstr("peer did not return a certificate"));
}

TEST_F(NetworkTls, WhoseCertificateIsRefusedIsTold) {
  own_.sign("old", "IP:127.0.0.1", -7200);
  actor_system a{networked(files(own_, "old"))};
  EXPECT_THAT(warning("the certificate "), HasSubstr("has expired")) << "before anybody comes";
  const auto port = publish(a);
  actor_system b{networked()};
  EXPECT_THAT(refusal(b, "127.0.0.1", port, 5s), HasSubstr("certificate has expired")) << "the server's";
  EXPECT_THAT(warning("turned away 127.0.0.1:"), HasSubstr("it refuses this side's certificate"));
}

TEST_F(NetworkTls, ACertificateThatIsNotValidIsToldOfWhenItIsRead) {
  actor_system a{networked()};
  const auto port = publish(a);
  own_.sign("node", "IP:127.0.0.1", 3600);
  actor_system b{networked(std::nullopt)};
  (void)refusal(b, "127.0.0.1", port, 1s);
  EXPECT_THAT(warning("the certificate "), HasSubstr("is not valid yet"));
}

// As checks of health do, and scans of ports.
TEST_F(NetworkTls, WhoLeavesWithoutAWordIsNoNewsAndOthersAreNamedAndCounted) {
  actor_system a{networked()};
  const auto port = publish(a);
  const linger at_once{1, 0};
  for (const bool resets : {false, true}) {
    const int silent = connect_to(port);
    if (resets) ::setsockopt(silent, SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once);
    ::close(silent);
  }
  for (int i = 0; i < 3; ++i) {
    const int noisy = connect_to(port);
    ASSERT_EQ(::send(noisy, "GET / HTTP/1.1\r\n\r\n", 18, 0), 18);
    EXPECT_TRUE(ends(noisy, 20s));
    ::close(noisy);
  }
  EXPECT_THAT(warning("turned away "), ::testing::StartsWith("turned away 127.0.0.1:"));
  std::this_thread::sleep_for(1100ms);
  const int resets = connect_to(port);
  ASSERT_EQ(::send(resets, "\x16\x03", 2, 0), 2);
  std::this_thread::sleep_for(100ms);
  ::setsockopt(resets, SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once);
  ::close(resets);
  for (int i = 0; i < 1000; ++i, std::this_thread::sleep_for(10ms)) {
    const std::lock_guard lock(mutex_);
    if (warnings_.size() > 1) break;
  }
  const std::lock_guard lock(mutex_);
  ASSERT_EQ(warnings_.size(), 2U) << ::testing::PrintToString(warnings_);
  EXPECT_THAT(warnings_[1], ::testing::StartsWith("turned away 127.0.0.1:"));
  EXPECT_THAT(warnings_[1], ::testing::EndsWith("(and 2 others before it)"));
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
  EXPECT_THAT(refusal(b, "127.0.0.1", port, 5s), HasSubstr("IP address mismatch"));
  EXPECT_THAT(refusal(b, "localhost", port, 5s), HasSubstr("hostname mismatch"));
  // One that only connects has a certificate for whatever host.
  const auto back = publish(b);
  EXPECT_TRUE(a.remote<server_interface>("127.0.0.1", back));
}

TEST_F(NetworkTls, TheSubjectsNameIsNoHost) {
  own_.sign("localhost", "IP:127.0.0.1");
  actor_system a{networked(files(own_, "localhost"))};
  const auto port = publish(a);
  actor_system b{networked()};
  EXPECT_TRUE(b.remote<server_interface>("127.0.0.1", port));
  const auto r = b.remote<server_interface>("localhost", port, 5s);
  ASSERT_FALSE(r);
  EXPECT_THAT(r.error().message, HasSubstr("hostname mismatch"));
}

TEST_F(NetworkTls, AnAddressWithAZoneIsCheckedToo) {
  actor_system a{networked()};
  const auto port = a.publish(a.spawn<server>(live_), "::1", 0);
  if (!port) GTEST_SKIP() << "no IPv6: " << to_string(port.error());
  actor_system b{networked()};
  for (const auto* host : {"::1", "::1%1"}) {
    const auto r = b.remote<server_interface>(host, *port, 5s);
    ASSERT_FALSE(r) << host << " is in no certificate";
    EXPECT_THAT(r.error().message, HasSubstr("IP address mismatch")) << host;
  }
  own_.sign("six", "IP:::1");
  actor_system c{networked(files(own_, "six"))};
  const auto six = c.publish(c.spawn<server>(live_), "::1", 0);
  ASSERT_TRUE(six);
  EXPECT_TRUE(b.remote<server_interface>("::1", *six, 5s));
}

TEST_F(NetworkTls, OneSideInTheClearReachesNobody) {
  actor_system plain{networked(std::nullopt)};
  actor_system safe{networked()};
  const auto in_tls = publish(safe);
  const auto in_the_clear = publish(plain);
  const auto begin = std::chrono::steady_clock::now();
  EXPECT_FALSE(plain.remote<server_interface>("127.0.0.1", in_tls, 2s));
  EXPECT_THAT(refusal(safe, "127.0.0.1", in_the_clear, 20s), HasSubstr("does not speak it"));
  EXPECT_LT(std::chrono::steady_clock::now() - begin, 10s);
}

TEST_F(NetworkTls, WhoSaysNothingIsLeftAfterAWhileAndHoldsUpNobody) {
  actor_system a{networked()};
  const auto port = publish(a);
  std::vector<int> silent(8);
  for (auto& one : silent) one = connect_to(port);
  const int noisy = connect_to(port);
  ASSERT_EQ(::send(noisy, "GET / HTTP/1.1\r\n\r\n", 18, 0), 18);
  EXPECT_TRUE(ends(noisy, 20s));
  ::close(noisy);
  EXPECT_THAT(warning("turned away 127.0.0.1:"), HasSubstr("http request")) << "not that its time is over";
  actor_system b{networked()};
  const auto r = b.remote<server_interface>("127.0.0.1", port);
  ASSERT_TRUE(r) << to_string(r.error());
  for (const auto one : silent) {
    EXPECT_TRUE(ends(one, 20s));
    ::close(one);
  }
  EXPECT_EQ(ask(b, *r, question{way::value, 1}), 1);
}

TEST_F(NetworkTls, TooManyWhoSayNothingAreClosedAtOnce) {
  actor_system a{networked()};
  const auto port = publish(a);
  std::vector<int> silent(256);
  for (auto& one : silent) one = connect_to(port);
  const int late = connect_to(port);
  EXPECT_TRUE(ends(late, 20s));
  ::close(late);
  EXPECT_THAT(warning("turned away 127.0.0.1:"), HasSubstr("too many connections")) << "not that its time is over";
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

// CAF closes its end with words of the other side unread; they must not cost its own.
TEST_F(NetworkTls, WhatWasWrittenBeforeTheEndArrives) {
  const auto accepting = gate(files(own_, "node"));
  const auto connecting = gate(files(own_, "node"));
  sockaddr_in address{};
  const async::descriptor listener(listen_in_vain(5, address));
  async::descriptor socket(connect_to(ntohs(address.sin_port)));
  std::promise<async::descriptor> entered;
  accepting->accept(async::descriptor(::accept(listener.get(), nullptr, nullptr)), [&](async::descriptor plain) {
    EXPECT_EQ(::send(plain.get(), "hello", 5, MSG_NOSIGNAL), 5);
    entered.set_value(std::move(plain));
  });
  auto here = connecting->connect(std::move(socket), "127.0.0.1", std::chrono::steady_clock::now() + 10s);
  ASSERT_TRUE(here) << to_string(here.error());
  const auto there = entered.get_future().get();
  std::jthread talks([&](const std::stop_token& over) {
    const std::string words(4096, 'w');
    while (!over.stop_requested() && ::send(there.get(), words.data(), words.size(), MSG_NOSIGNAL) > 0) {
    }
  });
  std::jthread leaves([plain = std::move(*here)]() mutable {
    const std::string words(1U << 20U, 'x');
    for (int i = 0; i < 4; ++i) EXPECT_EQ(::send(plain.get(), words.data(), words.size(), MSG_NOSIGNAL), 1 << 20);
    plain = {};
  });
  std::size_t heard = 0;
  std::vector<char> bytes(65536);
  for (ssize_t n = 0; (n = ::recv(there.get(), bytes.data(), bytes.size(), 0)) > 0;)
    heard += static_cast<std::size_t>(n);
  EXPECT_EQ(heard, 4U << 20U);
  ::shutdown(there.get(), SHUT_RDWR); // so that no send waits
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
  EXPECT_LT(std::chrono::steady_clock::now() - begin, 5s);
  for (const auto one : silent) {
    EXPECT_TRUE(ends(one, 5s));
    ::close(one);
  }
}

TEST_F(NetworkTls, ASystemEndsThoughItsPeerTakesNothing) {
  actor_system b{networked()};
  slow_way way_there(publish(b), 0ms);
  auto a = std::make_unique<actor_system>(networked());
  const auto r = a->remote<server_interface>("127.0.0.1", way_there.port());
  ASSERT_TRUE(r) << to_string(r.error());
  way_there.block();
  question large{way::value, 1};
  large.padding.assign(64, std::string(1U << 20U, 'x'));
  EXPECT_FALSE(a->ask(*r, 200ms, std::move(large)));
  const auto begin = std::chrono::steady_clock::now();
  a.reset();
  EXPECT_LT(std::chrono::steady_clock::now() - begin, 20s);
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
        EXPECT_EQ(ask(b, *r, question{way::value, i}), i);
      }
    });
}

TEST_F(NetworkTls, FilesThatChangeAreReadAgain) {
  actor_system a{networked()};
  const auto port = publish(a);
  actor_system b{networked()};
  const auto before = b.remote<server_interface>("127.0.0.1", port);
  ASSERT_TRUE(before) << to_string(before.error());
  own_.sign("node", "IP:192.0.2.7");
  actor_system c{networked()};
  EXPECT_THAT(refusal(c, "127.0.0.1", port, 5s), HasSubstr("IP address mismatch"));
  EXPECT_EQ(ask(b, *before, question{way::value, 3}), 3) << "who is in stays in";
  std::ofstream(own_.key_of("node")) << "half a file";
  EXPECT_THAT(refusal(b, "127.0.0.1", port, 5s), HasSubstr("IP address mismatch")) << "it stays with what it had";
  EXPECT_THAT(warning("cannot use the key " + own_.key_of("node")), HasSubstr("what was read before stays in use"));
  own_.sign("node", "IP:127.0.0.1");
  EXPECT_TRUE(b.remote<server_interface>("127.0.0.1", port, 5s));
}

TEST_F(NetworkTls, FilesThatCannotBeUsedAreNamed) {
  EXPECT_EQ(check(files(own_, "node")), "");
  auto none = files(own_, "node");
  none.certificate = own_.certificate_of("nobody");
  EXPECT_THAT(check(none), HasSubstr("cannot use the certificate " + none.certificate));
  auto other_key = files(own_, "node");
  other_key.key = own_.key_of("elsewhere");
  EXPECT_THAT(check(other_key), HasSubstr("the key " + other_key.key));
  auto no_authorities = files(own_, "node");
  no_authorities.authorities = own_.key_of("node");
  EXPECT_THAT(check(no_authorities), HasSubstr("cannot use the authorities"));
  EXPECT_EQ(make_gate(none).error().message, check(none));
}

} // namespace
} // namespace godwit::transport::tls
