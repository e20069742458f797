// Clients that mean harm. The server answers others meanwhile and ends with nothing left of them.
#include "transport/http/echo_server.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <fstream>
#include <random>
#include <sstream>
#include <utility>

#include <sys/resource.h>

namespace godwit::transport::http::test {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::StartsWith;

std::size_t resident_bytes() {
  auto in = std::ifstream("/proc/self/statm");
  auto size = std::size_t{0}, resident = std::size_t{0};
  in >> size >> resident;
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  resident = 0; // they keep what is freed, or books of it
#endif
  return resident * static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
}

/// Room for so many descriptors, if the system lets us.
bool allow_descriptors(rlim_t wanted) {
  auto limit = rlimit{};
  ::getrlimit(RLIMIT_NOFILE, &limit);
  if (limit.rlim_cur >= wanted) return true;
  limit.rlim_cur = std::min(wanted, limit.rlim_max);
  ::setrlimit(RLIMIT_NOFILE, &limit);
  return limit.rlim_cur >= wanted;
}

void expect_answers(echo_server& s) {
  auto c = raw_socket(s.port());
  c.send(post("/echo", "ping"));
  EXPECT_THAT(c.read_until("ping"), StartsWith("HTTP/1.1 200"));
}

void expect_nothing_left(echo_server& s) {
  EXPECT_TRUE(eventually([&] { return s.get_server().stats().connections == 0; }));
  EXPECT_EQ(s.get_server().stats().exchanges, 0U);
}

TEST(HttpHostile, SlowlorisesAreEndedAndOthersAnsweredMeanwhile) {
  auto settings = server_settings();
  settings.header_timeout = 300ms;
  auto s = echo_server(settings);
  auto slow = std::vector<std::unique_ptr<raw_socket>>();
  for (int i = 0; i < 200; ++i) {
    slow.push_back(std::make_unique<raw_socket>(s.port()));
    slow.back()->send("GET /echo HTTP/1.1\r\nHost: t\r\n");
  }
  for (int round = 0; round < 10; ++round) {
    for (auto& c : slow) c->send("X-More: a\r\n"); // each keeps on sending
    expect_answers(s);
    std::this_thread::sleep_for(50ms);
  }
  for (auto& c : slow) EXPECT_THAT(c->read_to_end(), StartsWith("HTTP/1.1 408"));
  EXPECT_EQ(s.get_server().stats().rejected_total, 200U);
  slow.clear();
  expect_nothing_left(s);
}

TEST(HttpHostile, OneAddressDoesNotGetMoreConnectionsThanItMayHave) {
  auto settings = server_settings();
  settings.connections_per_address_max = 3;
  auto s = echo_server(settings);
  auto first = std::vector<std::unique_ptr<raw_socket>>();
  for (int i = 0; i < 3; ++i) {
    first.push_back(std::make_unique<raw_socket>(s.port()));
    first.back()->send(get("/echo"));
    EXPECT_THAT(first.back()->read_until("GET  "), StartsWith("HTTP/1.1 200"));
  }
  auto fourth = raw_socket(s.port());
  EXPECT_THAT(fourth.read_to_end(), StartsWith("HTTP/1.1 429"));
  EXPECT_EQ(s.get_server().stats().refused_total, 1U);
  first.pop_back(); // and its place is free again
  EXPECT_TRUE(eventually([&] { return s.get_server().stats().connections == 2; }));
  expect_answers(s);
}

TEST(HttpHostile, ManySlowBodiesTogetherAreBounded) {
  auto settings = server_settings();
  settings.bodies_bytes_max = 1024 * 1024;
  auto s = echo_server(settings);
  auto slow = std::vector<std::unique_ptr<raw_socket>>();
  const auto head = "POST /echo HTTP/1.1\r\nHost: t\r\nContent-Length: 1000000\r\n\r\n";
  auto refused = 0;
  for (int i = 0; i < 8; ++i) {
    slow.push_back(std::make_unique<raw_socket>(s.port()));
    slow.back()->send(head + std::string(200'000, 'b'));
    (void)slow.back()->read_until("503", 100ms);
  }
  EXPECT_TRUE(eventually([&] {
    refused = 0;
    for (auto& one : slow)
      if (one->read_until("503", 1ms).starts_with("HTTP/1.1 503")) ++refused;
    return refused >= 3;
  }));
  EXPECT_GE(refused, 3);
  EXPECT_LT(refused, 8);
  slow.clear();
  expect_nothing_left(s);
  auto c = raw_socket(s.port()); // what they held is free
  c.send(post("/echo", std::string(900'000, 'c') + "!end"));
  EXPECT_THAT(c.read_until("!end"), StartsWith("HTTP/1.1 200"));
}

TEST(HttpHostile, ChunkedBodiesThatAreWrongGetA400) {
  auto s = echo_server();
  const auto head = std::string("POST /echo HTTP/1.1\r\nHost: t\r\nTransfer-Encoding: chunked\r\n\r\n");
  for (const auto* body : {"zz\r\nab\r\n0\r\n\r\n", "-1\r\na\r\n0\r\n\r\n", "ffffffffffffffffff\r\na",
                           "5\r\nabcdeXX0\r\n\r\n", "3\r\nabcd\r\n0\r\n\r\n", " \r\n\r\n", "0x2\r\nab\r\n0\r\n\r\n"}) {
    auto c = raw_socket(s.port());
    c.send(head + body);
    c.half_close();
    EXPECT_THAT(c.read_to_end(), StartsWith("HTTP/1.1 4")) << body;
  }
  expect_answers(s);
  expect_nothing_left(s);
}

TEST(HttpHostile, SizesOfChunksThatAreTooLargeAreNotTakenForSmallOnes) {
  auto s = echo_server();
  const auto head = std::string("POST /echo HTTP/1.1\r\nHost: t\r\nTransfer-Encoding: chunked\r\n\r\n");
  const std::pair<const char*, const char*> wrong[] = {
      {"10000000000000000\r\nx", "HTTP/1.1 400 "},                 // 2^64
      {"10000000000000004\r\nping\r\n0\r\n\r\n", "HTTP/1.1 400 "}, // and 4
      {"ffffffffffffffff\r\nx", "HTTP/1.1 413 "},                  // one less is a number
      {"4\r\nping\r\nffffffffffffffff\r\nx", "HTTP/1.1 413 "},
  };
  for (const auto& [body, answer] : wrong) {
    auto c = raw_socket(s.port());
    c.send(head + body);
    EXPECT_THAT(c.read_until("\r\n\r\n"), StartsWith(answer)) << body;
  }
  EXPECT_EQ(s.get_server().stats().requests_total, 0U);
  expect_answers(s);
  expect_nothing_left(s);
}

TEST(HttpHostile, ALineOfAChunkMayBeLongAndMustEnd) {
  auto s = echo_server();
  const auto head = std::string("POST /echo HTTP/1.1\r\nHost: t\r\nTransfer-Encoding: chunked\r\n\r\n");
  auto c = raw_socket(s.port());
  c.send(head + "4;" + std::string(30'000, 'x') + "\r\nping\r\n0\r\n\r\n");
  EXPECT_THAT(c.read_until("ping"), StartsWith("HTTP/1.1 200 "));
  for (const auto& line : {"4;" + std::string(200'000, 'x'), std::string(200'000, '0'), std::string(200'000, '1'),
                           "4\r\nping\r\n4;" + std::string(200'000, 'x')}) {
    auto d = raw_socket(s.port());
    d.send(head + line);
    EXPECT_THAT(d.read_until("\r\n\r\n"), StartsWith("HTTP/1.1 431 ")) << line.substr(0, 20);
  }
  EXPECT_EQ(s.get_server().stats().requests_total, 1U);
  expect_answers(s);
  c.close();
  expect_nothing_left(s);
}

TEST(HttpHostile, ABodyOfManyTinyChunksIsHeldToTheBoundToo) {
  auto settings = server_settings();
  settings.body_bytes_max = 1000;
  auto s = echo_server(settings);
  auto c = raw_socket(s.port());
  auto chunks = std::string("POST /echo HTTP/1.1\r\nHost: t\r\nTransfer-Encoding: chunked\r\n\r\n");
  for (int i = 0; i < 2000; ++i) chunks += "1\r\na\r\n";
  c.send(chunks);
  EXPECT_THAT(c.read_to_end(), StartsWith("HTTP/1.1 413"));
}

TEST(HttpHostile, TrailersAreReadAndForgotten) {
  auto s = echo_server();
  auto c = raw_socket(s.port());
  c.send("POST /echo HTTP/1.1\r\nHost: t\r\nTransfer-Encoding: chunked\r\nTrailer: X-Sum\r\n\r\n"
         "4\r\nping\r\n0\r\nX-Sum: 1\r\n\r\n" +
         get("/echo"));
  EXPECT_THAT(c.read_until("GET  "), HasSubstr("POST  ping"));
  auto bomb = raw_socket(s.port());
  auto text = std::string("POST /echo HTTP/1.1\r\nHost: t\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n");
  for (int i = 0; i < 20'000; ++i) text += "X-" + std::to_string(i) + ": y\r\n";
  bomb.send(text + "\r\n");
  EXPECT_THAT(bomb.read_to_end(), StartsWith("HTTP/1.1 431"));
}

TEST(HttpHostile, HeaderBombsAreRefused) {
  auto s = echo_server();
  const auto one = "GET /echo HTTP/1.1\r\nHost: t\r\nX: " + std::string(200'000, 'x') + "\r\n\r\n";
  auto many = std::string("GET /echo HTTP/1.1\r\nHost: t\r\n");
  for (int i = 0; i < 20'000; ++i) many += "a:b\r\n";
  const auto target = "GET /" + std::string(100'000, 'a') + " HTTP/1.1\r\nHost: t\r\n\r\n";
  for (const auto& text : {one, many + "\r\n", target}) {
    auto c = raw_socket(s.port());
    c.send(text);
    EXPECT_THAT(c.read_to_end(), StartsWith("HTTP/1.1 431"));
  }
  expect_answers(s);
  expect_nothing_left(s);
}

// One after the other, as the parser takes them: what it has taken counts, too.
TEST(HttpHostile, AHeadThatComesLineByLineIsHeldToTheBoundToo) {
  auto settings = server_settings();
  settings.header_timeout = 60s;
  auto s = echo_server(settings);
  auto c = raw_socket(s.port());
  auto lines = std::string();
  while (lines.size() < 1000) lines += "X: y\r\n";
  c.send("GET /echo HTTP/1.1\r\nHost: t\r\n");
  for (int i = 0; i < 1000 && c.read_until("431", 1ms).empty(); ++i) c.send(lines);
  EXPECT_THAT(c.read_until("bytes"), AllOf(StartsWith("HTTP/1.1 431 "), HasSubstr("longer than 16384 bytes")));
  c.close();
  expect_nothing_left(s);
}

TEST(HttpHostile, PipelinesBehindARequestThatRunsAreBoundedAndAnsweredInTheEnd) {
  auto s = echo_server();
  auto c = raw_socket(s.port());
  c.send(get("/hold"));
  const auto e = s.held();
  auto sent = 0;
  const auto before = resident_bytes();
  for (; sent < 200; ++sent) c.send(post("/echo", "n" + std::to_string(sent)));
  expect_answers(s);
  EXPECT_LT(resident_bytes(), before + 8 * 1024 * 1024);
  EXPECT_TRUE(eventually([&] { return s.get_server().stats().exchanges == 1; })) << "of others none is left";
  e->respond({});
  EXPECT_THAT(c.read_until("n199"), HasSubstr("POST  n198"));
}

TEST(HttpHostile, RandomBytesHarmNobody) {
  auto s = echo_server();
  auto random = std::mt19937(7); // NOLINT: the same every time
  const auto good = post("/echo", "ping");
  for (int i = 0; i < 400; ++i) {
    auto c = raw_socket(s.port());
    auto text = std::string();
    if (i % 2 == 0) {
      for (auto n = random() % 3000; n > 0; --n) text.push_back(static_cast<char>(random()));
    } else { // a good request with some bytes changed
      text = good + good;
      for (auto n = 1 + random() % 4; n > 0; --n) text[random() % text.size()] = static_cast<char>(random());
    }
    c.send(text);
    if (i % 3 == 0) c.reset();
    if (i % 50 == 0) expect_answers(s);
  }
  expect_answers(s);
  expect_nothing_left(s);
}

TEST(HttpHostile, HalfOpenConnectionsAreClosedInTime) {
  auto settings = server_settings();
  settings.idle_timeout = 200ms;
  settings.header_timeout = 200ms;
  auto s = echo_server(settings);
  auto silent = std::vector<std::unique_ptr<raw_socket>>();
  for (int i = 0; i < 100; ++i) {
    silent.push_back(std::make_unique<raw_socket>(s.port()));
    if (i % 2 == 0) silent.back()->send("G");
  }
  expect_answers(s);
  expect_nothing_left(s); // though none of them has closed
}

TEST(HttpHostile, AClientThatReadsNothingOfItsStreamLeavesOthersAndMemoryAlone) {
  auto told = std::make_shared<std::vector<std::string>>();
  auto told_mutex = std::make_shared<std::mutex>();
  auto settings = server_settings();
  settings.queued_bytes_max = 512 * 1024;
  settings.on_dropped = [told, told_mutex](const std::string& peer, const std::string& why) {
    const auto lock = std::lock_guard(*told_mutex);
    told->push_back(peer + " " + why);
  };
  auto s = echo_server(settings);
  auto deaf = raw_socket(s.port(), 4096);
  deaf.send(get("/hold"));
  const auto to_deaf = s.held();
  to_deaf->begin_stream(200, {});
  auto well = raw_socket(s.port());
  well.send(get("/hold"));
  const auto to_well = s.held();
  to_well->begin_stream(200, {});
  const auto before = resident_bytes();
  auto most = std::size_t{0};
  for (int i = 0; i < 2000; ++i) {
    to_deaf->write(std::string(16 * 1024, 'z'));
    to_well->write("token " + std::to_string(i) + "\n");
    if (i % 100 == 0) {
      well.read_until("token " + std::to_string(i) + "\n");
      most = std::max(most, resident_bytes());
    }
  }
  to_well->write("last");
  EXPECT_THAT(well.read_until("last"), HasSubstr("token 1999\n"));
  EXPECT_TRUE(to_deaf->closed());
  EXPECT_LT(most, before + 8 * 1024 * 1024); // of 32 MiB
  EXPECT_EQ(s.get_server().stats().slow_readers_total, 1U);
  const auto times_told = [&] {
    const auto lock = std::lock_guard(*told_mutex);
    return told->size();
  };
  ASSERT_TRUE(eventually([&] { return times_told() > 0; })); // behind the count
  ASSERT_EQ(times_told(), 1U);
  const auto lock = std::lock_guard(*told_mutex);
  EXPECT_THAT(told->front(), AllOf(StartsWith("127.0.0.1:"), HasSubstr("http.queued_bytes_max")));
}

TEST(HttpHostile, AnswersThatNobodyReadsAreBoundedAllTogether) {
  auto told = std::make_shared<std::atomic<int>>(0);
  auto settings = server_settings();
  constexpr std::uint64_t bound = 64 * 1024 * 1024;
  settings.answers_bytes_max = bound;
  settings.on_dropped = [told](const std::string&, const std::string& why) {
    if (why.find("http.answers_bytes_max") != std::string::npos) ++*told;
  };
  auto s = echo_server(settings);
  auto answer = response();
  answer.body = std::string(16 * 1024 * 1024, 'm') + "!end";
  auto deaf = std::vector<std::unique_ptr<raw_socket>>();
  for (int i = 0; i < 12; ++i) {
    deaf.push_back(std::make_unique<raw_socket>(s.port(), 64 * 1024));
    deaf.back()->send(get("/hold"));
    s.held()->respond(answer);
    // All of an answer waits at first, and what the system takes of it no more.
    EXPECT_TRUE(eventually([&] {
      const auto now = s.get_server().stats();
      return now.answer_bytes >= 10ULL * 1024 * 1024 * std::min(i + 1, 3) && now.answer_bytes <= bound;
    })) << i;
    expect_answers(s);
  }
  const auto went = [&] { return s.get_server().stats().slow_readers_total; };
  EXPECT_TRUE(eventually([&] { return s.get_server().stats().connections + went() == 12; }));
  EXPECT_LE(went(), 9U) << "three have room";
  EXPECT_GE(went(), 6U) << "and no more than six, the system takes so little";
  EXPECT_EQ(told->load(), static_cast<int>(went()));
  EXPECT_TRUE(deaf.back()->read_until("!end", 60s).ends_with("!end")) << "those that had waited longest went";
  auto reads = raw_socket(s.port()); // none of this is its affair
  reads.send(get("/hold"));
  s.held()->respond(answer);
  EXPECT_TRUE(reads.read_until("!end", 60s).ends_with("!end"));
  deaf.clear();
  reads.close();
  expect_nothing_left(s);
}

TEST(HttpHostile, WhoReadsDoesNotPayForThoseOfAnotherThreadWhoDoNot) {
  auto settings = server_settings();
  settings.threads = 2;
  settings.answers_bytes_max = 36 * 1024 * 1024;
  auto s = echo_server(settings);
  auto answer = response();
  answer.body = std::string(16 * 1024 * 1024, 'm') + "!end";
  auto deaf = std::vector<std::unique_ptr<raw_socket>>();
  auto others = std::vector<std::unique_ptr<raw_socket>>();
  for (int i = 0; i < 3; ++i) { // the threads take turns: these are the first one's
    deaf.push_back(std::make_unique<raw_socket>(s.port(), 64 * 1024));
    deaf.back()->send(get("/hold"));
    s.held()->respond(answer);
    others.push_back(std::make_unique<raw_socket>(s.port(), 64 * 1024));
    others.back()->send(post("/echo", "ping"));
    EXPECT_THAT(others.back()->read_until("ping"), StartsWith("HTTP/1.1 200"));
    others.back()->forget();
  }
  for (int i = 0; i < 4; ++i) {
    others.back()->send(get("/hold"));
    s.held()->respond(answer);
    ASSERT_TRUE(others.back()->read_until("!end", 60s).ends_with("!end")) << i;
    others.back()->forget();
  }
  EXPECT_GE(s.get_server().stats().slow_readers_total, 1U);
  EXPECT_LE(s.get_server().stats().slow_readers_total, 3U);
}

TEST(HttpHostile, StreamsThatNobodyReadsAreBoundedAllTogetherToo) {
  auto settings = server_settings();
  settings.threads = 1;
  settings.queued_bytes_max = 16 * 1024 * 1024;
  settings.answers_bytes_max = 40 * 1024 * 1024;
  auto s = echo_server(settings);
  auto deaf = std::vector<std::unique_ptr<raw_socket>>();
  auto streams = std::vector<std::shared_ptr<exchange>>();
  for (int i = 0; i < 6; ++i) {
    deaf.push_back(std::make_unique<raw_socket>(s.port(), 4096));
    deaf.back()->send(get("/hold"));
    streams.push_back(s.held());
    streams.back()->begin_stream(200, {});
    for (int part = 0; part < 15; ++part) streams.back()->write(std::string(1024 * 1024, 's'));
    expect_answers(s);
  }
  EXPECT_TRUE(eventually([&] { return s.get_server().stats().slow_readers_total >= 3; }));
  EXPECT_TRUE(streams.front()->closed());
  EXPECT_FALSE(streams.back()->closed());
}

TEST(HttpHostile, AnAnswerThatWaitsAloneMayBeLongerThanAllTogether) {
  auto settings = server_settings();
  settings.answers_bytes_max = 1024 * 1024;
  auto s = echo_server(settings);
  for (int i = 0; i < 2; ++i) {
    auto c = raw_socket(s.port(), 64 * 1024);
    c.send(get("/hold"));
    auto answer = response();
    answer.body = std::string(16 * 1024 * 1024, 'm') + "!end";
    s.held()->respond(std::move(answer));
    std::this_thread::sleep_for(50ms);
    EXPECT_TRUE(c.read_until("!end", 60s).ends_with("!end"));
    // It has not ended yet for whoever sent it.
    EXPECT_TRUE(eventually([&] { return s.get_server().stats().exchanges == 0; }));
  }
  EXPECT_EQ(s.get_server().stats().slow_readers_total, 0U);
}

TEST(HttpHostile, TenThousandConnectionsTakeLittleMemoryAndTheServerAnswers) {
  constexpr int n = 9'900; // both ends are ours: as many as the usual limit of 20,000 descriptors allows
  if (!allow_descriptors(2 * n + 100)) GTEST_SKIP() << "this process may not have " << 2 * n + 100 << " descriptors";
  auto settings = server_settings();
  settings.connections_per_address_max = 0;
  auto s = echo_server(settings);
  auto idle = std::vector<std::unique_ptr<raw_socket>>();
  idle.reserve(n);
  expect_answers(s);
  const auto before = resident_bytes();
  for (int i = 0; i < n; ++i) {
    idle.push_back(std::make_unique<raw_socket>(s.port()));
    ASSERT_TRUE(idle.back()->connected());
    // Each has asked something: what that took must not stay.
    if (i % 2 == 0) idle.back()->send(post("/echo", std::string(3000, 'p') + "ping"));
  }
  for (int i = 0; i < n; i += 2) {
    EXPECT_THAT(idle[static_cast<std::size_t>(i)]->read_until("ping"), StartsWith("HTTP/1.1 200"));
    idle[static_cast<std::size_t>(i)]->forget();
  }
  EXPECT_TRUE(eventually([&] { return s.get_server().stats().connections == static_cast<std::uint64_t>(n); }));
  expect_answers(s);
  const auto grown = resident_bytes() - before;
  RecordProperty("bytes_per_connection", static_cast<int>(grown / n));
  std::printf("%d connections: %.1f MB, both ends\n", n, static_cast<double>(grown) / 1e6);
  EXPECT_LT(grown, 200'000'000U);
  idle.clear();
  EXPECT_TRUE(eventually([&] { return s.get_server().stats().connections == 0; }, 20s));
  expect_answers(s);
}

} // namespace
} // namespace godwit::transport::http::test
