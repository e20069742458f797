#include <godwit/transport/http/sse_parser.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

namespace godwit::transport::http {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

std::vector<sse_event> parse(const std::vector<std::string>& pieces) {
  auto parser = sse_parser();
  auto out = std::vector<sse_event>();
  for (const auto& p : pieces) EXPECT_TRUE(parser.feed(p, [&](const sse_event& e) { out.push_back(e); }));
  return out;
}
sse_event data(std::string text) { return {"", std::move(text), ""}; }

TEST(SseParser, SplitsAStreamOfCompletions) {
  EXPECT_THAT(parse({"data: {\"a\":1}\n\ndata: [DONE]\n\n"}), ElementsAre(data("{\"a\":1}"), data("[DONE]")));
}

TEST(SseParser, GivesTheSameEventsHoweverTheBytesAreCut) {
  const auto stream =
      std::string("\xEF\xBB\xBF: hello\r\nevent: x\r\ndata: 1\r\ndata:2\r\rid: 7\ndata\n\nretry: 5\n\ndata:  z\n\n");
  const auto whole = parse({stream});
  EXPECT_THAT(whole, ElementsAre(sse_event{"x", "1\n2", ""}, sse_event{"", "", "7"}, sse_event{"", " z", "7"}));
  for (std::size_t i = 0; i <= stream.size(); ++i)
    for (std::size_t j = i; j <= stream.size(); j += 3)
      ASSERT_EQ(parse({stream.substr(0, i), stream.substr(i, j - i), stream.substr(j)}), whole) << i << " " << j;
}

TEST(SseParser, AnEventThatTheStreamEndsWithinIsNone) { EXPECT_THAT(parse({"data: 1\n", "data: 2"}), IsEmpty()); }

TEST(SseParser, AnEventWithoutDataIsNone) { EXPECT_THAT(parse({"event: x\n\n: comment\n\n\n\n"}), IsEmpty()); }

TEST(SseParser, IsBounded) {
  auto parser = sse_parser(100);
  const auto none = [](const sse_event&) { FAIL(); };
  EXPECT_TRUE(parser.feed("data: " + std::string(60, 'x') + "\n", none));
  EXPECT_FALSE(parser.feed("data: " + std::string(60, 'x') + "\n\n", none));
  EXPECT_FALSE(parser.feed("data: 1\n\n", none));
}

} // namespace
} // namespace godwit::transport::http
