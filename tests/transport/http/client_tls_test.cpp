// The client of https URLs: whom it believes, and that all else is as without.
#include "support/certificates.hpp"
#include "transport/http/echo_server.hpp"

#include <godwit/transport/http/client.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <future>
#include <memory>
#include <string>
#include <utility>

namespace godwit::transport::http::test {
namespace {

using godwit::test::authority;
using testing::HasSubstr;

class HttpsClient : public testing::Test {
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
