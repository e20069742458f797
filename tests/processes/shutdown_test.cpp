// How a head ends with requests running (docs/serving.md): it finishes them, cuts them off in time, or ends at once.
#include "processes/support/answers.hpp"
#include "processes/support/godwit_processes.hpp"

#include <godwit/transport/http/client.hpp>

#include <boost/json.hpp>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <csignal>
#include <sstream>
#include <string>
#include <variant>
#include <vector>

namespace godwit::test {

namespace http = transport::http;
using namespace std::chrono_literals;
using std::chrono::steady_clock;
using ::testing::Each;
using ::testing::Field;
using ::testing::HasSubstr;

namespace {

class Shutdown : public ::testing::Test {
protected:
  void SetUp() override {
    if (!has_default_model()) GTEST_SKIP() << "built without the embedded model";
  }
  [[nodiscard]] static std::vector<std::string> with_drain_timeout(const std::string& time) {
    return {"--instances", "1", "--threads", "1", "--no-trace-flight", "--drain-timeout", time};
  }
  /// More than any machine answers in the seconds that these tests take.
  [[nodiscard]] static std::vector<question> long_questions() { return mixed_questions(40, 1900); }
  /// Who were cut off know it: no answer looks complete.
  static void expect_nobody_finished(round_of_answers& round) {
    EXPECT_TRUE(round.wait_ended(10s));
    const auto answers = round.answers();
    EXPECT_THAT(answers, Each(Field("finish", &streamed_answer::finish, "")));
    EXPECT_THAT(answers, Each(Field("error", &streamed_answer::error, ::testing::Not(""))));
  }
};

} // namespace

TEST_F(Shutdown, AJsonLogHasTheStagesOfItsLifeAndNothingIsWrittenBesides) {
  child_process head(godwit_program(), {"serve", "--instances", "1", "--threads", "1", "--listen", "127.0.0.1:0",
                                        "--control", "", "--log-format", "json"});
  ASSERT_TRUE(head.wait_log("ready: default on 1 instance", 60s)) << head.err();
  head.signal(SIGTERM);
  ASSERT_EQ(head.wait_exit(20s), 0);
  EXPECT_EQ(head.out(), "");
  std::istringstream lines(head.err());
  for (std::string line; std::getline(lines, line);) {
    boost::system::error_code wrong;
    EXPECT_TRUE(boost::json::parse(line, wrong).is_object()) << line;
  }
  for (const auto* part : {"listening on http://127.0.0.1:", "\"version\"", "draining", "\"ended\""})
    EXPECT_THAT(head.err(), HasSubstr(part));
}

TEST_F(Shutdown, WithTimeEnoughRunningRequestsHaveTheirWholeAnswersAndNoNewOneIsTaken) {
  served head(with_drain_timeout("120s"));
  ASSERT_TRUE(head.wait_ready()) << head.process.err();
  const auto questions = mixed_questions(6, 600);
  const auto calm = ask_all(head.url(), questions);
  for (const auto& answer : calm) ASSERT_EQ(answer.tokens.size(), 600U) << answer.error;

  round_of_answers round(head.url(), questions);
  ASSERT_TRUE(round.wait_tokens(questions.size() * 2, 30s));
  head.process.signal(SIGTERM);
  ASSERT_TRUE(head.process.wait_line("draining", 10s));
  ASSERT_LT(round.tokens(), questions.size() * 600) << "they ended before the test began";
  http::client client;
  const auto late = client.fetch({"GET", head.url() + "/health", {}, {}});
  const auto* const answered = std::get_if<http::client_answer>(&late);
  EXPECT_TRUE(answered == nullptr || answered->status == 503);

  EXPECT_TRUE(round.wait_ended(120s));
  EXPECT_EQ(head.process.wait_exit(30s), 0) << head.process.err();
  EXPECT_EQ(round.answers(), calm);
}

// A machine, or all of a cluster, is shut down.
TEST_F(Shutdown, OfAHeadAndItsMembersAtOnceRunningRequestsHaveTheirWholeAnswers) {
  served head({"--instances", "0", "--no-trace-flight", "--drain-timeout", "120s"});
  ASSERT_TRUE(head.wait_ready()) << head.process.err();
  const std::vector<std::string> one_thread{"--threads", "1", "--no-trace-flight", "--drain-timeout", "120s"};
  joined first(head.control(), one_thread), second(head.control(), one_thread);
  ASSERT_TRUE(first.wait_ready() && second.wait_ready()) << first.process.err() << second.process.err();
  ASSERT_TRUE(head.wait_instances(2, 30s));
  const auto questions = mixed_questions(6, 600);
  const auto calm = ask_all(head.url(), questions);
  round_of_answers round(head.url(), questions);
  ASSERT_TRUE(round.wait_tokens(questions.size() * 2, 30s));
  for (auto* const one : {&first.process, &second.process, &head.process}) one->signal(SIGTERM);
  ASSERT_LT(round.tokens(), questions.size() * 600) << "they ended before the test began";
  EXPECT_TRUE(round.wait_ended(120s));
  for (auto* const one : {&first.process, &second.process, &head.process})
    EXPECT_EQ(one->wait_exit(30s), 0) << one->err();
  EXPECT_EQ(round.answers(), calm);
}

// Who computes is gone at once, and nobody else comes.
TEST_F(Shutdown, WhatNoInstanceIsLeftForEndsBeforeTheTimeForRunningRequests) {
  served head({"--instances", "0", "--no-trace-flight", "--drain-timeout", "120s"});
  ASSERT_TRUE(head.wait_ready()) << head.process.err();
  joined member(head.control(), {"--threads", "1", "--no-trace-flight"});
  ASSERT_TRUE(member.wait_ready()) << member.process.err();
  ASSERT_TRUE(head.wait_instances(1, 30s));
  round_of_answers round(head.url(), long_questions());
  ASSERT_TRUE(round.wait_tokens(20, 30s));
  head.process.signal(SIGTERM);
  ASSERT_TRUE(head.process.wait_line("draining", 10s));
  member.process.signal(SIGKILL);
  expect_nobody_finished(round);
  (void)head.process.wait_exit(30s);
}

TEST_F(Shutdown, WithoutTimeEnoughRunningRequestsAreCutOff) {
  served head(with_drain_timeout("1s"));
  ASSERT_TRUE(head.wait_ready()) << head.process.err();
  round_of_answers round(head.url(), long_questions());
  ASSERT_TRUE(round.wait_tokens(20, 30s));
  const auto begun = steady_clock::now();
  head.process.signal(SIGTERM);
  EXPECT_EQ(head.process.wait_exit(15s), 1) << head.process.err();
  EXPECT_GE(steady_clock::now() - begun, 900ms) << "they have their time";
  EXPECT_THAT(head.process.err(), HasSubstr("running requests were cut off"));
  expect_nobody_finished(round);
}

TEST_F(Shutdown, ASecondSignalEndsItAtOnce) {
  served head(with_drain_timeout("120s"));
  ASSERT_TRUE(head.wait_ready()) << head.process.err();
  round_of_answers round(head.url(), long_questions());
  ASSERT_TRUE(round.wait_tokens(20, 30s));
  head.process.signal(SIGTERM);
  ASSERT_TRUE(head.process.wait_line("draining", 10s)); // or the two might be one
  head.process.signal(SIGTERM);
  EXPECT_EQ(head.process.wait_exit(15s), 1) << head.process.err();
  EXPECT_THAT(head.process.err(), HasSubstr("running requests were cut off"));
  expect_nobody_finished(round);
}

} // namespace godwit::test
