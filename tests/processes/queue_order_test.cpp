// Who starts first, as an operator sets it: answers stay what they are, and lengths are learned on the way.
#include "processes/support/answers.hpp"
#include "processes/support/calm_answers.hpp"
#include "processes/support/console.hpp"
#include "processes/support/godwit_processes.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <regex>
#include <string>
#include <variant>
#include <vector>

namespace godwit::test {

using namespace std::chrono_literals;
using ::testing::HasSubstr;

namespace {

class QueueOrderOfProcesses : public ::testing::Test {
protected:
  void SetUp() override {
    if (!has_default_model()) GTEST_SKIP() << "built without the embedded model";
  }
};

} // namespace

TEST_F(QueueOrderOfProcesses, AnswersAreTheSameWhoeverGoesFirst) {
  auto questions = mixed_questions(12, 40);
  for (std::size_t i = 0; i < questions.size(); i += 3) questions[i].tokens = 8;
  const auto expected = calm_answers(questions);
  const std::vector<std::vector<std::string>> orders{
      {"--queue-order", "sjf"},
      {"--queue-order", "ljf"},
      {"--queue-order", "edf", "--admission-ttft", "2s"},
      {"--queue-order", "sjf", "--llumlet-batching", "static", "--llumlet-batch-length-weight", "0.01"}};
  for (const auto& order : orders) {
    auto arguments = patient({"--instances", "1", "--threads", "1", "--llumlet-sequences-max", "2"});
    arguments.insert(arguments.end(), order.begin(), order.end());
    served ordered(arguments);
    ASSERT_TRUE(ordered.wait_ready()) << ordered.process.err();
    EXPECT_TRUE(ask_all(ordered.url(), questions) == expected) << order[1];
    EXPECT_TRUE(ask_all(ordered.url(), questions) == expected) << order[1];
    transport::http::client client;
    const auto fetched = client.fetch({"GET", ordered.url() + "/metrics", {}, {}});
    const auto* page = std::get_if<transport::http::client_answer>(&fetched);
    ASSERT_NE(page, nullptr);
    std::smatch found;
    const std::regex exact(R"re(godwit_length_forecasts_total\{off="0"\} (\d+))re");
    ASSERT_TRUE(std::regex_search(page->body, found, exact)) << page->body;
    EXPECT_GE(std::stoi(found[1]), 6) << "answers were forecast, and some as they were";
  }
}

TEST_F(QueueOrderOfProcesses, WhatCannotBeIsSaidInOneLine) {
  const auto said = [](std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(), "serve");
    child_process command(godwit_program(), std::move(arguments));
    EXPECT_EQ(command.wait_exit(30s), 2) << command.err();
    return command.err();
  };
  EXPECT_THAT(said({"--queue-order", "best"}), HasSubstr("fcfs"));
  EXPECT_THAT(said({"--llumlet-batch-slo-weight", "0.1"}), HasSubstr("set llumlet.batching static"));
  EXPECT_THAT(said({"--llumlet-queue-aging", "2h"}),
              HasSubstr("--llumlet-queue-aging is 2h, but must be from 0s to 1h"));
}

} // namespace godwit::test
