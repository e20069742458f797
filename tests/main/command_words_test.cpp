#include "main/command_words.hpp"
#include "main/output_file.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include <unistd.h>

namespace godwit::main {
namespace {

using testing::ElementsAre;

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

TEST(OutputFile, IsLookedAtAndNotTouched) {
  const auto folder = std::filesystem::path(testing::TempDir()) / ("godwit_output_" + std::to_string(::getpid()));
  std::filesystem::create_directories(folder);
  const auto file = folder / "file";
  EXPECT_TRUE(may_be_written(file));
  EXPECT_FALSE(std::filesystem::exists(file));
  EXPECT_FALSE(may_be_written(folder));
  EXPECT_FALSE(may_be_written(folder / "no" / "file"));
  std::ofstream(file) << "kept";
  EXPECT_TRUE(may_be_written(file));
  keep_private(file);
  EXPECT_EQ(std::filesystem::file_size(file), 4U);
  EXPECT_EQ(std::filesystem::status(file).permissions(),
            std::filesystem::perms::owner_read | std::filesystem::perms::owner_write);
  std::filesystem::remove_all(folder);
}

} // namespace
} // namespace godwit::main
