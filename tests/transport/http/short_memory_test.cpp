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
