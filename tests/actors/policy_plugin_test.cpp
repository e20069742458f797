// Policies out of a shared library, and who they are given to.
#include <godwit/actors/policy_plugin.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <string>

#include <sys/stat.h>
#include <unistd.h>

namespace godwit::actors {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

std::filesystem::path built(const std::string& name) {
  return std::filesystem::path(GODWIT_BINARY_DIR) / "tests/policies" / (name + ".so");
}

std::string why_not(const std::filesystem::path& file) {
  const auto plugin = policy_plugin::open(file);
  return plugin ? std::string() : plugin.error();
}

std::string why_not_made(std::string_view arguments) {
  const auto made = policy_plugin::open(built("policies"))->make(arguments);
  return made ? std::string() : made.error().why;
}

} // namespace

TEST(PolicyPlugin, GivesWhatItIsAskedFor) {
  const auto plugin = policy_plugin::open(built("policies"));
  ASSERT_TRUE(plugin) << plugin.error();
  const auto made = plugin->make("");
  ASSERT_TRUE(made) << made.error().why;
  ASSERT_EQ(made->dispatchers.count("lowest"), 1U);
  const auto lowest = made->dispatchers.at("lowest")();
  EXPECT_EQ(lowest->name(), "lowest");
  for (const std::uint32_t id : {3U, 1U, 2U}) {
    protocols::load_report load{protocols::instance_id{id}, 1, 1, true};
    load.blocks_total = load.running_max = load.waiting_max = 8;
    EXPECT_TRUE(lowest->report(load)); // the books are this program's code, on the library's object
  }
  EXPECT_EQ(lowest->pick({})->instance, protocols::instance_id{1});
  EXPECT_FALSE(made->pair || made->scale || made->balance || made->move || made->lengths);
  EXPECT_TRUE(plugin->make("largest")->move);
  EXPECT_EQ(plugin->make("hundred")->lengths()->predict({}).tokens, 100U);
}

TEST(PolicyPlugin, AFileThatIsNoneIsRefusedWithOneLine) {
  EXPECT_THAT(why_not("/no/such.so"), StartsWith("it cannot be loaded: /no/such.so: "));
  EXPECT_THAT(why_not("no_path.so"), HasSubstr((std::filesystem::current_path() / "no_path.so").string()));
  EXPECT_THAT(why_not(GODWIT_SOURCE_DIR "/LICENSE"), StartsWith("it cannot be loaded: "));
  EXPECT_THAT(why_not(built("no_policies")), HasSubstr("has no policies for godwit"));
  EXPECT_THAT(why_not(built("policies_of_nobody")), HasSubstr("gives no policies"));
  EXPECT_THAT(why_not("/"), HasSubstr("is no file"));
  const auto pipe = std::filesystem::path(::testing::TempDir()) / ("godwit_pipe_" + std::to_string(::getpid()));
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  EXPECT_THAT(why_not(pipe), HasSubstr("is no file"));
  std::filesystem::remove(pipe);
#if defined(__GLIBCXX__)
  EXPECT_THAT(why_not(built("policies_of_debug_mode")), HasSubstr("is of another build"));
#endif
  EXPECT_THAT(why_not(built("policies_of_old")),
              HasSubstr("is of another build (godwit 0.0.1, compiler of another time)"));
  EXPECT_THAT(why_not(built("policies_of_tomorrow")), HasSubstr("speaks version 77"));
}

TEST(PolicyPlugin, ArgumentsAndPoliciesThatCannotBeAreRefused) {
  EXPECT_EQ(why_not_made("loudly"), "'loudly' is no argument of these policies");
  EXPECT_EQ(why_not_made("two lines"), "one  [31mtwo");
  EXPECT_EQ(why_not_made("no words"), "an exception without words");
  EXPECT_THAT(why_not_made(" "), StartsWith("the dispatch policy ' ' has a name that is not of letters"));
  EXPECT_EQ(why_not_made("built in"), "something built in is called 'infaas' already");
  EXPECT_EQ(why_not_made("retry"), "something built in is called 'retry' already");
  EXPECT_EQ(why_not_made("nothing"), "nothing makes the dispatch policy 'nothing'");
  EXPECT_EQ(why_not_made("unmade"), "the dispatch policy 'unmade' cannot be made: there is no table");
  EXPECT_EQ(why_not_made("misnamed"), "the dispatch policy 'highest' calls itself 'lowest'");
  EXPECT_THAT(why_not_made("a name"), HasSubstr("'a name' has a name that is not of letters"));
  const auto plugin = policy_plugin::open(built("policies"));
  EXPECT_TRUE(plugin->make("loudly").error().of_arguments);
  EXPECT_FALSE(plugin->make("misnamed").error().of_arguments);
}

TEST(PolicyPlugin, WhatItLacksLeavesWhatIsThere) {
  node_options options;
  options.scheduler.pair = [](const auto&, const auto&, auto) { return std::vector<protocols::migration_pair>(1); };
  use_policies(*policy_plugin::open(built("policies"))->make("stay"), options);
  EXPECT_TRUE(options.scheduler.dispatchers.contains("lowest"));
  EXPECT_EQ(options.scheduler.pair({}, {}, 1).size(), 1U);
  EXPECT_TRUE(options.llumlet.move);
  EXPECT_FALSE(options.frontend.lengths);
  use_policies(*policy_plugin::open(built("policies"))->make("unpaired"), options);
  EXPECT_EQ(options.scheduler.pair({}, {}, 1).size(), 0U);
}

} // namespace godwit::actors
