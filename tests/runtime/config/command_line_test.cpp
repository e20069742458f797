#include <godwit/runtime/config/command_line.hpp>

#include <CLI/CLI.hpp>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstdint>

namespace godwit::runtime::config {
namespace {

struct program {
  std::uint16_t port = 8000;
  bool migrate = true;
  std::chrono::milliseconds patience{30'000};
  std::uint64_t pool = 1 << 20;
  int where = 0;
  registry settings;
  CLI::App app;
  problems found;

  program() {
    settings.add("http.port", port, {.doc = "Where clients connect.", .min = 1, .max = 65535, .flag = "--port"});
    settings.add("scheduler.migrate", migrate, {.doc = "Whether requests move."});
    settings.add("http.patience", patience, {.doc = "How long to wait.", .unit = "ms"});
    settings.add("memory.pool", pool, {.doc = "Its size.", .unit = "bytes"});
    settings.add("device", where, {{"auto", 0}, {"cpu", 1}}, {.doc = "Where it runs."});
    bind(settings, app, found);
  }
  void parse(std::vector<std::string> words) {
    std::reverse(words.begin(), words.end()); // as CLI11 wants a vector
    app.parse(words);
  }
};

TEST(ConfigCommandLine, EverySettingIsAFlag) {
  auto p = program();
  p.parse({"--port", "9", "--no-scheduler-migrate"});
  EXPECT_THAT(p.found, ::testing::IsEmpty());
  EXPECT_EQ(p.port, 9);
  EXPECT_FALSE(p.migrate);
  EXPECT_EQ(p.settings.find("http.port")->set_by.where, "--port");
  p.parse({"--scheduler-migrate"});
  EXPECT_TRUE(p.migrate);
}

TEST(ConfigCommandLine, ASettingWithAShortFlagHasTheOneOfItsNameToo) {
  auto p = program();
  p.parse({"--http-port", "9"});
  EXPECT_EQ(p.port, 9);
  EXPECT_EQ(p.settings.find("http.port")->set_by.where, "--http-port");
  p.parse({"--http-port", "0"});
  EXPECT_THAT(p.found, ::testing::ElementsAre("--http-port is 0, but must be from 1 to 65535"));
  EXPECT_THAT(p.app.help(), ::testing::Not(::testing::HasSubstr("--http-port")));
}

TEST(ConfigCommandLine, AFlagThatIsNotGivenSetsNothing) {
  auto p = program();
  p.parse({});
  EXPECT_EQ(p.port, 8000);
  EXPECT_EQ(p.settings.find("http.port")->set_by.from, source::built_in);
}

TEST(ConfigCommandLine, AWrongValueIsReportedInTheSettingsWords) {
  auto p = program();
  p.parse({"--port=0"});
  EXPECT_THAT(p.found, ::testing::ElementsAre("--port is 0, but must be from 1 to 65535"));
  EXPECT_EQ(p.port, 8000);
}

TEST(ConfigCommandLine, ASwitchTakesTrueAndFalseAndNothingElse) {
  auto p = program();
  p.parse({"--scheduler-migrate=false"});
  EXPECT_FALSE(p.migrate);
  p.parse({"--scheduler-migrate=true"});
  EXPECT_TRUE(p.migrate);
  EXPECT_THROW(p.parse({"--scheduler-migrate=perhaps"}), CLI::ParseError);
  EXPECT_TRUE(p.migrate);
}

TEST(ConfigCommandLine, TheHelpTextHasDocDefaultAndWhatMayBeGiven) {
  auto p = program();
  using ::testing::HasSubstr;
  const auto help = p.app.help();
  EXPECT_THAT(help, AllOf(HasSubstr("Where clients connect."), HasSubstr("8000")));
  EXPECT_THAT(help, HasSubstr("--scheduler-migrate or --no-scheduler-migrate [true]"));
  EXPECT_THAT(help, ::testing::Not(HasSubstr("{false}")));
  EXPECT_THAT(help, HasSubstr("--http-patience TIME"));
  EXPECT_THAT(help, HasSubstr("--memory-pool SIZE"));
  EXPECT_THAT(help, HasSubstr("--device auto|cpu"));
}

TEST(ConfigCommandLine, TheDenialOfASwitchIsChecked) {
  auto p = program();
  p.parse({"--no-scheduler-migrate=false"});
  EXPECT_TRUE(p.migrate);
  EXPECT_THROW(p.parse({"--no-scheduler-migrate=perhaps"}), CLI::ParseError);
}

} // namespace
} // namespace godwit::runtime::config
