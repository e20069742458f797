// Instances of different degrees in processes of their own, as an operator starts and moves them.
#include "processes/support/pair_of_processes.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <csignal>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <unistd.h>

namespace godwit::test {

using namespace std::chrono_literals;
using ::testing::HasSubstr;

namespace {

struct divided_place {
  protocols::request_id request;
  protocols::instance_id at, other;
  std::string device;
  std::uint64_t tokens = 0;
};
/// Where the only request decodes, and the other of two instances.
std::optional<divided_place> find_request(console& through) {
  const auto now = through.status(true);
  if (!now || now->instances.size() != 2) return std::nullopt;
  for (std::size_t i = 0; i < 2; ++i)
    for (const auto& r : now->instances[i].requests)
      if (r.answer_tokens > 0)
        return divided_place{r.request, now->instances[i].instance, now->instances[1 - i].instance,
                             now->instances[i].device, r.answer_tokens};
  return std::nullopt;
}

std::string migrate(const divided_place& what, const std::string& control) {
  child_process command(godwit_program(), {"migrate", std::to_string(what.request.value()), "--to",
                                           std::to_string(what.other.value()), "--control", control});
  const auto code = command.wait_exit(20s);
  return code == 0 ? "" : command.err() + " (" + std::to_string(code.value_or(-1)) + ")";
}

constexpr auto no_answer = "did not answer in time";

} // namespace

class TensorParallelProcesses : public ::testing::Test {
protected:
  void SetUp() override {
    if (!has_default_model()) GTEST_SKIP() << "built without the embedded model";
  }
};

TEST_F(TensorParallelProcesses, ARequestGoesFromTwoDevicesToOneAndBackByTheOperatorsHand) {
  constexpr std::uint32_t length = 1500;
  const auto questions = mixed_questions(1, length);
  std::map<bool, streamed_answer> calm; // of two devices?
  for (const bool two : {false, true}) {
    served alone({"--instances", "1", "--threads", "1", "--tensor-parallel", two ? "2" : "1"});
    ASSERT_TRUE(alone.wait_ready()) << alone.process.err();
    calm[two] = ask_all(alone.url(), questions)[0];
    ASSERT_EQ(calm[two].tokens.size(), length);
  }
  pair_of_processes both(patient({"--tensor-parallel", "2"}), patient({"--tensor-parallel", "1"}));
  ASSERT_EQ(both.wait_ready(), "");
  std::size_t moved_down = 0, moved_up = 0, unsure = 0;
  const auto until = std::chrono::steady_clock::now() + 60s;
  while ((moved_down < 2 || moved_up < 2) && std::chrono::steady_clock::now() < until) {
    round_of_answers answers(both.head().url(), questions);
    std::optional<bool> began_on_two;
    std::uint64_t before_first_move = 0;
    const auto round_until = std::chrono::steady_clock::now() + 30s;
    while (!answers.wait_ended(0ms) && std::chrono::steady_clock::now() < round_until) {
      const auto here = find_request(both.operator_console());
      if (!here) continue;
      const bool on_two = here->device.substr(0, 8) == "2 x cpu ";
      if (!began_on_two) {
        began_on_two = on_two;
        before_first_move = here->tokens;
      }
      const auto wrong = migrate(*here, both.head().control());
      if (wrong.empty())
        ++(on_two ? moved_down : moved_up);
      else
        EXPECT_TRUE(says_it_ended(wrong) || says_it_goes_on(wrong)) << wrong << both.logs();
      if (wrong.find(no_answer) != std::string::npos) ++unsure;
    }
    ASSERT_TRUE(answers.wait_ended(30s)) << both.logs();
    const auto answer = answers.answers()[0];
    EXPECT_EQ(answer.error, "");
    EXPECT_EQ(answer.tokens.size(), length) << "none lost, none twice";
    EXPECT_EQ(answer.usage_tokens, length);
    EXPECT_EQ(answer.finish, "length");
    if (!began_on_two) continue; // over before anybody looked
    const auto& same = calm[*began_on_two].tokens;
    const auto differs = std::mismatch(answer.tokens.begin(), answer.tokens.end(), same.begin()).first;
    EXPECT_GE(static_cast<std::uint64_t>(differs - answer.tokens.begin()), before_first_move)
        << "up to the first move it is the answer of the place where it began, to the last bit";
  }
  EXPECT_GE(moved_down, 2U);
  EXPECT_GE(moved_up, 2U);
  EXPECT_EQ(both.operator_console().left_over(30s), "") << both.logs();
  const auto now = both.operator_console().status();
  ASSERT_TRUE(now);
  EXPECT_GE(now->moves_total, moved_down + moved_up);
  EXPECT_LE(now->moves_total, moved_down + moved_up + unsure);
  EXPECT_EQ(now->requests_failed_total, 0U);
  EXPECT_EQ(now->redispatches_total, 0U) << both.logs();
}

TEST_F(TensorParallelProcesses, BetweenInstancesOfTheSameDegreeMovesChangeNoToken) {
  pair_of_processes both(patient({"--tensor-parallel", "2"}), patient({"--tensor-parallel", "2"}));
  ASSERT_EQ(both.wait_ready(), "");
  const auto questions = mixed_questions(6, 300);
  const auto calm = ask_all(both.head().url(), questions);
  std::uint64_t moves = 0;
  for (int round = 0; round < 10 && moves < 20; ++round) {
    round_of_answers answers(both.head().url(), questions);
    mover operators(both.head().control(), {outwards, inwards});
    ASSERT_TRUE(answers.wait_ended(60s)) << both.logs();
    operators.stop();
    ASSERT_EQ(difference(answers.answers(), calm), "") << both.logs();
    moves += operators.committed(outwards) + operators.committed(inwards);
  }
  EXPECT_GE(moves, 20U);
  EXPECT_EQ(both.operator_console().left_over(30s), "") << both.logs();
}

TEST_F(TensorParallelProcesses, WhatIsRecordedOfSeveralDevicesAndOfMovesBetweenDegreesComesAgain) {
  const auto base = std::filesystem::path(::testing::TempDir()) / ("godwit_degrees_" + std::to_string(::getpid()));
  const std::string files[]{base.string() + ".head.gwt", base.string() + ".member.gwt"};
  const auto recorded = [](const std::string& file, const char* degree) {
    return patient({"--trace", file, "--trace-level", "content", "--trace-prompts", "--tensor-parallel", degree});
  };
  {
    pair_of_processes both(recorded(files[0], "2"), recorded(files[1], "1"));
    ASSERT_EQ(both.wait_ready(), "");
    std::uint64_t moves = 0;
    for (int round = 0; round < 10 && moves < 4; ++round) {
      round_of_answers answers(both.head().url(), mixed_questions(3, 300));
      mover operators(both.head().control(), {outwards, inwards});
      ASSERT_TRUE(answers.wait_ended(60s)) << both.logs();
      operators.stop();
      moves += operators.committed(outwards) + operators.committed(inwards);
      for (const auto& answer : answers.answers()) EXPECT_EQ(answer.tokens.size(), 300U) << answer.error;
    }
    EXPECT_GE(moves, 4U);
    both.member().process.signal(SIGTERM);
    EXPECT_EQ(both.member().process.wait_exit(20s), 0) << both.logs();
    both.head().process.signal(SIGTERM);
    EXPECT_EQ(both.head().process.wait_exit(20s), 0) << both.logs();
  }
  for (const auto& file : files) {
    child_process replay(godwit_program(), {"trace", "replay", file});
    EXPECT_EQ(replay.wait_exit(120s), 0) << replay.out() << replay.err();
    EXPECT_THAT(replay.out(), HasSubstr("identical"));
    std::filesystem::remove(file);
  }
}

TEST_F(TensorParallelProcesses, ADegreeThatDoesNotFitEndsTheStartWithALineThatNamesThoseThatDo) {
  served three({"--tensor-parallel", "3"});
  EXPECT_EQ(three.process.wait_exit(20s), 2);
  EXPECT_THAT(three.process.err(), HasSubstr("--tensor-parallel: the model's 2 KV heads cannot be divided among 3 "
                                             "devices; a tensor-parallel degree that fits: 1, 2"));
  served none({"--tensor-parallel", "0"});
  EXPECT_EQ(none.process.wait_exit(20s), 2);
}

TEST_F(TensorParallelProcesses, StatusShowsTheDevicesAndAWarningWhereTheyShareAThread) {
  served two({"--tensor-parallel", "2", "--threads", "1"});
  ASSERT_TRUE(two.wait_ready()) << two.process.err();
  const auto page = two.status();
  ASSERT_TRUE(page);
  EXPECT_THAT(page->json, HasSubstr("2 x cpu (1 thread"));
  EXPECT_THAT(two.process.err(),
              HasSubstr("--tensor-parallel 2 with --threads 1: each device has a thread of its own"));
}

} // namespace godwit::test
