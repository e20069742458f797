#include "actor/connection.hpp"

#include <gtest/gtest.h>

#include <chrono>
#include <future>
#include <memory>
#include <string>
#include <vector>

#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

namespace godwit::runtime::detail {

using namespace std::chrono_literals;

namespace {

using addresses = async::name_resolver::answer;

/// Knows no name, and says so only at the test's end.
struct silent_names {
  std::shared_ptr<std::promise<void>> end = std::make_shared<std::promise<void>>();
  async::name_resolver names{[over = end->get_future().share()](const std::string&, std::uint16_t) -> addresses {
    over.wait_for(60s);
    return async::error{async::error_code::down, "nobody knows it"};
  }};
  ~silent_names() { end->set_value(); }
};

/// Accepts connections at a port of its own.
struct accepting_socket {
  accepting_socket() {
    sockaddr_in place{};
    place.sin_family = AF_INET;
    place.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    EXPECT_EQ(::bind(fd.get(), reinterpret_cast<const sockaddr*>(&place), sizeof place), 0);
    EXPECT_EQ(::listen(fd.get(), 5), 0);
    socklen_t size = sizeof place;
    EXPECT_EQ(::getsockname(fd.get(), reinterpret_cast<sockaddr*>(&place), &size), 0);
    port = ntohs(place.sin_port);
  }
  async::descriptor fd{::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)};
  std::uint16_t port = 0;
};

} // namespace

TEST(Connection, ToANameThatNobodyAnswersForIsAnErrorByTheDeadline) {
  silent_names silent;
  const auto before = std::chrono::steady_clock::now();
  const auto none = open_connection("somewhere", 1, before + 100ms, silent.names);
  ASSERT_FALSE(none);
  EXPECT_EQ(none.error().code, async::error_code::down);
  EXPECT_EQ(none.error().message, "nobody has said in time where that is");
  EXPECT_LT(std::chrono::steady_clock::now() - before, 20s);
}

TEST(Connection, ToAnAddressWaitsForNoName) {
  silent_names silent;
  const accepting_socket there;
  EXPECT_TRUE(open_connection("127.0.0.1", there.port, std::chrono::steady_clock::now() + 20s, silent.names));
}

TEST(Connection, ToANameGoesToThatOfItsAddressesThatAccepts) {
  const accepting_socket there;
  async::name_resolver names([](const std::string&, std::uint16_t port) -> addresses {
    std::vector<async::socket_address> out(2);
    for (const auto last : {2U, 0U}) { // nobody listens at 127.0.0.3
      sockaddr_in place{};
      place.sin_family = AF_INET;
      place.sin_addr.s_addr = htonl(INADDR_LOOPBACK + last);
      place.sin_port = htons(port);
      auto& one = out[last == 0 ? 1 : 0];
      reinterpret_cast<sockaddr_in&>(one.bytes) = place;
      one.size = sizeof place;
    }
    return out;
  });
  EXPECT_TRUE(open_connection("somewhere", there.port, std::chrono::steady_clock::now() + 20s, names));
}

} // namespace godwit::runtime::detail
