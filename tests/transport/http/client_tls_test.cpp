// The client of https URLs: whom it believes, and that all else is as without.
#include "support/certificates.hpp"
#include "transport/http/echo_server.hpp"

#include <godwit/transport/http/client.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <openssl/ssl.h>

#include <functional>
#include <future>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

namespace godwit::transport::http::test {
namespace {

using godwit::test::authority;
using ::testing::HasSubstr;

class HttpsClient : public ::testing::Test {
protected:
  HttpsClient() {
    own_.sign("server", "IP:127.0.0.1");
    const auto wrong = server_.get_server().use_tls({own_.certificate_of("server"), own_.key_of("server")});
    EXPECT_FALSE(wrong.has_value()) << *wrong;
  }
  static client trusting(client_tls whom) {
    client_settings settings;
    settings.tls = std::move(whom);
    return client(settings);
  }
  [[nodiscard]] std::string url(const std::string& target, const std::string& host = "127.0.0.1") const {
    return "https://" + host + ":" + std::to_string(server_.port()) + target;
  }
  static client_request to(std::string url, std::string body = "ping") {
    client_request r;
    r.method = "POST";
    r.url = std::move(url);
    r.body = std::move(body);
    return r;
  }
  static client_error refusal(client& c, const std::string& url) {
    const auto result = c.fetch(to(url));
    const auto* e = std::get_if<client_error>(&result);
    return e != nullptr ? *e : client_error{client_error_kind::closed, "no error"};
  }

  authority own_{"own"};
  echo_server server_;
};

TEST_F(HttpsClient, AnswersComeOverOneConnection) {
  auto c = trusting({own_.file()});
  for (int i = 0; i < 3; ++i) {
    const auto result = c.fetch(to(url("/echo")));
    const auto* answer = std::get_if<client_answer>(&result);
    ASSERT_NE(answer, nullptr) << std::get<client_error>(result).message;
    EXPECT_EQ(answer->status, 200);
    EXPECT_THAT(answer->body, HasSubstr("ping"));
  }
  EXPECT_EQ(server_.get_server().stats().connections, 1U);
  const auto large = std::string(3 * 1024 * 1024, 'b');
  const auto result = c.fetch(to(url("/echo"), large));
  ASSERT_TRUE(std::holds_alternative<client_answer>(result)) << std::get<client_error>(result).message;
  EXPECT_EQ(std::get<client_answer>(result).body.size(), std::string("POST  ").size() + large.size());
}

TEST_F(HttpsClient, AStreamArrivesAndACancelledOneIsHeardOfThere) {
  auto c = trusting({own_.file()});
  std::promise<std::string> heard;
  std::promise<client_error_kind> ended;
  client_callbacks callbacks;
  callbacks.on_data = [&heard, first = true](std::string_view bytes) mutable {
    if (std::exchange(first, false)) heard.set_value(std::string(bytes));
  };
  callbacks.on_done = [&ended](std::optional<client_error> e) {
    ended.set_value(e ? e->kind : client_error_kind::protocol);
  };
  const auto call = c.send(to(url("/hold")), std::move(callbacks));
  const auto e = server_.held();
  ASSERT_TRUE(e);
  std::promise<void> gone;
  e->on_close([&gone] { gone.set_value(); });
  e->begin_stream(200, {});
  e->write("data: 1\n\n");
  EXPECT_EQ(heard.get_future().get(), "data: 1\n\n");
  call->cancel();
  EXPECT_EQ(ended.get_future().get(), client_error_kind::cancelled);
  EXPECT_EQ(gone.get_future().wait_for(std::chrono::seconds(20)), std::future_status::ready);
}

TEST_F(HttpsClient, AServerThatItCannotBelieveGetsNoRequest) {
  const authority other("other");
  auto c = trusting({other.file()});
  const auto foreign = refusal(c, url("/echo"));
  EXPECT_EQ(foreign.kind, client_error_kind::connect);
  EXPECT_THAT(foreign.message, HasSubstr("TLS: certificate verify failed"));
  auto by_system = trusting({});
  EXPECT_THAT(refusal(by_system, url("/echo")).message, HasSubstr("certificate verify failed"));
  auto own = trusting({own_.file()});
  EXPECT_THAT(refusal(own, url("/echo", "localhost")).message, HasSubstr("hostname mismatch"));
  EXPECT_FALSE(server_.last().has_value());
  auto careless = trusting({"", false});
  EXPECT_TRUE(std::holds_alternative<client_answer>(careless.fetch(to(url("/echo", "localhost")))));
}

TEST_F(HttpsClient, AFileThatCannotBeUsedAndAServerInTheClearAreErrors) {
  auto c = trusting({own_.key_of("server")});
  const auto unusable = refusal(c, url("/echo"));
  EXPECT_EQ(unusable.kind, client_error_kind::connect);
  EXPECT_THAT(unusable.message, HasSubstr("cannot use the authorities " + own_.key_of("server")));
  echo_server plain;
  auto own = trusting({own_.file()});
  const auto e = refusal(own, "https://127.0.0.1:" + std::to_string(plain.port()) + "/echo");
  EXPECT_EQ(e.kind, client_error_kind::connect);
  EXPECT_THAT(e.message, HasSubstr("TLS: the other side does not speak it"));
}

/// Connections one after the other, each with what a test does with it.
class odd_tls_server {
public:
  odd_tls_server(const authority& whose, std::vector<std::function<void(SSL*)>> acts)
      : context_(SSL_CTX_new(TLS_server_method()), SSL_CTX_free), listener_(::socket(AF_INET, SOCK_STREAM, 0)) {
    SSL_CTX_use_certificate_chain_file(context_.get(), whose.certificate_of("server").c_str());
    SSL_CTX_use_PrivateKey_file(context_.get(), whose.key_of("server").c_str(), SSL_FILETYPE_PEM);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof address;
    EXPECT_EQ(::bind(listener_, reinterpret_cast<const sockaddr*>(&address), size), 0);
    EXPECT_EQ(::listen(listener_, 16), 0);
    ::getsockname(listener_, reinterpret_cast<sockaddr*>(&address), &size);
    port_ = ntohs(address.sin_port);
    thread_ = std::thread([this, acts = std::move(acts)] {
      for (const auto& act : acts) {
        const int fd = ::accept(listener_, nullptr, nullptr);
        if (fd < 0) return;
        const std::unique_ptr<SSL, decltype(&SSL_free)> ssl(SSL_new(context_.get()), SSL_free);
        SSL_set_fd(ssl.get(), fd);
        char request[4096];
        if (SSL_accept(ssl.get()) == 1 && SSL_read(ssl.get(), request, sizeof request) > 0) act(ssl.get());
        ::close(fd);
      }
    });
  }
  ~odd_tls_server() {
    ::shutdown(listener_, SHUT_RDWR);
    thread_.join();
    ::close(listener_);
  }
  odd_tls_server(const odd_tls_server&) = delete;
  odd_tls_server& operator=(const odd_tls_server&) = delete;
  [[nodiscard]] std::string url() const { return "https://127.0.0.1:" + std::to_string(port_) + "/"; }

  static void say(SSL* to, const std::string& words) {
    EXPECT_EQ(SSL_write(to, words.data(), static_cast<int>(words.size())), static_cast<int>(words.size()));
  }

private:
  std::unique_ptr<SSL_CTX, decltype(&SSL_CTX_free)> context_;
  int listener_;
  std::uint16_t port_ = 0;
  std::thread thread_;
};

// Two records in one segment: the second lies decrypted, or read and not yet decrypted, where no socket shows it.
TEST_F(HttpsClient, WhatFollowsAnAnswerIsNoneToTheNextRequest) {
  std::promise<void> over;
  const odd_tls_server odd(
      own_, {[&](SSL* to) {
               const int on = 1;
               const int off = 0;
               ::setsockopt(SSL_get_fd(to), IPPROTO_TCP, TCP_CORK, &on, sizeof on);
               odd_tls_server::say(to, "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nfirst");
               odd_tls_server::say(to, "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nwrong");
               ::setsockopt(SSL_get_fd(to), IPPROTO_TCP, TCP_CORK, &off, sizeof off);
               over.get_future().wait();
             },
             [](SSL* to) { odd_tls_server::say(to, "HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\nsecond"); }});
  auto c = trusting({own_.file()});
  const auto first = c.fetch(to(odd.url()));
  std::jthread lets_go([&] { // once the second call has had time to take the connection
    std::this_thread::sleep_for(std::chrono::milliseconds(200));
    over.set_value();
  });
  const auto second = c.fetch(to(odd.url()));
  ASSERT_TRUE(std::holds_alternative<client_answer>(first)) << std::get<client_error>(first).message;
  EXPECT_EQ(std::get<client_answer>(first).body, "first");
  ASSERT_TRUE(std::holds_alternative<client_answer>(second)) << std::get<client_error>(second).message;
  EXPECT_EQ(std::get<client_answer>(second).body, "second");
}

// Whoever is between the two can end the connection, but cannot say goodbye for the server.
TEST_F(HttpsClient, ABodyThatEndsWithTheConnectionIsWholeOnlyWithAGoodbye) {
  const std::string answer = "HTTP/1.1 200 OK\r\nConnection: close\r\n\r\nsome words";
  const odd_tls_server odd(own_, {[&](SSL* to) {
                                    odd_tls_server::say(to, answer);
                                    SSL_shutdown(to);
                                  },
                                  [&](SSL* to) { odd_tls_server::say(to, answer); }});
  auto c = trusting({own_.file()});
  const auto whole = c.fetch(to(odd.url()));
  ASSERT_TRUE(std::holds_alternative<client_answer>(whole)) << std::get<client_error>(whole).message;
  EXPECT_EQ(std::get<client_answer>(whole).body, "some words");
  EXPECT_EQ(refusal(c, odd.url()).kind, client_error_kind::closed);
}

TEST_F(HttpsClient, AHandshakeHasItsTimeAndCanBeCancelled) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof address;
  const int silent = ::socket(AF_INET, SOCK_STREAM, 0);
  ASSERT_EQ(::bind(silent, reinterpret_cast<const sockaddr*>(&address), size), 0);
  ASSERT_EQ(::listen(silent, 5), 0);
  ::getsockname(silent, reinterpret_cast<sockaddr*>(&address), &size);
  const auto place = "https://127.0.0.1:" + std::to_string(ntohs(address.sin_port)) + "/";
  client_settings settings;
  settings.tls = {own_.file()};
  settings.connect_timeout = std::chrono::milliseconds(100);
  client hurried(settings);
  EXPECT_EQ(refusal(hurried, place).kind, client_error_kind::timeout);
  auto patient = trusting({own_.file()});
  std::promise<client_error_kind> ended;
  client_callbacks callbacks;
  callbacks.on_done = [&ended](std::optional<client_error> e) {
    ended.set_value(e ? e->kind : client_error_kind::protocol);
  };
  const auto call = patient.send(to(place), std::move(callbacks));
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  call->cancel();
  EXPECT_EQ(ended.get_future().get(), client_error_kind::cancelled);
  ::close(silent);
}

// The two are different places, and a connection to one is none to the other.
TEST_F(HttpsClient, ConnectionsInTheClearAreNotTakenForHttps) {
  echo_server plain;
  auto c = trusting({own_.file()});
  const auto place = "://127.0.0.1:" + std::to_string(plain.port()) + "/echo";
  ASSERT_TRUE(std::holds_alternative<client_answer>(c.fetch(to("http" + place))));
  EXPECT_EQ(refusal(c, "https" + place).kind, client_error_kind::connect);
  EXPECT_TRUE(std::holds_alternative<client_answer>(c.fetch(to("http" + place))));
}

} // namespace
} // namespace godwit::transport::http::test
