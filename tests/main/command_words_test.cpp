#include "main/command_words.hpp"
#include "main/output_file.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include <unistd.h>

namespace godwit::main {
namespace {

using ::testing::ElementsAre;

TEST(CommandWords, AnEmptyValueIsAWordOfItsOwnAndFlagsHaveNone) {
  CLI::App app("test", "test");
  std::string top, deep;
  bool flag = false;
  app.add_option("--top", top);
  auto* const sub = app.add_subcommand("sub", "");
  sub->add_option("--deep", deep);
  sub->add_flag("--flag", flag);
  EXPECT_THAT(with_empty_values(app, {"--top=", "sub", "--deep=", "x"}),
              ElementsAre("--top", "", "sub", "--deep", "", "x"));
  EXPECT_THAT(with_empty_values(app, {"sub", "--flag=", "--deep=a=", "--other=", "--", "--deep="}),
              ElementsAre("sub", "--flag=", "--deep=a=", "--other=", "--", "--deep="));
  EXPECT_THAT(with_empty_values(app, {"--deep=", "sub"}), ElementsAre("--deep=", "sub")) << "not its option";
}

TEST(OutputFile, IsAnothersByAnyName) {
  const auto folder = std::filesystem::path(::testing::TempDir()) / ("godwit_same_" + std::to_string(::getpid()));
  std::filesystem::create_directories(folder);
  const auto file = folder / "file", link = folder / "link", to_nothing = folder / "to_nothing";
  std::ofstream(file) << "x";
  std::filesystem::create_symlink("file", link);
  std::filesystem::create_symlink("none", to_nothing);
  EXPECT_TRUE(same_file(file, file));
  EXPECT_TRUE(same_file(file, folder / "." / "file"));
  EXPECT_TRUE(same_file(link, file));
  EXPECT_TRUE(same_file(folder / "none", to_nothing)) << "once they are written";
  EXPECT_FALSE(same_file(file, to_nothing));
  EXPECT_FALSE(same_file(file, folder / "none"));
  EXPECT_FALSE(same_file("", file));
  EXPECT_FALSE(same_file("/dev/null", "/dev/null"));
  std::filesystem::remove_all(folder);
}

TEST(OutputFile, IsLookedAtAndNotTouched) {
  const auto folder = std::filesystem::path(::testing::TempDir()) / ("godwit_output_" + std::to_string(::getpid()));
  std::filesystem::create_directories(folder);
  const auto file = folder / "file";
  EXPECT_EQ(why_not_writable(file), std::nullopt);
  EXPECT_FALSE(std::filesystem::exists(file));
  EXPECT_EQ(why_not_writable(folder), "it is a folder");
  EXPECT_EQ(why_not_writable(folder / "no" / "file"), "there is no folder " + (folder / "no").string());
  EXPECT_NE(why_not_writable("/proc/godwit.csv"), std::nullopt) << "for root neither";
  std::ofstream(file) << "kept";
  EXPECT_EQ(why_not_writable(file), std::nullopt);
  keep_private(file);
  EXPECT_EQ(std::filesystem::file_size(file), 4U);
  EXPECT_EQ(std::filesystem::status(file).permissions(),
            std::filesystem::perms::owner_read | std::filesystem::perms::owner_write);
  std::filesystem::remove_all(folder);
}

} // namespace
} // namespace godwit::main
