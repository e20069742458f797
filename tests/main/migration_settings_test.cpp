#include "main/migration_parts.hpp"
#include "main/settings.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <ucs/config/global_opts.h>

#include <csignal>
#include <cstdlib>
#include <string>

namespace godwit::main {

TEST(Failpoints, NothingGivesNoFunction) {
  const auto traps = parse_failpoints("");
  ASSERT_TRUE(traps);
  EXPECT_FALSE(*traps);
}

TEST(Failpoints, OtherPlacesThanTheNamedOnePassUnharmed) {
  const auto traps = parse_failpoints("source.parked=kill,destination.landed=stop@3");
  ASSERT_TRUE(traps);
  ASSERT_TRUE(*traps);
  (*traps)("source.opened");
  (*traps)("destination.landed"); // the first of three
}

TEST(Failpoints, TheNthPassingOfTheNamedPlaceEndsTheProcess) {
  EXPECT_EXIT(
      {
        const auto traps = parse_failpoints("source.copied=kill@2");
        (*traps)("source.copied");
        (*traps)("source.copied");
      },
      ::testing::KilledBySignal(SIGKILL), "");
}

TEST(Failpoints, WrongTextSaysWhatIsWrong) {
  const auto error = [](const char* text) {
    const auto traps = parse_failpoints(text);
    return traps ? std::string() : traps.error();
  };
  EXPECT_NE(error("source.parked").find("NAME=ACTION"), std::string::npos);
  EXPECT_NE(error("source.nowhere=kill").find("source.nowhere"), std::string::npos);
  EXPECT_NE(error("source.parked=explode").find("explode"), std::string::npos);
  EXPECT_NE(error("source.parked=kill@0").find("'0'"), std::string::npos);
  EXPECT_NE(error("source.parked=kill@x").find("'x'"), std::string::npos);
}

TEST(FabricSettings, AnAdvertisedAddressIsOneOfTheSameFamily) {
  serve_settings settings;
  runtime::config::registry registry;
  declare(registry, settings);
  settings.fabric.port = 20'000;
  for (const auto* fine : {"", "192.0.2.7"}) {
    settings.fabric.advertise = fine;
    EXPECT_THAT(registry.validate(), ::testing::IsEmpty()) << fine;
  }
  for (const auto* wrong : {"0.0.0.0", "example.com", "192.0.2.7:20000", "2001:db8::7"}) {
    settings.fabric.advertise = wrong;
    EXPECT_THAT(registry.validate(), ::testing::ElementsAre(::testing::HasSubstr("fabric.advertise"))) << wrong;
  }
}

TEST(MigrationSettings, AShareWithWhichNoCopyEndsIsRefused) {
  serve_settings settings;
  runtime::config::registry registry;
  declare(registry, settings);
  EXPECT_THAT(registry.validate(), ::testing::IsEmpty());
  for (const double fine : {0.01, 1.0}) {
    settings.migration.copy_share = fine;
    EXPECT_THAT(registry.validate(), ::testing::IsEmpty());
  }
  settings.migration.copy_share = 0.009;
  EXPECT_THAT(registry.validate(), ::testing::ElementsAre(::testing::HasSubstr("give 0.01 to 1, or 0")));
}

TEST(FabricAddress, IsOneThatAnotherProcessCanBeTold) {
  EXPECT_TRUE(is_address("127.0.0.1"));
  EXPECT_TRUE(is_address("::1"));
  EXPECT_FALSE(is_address("0.0.0.0"));
  EXPECT_FALSE(is_address("::"));
  EXPECT_FALSE(is_address("localhost"));
  EXPECT_FALSE(is_address("127.0.0.1:22"));
}

TEST(FabricSettings, UcxsLogLevelIsThatOfItsOwnVariableWhereThereIsOne) {
  const auto level_with = [](const char* variable) {
    variable != nullptr ? ::setenv("UCX_LOG_LEVEL", variable, 1) : ::unsetenv("UCX_LOG_LEVEL");
    EXPECT_EQ(ucs_global_opts_set_value("LOG_LEVEL", "info"), UCS_OK); // UCX has read its variable long ago
    serve_settings settings;
    settings.fabric.backend = fabric_choice::ucx;
    EXPECT_TRUE(make_fabric(settings, "", {}));
    ::unsetenv("UCX_LOG_LEVEL");
    return ucs_global_opts.log_component.log_level;
  };
  EXPECT_EQ(level_with(nullptr), UCS_LOG_LEVEL_FATAL);
  EXPECT_EQ(level_with("info"), UCS_LOG_LEVEL_INFO);
  EXPECT_EQ(level_with(nullptr), UCS_LOG_LEVEL_FATAL);
}

} // namespace godwit::main
