#include "transport/http/echo_server.hpp"

#include <godwit/transport/http/client.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <filesystem>
#include <functional>
#include <future>
#include <iterator>
#include <memory>
#include <stdexcept>

namespace godwit::transport::http::test {
namespace {

using ::testing::HasSubstr;

client_request post_to(std::string url, std::string body) {
  auto r = client_request();
  r.method = "POST";
  r.url = std::move(url);
  r.body = std::move(body);
  return r;
}
client_request get_from(std::string url) {
  auto r = client_request();
  r.url = std::move(url);
  return r;
}
client_error error_of(const std::variant<client_answer, client_error>& result) {
  const auto* e = std::get_if<client_error>(&result);
  return e != nullptr ? *e : client_error{client_error_kind::closed, "no error"};
}

/// A listener that does what a test wants with the one connection that it accepts.
class odd_server {
public:
  explicit odd_server(std::function<void(int)> act) : fd_(::socket(AF_INET, SOCK_STREAM, 0)) {
    auto address = sockaddr_in{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    EXPECT_EQ(::bind(fd_, reinterpret_cast<const sockaddr*>(&address), sizeof(address)), 0);
    EXPECT_EQ(::listen(fd_, 16), 0);
    auto size = socklen_t{sizeof(address)};
    ::getsockname(fd_, reinterpret_cast<sockaddr*>(&address), &size);
    port_ = ntohs(address.sin_port);
    thread_ = std::thread([this, act = std::move(act)] {
      const auto c = ::accept(fd_, nullptr, nullptr);
      if (c < 0) return;
      act(c);
      ::close(c);
    });
  }
  ~odd_server() {
    ::shutdown(fd_, SHUT_RDWR);
    thread_.join();
    ::close(fd_);
  }
  odd_server(const odd_server&) = delete;
  odd_server& operator=(const odd_server&) = delete;
  [[nodiscard]] std::string url() const { return "http://127.0.0.1:" + std::to_string(port_) + "/"; }

  static void say(int c, std::string_view text) { (void)!::send(c, text.data(), text.size(), MSG_NOSIGNAL); }
  static void read_head(int c) {
    auto text = std::string();
    char b = 0;
    while (!text.ends_with("\r\n\r\n") && ::recv(c, &b, 1, 0) == 1) text.push_back(b);
  }

private:
  int fd_;
  std::uint16_t port_ = 0;
  std::thread thread_;
};

TEST(HttpClient, FetchesAnAnswer) {
  auto s = echo_server();
  auto c = client();
  const auto result = c.fetch(post_to(s.url("/echo?x=y"), "hello"));
  ASSERT_TRUE(std::holds_alternative<client_answer>(result)) << error_of(result).message;
  const auto& answer = std::get<client_answer>(result);
  EXPECT_EQ(answer.status, 200);
  EXPECT_EQ(answer.body, "POST x=y hello");
  EXPECT_EQ(answer.fields.find("content-type"), "text/plain");
}

TEST(HttpClient, ReusesItsConnections) {
  auto s = echo_server();
  auto c = client();
  for (int i = 0; i < 5; ++i) {
    const auto result = c.fetch(post_to(s.url("/echo"), std::to_string(i)));
    ASSERT_TRUE(std::holds_alternative<client_answer>(result)) << error_of(result).message;
  }
  EXPECT_EQ(s.get_server().stats().requests_total, 5U);
  EXPECT_EQ(s.get_server().stats().connections, 1U);
}

TEST(HttpClient, DoesNotReuseAConnectionThatTheServerHasClosed) {
  auto settings = server_settings();
  settings.idle_timeout = 50ms;
  auto s = echo_server(settings);
  auto c = client();
  for (int i = 0; i < 3; ++i) {
    const auto result = c.fetch(post_to(s.url("/echo"), "x"));
    ASSERT_TRUE(std::holds_alternative<client_answer>(result)) << error_of(result).message;
    ASSERT_TRUE(eventually([&] { return s.get_server().stats().connections == 0; }));
  }
}

TEST(HttpClient, KeepsNoConnectionWhereItIsToKeepNone) {
  auto s = echo_server();
  auto settings = client_settings();
  settings.idle_connections_max = 0;
  auto c = client(settings);
  for (int i = 0; i < 3; ++i) {
    const auto result = c.fetch(post_to(s.url("/echo"), "x"));
    ASSERT_TRUE(std::holds_alternative<client_answer>(result)) << error_of(result).message;
    EXPECT_TRUE(eventually([&] { return s.get_server().stats().connections == 0; })) << i;
  }
}

// A crowd leaves many open, of which the next ones need few.
TEST(HttpClient, LetsGoOfConnectionsThatTheirServerHasClosed) {
  const auto descriptors = [] {
    const auto all = std::filesystem::directory_iterator("/proc/self/fd");
    return std::distance(begin(all), end(all));
  };
  auto others = echo_server();
  auto c = client();
  ASSERT_TRUE(std::holds_alternative<client_answer>(c.fetch(post_to(others.url("/echo"), "x"))));
  auto settings = server_settings();
  settings.idle_timeout = 50ms;
  auto s = echo_server(settings);
  const auto before = descriptors();
  auto left = std::atomic<int>(64);
  for (int i = 64; i > 0; --i) {
    client_callbacks told;
    told.on_done = [&](std::optional<client_error>) { --left; };
    (void)c.send(post_to(s.url("/echo"), "x"), std::move(told));
  }
  ASSERT_TRUE(eventually([&] { return left == 0 && s.get_server().stats().connections == 0; }));
  EXPECT_TRUE(eventually([&] {
    (void)c.fetch(post_to(others.url("/echo"), "x")); // another origin
    return descriptors() < before + 16;               // and not 64 more
  })) << descriptors()
      << " instead of " << before;
}

TEST(HttpClient, StreamsABodyAsItComes) {
  auto s = echo_server();
  auto c = client();
  auto head = std::promise<int>();
  auto done = std::promise<bool>();
  auto mutex = std::mutex();
  auto body = std::string();
  auto callbacks = client_callbacks();
  callbacks.on_head = [&](int status, const headers&) { head.set_value(status); };
  callbacks.on_data = [&](std::string_view bytes) {
    const auto lock = std::lock_guard(mutex);
    body += bytes;
  };
  callbacks.on_done = [&](const std::optional<client_error>& e) { done.set_value(!e.has_value()); };
  (void)c.send(get_from(s.url("/hold")), std::move(callbacks));
  const auto has = [&](const std::string& text) {
    return eventually([&] {
      const auto lock = std::lock_guard(mutex);
      return body == text;
    });
  };
  auto e = s.held();
  e->begin_stream(200, {});
  EXPECT_EQ(head.get_future().get(), 200);
  e->write("one ");
  EXPECT_TRUE(has("one "));
  e->write("two");
  EXPECT_TRUE(has("one two"));
  e->finish();
  EXPECT_TRUE(done.get_future().get());
}

TEST(HttpClient, CancellingClosesTheConnectionAndTheServerLearnsOfIt) {
  auto s = echo_server();
  auto c = client();
  auto done = std::promise<client_error>();
  auto callbacks = client_callbacks();
  callbacks.on_done = [&](const std::optional<client_error>& e) { done.set_value(e.value()); };
  const auto running = c.send(get_from(s.url("/hold")), std::move(callbacks));
  auto e = s.held();
  auto gone = std::promise<void>();
  e->on_close([&] { gone.set_value(); });
  running->cancel();
  EXPECT_EQ(done.get_future().get().kind, client_error_kind::cancelled);
  EXPECT_EQ(gone.get_future().wait_for(5s), std::future_status::ready);
  running->cancel(); // over long since
}

TEST(HttpClient, ItsEndCancelsWhatRuns) {
  auto s = echo_server();
  auto running = std::shared_ptr<call>();
  auto kind = std::optional<client_error_kind>();
  auto e = std::shared_ptr<exchange>();
  {
    auto c = client();
    auto callbacks = client_callbacks();
    callbacks.on_done = [&](const std::optional<client_error>& problem) { kind = problem.value().kind; };
    running = c.send(get_from(s.url("/hold")), std::move(callbacks));
    e = s.held();
  }
  EXPECT_EQ(kind, client_error_kind::cancelled);
  EXPECT_TRUE(eventually([&] { return e->closed(); }));
  running->cancel(); // over long since
}

TEST(HttpClient, FiveHundredCallsAtOnceAllComplete) {
  auto s = echo_server();
  auto settings = client_settings();
  settings.threads = 2;
  auto c = client(settings);
  auto left = std::atomic<int>(500);
  auto failed = std::atomic<int>(0);
  auto all = std::promise<void>();
  for (int i = 0; i < 500; ++i) {
    auto body = std::make_shared<std::string>();
    auto callbacks = client_callbacks();
    callbacks.on_data = [body](std::string_view bytes) { *body += bytes; };
    callbacks.on_done = [&, body, i](const std::optional<client_error>& e) {
      if (e || *body != "POST  " + std::to_string(i)) ++failed;
      if (--left == 0) all.set_value();
    };
    (void)c.send(post_to(s.url("/echo"), std::to_string(i)), std::move(callbacks));
  }
  ASSERT_EQ(all.get_future().wait_for(20s), std::future_status::ready);
  EXPECT_EQ(failed, 0);
}

// Whoever waits for on_done would wait for ever.
TEST(HttpClient, ACallbackThatThrowsEndsItsCallWithAnError) {
  auto s = echo_server();
  auto c = client();
  for (const auto of_head : {true, false}) {
    SCOPED_TRACE(of_head ? "on_head" : "on_data");
    auto ends = std::make_shared<std::atomic<int>>(0);
    auto problem = std::make_shared<std::promise<std::optional<client_error>>>();
    auto callbacks = client_callbacks();
    if (of_head)
      callbacks.on_head = [](int, const headers&) { throw std::runtime_error("as asked"); };
    else
      callbacks.on_data = [](std::string_view) { throw std::runtime_error("as asked"); };
    callbacks.on_done = [ends, problem](std::optional<client_error> e) {
      if (++*ends == 1) problem->set_value(std::move(e));
    };
    (void)c.send(post_to(s.url("/echo"), "x"), std::move(callbacks));
    auto told = problem->get_future();
    ASSERT_EQ(told.wait_for(5s), std::future_status::ready);
    const auto e = told.get();
    ASSERT_TRUE(e.has_value());
    EXPECT_EQ(e->kind, client_error_kind::protocol);
    EXPECT_EQ(e->message, "127.0.0.1:" + std::to_string(s.port()) + ": as asked");
    EXPECT_TRUE(eventually([&] { return s.get_server().stats().connections == 0; })) << "it is kept";
    const auto next = c.fetch(post_to(s.url("/echo"), "y"));
    ASSERT_TRUE(std::holds_alternative<client_answer>(next)) << error_of(next).message;
    EXPECT_EQ(std::get<client_answer>(next).body, "POST  y");
    EXPECT_EQ(*ends, 1);
  }
}

TEST(HttpClient, ABadUrlIsAnErrorValue) {
  auto c = client();
  const auto e = error_of(c.fetch(get_from("ftp://example.org/")));
  EXPECT_EQ(e.kind, client_error_kind::bad_url);
  EXPECT_THAT(e.message, HasSubstr("neither http:// nor https://"));
}

TEST(HttpClient, NobodyListeningIsAConnectError) {
  auto port = std::uint16_t{0};
  {
    auto s = echo_server();
    port = s.port();
  }
  auto c = client();
  const auto e = error_of(c.fetch(get_from("http://127.0.0.1:" + std::to_string(port) + "/")));
  EXPECT_EQ(e.kind, client_error_kind::connect);
  EXPECT_EQ(e.message, "127.0.0.1:" + std::to_string(port) + ": Connection refused");
  EXPECT_EQ(error_of(c.fetch(get_from("http://no-such-host.invalid/"))).kind, client_error_kind::resolve);
}

TEST(HttpClient, ASilentServerIsATimeout) {
  auto s = echo_server();
  auto settings = client_settings();
  settings.idle_timeout = 100ms;
  auto c = client(settings);
  EXPECT_EQ(error_of(c.fetch(get_from(s.url("/hold")))).kind, client_error_kind::timeout);
  settings.idle_timeout = 0ms;
  settings.total_timeout = 100ms;
  auto d = client(settings);
  EXPECT_EQ(error_of(d.fetch(get_from(s.url("/hold")))).kind, client_error_kind::timeout);
}

TEST(HttpClient, ATruncatedAnswerIsNotACompleteOne) {
  for (const auto* text : {"", "HTTP/1.1 200 OK\r\n", "HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nabc",
                           "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n"}) {
    auto s = odd_server([text](int fd) {
      odd_server::read_head(fd);
      odd_server::say(fd, text);
    });
    auto c = client();
    EXPECT_EQ(error_of(c.fetch(post_to(s.url(), ""))).kind, client_error_kind::closed) << text;
  }
}

TEST(HttpClient, GarbageIsAProtocolError) {
  auto s = odd_server([](int fd) {
    odd_server::read_head(fd);
    odd_server::say(fd, "SSH-2.0-OpenSSH_9.2\r\n\r\n");
  });
  auto c = client();
  EXPECT_EQ(error_of(c.fetch(get_from(s.url()))).kind, client_error_kind::protocol);
}

// What there is no end to is bounded, but for a body, which is handed on as it comes.
TEST(HttpClient, AnAnswerWithoutEndIsGivenUp) {
  struct endless {
    std::string begin, again;
    const char* error;
  };
  const auto chunked = std::string("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n");
  const auto* const head = "header limit exceeded";
  const auto* const behind = "are too long";
  for (const auto& what :
       {endless{"HTTP/1.1 200 ", "x", head}, // its reason
        endless{"HTTP/1.1 200 OK\r\nX: ", "y", head}, endless{"HTTP/1.1 200 OK\r\n", "X: y\r\n", head},
        endless{"", "HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n", head}, endless{chunked + "1", "1", behind}, // a size
        endless{chunked + "4;", "x", behind}, endless{chunked + "4\r\nping\r\n4;", "x", behind},
        endless{chunked + "0\r\nX: y\r\n", "X: y\r\n", behind}}) {
    SCOPED_TRACE(what.begin + " ... " + what.again);
    auto s = odd_server([what](int fd) {
      odd_server::read_head(fd);
      odd_server::say(fd, what.begin);
      auto piece = std::string();
      while (piece.size() < 4096) piece += what.again;
      auto left = pollfd{fd, POLLIN, 0}; // until the client has left
      for (int i = 0; i < 1000 && ::poll(&left, 1, 1) == 0; ++i) odd_server::say(fd, piece);
    });
    auto c = client();
    const auto e = error_of(c.fetch(get_from(s.url())));
    EXPECT_EQ(e.kind, client_error_kind::protocol) << e.message;
    EXPECT_THAT(e.message, ::testing::AllOf(::testing::StartsWith("127.0.0.1:"), HasSubstr(what.error)));
  }
}

// Gathered, a body is bounded too; the connection is closed, so that its server learns of it.
TEST(HttpClient, ABodyThatIsGatheredIsBounded) {
  auto left = std::atomic<bool>(false);
  auto s = odd_server([&left](int fd) {
    odd_server::read_head(fd);
    odd_server::say(fd, "HTTP/1.1 200 OK\r\n\r\n");
    const auto piece = std::string(4096, 'x');
    auto gone = pollfd{fd, POLLIN, 0};
    for (int i = 0; i < 1000 && !left; ++i) {
      odd_server::say(fd, piece);
      left = ::poll(&gone, 1, 10) != 0;
    }
  });
  auto settings = client_settings();
  settings.fetched_bytes_max = 100'000;
  auto c = client(settings);
  const auto e = error_of(c.fetch(get_from(s.url())));
  EXPECT_EQ(e.kind, client_error_kind::protocol);
  EXPECT_EQ(e.message, "the answer of " + s.url() + " has more than 100000 bytes");
  EXPECT_TRUE(eventually([&] { return left.load(); }));
}

// It had room made for it before a byte came: no such room, no process.
TEST(HttpClient, ALengthThatIsOnlyAnnouncedTakesNoMemory) {
  auto s = odd_server([](int fd) {
    odd_server::read_head(fd);
    odd_server::say(fd, "HTTP/1.1 200 OK\r\nContent-Length: 4611686018427387904\r\n\r\nx");
  });
  auto c = client();
  EXPECT_EQ(error_of(c.fetch(get_from(s.url()))).kind, client_error_kind::closed);
}

TEST(HttpClient, ABodyOfJustTheBoundIsGathered) {
  auto s = echo_server();
  auto settings = client_settings();
  settings.fetched_bytes_max = std::string_view("POST  hello").size();
  auto c = client(settings);
  const auto whole = c.fetch(post_to(s.url("/echo"), "hello"));
  ASSERT_TRUE(std::holds_alternative<client_answer>(whole)) << error_of(whole).message;
  EXPECT_EQ(std::get<client_answer>(whole).body.size(), settings.fetched_bytes_max);
  EXPECT_EQ(error_of(c.fetch(post_to(s.url("/echo"), "hello!"))).kind, client_error_kind::protocol);
}

TEST(HttpClient, AHeadAndInterimAnswersWithinTheBoundAreTaken) {
  auto s = odd_server([](int fd) {
    odd_server::read_head(fd);
    for (int i = 0; i < 10; ++i)
      odd_server::say(fd, "HTTP/1.1 103 Early Hints\r\nLink: " + std::string(3000, 'x') + "\r\n\r\n");
    odd_server::say(fd, "HTTP/1.1 200 OK\r\nX: " + std::string(30'000, 'x') + "\r\nContent-Length: 200000\r\n\r\n");
    odd_server::say(fd, std::string(200'000, 'z'));
  });
  auto c = client();
  const auto result = c.fetch(get_from(s.url()));
  ASSERT_TRUE(std::holds_alternative<client_answer>(result)) << error_of(result).message;
  EXPECT_EQ(std::get<client_answer>(result).body.size(), 200'000U) << "which does not count";
}

TEST(HttpClient, AnAnswerMayEndWithTheConnectionAndFollowInterimOnes) {
  auto s = odd_server([](int fd) {
    odd_server::read_head(fd);
    odd_server::say(
        fd, "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\nHTTP/1.0 200 OK\r\n\r\nthe ");
    odd_server::say(fd, "body");
  });
  auto c = client();
  const auto result = c.fetch(get_from(s.url()));
  ASSERT_TRUE(std::holds_alternative<client_answer>(result)) << error_of(result).message;
  EXPECT_EQ(std::get<client_answer>(result).status, 200);
  EXPECT_EQ(std::get<client_answer>(result).body, "the body");
}

TEST(HttpClient, HeadHasNoBody) {
  auto s = echo_server();
  auto c = client();
  auto r = get_from(s.url("/echo"));
  r.method = "HEAD";
  const auto result = c.fetch(r);
  ASSERT_TRUE(std::holds_alternative<client_answer>(result)) << error_of(result).message;
  EXPECT_EQ(std::get<client_answer>(result).body, "");
  EXPECT_EQ(std::get<client_answer>(result).fields.find("Content-Length"), "5");
}

TEST(HttpClient, SeesTheRefusalOfABodyThatIsTooLong) {
  auto settings = server_settings();
  settings.body_bytes_max = 1000;
  auto s = echo_server(settings);
  auto c = client();
  const auto result = c.fetch(post_to(s.url("/echo"), std::string(4'000'000, 'x')));
  ASSERT_TRUE(std::holds_alternative<client_answer>(result)) << error_of(result).message;
  EXPECT_EQ(std::get<client_answer>(result).status, 413);
}

} // namespace
} // namespace godwit::transport::http::test
