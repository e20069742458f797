// Clients that go away, read slowly or come in crowds; a server that drains and stops.
#include "transport/http/echo_server.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <functional>
#include <future>
#include <stdexcept>
#include <thread>
#include <utility>
#include <vector>

namespace godwit::transport::http::test {
namespace {

using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::StartsWith;
using clock = std::chrono::steady_clock;

// Above what a loaded machine needs, and below the 5 s after which nobody would have been told.
constexpr auto promptly = 2s;

TEST(HttpConnections, ADepartureBeforeTheAnswerIsToldPromptly) {
  auto s = echo_server();
  for (const auto how : {0, 1, 2}) {
    auto c = std::make_unique<raw_socket>(s.port());
    c->send(get("/hold"));
    auto e = s.held();
    auto gone = std::make_shared<std::promise<void>>();
    e->on_close([gone] { gone->set_value(); });
    EXPECT_FALSE(e->closed());
    const auto begin = clock::now();
    if (how == 0) c->close();
    if (how == 1) c->reset();
    if (how == 2) c->half_close(); // looks like a departure, and is taken for one
    ASSERT_EQ(gone->get_future().wait_for(5s), std::future_status::ready) << how;
    EXPECT_LT(clock::now() - begin, promptly) << how;
    EXPECT_TRUE(e->closed());
    e->respond({}); // nothing happens
  }
  EXPECT_EQ(s.get_server().stats().disconnects_total, 3U);
}

TEST(HttpConnections, ADepartureInTheMiddleOfAStreamIsToldPromptly) {
  auto s = echo_server();
  auto c = raw_socket(s.port());
  c.send(get("/hold"));
  auto e = s.held();
  auto gone = std::promise<void>();
  e->on_close([&] { gone.set_value(); });
  e->begin_stream(200, {});
  e->write("token");
  c.read_until("token");
  const auto begin = clock::now();
  c.close();
  ASSERT_EQ(gone.get_future().wait_for(5s), std::future_status::ready);
  EXPECT_LT(clock::now() - begin, promptly);
  e->write("into the void");
  e->finish();
}

TEST(HttpConnections, ADepartureBehindAPipelinedRequestIsToldToo) {
  auto s = echo_server();
  auto c = raw_socket(s.port());
  c.send(get("/hold") + get("/echo"));
  auto gone = std::promise<void>();
  auto e = s.held();
  e->on_close([&] { gone.set_value(); });
  c.close();
  EXPECT_EQ(gone.get_future().wait_for(5s), std::future_status::ready);
}

TEST(HttpConnections, OnCloseAfterTheDepartureIsCalledAtOnce) {
  auto s = echo_server();
  auto c = raw_socket(s.port());
  c.send(get("/hold"));
  auto e = s.held();
  c.close();
  EXPECT_TRUE(eventually([&] { return e->closed(); }));
  auto told = false;
  e->on_close([&] { told = true; });
  EXPECT_TRUE(told);
}

TEST(HttpConnections, ADepartureAfterTheWholeAnswerIsNotTold) {
  auto s = echo_server();
  auto c = raw_socket(s.port());
  c.send(get("/hold"));
  auto e = s.held();
  auto owned = std::make_shared<int>(0);
  auto told = std::atomic<bool>(false);
  e->on_close([&told, owned] { told = true; });
  e->begin_stream(200, {});
  e->write("all");
  e->finish();
  EXPECT_EQ(owned.use_count(), 1); // what the function owned is released
  c.read_until("0\r\n\r\n");
  c.close();
  EXPECT_TRUE(eventually([&] { return s.get_server().stats().connections == 0; }));
  EXPECT_FALSE(told);
}

TEST(HttpConnections, AFunctionThatOwnsItsExchangeLeaksNothing) {
  auto watch = std::weak_ptr<exchange>();
  {
    auto s = echo_server();
    auto c = raw_socket(s.port());
    c.send(get("/hold"));
    auto e = s.held();
    watch = e;
    e->on_close([e] {});
    e.reset();
  }
  EXPECT_TRUE(watch.expired());
}

TEST(HttpConnections, ASlowReaderIsCutOffAtTheBound) {
  auto settings = server_settings();
  settings.queued_bytes_max = 256 * 1024;
  auto s = echo_server(settings);
  auto c = raw_socket(s.port(), 4096);
  c.send(get("/hold"));
  auto e = s.held();
  auto gone = std::promise<void>();
  e->on_close([&] { gone.set_value(); });
  e->begin_stream(200, {});
  const auto chunk = std::string(16 * 1024, 'z');
  auto written = std::size_t{0};
  while (!e->closed() && written < 64 * 1024 * 1024) {
    e->write(chunk);
    written += chunk.size();
    std::this_thread::sleep_for(100us);
  }
  ASSERT_EQ(gone.get_future().wait_for(5s), std::future_status::ready);
  EXPECT_LT(written, 32U * 1024 * 1024); // the sockets' buffers and the bound
  EXPECT_EQ(s.get_server().stats().slow_readers_total, 1U);
  EXPECT_TRUE(eventually([&] { return s.get_server().stats().connections == 0; }));
}

TEST(HttpConnections, WhatIsThereAtOnceMayBeLongerThanWhatMayWait) {
  auto settings = server_settings();
  settings.queued_bytes_max = 64 * 1024;
  auto s = echo_server(settings);
  auto c = raw_socket(s.port());
  c.send(get("/hold"));
  auto e = s.held();
  e->begin_stream(200, {});
  e->write_in_full(std::string(1024 * 1024, 'z'));
  e->write_in_full(std::string(1024 * 1024, 'y'));
  e->write("end");
  e->finish();
  EXPECT_THAT(c.read_until("end\r\n0\r\n\r\n"), ::testing::AllOf(HasSubstr("zzz"), HasSubstr("yyy")));
  EXPECT_EQ(s.get_server().stats().slow_readers_total, 0U);
}

TEST(HttpConnections, AReaderThatTakesNothingIsCutOffInTime) {
  auto settings = server_settings();
  settings.write_timeout = 150ms;
  settings.queued_bytes_max = 64 * 1024 * 1024;
  auto s = echo_server(settings);
  auto c = raw_socket(s.port(), 4096);
  c.send(get("/hold"));
  auto e = s.held();
  auto gone = std::promise<void>();
  e->on_close([&] { gone.set_value(); });
  e->begin_stream(200, {});
  e->write(std::string(32 * 1024 * 1024, 'z'));
  EXPECT_EQ(gone.get_future().wait_for(5s), std::future_status::ready);
  EXPECT_EQ(s.get_server().stats().slow_readers_total, 1U);
}

// The log is to tell one that takes nothing from one that takes little at a time: this is said of both.
TEST(HttpConnections, AReaderThatIsTooSlowIsToldOfInTrueWords) {
  auto settings = server_settings();
  settings.write_timeout = 300ms;
  settings.queued_bytes_max = 64 * 1024 * 1024;
  auto why = std::promise<std::string>();
  settings.on_dropped = [&](const std::string&, const std::string& said) { why.set_value(said); };
  auto s = echo_server(settings);
  auto c = raw_socket(s.port(), 4096);
  c.send(get("/hold"));
  auto e = s.held();
  e->begin_stream(200, {});
  e->write(std::string(32 * 1024 * 1024, 'z'));
  auto dropped = why.get_future();
  for (int i = 0; i < 500 && dropped.wait_for(10ms) != std::future_status::ready; ++i) {
    (void)c.read_until("z", 10ms);
    c.forget();
  }
  EXPECT_EQ(dropped.get(), "it did not take all of a write within http.write_timeout");
}

// The thread is kept busy, so that it finds what has come and the deadline that has passed at one time.
TEST(HttpConnections, WhatComesAsItsDeadlinePassesHasComeInTime) {
  struct in_parts {
    const char* name;
    std::string before, meanwhile, after;
  };
  const auto line = std::string("POST /echo HTTP/1.1\r\n");
  const auto rest = std::string("Host: t\r\nContent-Length: 4\r\n\r\n");
  for (const auto& parts : {in_parts{"a head begins", "", line, rest + "ping"},
                            in_parts{"a head ends", line, rest, "ping"}, // and its body has a deadline of its own
                            in_parts{"a body ends", line + rest + "pi", "ng", ""},
                            in_parts{"a request comes whole", "", line + rest + "ping", ""}}) {
    SCOPED_TRACE(parts.name);
    auto busy = std::promise<void>(), go = std::promise<void>();
    auto settings = server_settings();
    settings.threads = 1;
    settings.idle_timeout = settings.header_timeout = settings.body_timeout = 500ms;
    auto s = server(settings, [&](const request& wanted, const std::shared_ptr<exchange>& e) {
      if (wanted.target == "/wait") {
        busy.set_value();
        go.get_future().wait();
      }
      auto said = response();
      said.body = "<" + wanted.body + ">";
      e->respond(std::move(said));
    });
    ASSERT_FALSE(s.listen("127.0.0.1", 0).has_value());
    auto c = raw_socket(s.local_port()), other = raw_socket(s.local_port());
    c.send(parts.before);
    ASSERT_TRUE(eventually([&] { return s.stats().connections == 2; }));
    std::this_thread::sleep_for(50ms); // for what came before
    other.send(get("/wait"));
    busy.get_future().wait();
    c.send(parts.meanwhile);
    std::this_thread::sleep_for(600ms);
    go.set_value();
    other.read_until("<>"); // it has looked at both
    c.send(parts.after);
    EXPECT_THAT(c.read_until("<ping>"), StartsWith("HTTP/1.1 200"));
    c.forget();
    c.send(post("/echo", "pong"));
    EXPECT_THAT(c.read_until("<pong>"), StartsWith("HTTP/1.1 200")) << "the connection was to go on";
  }
}

TEST(HttpConnections, MoreThanAllowedAreToldSo) {
  auto settings = server_settings();
  settings.connections_max = 2;
  auto s = echo_server(settings);
  auto a = raw_socket(s.port());
  auto b = std::make_unique<raw_socket>(s.port());
  a.send(get("/hold"));
  b->send(get("/hold"));
  const auto first = s.held(), second = s.held();
  auto c = raw_socket(s.port());
  c.send(get("/echo"));
  EXPECT_THAT(c.read_to_end(), StartsWith("HTTP/1.1 503 Service Unavailable"));
  EXPECT_TRUE(c.closed());
  b->close();
  EXPECT_TRUE(eventually([&] { return s.get_server().stats().connections == 1; }));
  auto d = raw_socket(s.port());
  d.send(get("/echo"));
  EXPECT_THAT(d.read_until("GET  "), StartsWith("HTTP/1.1 200"));
  EXPECT_EQ(s.get_server().stats().refused_total, 1U);
}

TEST(HttpConnections, WhoWaitsLongestForARequestMakesWayForANewOne) {
  for (const std::uint32_t threads : {1U, 3U}) {
    auto settings = server_settings();
    settings.connections_max = 6;
    settings.threads = threads;
    auto dropped = std::atomic<int>(0);
    settings.on_dropped = [&](const std::string&, const std::string& why) {
      dropped += why.find("waited for its next request") != std::string::npos ? 1 : 0;
    };
    auto s = echo_server(settings);
    auto busy = raw_socket(s.port());
    busy.send(get("/hold"));
    const auto held = s.held();
    auto idle = std::vector<std::unique_ptr<raw_socket>>();
    const auto began = clock::now();
    for (int i = 0; i < 5; ++i) {
      idle.push_back(std::make_unique<raw_socket>(s.port()));
      if (i % 2 == 0) continue; // it has never said anything
      idle.back()->send(get("/echo"));
      idle.back()->read_until("GET  ");
    }
    EXPECT_TRUE(eventually([&] { return s.get_server().stats().connections == 6; }));
    auto early = raw_socket(s.port()); // they are between two requests, as far as anybody knows
    early.send(get("/echo"));
    const auto said = early.read_to_end(1s);
    if (clock::now() - began < 900ms) { // else some have waited long enough
      EXPECT_THAT(said, StartsWith("HTTP/1.1 503"));
      EXPECT_EQ(dropped.load(), 0);
    }
    early.close();
    std::this_thread::sleep_for(1200ms);
    auto others = std::vector<std::unique_ptr<raw_socket>>();
    for (int i = 0; i < 5; ++i) {
      others.push_back(std::make_unique<raw_socket>(s.port()));
      others.back()->send(get("/echo"));
      EXPECT_THAT(others.back()->read_until("GET  "), StartsWith("HTTP/1.1 200")) << i;
      EXPECT_LE(s.get_server().stats().connections, 6U);
    }
    EXPECT_GE(dropped.load(), 5);
    for (const auto& one : idle) {
      one->read_to_end();
      EXPECT_TRUE(one->closed());
    }
    held->respond({});
    EXPECT_THAT(busy.read_until("HTTP"), StartsWith("HTTP/1.1 200")) << "who is being answered stays";
  }
}

// Clients that come and go, ask and wait as they like: there are never more than may be, and each place comes back.
TEST(HttpConnections, NoCrowdIsLargerThanItMayBe) {
  auto settings = server_settings();
  settings.connections_max = 4;
  settings.threads = 3;
  auto s = echo_server(settings);
  auto over = std::atomic<bool>(false);
  auto answers = std::atomic<int>(0);
  auto clients = std::vector<std::thread>();
  for (int i = 0; i < 6; ++i)
    clients.emplace_back([&, i] {
      for (int round = 0; !over; ++round) {
        auto c = raw_socket(s.port());
        for (int n = 0; n <= (i + round) % 3; ++n) {
          if (!c.send(get("/echo"))) break;
          if (c.read_until("HTTP/1.1 200", 100ms).starts_with("HTTP/1.1 200")) ++answers;
          if ((i + round) % 16 == 0) std::this_thread::sleep_for(1100ms); // who may make way
        }
      }
    });
  auto most = std::uint64_t(0);
  for (const auto end = clock::now() + 3s; clock::now() < end; std::this_thread::sleep_for(1ms))
    most = std::max(most, s.get_server().stats().connections);
  over = true;
  for (auto& client : clients) client.join();
  EXPECT_LE(most, 4U);
  EXPECT_GT(answers.load(), 20);
  EXPECT_TRUE(eventually([&] { return s.get_server().stats().connections == 0; }));
  auto good = raw_socket(s.port());
  good.send(get("/echo"));
  EXPECT_THAT(good.read_until("GET  "), StartsWith("HTTP/1.1 200"));
}

// As many as may come at all fail at once, each time in another way: with places that are not given back the next ones
// would be refused.
TEST(HttpConnections, WhoFailsGivesItsPlaceBack) {
  constexpr std::uint32_t places = 3;
  auto settings = server_settings();
  settings.connections_max = settings.connections_per_address_max = places;
  settings.header_timeout = 100ms;
  settings.on_head = [](const request&) -> std::optional<response> { throw std::runtime_error("as asked"); };
  auto s = echo_server(settings);
  const auto there_are = [&](std::uint64_t count) {
    return eventually([&] { return s.get_server().stats().connections == count; });
  };
  const std::pair<const char*, std::function<void(raw_socket&)>> ways[] = {
      {"goes", [](raw_socket& c) { c.close(); }},
      {"resets", [](raw_socket& c) { c.reset(); }},
      {"goes in its head", [](raw_socket& c) { c.send("GET /echo HT"), c.close(); }},
      {"resets in its head", [](raw_socket& c) { c.send("GET /echo HT"), c.reset(); }},
      {"speaks no HTTP", [](raw_socket& c) { c.send("\x16\x03\x01\x02garbage\r\n\r\n"), c.half_close(); }},
      {"does not end its head", [](raw_socket& c) { c.send("GET /echo HT"); }},
      {"its session throws", [](raw_socket& c) { c.send(post("/echo", "x")); }},
  };
  for (const auto& [name, fail] : ways) {
    SCOPED_TRACE(name);
    auto all = std::vector<std::unique_ptr<raw_socket>>();
    for (std::uint32_t i = 0; i < places; ++i) all.push_back(std::make_unique<raw_socket>(s.port()));
    ASSERT_TRUE(there_are(places));
    for (const auto& c : all) fail(*c);
    ASSERT_TRUE(there_are(0));
  }
  EXPECT_EQ(s.get_server().stats().refused_total, 0U);
  EXPECT_EQ(s.get_server().stats().requests_total, 0U);
  auto good = raw_socket(s.port());
  good.send(get("/echo"));
  EXPECT_THAT(good.read_until("GET  "), StartsWith("HTTP/1.1 200"));
}

TEST(HttpConnections, TwoHundredStreamAtOnceEachItsOwnText) {
  auto s = echo_server();
  constexpr int n = 200;
  auto sockets = std::vector<std::unique_ptr<raw_socket>>();
  auto exchanges = std::vector<std::shared_ptr<exchange>>();
  for (int i = 0; i < n; ++i) {
    sockets.push_back(std::make_unique<raw_socket>(s.port()));
    sockets.back()->send(get("/hold"));
    exchanges.push_back(s.held());
    exchanges.back()->begin_stream(200, {});
  }
  // As actors would: several threads, each writing to all of its exchanges in turn.
  auto writers = std::vector<std::thread>();
  for (int t = 0; t < 2; ++t)
    writers.emplace_back([&, t] {
      for (int step = 0; step < 50; ++step)
        for (int i = t; i < n; i += 2)
          exchanges[static_cast<std::size_t>(i)]->write("<" + std::to_string(i) + ":" + std::to_string(step) + ">");
      for (int i = t; i < n; i += 2) exchanges[static_cast<std::size_t>(i)]->finish();
    });
  for (auto& w : writers) w.join();
  for (int i = 0; i < n; ++i) {
    const auto got = sockets[static_cast<std::size_t>(i)]->read_until("0\r\n\r\n");
    auto at = std::size_t{0};
    for (int step = 0; step < 50; ++step) {
      at = got.find("<" + std::to_string(i) + ":" + std::to_string(step) + ">", at);
      ASSERT_NE(at, std::string::npos) << i << " " << step;
    }
    EXPECT_THAT(got, EndsWith("\r\n0\r\n\r\n"));
  }
}

TEST(HttpServer, APortInUseIsAnErrorThatNamesIt) {
  auto s = echo_server();
  auto other = server({}, [](auto, auto) {});
  const auto failed = other.listen("127.0.0.1", s.port());
  ASSERT_TRUE(failed.has_value());
  EXPECT_TRUE(failed->in_use);
  EXPECT_EQ(failed->endpoint, "127.0.0.1:" + std::to_string(s.port()));
  EXPECT_EQ(failed->message, "cannot listen on " + failed->endpoint + ": Address already in use");
  EXPECT_EQ(other.local_port(), 0);
  const auto nowhere = other.listen("no-such-host.invalid", 80);
  ASSERT_TRUE(nowhere.has_value());
  EXPECT_THAT(nowhere->message, HasSubstr("no-such-host.invalid:80"));
  EXPECT_FALSE(other.listen("127.0.0.1", 0).has_value()); // and it may still listen elsewhere
  EXPECT_NE(other.local_port(), 0);
}

TEST(HttpServer, AllAddressesOfIPv6AreThoseOfIPv4Too) {
  auto s = server({}, [](auto, auto e) {
    auto answer = response();
    answer.body = "here";
    e->respond(std::move(answer));
  });
  if (const auto failed = s.listen("::", 0)) GTEST_SKIP() << failed->message;
  auto c = raw_socket(s.local_port()); // to 127.0.0.1
  ASSERT_TRUE(c.connected());
  c.send(get("/"));
  EXPECT_THAT(c.read_until("here"), StartsWith("HTTP/1.1 200 "));
}

TEST(HttpServer, DrainingFinishesWhatRunsAndClosesTheRest) {
  auto s = echo_server();
  auto idle = raw_socket(s.port());
  idle.send(get("/echo"));
  idle.read_until("GET  ");
  auto silent = raw_socket(s.port());
  auto streaming = raw_socket(s.port());
  streaming.send(get("/hold"));
  auto first = s.held();
  first->begin_stream(200, {});
  auto waiting = raw_socket(s.port());
  waiting.send(get("/hold"));
  auto second = s.held();
  EXPECT_TRUE(eventually([&] { return s.get_server().stats().connections == 4; }));

  auto drained = std::promise<void>();
  auto future = drained.get_future();
  s.get_server().drain([&] { drained.set_value(); });
  idle.read_to_end();
  silent.read_to_end();
  EXPECT_TRUE(idle.closed());
  EXPECT_TRUE(silent.closed());
  EXPECT_TRUE(eventually([&] { return !raw_socket(s.port()).connected(); }));
  EXPECT_EQ(future.wait_for(50ms), std::future_status::timeout);

  first->write("still here");
  first->finish();
  EXPECT_THAT(streaming.read_to_end(), EndsWith("still here\r\n0\r\n\r\n"));
  EXPECT_TRUE(streaming.closed());
  auto answer = response();
  answer.body = "late but whole";
  second->respond(answer);
  EXPECT_THAT(waiting.read_to_end(), AllOf(HasSubstr("Connection: close"), EndsWith("late but whole")));
  streaming.close();
  waiting.close();
  EXPECT_EQ(future.wait_for(5s), std::future_status::ready);
}

TEST(HttpServer, StoppingClosesEverythingAndTellsWhoRuns) {
  auto s = echo_server();
  auto c = raw_socket(s.port());
  c.send(get("/hold"));
  auto e = s.held();
  auto told = std::atomic<int>(0);
  auto drained = std::atomic<int>(0);
  e->on_close([&] { ++told; });
  s.get_server().drain([&] { ++drained; });
  EXPECT_EQ(drained, 0);
  s.get_server().stop();
  EXPECT_EQ(told, 1);
  EXPECT_EQ(drained, 1);
  c.read_to_end();
  EXPECT_TRUE(c.closed());
  s.get_server().stop();
  e->respond({}); // an actor may still hold it
}

TEST(HttpServer, ExchangesMayOutliveTheirServer) {
  auto kept = std::shared_ptr<exchange>();
  {
    auto s = echo_server();
    auto c = raw_socket(s.port());
    c.send(get("/hold"));
    kept = s.held();
    kept->begin_stream(200, {});
  }
  EXPECT_TRUE(kept->closed());
  kept->write("late");
  kept->finish();
}

} // namespace
} // namespace godwit::transport::http::test
