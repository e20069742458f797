#include <godwit/protocols/lengths/history_predictor.hpp>

#include <gtest/gtest.h>

#include <cstdint>
#include <limits>
#include <numeric>
#include <random>
#include <vector>

namespace godwit::protocols {
namespace {

std::vector<token_id> prompt_of(token_id program, std::size_t opening, token_id user, std::size_t rest) {
  std::vector<token_id> out(opening);
  std::iota(out.begin(), out.end(), program * 1000);
  for (std::size_t i = 0; i < rest; ++i) out.push_back(user + static_cast<token_id>(i * i % 97));
  return out;
}

length_question ask(const std::vector<token_id>& prompt, std::uint32_t max_tokens = 100'000, std::uint64_t salt = 0) {
  return {prompt, salt, max_tokens};
}

TEST(LengthClass, IsUellmsBucketsAndGoesOnBeyond) {
  EXPECT_EQ(length_class(0), 0U);
  EXPECT_EQ(length_class(7), 0U);
  EXPECT_EQ(length_class(8), 1U);
  EXPECT_EQ(length_class(15), 1U);
  EXPECT_EQ(length_class(16), 2U);
  EXPECT_EQ(length_class(1023), 7U);
  EXPECT_EQ(length_class(1024), 8U) << "[1024, 2048), UELLM's last one";
  EXPECT_EQ(length_class(2048), 9U);
  EXPECT_EQ(length_class(std::numeric_limits<std::uint32_t>::max()), length_classes - 1);
}

TEST(HistoryPredictor, KnowsNothingBeforeTheFirstAnswer) {
  history_predictor p;
  const auto prompt = prompt_of(1, 20, 5, 10);
  EXPECT_EQ(p.predict(ask(prompt)), length_forecast{});
  p.ended(ask(prompt), 100);
  EXPECT_EQ(p.predict(ask(prompt)), (length_forecast{100, length_class(100)}));
  EXPECT_EQ(p.predict(ask(prompt_of(9, 30, 7, 400))).tokens, 100U) << "all that is known of others";
}

TEST(HistoryPredictor, TellsProgramsApartByHowTheirPromptsBegin) {
  history_predictor p;
  for (token_id user = 0; user < 40; ++user) {
    p.ended(ask(prompt_of(1, 64, 50'000 + user * 100, 30)), 10);
    p.ended(ask(prompt_of(2, 64, 50'000 + user * 100, 30)), 700);
  }
  const auto brief = p.predict(ask(prompt_of(1, 64, 90'000, 30)));
  const auto long_winded = p.predict(ask(prompt_of(2, 64, 90'000, 30)));
  EXPECT_EQ(brief.most_likely, length_class(10));
  EXPECT_EQ(long_winded.most_likely, length_class(700));
  EXPECT_LT(brief.tokens, 60U);
  EXPECT_GT(long_winded.tokens, 600U);
  const auto neither = p.predict(ask(prompt_of(3, 64, 90'000, 30)));
  EXPECT_GT(neither.tokens, 200U);
  EXPECT_LT(neither.tokens, 500U) << "between them";
}

TEST(HistoryPredictor, ToldFromPromptsOfTheSameLengthWhereNothingElseIsKnown) {
  history_predictor p;
  std::mt19937 random{1};
  const auto fresh = [&random](std::size_t tokens) {
    std::vector<token_id> out(tokens);
    for (auto& token : out) token = static_cast<token_id>(random() % 100'000);
    return out;
  };
  for (int i = 0; i < 50; ++i) {
    p.ended(ask(fresh(40)), 500);
    p.ended(ask(fresh(2000)), 20);
  }
  EXPECT_EQ(p.predict(ask(fresh(42))).most_likely, length_class(500));
  EXPECT_EQ(p.predict(ask(fresh(1900))).most_likely, length_class(20));
}

TEST(HistoryPredictor, TheSamePromptAgainCountsMost) {
  history_predictor p;
  for (token_id user = 0; user < 100; ++user) p.ended(ask(prompt_of(1, 64, user * 100, 30)), 300);
  const auto same = prompt_of(1, 64, 70'000, 30);
  for (int i = 0; i < 20; ++i) p.ended(ask(same), 3);
  EXPECT_EQ(p.predict(ask(same)).most_likely, length_class(3));
  EXPECT_LT(p.predict(ask(same)).tokens, 80U);
}

TEST(HistoryPredictor, WhatChangesIsSoonForgotten) {
  history_predictor p;
  const auto prompt = prompt_of(1, 64, 5, 30);
  for (int i = 0; i < 100'000; ++i) p.ended(ask(prompt), 1000);
  for (int i = 0; i < 600; ++i) p.ended(ask(prompt), 30);
  EXPECT_EQ(p.predict(ask(prompt)).most_likely, length_class(30));
  EXPECT_LT(p.predict(ask(prompt)).tokens, 300U);
}

TEST(HistoryPredictor, NoAnswerIsExpectedBeyondItsEnd) {
  history_predictor p;
  const auto prompt = prompt_of(1, 64, 5, 30);
  for (int i = 0; i < 50; ++i) p.ended(ask(prompt), 1000);
  EXPECT_EQ(p.predict(ask(prompt, 40)), (length_forecast{40, length_class(40)}));
  EXPECT_EQ(p.predict(ask(prompt, 0)), (length_forecast{1, 0})) << "a mistake that the instance refuses";
}

// What a harness asks for log-probabilities of prompts gets one token, and would have got more.
TEST(HistoryPredictor, AnswersThatWereCutTeachNothingWhereMoreWasExpected) {
  history_predictor p;
  const auto prompt = prompt_of(1, 64, 5, 30);
  for (int i = 0; i < 20; ++i) p.ended(ask(prompt), 300);
  for (int i = 0; i < 500; ++i) p.ended(ask(prompt, 1), 1);
  EXPECT_EQ(p.predict(ask(prompt)), (length_forecast{300, length_class(300)}));
  for (int i = 0; i < 500; ++i) p.ended(ask(prompt, 900), 900);
  EXPECT_GT(p.predict(ask(prompt)).tokens, 800U) << "as long at least";
  history_predictor fresh;
  fresh.ended(ask(prompt, 16), 16);
  EXPECT_EQ(fresh.predict(ask(prompt)).tokens, 16U) << "nothing else is known";
}

TEST(HistoryPredictor, OpeningsOfDifferentSaltsHaveNothingInCommon) {
  history_predictor p;
  const auto prompt = prompt_of(1, 64, 5, 30);
  for (int i = 0; i < 50; ++i) {
    p.ended(ask(prompt, 100'000, 1), 10);
    p.ended(ask(prompt, 100'000, 2), 700);
  }
  EXPECT_EQ(p.predict(ask(prompt, 100'000, 1)).most_likely, length_class(10));
  EXPECT_EQ(p.predict(ask(prompt, 100'000, 2)).most_likely, length_class(700));
}

TEST(HistoryPredictor, KeepsABoundedNumberOfContextsAndTheWidestOfThem) {
  history_predictor p{100};
  std::mt19937 random{1};
  for (int i = 0; i < 3000; ++i) {
    std::vector<token_id> prompt(1 + random() % 400);
    for (auto& token : prompt) token = static_cast<token_id>(random() % 100'000);
    (void)p.predict(ask(prompt));
    p.ended(ask(prompt), 50);
    ASSERT_LE(p.contexts(), 100U);
  }
  EXPECT_EQ(p.predict(ask({7})), (length_forecast{50, length_class(50)}));
}

TEST(HistoryPredictor, EmptyPromptsAndAnswersOfNoTokensAreNothingSpecial) {
  history_predictor p;
  p.ended(ask({}), 0);
  EXPECT_EQ(p.predict(ask({})), (length_forecast{1, 0}));
}

} // namespace
} // namespace godwit::protocols
