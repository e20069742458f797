// Prefill in one process and decoding in another, over UCX: the answers are those of one process that does all.
#include "processes/support/answers.hpp"
#include "processes/support/calm_answers.hpp"
#include "processes/support/console.hpp"
#include "processes/support/godwit_processes.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <csignal>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace godwit::test {

using namespace std::chrono_literals;
using protocols::instance_role;
using ::testing::HasSubstr;

namespace {

/// A head that prefills, and a member that decodes.
struct two_processes {
  served head{patient({"--instances", "1", "--threads", "1", "--roles", "prefill"})};
  std::optional<joined> member;
  [[nodiscard]] bool ready() {
    if (!head.wait_ready()) return false;
    member.emplace(head.control(), patient({"--instances", "1", "--threads", "1", "--roles", "decode"}));
    return member->wait_ready() && head.wait_instances(2, 30s);
  }
};

class RolesOfProcesses : public ::testing::Test {
protected:
  void SetUp() override {
    if (!has_default_model()) GTEST_SKIP() << "built without the embedded model";
  }
  static const std::vector<question>& questions() {
    static const auto all = mixed_questions(12, 700);
    return all;
  }
  static const std::vector<streamed_answer>& calm() {
    static const auto answers = calm_answers(questions());
    return answers;
  }
};

} // namespace

TEST_F(RolesOfProcesses, WhatOnePrefillsTheOtherDecodes) {
  (void)calm();
  two_processes apart;
  ASSERT_TRUE(apart.ready()) << apart.head.process.err();
  EXPECT_EQ(ask_all(apart.head.url(), questions()), calm());
  console operator_(apart.head.control());
  const auto status = operator_.status();
  ASSERT_TRUE(status);
  ASSERT_EQ(status->instances.size(), 2U);
  const auto& prefilling = status->instances[0].load;
  const auto& decoding = status->instances[1].load;
  EXPECT_EQ(prefilling.role, instance_role::prefill);
  EXPECT_EQ(decoding.role, instance_role::decode);
  EXPECT_GE(status->moves_total, questions().size());
  EXPECT_GT(prefilling.prompt_tokens_total, 0U);
  EXPECT_GT(decoding.generated_tokens_total, prefilling.generated_tokens_total);
  EXPECT_EQ(status->redispatches_total, 0U);
}

TEST_F(RolesOfProcesses, WithoutTheOneThatDecodesTheOtherDoesItAll) {
  (void)calm();
  two_processes apart;
  ASSERT_TRUE(apart.ready()) << apart.head.process.err();
  round_of_answers round(apart.head.url(), questions());
  ASSERT_TRUE(round.wait_tokens(questions().size(), 60s));
  console operator_(apart.head.control());
  std::uint64_t moves = 0; // a fast machine has many tokens before the first mark comes
  for (const auto end = std::chrono::steady_clock::now() + 30s; moves == 0 && std::chrono::steady_clock::now() < end;) {
    const auto status = operator_.status();
    ASSERT_TRUE(status);
    moves = status->moves_total;
  }
  EXPECT_GT(moves, 0U);
  apart.member->process.signal(SIGKILL);
  ASSERT_TRUE(round.wait_ended(120s));
  EXPECT_EQ(round.answers(), calm());
  EXPECT_TRUE(apart.head.wait_instances(1, 30s));
  EXPECT_EQ(ask_all(apart.head.url(), {questions()[0]}), std::vector{calm()[0]}) << "and goes on so";
}

TEST_F(RolesOfProcesses, ThatFollowTheLoadChangeAndNoAnswerDoes) {
  (void)calm();
  served head(patient({"--instances", "1", "--threads", "1", "--roles", "prefill", "--role-policy", "balance",
                       "--scheduler-role-hold", "300ms", "--scheduler-role-load-min", "0.05"}));
  ASSERT_TRUE(head.wait_ready()) << head.process.err();
  joined member(head.control(), patient({"--instances", "2", "--threads", "1", "--roles", "decode"}));
  ASSERT_TRUE(member.wait_ready() && head.wait_instances(3, 30s));
  console operator_(head.control());
  std::string last;
  for (int round = 0; round < 30 && last.empty(); ++round) {
    auto prompts = mixed_questions(24, 4); // that nobody has computed before
    for (auto& one : prompts) {
      one.prompt = std::to_string(round) + " " + one.prompt;
      for (int i = 0; i < 40; ++i) one.prompt += " and again the files that we have read";
    }
    round_of_answers long_ones(head.url(), prompts);
    EXPECT_EQ(ask_all(head.url(), questions()), calm());
    ASSERT_TRUE(long_ones.wait_ended(120s));
    const auto status = operator_.status();
    ASSERT_TRUE(status);
    last = status->scheduling.roles_last;
    EXPECT_EQ(status->scheduling.roles, "balance");
    EXPECT_EQ(status->redispatches_total, 0U);
  }
  EXPECT_THAT(last, HasSubstr(": the load of "));
  EXPECT_EQ(ask_all(head.url(), questions()), calm());
}

TEST_F(RolesOfProcesses, WhatCannotBeIsSaidInOneLine) {
  const auto said = [](std::vector<std::string> arguments) {
    child_process command(godwit_program(), std::move(arguments));
    EXPECT_EQ(command.wait_exit(30s), 2) << command.err();
    return command.err();
  };
  EXPECT_THAT(said({"serve", "--roles", "prefill:2"}), HasSubstr("instances.roles names 2 instances, and there are 1"));
  EXPECT_THAT(said({"node", "--join", "127.0.0.1:1", "--roles", "prefill:2"}),
              HasSubstr("instances.roles names 2 instances"));
  EXPECT_THAT(said({"serve", "--roles", "prompt"}), HasSubstr("'prompt' is none of prefill, decode and mixed"));
  EXPECT_THAT(said({"serve", "--roles", "prefill", "--migration", "never"}), HasSubstr("migration policy never"));
}

} // namespace godwit::test
