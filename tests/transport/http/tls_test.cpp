// HTTP within TLS: the same server, handshakes that fail or dribble, certificates that change while it runs.
#include "support/certificates.hpp"
#include "transport/http/echo_server.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <openssl/ssl.h>

#include <fstream>
#include <functional>
#include <future>
#include <iterator>
#include <memory>
#include <utility>
#include <vector>

namespace godwit::transport::http::test {
namespace {

using godwit::test::self_signed;
using ::testing::AllOf;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::StartsWith;

/// A client that trusts everybody and tells whose certificate it got.
class tls_socket {
public:
  explicit tls_socket(std::uint16_t port, int version_max = TLS1_3_VERSION)
      : context_(SSL_CTX_new(TLS_client_method()), SSL_CTX_free), ssl_(nullptr, SSL_free),
        fd_(::socket(AF_INET, SOCK_STREAM, 0)) {
    SSL_CTX_set_security_level(context_.get(), 0); // or the client itself would refuse what the server has to
    SSL_CTX_set_min_proto_version(context_.get(), TLS1_VERSION);
    SSL_CTX_set_max_proto_version(context_.get(), version_max);
    auto address = sockaddr_in{};
    address.sin_family = AF_INET;
    address.sin_port = htons(port);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    const auto limit = timeval{5, 0};
    ::setsockopt(fd_, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
    if (::connect(fd_, reinterpret_cast<const sockaddr*>(&address), sizeof(address)) != 0) return;
    ssl_.reset(SSL_new(context_.get()));
    SSL_set_fd(ssl_.get(), fd_);
    connected_ = SSL_connect(ssl_.get()) == 1;
  }
  ~tls_socket() {
    ssl_.reset();
    ::close(fd_);
  }
  tls_socket(const tls_socket&) = delete;
  tls_socket& operator=(const tls_socket&) = delete;

  [[nodiscard]] bool connected() const { return connected_; }
  [[nodiscard]] std::string version() const { return SSL_get_version(ssl_.get()); }
  [[nodiscard]] std::string name_of_server() const {
    const auto certificate =
        std::unique_ptr<X509, decltype(&X509_free)>(SSL_get1_peer_certificate(ssl_.get()), X509_free);
    char name[64] = {};
    if (certificate)
      X509_NAME_get_text_by_NID(X509_get_subject_name(certificate.get()), NID_commonName, name, sizeof name);
    return name;
  }
  bool send(std::string_view bytes) const {
    return SSL_write(ssl_.get(), bytes.data(), static_cast<int>(bytes.size())) == static_cast<int>(bytes.size());
  }
  const std::string& read_until(std::string_view end) {
    char buffer[16384];
    while (got_.find(end) == std::string::npos) {
      const auto n = SSL_read(ssl_.get(), buffer, sizeof buffer);
      if (n <= 0) break;
      got_.append(buffer, static_cast<std::size_t>(n));
    }
    return got_;
  }
  /// True if the server said that it ends the stream.
  [[nodiscard]] bool ended() {
    char byte = 0;
    return SSL_read(ssl_.get(), &byte, 1) <= 0 && (SSL_get_shutdown(ssl_.get()) & SSL_RECEIVED_SHUTDOWN) != 0;
  }
  void forget() { got_.clear(); }

private:
  std::unique_ptr<SSL_CTX, decltype(&SSL_CTX_free)> context_;
  std::unique_ptr<SSL, decltype(&SSL_free)> ssl_;
  int fd_;
  bool connected_ = false;
  std::string got_;
};

struct tls_server {
  explicit tls_server(server_settings settings = {}) : plain(std::move(settings)) {
    const auto wrong = plain.get_server().use_tls({files.certificate(), files.key()});
    EXPECT_FALSE(wrong.has_value()) << *wrong;
  }
  self_signed files{"first"};
  echo_server plain;
  [[nodiscard]] std::uint16_t port() const { return plain.port(); }
};

TEST(HttpTls, RequestsAreAnsweredOverOneConnection) {
  auto s = tls_server();
  auto c = tls_socket(s.port());
  ASSERT_TRUE(c.connected());
  EXPECT_EQ(c.version(), "TLSv1.3");
  EXPECT_EQ(c.name_of_server(), "first");
  for (int i = 0; i < 3; ++i) {
    c.forget();
    ASSERT_TRUE(c.send(post("/echo", "ping")));
    EXPECT_THAT(c.read_until("ping"), StartsWith("HTTP/1.1 200"));
  }
}

TEST(HttpTls, ALargeBodyAndALargeAnswerPass) {
  auto s = tls_server();
  auto c = tls_socket(s.port());
  const auto body = std::string(3 * 1024 * 1024, 'b') + "!end";
  auto sent = std::async(std::launch::async, [&] { return c.send(post("/echo", body)); });
  EXPECT_TRUE(sent.get());
  EXPECT_THAT(c.read_until("!end"), EndsWith("b!end"));
}

TEST(HttpTls, AStreamArrivesAndItsReadersDepartureIsTold) {
  auto s = tls_server();
  auto c = std::make_unique<tls_socket>(s.port());
  c->send(get("/hold"));
  const auto e = s.plain.held();
  auto gone = std::promise<void>();
  e->on_close([&] { gone.set_value(); });
  e->begin_stream(200, {});
  e->write("token");
  EXPECT_THAT(c->read_until("token"), HasSubstr("5\r\ntoken"));
  c.reset();
  EXPECT_EQ(gone.get_future().wait_for(5s), std::future_status::ready);
  EXPECT_TRUE(eventually([&] { return s.plain.get_server().stats().connections == 0; }));
}

// What is sent behind the server's word that it ends is an error to OpenSSL; closing then would reset the connection.
TEST(HttpTls, AnAnswerBeforeTheEndOfTheBodyArrivesThoughTheBodyIsStillBeingSent) {
  auto settings = server_settings();
  settings.body_bytes_max = 100'000;
  auto s = tls_server(settings);
  for (int i = 0; i < 5; ++i) {
    auto c = tls_socket(s.port());
    ASSERT_TRUE(c.connected());
    ASSERT_TRUE(c.send("POST /echo HTTP/1.1\r\nHost: t\r\nContent-Length: 3000000\r\n\r\n"));
    EXPECT_TRUE(c.send(std::string(3'000'000, 'x'))) << i;
    EXPECT_THAT(c.read_until("100000 bytes"), AllOf(StartsWith("HTTP/1.1 413 "), HasSubstr("100000 bytes")));
  }
}

TEST(HttpTls, TheServerSaysThatItsStreamEnds) {
  auto s = tls_server();
  auto c = tls_socket(s.port());
  c.send("GET /echo HTTP/1.1\r\nHost: t\r\nConnection: close\r\n\r\n");
  c.read_until("GET  ");
  EXPECT_TRUE(c.ended());
}

TEST(HttpTls, VersionsBefore12AreRefused) {
  auto s = tls_server();
  EXPECT_FALSE(tls_socket(s.port(), TLS1_1_VERSION).connected());
  auto c = tls_socket(s.port(), TLS1_2_VERSION);
  ASSERT_TRUE(c.connected());
  EXPECT_EQ(c.version(), "TLSv1.2");
  c.send(get("/echo"));
  EXPECT_THAT(c.read_until("GET  "), StartsWith("HTTP/1.1 200"));
}

TEST(HttpTls, WhoSpeaksInTheClearIsTurnedAwayAndOthersAreServed) {
  auto s = tls_server();
  auto plain = raw_socket(s.port());
  plain.send(get("/echo"));
  plain.read_to_end();
  EXPECT_TRUE(plain.closed());
  auto noise = raw_socket(s.port());
  noise.send(std::string("\x16\x03\x01\xff\xff", 5) + std::string(4000, '\x7f'));
  noise.read_to_end();
  EXPECT_TRUE(noise.closed());
  EXPECT_EQ(s.plain.get_server().stats().handshakes_failed_total, 2U);
  EXPECT_EQ(s.plain.get_server().stats().requests_total, 0U);
  auto c = tls_socket(s.port());
  c.send(get("/echo"));
  EXPECT_THAT(c.read_until("GET  "), StartsWith("HTTP/1.1 200"));
}

TEST(HttpTls, AHandshakeThatDoesNotEndIsCutOffAfterTheHeaderTimeout) {
  auto settings = server_settings();
  settings.header_timeout = 100ms;
  auto s = tls_server(settings);
  auto silent = raw_socket(s.port());
  silent.send("\x16");
  silent.read_to_end();
  EXPECT_TRUE(silent.closed());
  EXPECT_TRUE(eventually([&] { return s.plain.get_server().stats().connections == 0; }));
}

// A load balancer may open them ahead of what it sends.
TEST(HttpTls, AServerThatDrainsDoesNotWaitForAHandshake) {
  auto s = tls_server(server_settings());
  auto silent = raw_socket(s.port());
  ASSERT_TRUE(eventually([&] { return s.plain.get_server().stats().connections == 1; }));
  auto drained = std::promise<void>();
  s.plain.get_server().drain([&] { drained.set_value(); });
  EXPECT_EQ(drained.get_future().wait_for(5s), std::future_status::ready);
  silent.read_to_end();
  EXPECT_TRUE(silent.closed());
}

TEST(HttpTls, AHandshakeThatFailsGivesItsPlaceBack) {
  constexpr std::uint32_t places = 3;
  auto settings = server_settings();
  settings.connections_max = settings.connections_per_address_max = places;
  settings.header_timeout = 2s; // all are there at once before the first is too late
  auto s = tls_server(settings);
  const auto& server = s.plain.get_server();
  const auto there_are = [&](std::uint64_t count) {
    return eventually([&] { return server.stats().connections == count; });
  };
  const std::pair<const char*, std::function<void(raw_socket&)>> ways[] = {
      {"goes", [](raw_socket& c) { c.close(); }},
      {"resets", [](raw_socket& c) { c.reset(); }},
      {"speaks in the clear", [](raw_socket& c) { c.send(get("/echo")); }},
      {"goes in the middle", [](raw_socket& c) { c.send("\x16\x03\x01"), c.close(); }},
      {"does not end it", [](raw_socket& c) { c.send("\x16"); }},
  };
  for (const auto& [name, fail] : ways) {
    SCOPED_TRACE(name);
    auto all = std::vector<std::unique_ptr<raw_socket>>();
    for (std::uint32_t i = 0; i < places; ++i) all.push_back(std::make_unique<raw_socket>(s.port()));
    ASSERT_TRUE(there_are(places));
    for (const auto& c : all) fail(*c);
    ASSERT_TRUE(there_are(0));
  }
  EXPECT_EQ(server.stats().handshakes_failed_total, std::size(ways) * places);
  EXPECT_EQ(server.stats().refused_total, 0U);
  auto c = tls_socket(s.port());
  c.send(get("/echo"));
  EXPECT_THAT(c.read_until("GET  "), StartsWith("HTTP/1.1 200"));
}

TEST(HttpTls, AReaderThatTakesNothingIsCutOff) {
  auto settings = server_settings();
  settings.queued_bytes_max = 256 * 1024;
  auto s = tls_server(settings);
  auto c = tls_socket(s.port());
  c.send(get("/hold"));
  const auto e = s.plain.held();
  e->begin_stream(200, {});
  auto written = std::size_t{0};
  while (!e->closed() && written < 64 * 1024 * 1024) {
    e->write(std::string(16 * 1024, 'z'));
    written += 16 * 1024;
    std::this_thread::sleep_for(100us);
  }
  EXPECT_LT(written, 32U * 1024 * 1024);
  EXPECT_EQ(s.plain.get_server().stats().slow_readers_total, 1U);
}

TEST(HttpTls, ANewCertificateIsForNewConnections) {
  auto s = tls_server();
  auto before = tls_socket(s.port());
  s.files.write("second");
  ASSERT_FALSE(s.plain.get_server().use_tls({s.files.certificate(), s.files.key()}).has_value());
  auto after = tls_socket(s.port());
  EXPECT_EQ(before.name_of_server(), "first");
  EXPECT_EQ(after.name_of_server(), "second");
  before.send(get("/echo")); // and goes on
  EXPECT_THAT(before.read_until("GET  "), StartsWith("HTTP/1.1 200"));
}

TEST(HttpTls, FilesThatCannotBeUsedAreNamedAndChangeNothing) {
  auto s = tls_server();
  const auto other = self_signed("other");
  const auto broken = other.certificate() + ".broken";
  std::ofstream(broken) << "-----BEGIN CERTIFICATE-----\nnonsense\n-----END CERTIFICATE-----\n";
  auto& server = s.plain.get_server();
  EXPECT_THAT(server.use_tls({"/nonexistent/tls.crt", s.files.key()}).value_or(""), HasSubstr("/nonexistent/tls.crt"));
  EXPECT_THAT(server.use_tls({s.files.certificate(), "/nonexistent/tls.key"}).value_or(""),
              HasSubstr("/nonexistent/tls.key"));
  EXPECT_THAT(server.use_tls({broken, s.files.key()}).value_or(""), HasSubstr("cannot use the certificate"));
  EXPECT_THAT(server.use_tls({s.files.certificate(), other.key()}).value_or(""), HasSubstr("the key"));
  auto c = tls_socket(s.port());
  ASSERT_TRUE(c.connected());
  EXPECT_EQ(c.name_of_server(), "first");
}

} // namespace
} // namespace godwit::transport::http::test
