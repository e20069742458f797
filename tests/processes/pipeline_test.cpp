// Instances whose layers lie on several devices, in processes of their own: `--pipeline-parallel`.
#include "processes/support/pair_of_processes.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <csignal>
#include <filesystem>
#include <string>
#include <vector>

#include <unistd.h>

namespace godwit::test {

using namespace std::chrono_literals;
using ::testing::HasSubstr;

class PipelineProcesses : public ::testing::Test {
protected:
  void SetUp() override {
    if (!has_default_model()) GTEST_SKIP() << "built without the embedded model";
  }
};

// Prompts are cut into parts of some tokens each, which two stages compute at once; what comes of it is the answer of
// one device, with the same probabilities, wherever it moves.
TEST_F(PipelineProcesses, AnswersAreThoseOfOneDeviceWhileTheyMoveToAndFro) {
  const auto questions = mixed_questions(6, 300);
  std::vector<streamed_answer> calm;
  {
    served alone(patient({"--instances", "1", "--threads", "1"}));
    ASSERT_TRUE(alone.wait_ready()) << alone.process.err();
    calm = ask_all(alone.url(), questions);
  }
  const auto base = std::filesystem::path(::testing::TempDir()) / ("godwit_stages_" + std::to_string(::getpid()));
  const std::string files[]{base.string() + ".head.gwt", base.string() + ".member.gwt"};
  const auto recorded = [](const std::string& file, std::vector<std::string> more) {
    auto all = patient({"--trace", file, "--trace-level", "content", "--trace-prompts"});
    all.insert(all.end(), more.begin(), more.end());
    return all;
  };
  {
    pair_of_processes both(recorded(files[0], {"--pipeline-parallel", "2", "--instances-pipeline-rows", "2",
                                               "--instances-layers-per-advance", "1"}),
                           recorded(files[1], {}));
    ASSERT_EQ(both.wait_ready(), "");
    std::uint64_t moves = 0;
    for (int round = 0; round < 10 && moves < 12; ++round) {
      round_of_answers answers(both.head().url(), questions);
      mover operators(both.head().control(), {outwards, inwards});
      ASSERT_TRUE(answers.wait_ended(60s)) << both.logs();
      operators.stop();
      ASSERT_EQ(difference(answers.answers(), calm), "") << both.logs();
      moves += operators.committed(outwards) + operators.committed(inwards);
    }
    EXPECT_GE(moves, 12U);
    EXPECT_EQ(both.operator_console().left_over(30s), "") << both.logs();
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

// A device that has most of the layers, and of as many threads: it gives some away while requests decode, and no answer
// changes. What it did is replayed.
TEST_F(PipelineProcesses, LayersMoveFromAStageThatHasTooMany) {
  const auto questions = mixed_questions(6, 300);
  std::vector<streamed_answer> calm;
  {
    served alone(patient({"--instances", "1", "--threads", "1"}));
    ASSERT_TRUE(alone.wait_ready()) << alone.process.err();
    calm = ask_all(alone.url(), questions);
  }
  const auto file =
      (std::filesystem::path(::testing::TempDir()) / ("godwit_layers_" + std::to_string(::getpid()) + ".gwt")).string();
  {
    served uneven(patient({"--trace", file, "--trace-level", "content", "--trace-prompts", "--pipeline-parallel", "2",
                           "--pipeline-layers", "5,1", "--instances-pipeline-balance-window", "200ms",
                           "--pipeline-balance", "0.02"}));
    ASSERT_TRUE(uneven.wait_ready()) << uneven.process.err();
    const auto moved = [&] { return uneven.process.err().find(": layers by stage ") != std::string::npos; };
    int rounds_after = 0;
    for (int round = 0; round < 60 && rounds_after < 2; ++round) {
      rounds_after += moved() ? 1 : 0;
      const auto answers = ask_all(uneven.url(), questions);
      ASSERT_EQ(difference(answers, calm), "") << uneven.process.err();
    }
    EXPECT_TRUE(moved()) << uneven.process.err();
    uneven.process.signal(SIGTERM);
    EXPECT_EQ(uneven.process.wait_exit(20s), 0) << uneven.process.err();
  }
  child_process replay(godwit_program(), {"trace", "replay", file});
  EXPECT_EQ(replay.wait_exit(120s), 0) << replay.out() << replay.err();
  EXPECT_THAT(replay.out(), HasSubstr("identical"));
  std::filesystem::remove(file);
}

TEST_F(PipelineProcesses, SaysWhichDivisionIsWrong) {
  const auto refusal = [](const std::vector<std::string>& words) {
    served one(words);
    EXPECT_EQ(one.process.wait_exit(20s), 2);
    return one.process.err();
  };
  EXPECT_THAT(refusal({"--pipeline-parallel", "60"}), HasSubstr("--pipeline-parallel: the model's"));
  EXPECT_THAT(refusal({"--pipeline-parallel", "2", "--tensor-parallel", "2"}),
              HasSubstr("--tensor-parallel and --pipeline-parallel cannot be used together; leave one of them out"));
  EXPECT_THAT(refusal({"--pipeline-parallel", "2", "--pipeline-layers", "1"}),
              HasSubstr("--pipeline-layers: 1 numbers of layers are given for 2 stages"));
  EXPECT_THAT(refusal({"--pipeline-parallel", "2", "--pipeline-layers", "1,x"}),
              HasSubstr("--pipeline-layers: 'x' is not a number of layers, as in 20,12"));
  EXPECT_THAT(refusal({"--pipeline-layers", "1,3"}),
              HasSubstr("--pipeline-layers: there is one stage; leave it out, or say how many there are"));
}

TEST_F(PipelineProcesses, StatusShowsTheStagesAndAWarningWhereTheyShareAThread) {
  served two({"--pipeline-parallel", "2", "--threads", "1"});
  ASSERT_TRUE(two.wait_ready()) << two.process.err();
  const auto page = two.status();
  ASSERT_TRUE(page);
  EXPECT_THAT(page->json, HasSubstr("2 stages of cpu (1 thread"));
  EXPECT_THAT(two.process.err(),
              HasSubstr("--pipeline-parallel 2 with --threads 1: each device has a thread of its own"));
}

} // namespace godwit::test
