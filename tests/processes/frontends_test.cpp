// `godwit frontend --join` as real processes: HTTP endpoints beside the head's, which outlive it.
#include "processes/support/answers.hpp"
#include "processes/support/calm_answers.hpp"
#include "processes/support/godwit_processes.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <csignal>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include <unistd.h>

namespace godwit::test::frontends {

using namespace std::chrono_literals;
using ::testing::AllOf;
using ::testing::HasSubstr;

namespace {

const std::vector<std::string> one_small{"--instances", "1", "--threads", "1"};

class FrontendProcesses : public ::testing::Test {
protected:
  struct outcome {
    int code = -1;
    std::string out, err;
  };
  void SetUp() override {
    if (!has_default_model()) GTEST_SKIP() << "built without the embedded model";
  }
  static outcome run(std::vector<std::string> arguments) {
    child_process command(godwit_program(), std::move(arguments));
    const auto code = command.wait_exit(120s);
    return {code.value_or(-1), command.out(), command.err()};
  }
  static const std::vector<question>& questions() {
    static const auto all = mixed_questions(8, 600);
    return all;
  }
  static const std::vector<streamed_answer>& calm() {
    static const auto answers = calm_answers(questions());
    return answers;
  }
  static void expect_calm_answers(const round_of_answers& round) {
    const auto answers = round.answers();
    for (std::size_t i = 0; i < answers.size(); ++i) {
      EXPECT_EQ(answers[i].error, "") << "request " << i;
      EXPECT_EQ(answers[i].finish, "length") << "request " << i;
      EXPECT_TRUE(answers[i] == calm()[i]) << "request " << i << " got another text";
    }
  }
  static bool under_way(round_of_answers& round) {
    return round.wait_tokens(questions().size() * questions()[0].tokens / 8, 60s);
  }
};

} // namespace

TEST_F(FrontendProcesses, AnswersComeThroughIt) {
  served head(patient(one_small));
  ASSERT_TRUE(head.wait_ready()) << head.process.err();
  joined member(head.control(), patient(one_small));
  ASSERT_TRUE(member.wait_ready()) << member.process.err();
  fronted front(head.control(), patient({"--name", "front"}));
  ASSERT_TRUE(front.wait_ready()) << front.process.err();
  (void)calm();
  round_of_answers round(front.url(), questions());
  ASSERT_TRUE(under_way(round));
  const auto page = head.status();
  ASSERT_TRUE(page);
  EXPECT_THAT(page->json, HasSubstr("\"frontends\":[{\"node\""));
  EXPECT_THAT(page->json, HasSubstr("\"node\":\"front\""));
  EXPECT_GT(page->requests_open, 0U);
  const auto table = run({"status", "--control", head.control()});
  EXPECT_THAT(table.out, HasSubstr("front end at front: "));
  ASSERT_TRUE(round.wait_ended(120s));
  expect_calm_answers(round);
  // Told to end, it finishes what it has.
  round_of_answers last(front.url(), questions());
  ASSERT_TRUE(under_way(last));
  front.process.signal(SIGTERM);
  EXPECT_EQ(front.process.wait_exit(60s), 0) << front.process.err();
  ASSERT_TRUE(last.wait_ended(10s));
  expect_calm_answers(last);
  EXPECT_TRUE(head.process.wait_log("it leaves", 30s));
  const auto after = head.status();
  ASSERT_TRUE(after);
  EXPECT_EQ(after->blocks_used(), 0U);
}

// With the head go scheduler and all that instances have: the answers go on from their prompts and tokens so far.
TEST_F(FrontendProcesses, ItsClientsOutliveTheHead) {
  auto head = std::make_unique<served>(std::vector<std::string>{"--instances", "0"});
  ASSERT_TRUE(head->wait_ready()) << head->process.err();
  const auto control = head->control();
  joined member(control, one_small);
  ASSERT_TRUE(member.wait_ready()) << member.process.err();
  fronted front(control, {"--name", "front"});
  ASSERT_TRUE(front.wait_ready()) << front.process.err();
  (void)calm();
  for (const auto how : {SIGKILL, SIGTERM}) {
    round_of_answers round(front.url(), questions());
    ASSERT_TRUE(under_way(round));
    head->process.signal(how);
    ASSERT_TRUE(front.process.wait_log("the head is gone", 60s)) << front.process.err();
    ASSERT_TRUE(wait_until(30s, [&] { return front.health() == 503; }));
    head.reset();
    head = std::make_unique<served>(std::vector<std::string>{"--control", control, "--instances", "0"});
    ASSERT_TRUE(head->wait_ready()) << head->process.err();
    ASSERT_TRUE(head->wait_instances(1, 60s)) << member.process.err();
    ASSERT_TRUE(round.wait_ended(120s));
    expect_calm_answers(round);
    ASSERT_TRUE(wait_until(30s, [&] { return front.health() == 200; }));
    const auto page = head->status();
    ASSERT_TRUE(page);
    EXPECT_EQ(page->blocks_used(), 0U) << page->json;
    EXPECT_EQ(page->requests_failed, 0U) << page->json;
  }
}

TEST_F(FrontendProcesses, OneThatIsKilledLeavesNothingBehind) {
  served head(one_small);
  ASSERT_TRUE(head.wait_ready()) << head.process.err();
  joined member(head.control(), one_small);
  ASSERT_TRUE(member.wait_ready()) << member.process.err();
  ASSERT_TRUE(head.wait_instances(2, 30s));
  fronted front(head.control());
  ASSERT_TRUE(front.wait_ready()) << front.process.err();
  (void)calm();
  round_of_answers here(head.url(), questions());
  round_of_answers there(front.url(), questions());
  ASSERT_TRUE(under_way(here) && under_way(there));
  front.process.signal(SIGKILL);
  ASSERT_TRUE(here.wait_ended(120s));
  expect_calm_answers(here);
  ASSERT_TRUE(there.wait_ended(30s));
  ASSERT_TRUE(wait_until(30s, [&] {
    const auto now = head.status();
    return now && now->blocks_used() == 0 && now->requests_open == 0;
  }));
}

TEST_F(FrontendProcesses, WhatIsWrongIsSaidInALine) {
  const auto nobody = run({"frontend"});
  EXPECT_EQ(nobody.code, 2);
  EXPECT_THAT(nobody.err, HasSubstr("--join HOST:PORT is missing"));
  const auto absent = run({"frontend", "--join", "127.0.0.1:1", "--listen", "127.0.0.1:0"});
  EXPECT_EQ(absent.code, 1);
  EXPECT_THAT(absent.err, HasSubstr("cannot join 127.0.0.1:1"));
  served head(patient({"--instances", "0"}));
  ASSERT_TRUE(head.wait_ready()) << head.process.err();
  const auto taken = run({"frontend", "--join", head.control(), "--listen", head.url().substr(7)});
  EXPECT_EQ(taken.code, 1);
  EXPECT_THAT(taken.err, HasSubstr("choose another with --listen HOST:PORT"));
  const auto other =
      run({"frontend", "--join", head.control(), "--listen", "127.0.0.1:0", "--model-context-max", "64"});
  EXPECT_EQ(other.code, 1);
  EXPECT_THAT(other.err, AllOf(HasSubstr("cannot join"), HasSubstr("give both the same --model-context-max")));
  const auto instances = run({"frontend", "--join", head.control(), "--instances", "2"});
  EXPECT_EQ(instances.code, 2) << "it brings none";
}

TEST_F(FrontendProcesses, ARecordingOfItIsReplayed) {
  const auto file =
      (std::filesystem::path(::testing::TempDir()) / ("godwit_front_" + std::to_string(::getpid()) + ".gwt")).string();
  served head(patient(one_small));
  ASSERT_TRUE(head.wait_ready()) << head.process.err();
  fronted front(head.control(), patient({"--trace", file, "--trace-level", "content", "--trace-prompts"}));
  ASSERT_TRUE(front.wait_ready()) << front.process.err();
  for (const auto& answer : ask_all(front.url(), mixed_questions(8, 60))) EXPECT_EQ(answer.error, "");
  front.process.signal(SIGTERM);
  EXPECT_EQ(front.process.wait_exit(60s), 0) << front.process.err();
  const auto again = run({"trace", "replay", file});
  EXPECT_EQ(again.code, 0) << again.out << again.err;
  EXPECT_THAT(again.out, HasSubstr("identical"));
  std::filesystem::remove(file);
}

} // namespace godwit::test::frontends
