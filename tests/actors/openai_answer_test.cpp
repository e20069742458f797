// How the tokens of several requests become one answer, without a cluster.
#include "actors/support/embedded_tokens.hpp"
#include "actors/support/fake_exchange.hpp"

#include "openai_answer.hpp"

#include <gtest/gtest.h>

#include <boost/json.hpp>

#include <cstddef>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace godwit::actors {
namespace {

namespace json = boost::json;

class OpenaiAnswer : public ::testing::Test {
protected:
  void SetUp() override {
    tokens = test::embedded_tokens();
    if (!tokens) GTEST_SKIP() << "built without the embedded model, whose tokenizer this test uses";
  }

  /// Of `n` answers out of `drawn`.
  void begin(std::uint32_t n, std::uint32_t drawn) {
    openai_answer_options how;
    how.id = "cmpl-1";
    protocols::openai::choices_writer::form form;
    form.head.id = how.id;
    form.n = n;
    form.drawn = drawn;
    form.stream = stream;
    how.writer = std::make_unique<protocols::openai::choices_writer>(std::move(form));
    how.stream = stream;
    how.drawn = drawn;
    how.withdraw = [this](const std::shared_ptr<answer_sink>&) { ++withdrawn; };
    answer = std::make_shared<openai_answer>(exchange, std::move(how));
    for (std::uint32_t i = 0; i < drawn; ++i) {
      openai_choice_options text;
      text.index = i;
      text.tokens = tokens;
      text.prompt_logprobs = told && i == 0; // it is the same prompt
      if (calls) text.tools = protocols::openai::tool_format::hermes;
      text.stops = std::make_shared<const protocols::openai::stop_patterns>(stops, own_stops);
      text.counts_prediction = predicts;
      text.include_stop = true;
      text.prompt_logprobs_top = prompt_top;
      choices.push_back(std::make_shared<openai_choice>(answer, std::move(text)));
    }
    answer->set_choices(choices);
  }
  bool draw(std::size_t choice, protocols::token_id id, float logprob) {
    protocols::sampled_token one;
    one.id = id;
    one.logprob = logprob;
    return choices[choice]->on_tokens(std::span(&one, 1), false);
  }
  /// The tokens of the answers in their order, one each.
  std::vector<std::string> texts() {
    for (const auto& choice : choices) choice->on_finished(protocols::finish_reason::length, {});
    std::vector<std::string> out;
    const auto body = json::parse(exchange->whole.body);
    for (const auto& choice : body.at("choices").as_array()) {
      EXPECT_EQ(choice.at("index").to_number<std::size_t>(), out.size());
      out.push_back(json::value_to<std::string>(choice.at("text")));
    }
    return out;
  }
  [[nodiscard]] std::string text_of(protocols::token_id id) const { return std::string(tokens->bytes(id)); }

  std::shared_ptr<const gpu::model::tokenizer> tokens;
  std::shared_ptr<test::fake_exchange> exchange = std::make_shared<test::fake_exchange>();
  std::shared_ptr<openai_answer> answer;
  std::vector<std::shared_ptr<openai_choice>> choices;
  int withdrawn = 0;
  bool stream = false;
  bool calls = false;
  std::vector<std::string> stops, own_stops;
  std::size_t prompt_top = SIZE_MAX;
  bool predicts = false; ///< the request has a prediction
  bool told = false;     ///< what is told of the prompt's tokens
};

constexpr protocols::token_id first = 'a', second = 'b', third = 'c';

TEST_F(OpenaiAnswer, AnswersKeepTheirOrderHoweverProbableTheyAre) {
  begin(3, 3);
  EXPECT_TRUE(draw(0, first, -3.0F));
  EXPECT_TRUE(draw(1, second, -1.0F));
  EXPECT_TRUE(draw(2, third, -2.0F));
  EXPECT_EQ(texts(), (std::vector{text_of(first), text_of(second), text_of(third)}));
}

TEST_F(OpenaiAnswer, AllHaveWhatIsToldOfTheirPrompt) {
  told = true;
  begin(2, 2);
  choices[0]->on_prompt_scores({protocols::sampled_token(third)});
  EXPECT_TRUE(draw(0, first, -3.0F));
  EXPECT_TRUE(draw(1, second, -1.0F));
  EXPECT_EQ(texts(), (std::vector{text_of(first), text_of(second)}));
  const auto body = json::parse(exchange->whole.body);
  const auto& all = body.at("choices").as_array();
  EXPECT_TRUE(all.at(0).at("prompt_logprobs").is_array());
  EXPECT_EQ(all.at(0).at("prompt_logprobs"), all.at(1).at("prompt_logprobs"));
}

// With echo the model tells as many as the answer's log-probabilities want.
TEST_F(OpenaiAnswer, OfThePromptAsManyOthersAreToldAsWereAskedFor) {
  told = true;
  for (const auto& [top, entries] : {std::pair<std::size_t, std::size_t>{0, 1}, {1, 2}, {2, 3}}) {
    SetUp();
    exchange = std::make_shared<test::fake_exchange>();
    choices.clear();
    prompt_top = top;
    begin(1, 1);
    protocols::sampled_token scored(third);
    scored.top = {{first, -1.0F}, {second, -2.0F}};
    choices[0]->on_prompt_scores({scored});
    EXPECT_TRUE(draw(0, first, -3.0F));
    (void)texts();
    const auto body = json::parse(exchange->whole.body);
    const auto& list = body.at("choices").at(0).at("prompt_logprobs").as_array();
    EXPECT_EQ(list.at(1).as_object().size(), entries);
  }
}

// As one that ends with its sequence; include_stop_str_in_output is about what the client named.
TEST_F(OpenaiAnswer, AStopStringOfTheServersOwnIsNotTold) {
  own_stops = {text_of(second)};
  begin(1, 1);
  EXPECT_TRUE(draw(0, first, -1.0F));
  EXPECT_FALSE(draw(0, second, -1.0F));
  EXPECT_EQ(texts(), std::vector{text_of(first)});
  const auto body = json::parse(exchange->whole.body);
  EXPECT_EQ(body.at("choices").at(0).at("finish_reason"), "stop");
  EXPECT_TRUE(body.at("choices").at(0).at("stop_reason").is_null());
}

TEST_F(OpenaiAnswer, TheBestOfMoreComeFirst) {
  begin(2, 3);
  EXPECT_TRUE(draw(0, first, -3.0F));
  EXPECT_TRUE(draw(1, second, -1.0F));
  EXPECT_TRUE(draw(2, third, -2.0F));
  EXPECT_EQ(texts(), (std::vector{text_of(second), text_of(third)}));
}

// The first piece has the prompt, where it is echoed.
TEST_F(OpenaiAnswer, FirstPiecesAreWrittenInFull) {
  stream = true;
  begin(2, 2);
  EXPECT_TRUE(draw(0, first, -1.0F));
  EXPECT_EQ(exchange->in_full, exchange->body.size());
  EXPECT_TRUE(draw(0, second, -1.0F));
  const auto later = exchange->body.size() - exchange->in_full;
  EXPECT_GT(later, 0U);
  EXPECT_TRUE(draw(1, third, -1.0F));
  EXPECT_EQ(exchange->body.size() - exchange->in_full, later);
}

// It may have been submitted after the others were withdrawn.
TEST_F(OpenaiAnswer, WhatDrawsForAnAnswerThatHasFailedIsToldToEnd) {
  begin(2, 2);
  choices[0]->on_failed({failure_kind::overloaded, "every queue is full"});
  EXPECT_EQ(exchange->whole.status, 429);
  EXPECT_EQ(withdrawn, 1) << "the other";
  EXPECT_FALSE(draw(1, second, -1.0F));
}

// Its text may be the beginning of a call.
TEST_F(OpenaiAnswer, WhatHasNothingToSayToAnAnswerThatHasFailedIsToldToEnd) {
  calls = true;
  begin(2, 2);
  protocols::token_id opening = 0;
  while (text_of(opening) != "<") ++opening;
  choices[0]->on_failed({failure_kind::overloaded, "every queue is full"});
  EXPECT_FALSE(draw(1, opening, -1.0F));
}

// A step may bring more of a prediction than the answer has, where a stop string ends it.
TEST_F(OpenaiAnswer, OfAPredictionCountsWhatIsInTheAnswer) {
  stops = {text_of(second)};
  predicts = true;
  begin(1, 1);
  std::vector<protocols::sampled_token> drawn;
  for (const auto id : {first, second, third, third}) drawn.emplace_back(id);
  EXPECT_FALSE(choices[0]->on_tokens(drawn, false)) << "it has ended";
  answer_usage usage;
  usage.answer_tokens = 4;
  usage.prediction_accepted = 3;
  usage.prediction_rejected = 2;
  choices[0]->on_finished(protocols::finish_reason::stop, usage);
  const auto used = json::parse(exchange->whole.body).at("usage");
  EXPECT_EQ(used.at("completion_tokens"), 2);
  const auto& details = used.at("completion_tokens_details");
  EXPECT_EQ(details.at("accepted_prediction_tokens"), 1);
  EXPECT_EQ(details.at("rejected_prediction_tokens"), 4);
}

TEST_F(OpenaiAnswer, SaysNothingOfPredictionsWhereThereIsNone) {
  begin(1, 1);
  EXPECT_TRUE(draw(0, first, 0));
  choices[0]->on_finished(protocols::finish_reason::length, {});
  EXPECT_FALSE(json::parse(exchange->whole.body).at("usage").as_object().contains("completion_tokens_details"));
}

} // namespace
} // namespace godwit::actors
