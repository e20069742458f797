// One allocation fails, whichever it is: what belongs to it may be lost, and nothing else.
#include "transport/http/echo_server.hpp"
#include "transport/http/short_memory.hpp"

#include <godwit/transport/http/client.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <variant>

namespace godwit::transport::http::test {
namespace {

constexpr std::uint32_t allocations_max = 10'000; // of a request, by far

std::uint32_t number_in(const std::string& text) { return static_cast<std::uint32_t>(std::stoul(text)); }

/// Answers with the request's body; a query arms the failure of an allocation on the server's only thread.
void answer_or_arm(const request& wanted, const std::shared_ptr<exchange>& e) {
  auto said = response();
  said.body = "<" + wanted.body + ">";
  if (!wanted.query.empty()) fail_an_allocation(number_in(wanted.query));
  e->respond(std::move(said));
}

bool answers_at(std::uint16_t port) {
  auto c = raw_socket(port);
  return c.send(post("/", "ping")) && c.read_until("<ping>", 500ms).find("<ping>") != std::string::npos;
}

/// A connection comes, is served and goes, and the allocation that fails is one of what that takes.
bool fails_once(server& s, std::uint32_t after) {
  const auto before = failed_allocations();
  auto armed = raw_socket(s.local_port());
  armed.send(get("/?" + std::to_string(after)));
  EXPECT_TRUE(!armed.read_until("\r\n\r\n", 2s).empty() || armed.closed()) << "neither an answer nor its end";
  (void)answers_at(s.local_port());
  return failed_allocations() != before;
}

TEST(HttpShortMemory, AServerGoesOnAndEachPlaceComesBack) {
  auto failed = true;
  for (auto after = std::uint32_t{0}; failed && after < allocations_max; ++after) {
    SCOPED_TRACE(after);
    auto settings = server_settings();
    settings.threads = 1;
    settings.connections_max = settings.connections_per_address_max = 4;
    auto s = server(settings, answer_or_arm);
    ASSERT_FALSE(s.listen("127.0.0.1", 0).has_value());
    failed = fails_once(s, after);
    for (int i = 0; i < 6; ++i) ASSERT_TRUE(eventually([&] { return answers_at(s.local_port()); })) << i;
    ASSERT_TRUE(eventually([&] { return s.stats().connections == 0; })) << s.stats().connections;
    ASSERT_EQ(s.stats().exchanges, 0U);
    s.drain({}); // looks at all connections that it knows
  }
  EXPECT_FALSE(failed);
}

TEST(HttpShortMemory, ACallOfAClientEndsExactlyOnce) {
  auto s = echo_server();
  auto failed = true;
  for (auto after = std::uint32_t{0}; failed && after < allocations_max; ++after) {
    SCOPED_TRACE(after);
    auto c = client();
    const auto before = failed_allocations();
    auto wanted = client_request();
    wanted.url = s.url("/echo");
    auto first = std::make_shared<std::atomic<int>>(0), second = std::make_shared<std::atomic<int>>(0);
    auto told = client_callbacks();
    told.on_done = [first, after](const std::optional<client_error>&) {
      fail_an_allocation(after);
      ++*first;
    };
    (void)c.send(wanted, std::move(told));
    ASSERT_TRUE(eventually([&] { return *first == 1; }));
    wanted.url += "?" + std::string(1000, 'x');
    told = client_callbacks();
    told.on_done = [second](const std::optional<client_error>&) { ++*second; };
    (void)c.send(wanted, std::move(told));
    ASSERT_TRUE(eventually([&] { return *second == 1; }));
    failed = failed_allocations() != before;
    for (int i = 0; i < 2; ++i) {
      const auto answer = c.fetch(wanted); // the first may be the one for which there is no memory
      ASSERT_TRUE(i == 0 || std::holds_alternative<client_answer>(answer));
    }
    ASSERT_EQ(*first, 1);
    ASSERT_EQ(*second, 1);
  }
  EXPECT_FALSE(failed);
}

} // namespace
} // namespace godwit::transport::http::test
