#include <godwit/transport/http/client.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <future>
#include <string>
#include <string_view>
#include <thread>
#include <variant>

#include <dlfcn.h>
#include <netdb.h>

namespace godwit::transport::http::test {
namespace {

constexpr std::string_view slow_name = "slow.test";
constexpr std::string_view unknown_name = "unknown.test";

/// Nobody answers for `slow_name` until this is set.
std::shared_future<void>* answered = nullptr;
std::atomic<int> asked{0};
std::atomic<bool> given_up{false}; ///< or sooner

} // namespace
} // namespace godwit::transport::http::test

// The system's, but for one name, whose servers are down, and one that nobody has.
extern "C" int getaddrinfo(const char* node, const char* service, const addrinfo* hints, addrinfo** result) {
  using namespace godwit::transport::http::test;
  if (node != nullptr && node == unknown_name) return EAI_NONAME;
  if (node != nullptr && answered != nullptr && node == slow_name) {
    ++asked;
    answered->wait_for(std::chrono::seconds(30));
    given_up = true;
    return EAI_AGAIN;
  }
  static const auto systems = reinterpret_cast<decltype(&::getaddrinfo)>(::dlsym(RTLD_NEXT, "getaddrinfo"));
  return systems(node, service, hints, result);
}

namespace godwit::transport::http::test {

TEST(HttpClientNames, ANameThatNobodyAnswersForEndsTheCallInItsTime) {
  std::promise<void> answer;
  auto later = answer.get_future().share();
  answered = &later;
  {
    client_settings settings;
    settings.connect_timeout = std::chrono::milliseconds(50);
    client c(settings);
    for (int i = 0; i < 4; ++i) {
      client_request request;
      request.url = "http://" + std::string(slow_name) + "/";
      const auto result = c.fetch(std::move(request));
      EXPECT_FALSE(given_up) << "the call waited for the look-up";
      const auto* failed = std::get_if<client_error>(&result);
      ASSERT_NE(failed, nullptr);
      EXPECT_EQ(failed->kind, client_error_kind::timeout) << failed->message;
      EXPECT_THAT(failed->message, ::testing::HasSubstr("could not connect in time"));
    }
  }
  EXPECT_FALSE(given_up) << "the client's end waited for the look-up";
  EXPECT_EQ(asked, 1) << "those that nobody waits for are not begun";
  answer.set_value();
  for (int look = 0; look < 10'000 && !given_up; ++look) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  ASSERT_TRUE(given_up); // it reads what is ours
  answered = nullptr;
}

TEST(HttpClientNames, ANameThatNobodyKnowsIsAnErrorOfTheCall) {
  client c;
  client_request request;
  request.url = "http://" + std::string(unknown_name) + "/";
  const auto result = c.fetch(std::move(request));
  const auto* failed = std::get_if<client_error>(&result);
  ASSERT_NE(failed, nullptr);
  EXPECT_EQ(failed->kind, client_error_kind::resolve);
  EXPECT_EQ(failed->message, std::string(unknown_name) + ":80: Name or service not known");
}

} // namespace godwit::transport::http::test
