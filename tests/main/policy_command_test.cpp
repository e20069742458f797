#include "main/drain_command.hpp"
#include "main/policy_command.hpp"
#include "main/request_argument.hpp"
#include "main/status_command.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

namespace godwit::main {
namespace {

using ::testing::HasSubstr;

std::string error_of(const std::vector<std::string>& changes) {
  const auto wish = parse_policies(changes);
  return wish ? std::string() : wish.error();
}

} // namespace

TEST(PolicyCommand, ReadsWhatIsToBeSwitchedAndLeavesTheRest) {
  const auto wish = parse_policies({"migration=defrag", "dispatch=round_robin"});
  ASSERT_TRUE(wish);
  EXPECT_EQ(wish->migration, "defrag");
  EXPECT_EQ(wish->dispatch, "round_robin");
  EXPECT_EQ(wish->scaling, "");
  EXPECT_EQ(wish->paused, "");
  EXPECT_EQ(parse_policies({"scaling=dry_run"})->scaling, "dry_run");
  EXPECT_EQ(parse_policies({"roles=balance"})->roles, "balance");
}

TEST(PolicyCommand, NamesWhatIsKnownWhereANameIsNot) {
  EXPECT_EQ(parse_policies({"dispatch=best"})->dispatch, "best"); // of a plug-in, perhaps: the head knows
  EXPECT_THAT(error_of({"migration=on"}), HasSubstr("there are freeness, defrag, none, never"));
  EXPECT_THAT(error_of({"roles=flip"}), HasSubstr("no role policy is called 'flip'; there are fixed, balance"));
  EXPECT_THAT(error_of({"scaling=yes"}), HasSubstr("no scaling mode is called 'yes'; there are off, dry_run, on"));
  EXPECT_THAT(error_of({"speed=high"}), HasSubstr("dispatch=NAME"));
  EXPECT_THAT(error_of({"dispatch"}), HasSubstr("dispatch=NAME"));
  EXPECT_THAT(error_of({"dispatch="}),
              HasSubstr("no dispatch policy is called ''; there are freeness, infaas, least_requests"));
  EXPECT_THAT(error_of({"dispatch=freeness", "dispatch=infaas"}), HasSubstr("twice"));
}

TEST(PolicyCommand, AWrongNameIsAWrongCommandLineAndNoHeadIsAsked) {
  CLI::App app;
  command_result result;
  add_policy_command(app, result);
  app.parse("policy set migration=sometimes --control 127.0.0.1:1");
  ::testing::internal::CaptureStderr();
  EXPECT_EQ(result.run(), 2);
  const auto said = ::testing::internal::GetCapturedStderr();
  EXPECT_THAT(said, HasSubstr("'sometimes'"));
  EXPECT_EQ(std::count(said.begin(), said.end(), '\n'), 1);
}

TEST(PolicyCommand, TakesItsFlagsBeforeAndAfterTheWord) {
  for (const auto* line : {"policy", "policy show --json", "policy --json show", "policy pause --control 127.0.0.1:1",
                           "policy --control 127.0.0.1:1 resume", "policy set dispatch=infaas scaling=on --json"}) {
    CLI::App app;
    command_result result;
    add_policy_command(app, result);
    EXPECT_NO_THROW(app.parse(line)) << line;
    EXPECT_TRUE(result.run) << line;
  }
  for (const auto* line : {"policy set", "policy pause resume", "policy stop"}) {
    CLI::App app;
    command_result result;
    add_policy_command(app, result);
    EXPECT_THROW(app.parse(line), CLI::ParseError) << line;
  }
}

TEST(DrainCommand, WantsANumber) {
  CLI::App app;
  command_result result;
  add_drain_command(app, result);
  EXPECT_NO_THROW(app.parse("drain 3 --undo"));
  EXPECT_THROW(app.parse("drain"), CLI::ParseError);
  EXPECT_THROW(app.parse("drain all"), CLI::ParseError);
}

TEST(ControlConnection, SaysInOneLineWhatIsWrongWithItsAddressAndWhoDoesNotAnswer) {
  const auto run = [](const char* line) {
    CLI::App app;
    command_result result;
    add_drain_command(app, result);
    app.parse(line);
    ::testing::internal::CaptureStderr();
    const auto code = result.run();
    return std::pair(code, ::testing::internal::GetCapturedStderr());
  };
  const auto [wrong, complaint] = run("drain 1 --control nowhere");
  EXPECT_EQ(wrong, 2);
  EXPECT_THAT(complaint, HasSubstr("HOST:PORT"));
  const auto [absent, excuse] = run("drain 1 --control 127.0.0.1:1");
  EXPECT_EQ(absent, 1);
  EXPECT_THAT(excuse, HasSubstr("no godwit answers at 127.0.0.1:1"));
  EXPECT_EQ(std::count(excuse.begin(), excuse.end(), '\n'), 1);
}

TEST(StatusCommand, ExplainsOneRequestOrListsAll) {
  CLI::App app;
  command_result result;
  add_status_command(app, result);
  EXPECT_NO_THROW(app.parse("status --request cmpl-1 --json"));
  EXPECT_THROW(app.parse("status --request cmpl-1 --requests"), CLI::ParseError);
  EXPECT_THROW(app.parse("status --request cmpl-1 --watch"), CLI::ParseError);
  // A script whose variable is empty wants no table.
  EXPECT_THROW(app.parse(std::vector<std::string>{"", "--request", "status"}), CLI::ParseError);
}

TEST(RequestArgument, IsANumberOrTheClientsName) {
  EXPECT_EQ(parse_request("17").number, protocols::request_id{17});
  EXPECT_EQ(parse_request("17").client_id, "");
  EXPECT_EQ(parse_request("cmpl-17").client_id, "cmpl-17");
  EXPECT_EQ(parse_request("17a").client_id, "17a");
  EXPECT_EQ(parse_request("99999999999999999999").client_id, "99999999999999999999");
}

} // namespace godwit::main
