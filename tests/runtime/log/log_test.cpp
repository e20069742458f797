#include <godwit/runtime/log/logger.hpp>
#include <godwit/runtime/log/string_backend.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <string_view>

namespace godwit::runtime::log {
namespace {

using namespace std::chrono_literals;
using ::testing::HasSubstr;
using ::testing::Not;

level_filter filter(std::string_view text) {
  auto parsed = level_filter::parse(text);
  if (const auto* wrong = std::get_if<level_error>(&parsed)) ADD_FAILURE() << wrong->message;
  return std::get<level_filter>(parsed);
}

std::shared_ptr<string_backend> memory(format f = format::text) {
  return std::make_shared<string_backend>([] { return 1'500ms; }, f);
}

TEST(LogLevels, AComponentThatNobodyHasIsFound) {
  constexpr std::array<std::string_view, 2> known{"http", "node"};
  EXPECT_EQ(filter("debug,http=info,node.member=trace").unknown(known), "");
  EXPECT_EQ(filter("http=info,https=debug").unknown(known), "https");
}

TEST(LogLevels, HoldForTheirComponentAndWhatIsBelowIt) {
  const auto f = filter("warning, http=debug,http.session=error,engine=off");
  EXPECT_EQ(f.of("scheduler"), level::warning);
  EXPECT_EQ(f.of("http"), level::debug);
  EXPECT_EQ(f.of("http.accept"), level::debug);
  EXPECT_EQ(f.of("http.session"), level::error);
  EXPECT_EQ(f.of("https"), level::warning);
  EXPECT_EQ(f.of("engine"), level::off);
  EXPECT_EQ(filter("").of("x"), level::info);
}

TEST(LogLevels, AWrongOneIsExplained) {
  for (const auto* text : {"loud", "http=", "=debug", "Ht tp=debug", "http=debug,,"}) {
    const auto parsed = level_filter::parse(text);
    ASSERT_TRUE(std::holds_alternative<level_error>(parsed)) << text;
    EXPECT_THAT(std::get<level_error>(parsed).message, HasSubstr("expected LEVEL or COMPONENT=LEVEL"));
  }
}

TEST(Log, ALineHasTimeLevelComponentRequestAndMessage) {
  const auto to = memory();
  const auto log = logger(to, level_filter(level::info)).component("http");
  log.request(protocols::request_id(17)).info("dispatched to {}", 3);
  log.warning("plain");
  EXPECT_EQ(to->text(), "1970-01-01T00:00:01.500000Z info http request=17: dispatched to 3\n"
                        "1970-01-01T00:00:01.500000Z warning http: plain\n");
}

TEST(Log, JsonLinesCarryTheSame) {
  const auto to = memory(format::json);
  logger(to, level_filter(level::info)).component("http").request("r\"1").with("instance", "3").error("it\nbroke");
  EXPECT_EQ(to->text(), R"({"time":"1970-01-01T00:00:01.500000Z","level":"error","component":"http","request":"r\"1",)"
                        R"("instance":"3","message":"it\nbroke"})"
                        "\n");
}

TEST(Log, LinesBelowTheLevelAreNotFormatted) {
  const auto to = memory();
  const auto root = logger(to, filter("info,engine=debug"));
  root.component("http").debug("{}", "no");
  root.component("engine").debug("{}", "yes");
  EXPECT_FALSE(root.component("http").enabled(level::debug));
  EXPECT_THAT(to->text(), HasSubstr("debug engine: yes"));
  EXPECT_THAT(to->text(), Not(HasSubstr("no")));
}

TEST(Log, ALoggerWithoutABackendIsSilent) {
  const auto log = logger();
  log.component("x").request("1").error("nobody hears {}", 1);
  log.flush();
  EXPECT_FALSE(log.enabled(level::error));
}

// A client chooses the model's name, the request's id and parts of errors; none may look like a line of ours.
TEST(Log, AClientCannotForgeALine) {
  const auto to = memory();
  const auto log = logger(to, level_filter(level::info)).component("http");
  log.request("1\n2026-01-01T00:00:00Z error http: forged").info("model {}", "x\r\n2026 error \x1b[2J\\n");
  const auto text = to->text();
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 1);
  EXPECT_THAT(text, Not(HasSubstr("\r")));
  EXPECT_THAT(text, Not(HasSubstr("\x1b")));
  EXPECT_THAT(text, HasSubstr(R"(request="1\n2026-01-01T00:00:00Z error http: forged": )"));
  EXPECT_THAT(text, HasSubstr(R"(model x\r\n2026 error \x1b[2J\\n)"));
}

TEST(Log, AFieldCannotPretendToBeTwo) {
  const auto to = memory();
  logger(to, level_filter(level::info)).with("model", "a b=\"c\"").with("empty", "").info("m");
  EXPECT_THAT(to->text(), HasSubstr(R"( model="a b=\"c\"" empty="": m)"));
}

TEST(Log, InvalidUtf8AndInvisibleControlsAreShown) {
  const auto to = memory(format::json);
  logger(to, level_filter(level::info)).info("{}", "ok é 鳥 \xff \xc0\xaf \xed\xa0\x80 \u2028 \u202e \u0085");
  EXPECT_THAT(to->text(), HasSubstr("ok é 鳥 \uFFFD \uFFFD\uFFFD \uFFFD\uFFFD\uFFFD \\u2028 \\u202e \\u0085"));
}

TEST(Log, AStringIsBoundedAndCountsWhatItLost) {
  auto to = std::make_shared<string_backend>(string_backend::clock{}, format::text, 100);
  const auto log = logger(to, level_filter(level::info));
  for (int i = 0; i < 10; ++i) log.info("a line of some length");
  EXPECT_LE(to->text().size(), 100U);
  EXPECT_EQ(to->dropped(), 9U);
}

} // namespace
} // namespace godwit::runtime::log
