#include <godwit/protocols/batching/planner.hpp>
#include <godwit/protocols/batching/speculation.hpp>
#include <godwit/protocols/ensure.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <random>

namespace godwit::protocols {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

std::vector<token_id> drafted(const std::vector<token_id>& tokens, std::uint32_t count,
                              speculation_settings settings = {8, 2, 4, 16}) {
  std::vector<token_id> out;
  draft_by_lookup(tokens, settings, count, out);
  return out;
}

TEST(PromptLookup, GoesOnAsItDidBefore) {
  EXPECT_THAT(drafted({1, 2, 3, 4, 5, 9, 1, 2}, 3), ElementsAre(3, 4, 5));
  EXPECT_THAT(drafted({1, 2, 3, 4, 5, 9, 1, 2}, 0), IsEmpty());
}

TEST(PromptLookup, WantsAsManyTokensAsItIsTold) {
  EXPECT_THAT(drafted({1, 2, 3, 9, 2}, 3), IsEmpty());
  EXPECT_THAT(drafted({1, 2, 3, 9, 2}, 3, {8, 1, 4, 16}), ElementsAre(3, 9, 2));
  EXPECT_THAT(drafted({}, 3), IsEmpty());
  EXPECT_THAT(drafted({7}, 3, {8, 1, 4, 16}), IsEmpty());
  EXPECT_THAT(drafted({7, 7}, 2, {8, 1, 4, 16}), ElementsAre(7, 7));
}

TEST(PromptLookup, PrefersTheLongestEndAndThenTheLastPlace) {
  EXPECT_THAT(drafted({1, 2, 3, 10, 2, 3, 11, 2, 3, 12, 1, 2, 3}, 1), ElementsAre(10));
  EXPECT_THAT(drafted({1, 2, 3, 10, 2, 3, 11, 2, 3, 12, 5, 2, 3}, 1), ElementsAre(12));
  EXPECT_THAT(drafted({1, 2, 3, 10, 2, 3, 11, 2, 3, 12, 1, 2, 3}, 1, {8, 2, 2, 16}), ElementsAre(12))
      << "to there only";
}

TEST(PromptLookup, GoesOnInItsOwnDraft) {
  EXPECT_THAT(drafted({5, 1, 2, 1, 2}, 5), ElementsAre(1, 2, 1, 2, 1));
  EXPECT_THAT(drafted({4, 4, 4}, 4), ElementsAre(4, 4, 4, 4));
}

TEST(PromptLookup, FindsWhatASimpleSearchFinds) {
  std::mt19937 random(7);
  for (int round = 0; round < 3000; ++round) {
    std::vector<token_id> tokens(random() % 300);
    for (auto& t : tokens) t = static_cast<token_id>(random() % (round % 2 == 0 ? 4 : 40));
    speculation_settings settings;
    settings.lookup_min = 1 + static_cast<std::uint32_t>(random() % 3);
    settings.lookup_max = settings.lookup_min + static_cast<std::uint32_t>(random() % 4);
    std::vector<token_id> expected;
    for (auto length = settings.lookup_max; length >= settings.lookup_min && expected.empty(); --length) {
      if (tokens.size() <= length) continue;
      for (auto begin = tokens.size() - length; begin-- > 0 && expected.empty();)
        if (std::equal(tokens.end() - length, tokens.end(), tokens.begin() + static_cast<std::ptrdiff_t>(begin))) {
          auto all = tokens;
          for (std::size_t at = begin + length; expected.size() < 6; ++at) {
            expected.push_back(all[at]);
            all.push_back(all[at]);
          }
        }
    }
    ASSERT_EQ(drafted(tokens, 6, settings), expected) << "round " << round;
  }
}

TEST(PromptLookup, LooksBackSoFar) {
  std::vector<token_id> tokens(speculation_settings::lookback + 100);
  std::iota(tokens.begin(), tokens.end(), 10);
  tokens[50] = 1, tokens[51] = 2;
  tokens.push_back(1), tokens.push_back(2);
  EXPECT_THAT(drafted(tokens, 2), IsEmpty());
  tokens[150] = 1, tokens[151] = 2;
  EXPECT_THAT(drafted(tokens, 2), ElementsAre(tokens[152], tokens[153]));
}

std::vector<token_id> predicted(const std::vector<token_id>& answer, const std::vector<token_id>& prediction,
                                std::uint32_t count = 3) {
  std::vector<token_id> out;
  draft_by_prediction(answer, prediction, {0, 2, 4, 16, 16}, count, out);
  return out;
}

TEST(Prediction, IsFollowedFromItsBeginning) {
  EXPECT_THAT(predicted({1}, {1, 2, 3, 4, 5}), ElementsAre(2, 3, 4));
  EXPECT_THAT(predicted({1, 2, 3}, {1, 2, 3, 4, 5}), ElementsAre(4, 5)) << "nothing behind its end";
  EXPECT_THAT(predicted({1, 2}, {1, 2}), IsEmpty());
  EXPECT_THAT(predicted({}, {1, 2}), IsEmpty());
  EXPECT_THAT(predicted({1}, {}), IsEmpty());
}

TEST(Prediction, IsTakenUpAgainWhereTheAnswerComesBackToIt) {
  EXPECT_THAT(predicted({1, 9}, {1, 2, 3, 4, 5, 6}), IsEmpty());
  EXPECT_THAT(predicted({1, 9, 4}, {1, 2, 3, 4, 5, 6}), IsEmpty()) << "one token is too few";
  EXPECT_THAT(predicted({1, 9, 4, 5}, {1, 2, 3, 4, 5, 6}), ElementsAre(6));
}

TEST(Prediction, TheNearestOfEqualPlacesCounts) {
  const std::vector<token_id> lines{7, 8, 1, 7, 8, 2, 7, 8, 3, 7, 8, 4};
  EXPECT_THAT(predicted({9, 7, 8}, lines, 1), ElementsAre(1)) << "two tokens from here, where the next is two, too";
  EXPECT_THAT(predicted({9, 9, 9, 9, 7, 8}, lines, 1), ElementsAre(2));
  EXPECT_THAT(predicted({9, 9, 9, 9, 9, 9, 9, 9, 9, 9, 7, 8}, lines, 1), ElementsAre(4));
  EXPECT_THAT(predicted({9, 9, 9, 9, 9, 9, 9, 9, 2, 7, 8}, lines, 1), ElementsAre(3)) << "three tokens agree";
}

TEST(Prediction, IsLookedForNearby) {
  std::vector<token_id> prediction(20'000);
  std::iota(prediction.begin(), prediction.end(), 100);
  EXPECT_THAT(predicted({1, 8000, 8001}, prediction, 1), ElementsAre(8002));
  EXPECT_THAT(predicted({1, 18'000, 18'001}, prediction, 1), IsEmpty());
  std::vector<token_id> answer(12'000, 1);
  answer.push_back(18'000), answer.push_back(18'001);
  EXPECT_THAT(predicted(answer, prediction, 1), ElementsAre(18'002));
  answer.push_back(200), answer.push_back(201);
  EXPECT_THAT(predicted(answer, prediction, 1), IsEmpty());
  EXPECT_THAT(predicted(answer, {200, 201, 202}, 1), IsEmpty()) << "far behind its end";
}

TEST(Prediction, IsFollowedWhateverLookupsWant) {
  std::vector<token_id> out;
  draft_by_prediction({{1, 2, 3}}, {{1, 2, 3, 4}}, {0, 16, 16, 16, 16}, 3, out);
  EXPECT_THAT(out, ElementsAre(4)) << "all of it is as predicted";
  out.clear();
  draft_by_prediction({{1, 2, 3}}, {{1, 2, 3, 4}}, {0, 16, 16, 16, 16}, 0, out);
  EXPECT_THAT(out, IsEmpty());
}

TEST(Speculation, SettingsSayWhatIsWrong) {
  speculation_settings settings;
  EXPECT_EQ(settings.validate(), "");
  settings.tokens_max = speculation_settings::tokens_limit + 1;
  EXPECT_THAT(settings.validate(), ::testing::HasSubstr("at most 64"));
  settings = {0, 2, 4, 16, 0, speculation_settings::tokens_limit + 1};
  EXPECT_THAT(settings.validate(), ::testing::HasSubstr("a draft model drafts at most 64"));
  settings = {4, 0, 4, 16};
  EXPECT_THAT(settings.validate(), ::testing::HasSubstr("at least one token"));
  settings = {4, 3, 2, 16};
  EXPECT_THAT(settings.validate(), ::testing::HasSubstr("shorter than"));
  settings = {4, 3, 17, 16};
  EXPECT_THAT(settings.validate(), ::testing::HasSubstr("at most 16 last tokens"));
  settings = {4, 3, 2, 16};
  planner_settings whole;
  whole.blocks = 4;
  whole.context_length = 64;
  whole.speculation = settings;
  EXPECT_EQ(whole.validate(), settings.validate());
}

/// A planner with one request that decodes: prompt 1 2 3 4 1 2, answer 3.
class Speculating : public ::testing::Test {
protected:
  explicit Speculating(std::uint32_t blocks = 8) {
    settings.blocks = blocks;
    settings.context_length = 100;
    settings.running_max = 4;
    settings.step_tokens_max = 32;
    settings.eos = {0};
    settings.speculation = {4, 2, 4, 2};
  }
  void start() {
    of = std::make_unique<planner>(settings);
    request.request = request_id{1};
    request.epoch = epoch{1};
    if (request.prompt.empty()) request.prompt = {1, 2, 3, 4, 1, 2};
    ASSERT_TRUE(of->admit(request).accepted());
    answer({3});
  }
  /// The next step; it draws these.
  step_input answer(const std::vector<token_id>& drawn, const std::vector<token_id>& drafts = {}) {
    auto input = of->plan();
    EXPECT_TRUE(input);
    step_output out;
    out.step = input->step;
    out.drafts = drafts;
    for (const auto token : drawn) {
      out.tokens.emplace_back(token);
      if (token == no_token) out.undrawn.emplace_back("why " + std::to_string(out.undrawn.size()));
    }
    effects = of->complete(out);
    of->check();
    return *input;
  }
  [[nodiscard]] std::vector<token_id> told() const {
    std::vector<token_id> ids;
    for (const auto& update : effects.updates)
      for (const auto& token : update.tokens) ids.push_back(token.id);
    return ids;
  }

  planner_settings settings;
  generate_request request;
  std::unique_ptr<planner> of;
  step_effects effects;
};

TEST_F(Speculating, DraftsGoWithTheLastToken) {
  start();
  const auto input = answer({4, 1, 2, 3, 4});
  ASSERT_EQ(input.slices.size(), 1U);
  const auto& slice = input.slices[0];
  EXPECT_THAT(slice.tokens, ElementsAre(3, 4, 1, 2, 3));
  EXPECT_EQ(slice.drafted, 4U);
  EXPECT_EQ(slice.draws(), 5U);
  EXPECT_EQ(slice.first_position, 6U);
  EXPECT_EQ(slice.sample_index, 1U);
  EXPECT_EQ(slice.blocks.size(), 1U);
  EXPECT_THAT(told(), ElementsAre(4, 1, 2, 3, 4));
  ASSERT_EQ(effects.updates.size(), 1U);
  EXPECT_EQ(effects.updates[0].first_index, 1U);
  const auto load = of->load();
  EXPECT_EQ(load.drafts_total, 1U);
  EXPECT_EQ(load.draft_tokens_total, 4U);
  EXPECT_EQ(load.accepted_tokens_total, 4U);
  EXPECT_EQ(load.generated_tokens_total, 6U);
}

TEST_F(Speculating, WhatTheModelDoesNotDrawIsLeftOut) {
  start();
  answer({4, 1, 9, 3, 4});
  EXPECT_THAT(told(), ElementsAre(4, 1, 9));
  EXPECT_EQ(of->view(request_id{1}, epoch{1})->computed, 9U) << "9 is not computed yet, and no draft was";
  EXPECT_EQ(of->load().accepted_tokens_total, 2U);
  EXPECT_EQ(answer({4}).slices[0].drafted, 0U) << "9 was never there";
}

TEST_F(Speculating, DraftsFewerWhereTheyAreWrong) {
  start();
  EXPECT_EQ(answer({4, 5, 0, 0, 0}).slices[0].drafted, 4U);
  EXPECT_THAT(told(), ElementsAre(4, 5));
  EXPECT_EQ(answer({1}).slices[0].drafted, 0U);
  EXPECT_EQ(answer({2}).slices[0].drafted, 0U);
  EXPECT_EQ(answer({3, 4, 5}).slices[0].drafted, 2U) << "one was right, so two";
  EXPECT_EQ(answer({1, 2, 3, 4, 5}).slices[0].drafted, 4U) << "both were";
}

TEST_F(Speculating, AnAnswerEndsWithinItsDrafts) {
  request.stop.stop_token_ids = {1};
  start();
  answer({4, 1, 2, 3, 4});
  EXPECT_THAT(told(), ElementsAre(4, 1));
  EXPECT_EQ(effects.updates[0].finish, finish_reason::stop);
  EXPECT_THAT(effects.gone, ElementsAre(request_id{1}));
  EXPECT_TRUE(of->idle());
  EXPECT_EQ(of->ledger().used(), 0U);
}

TEST_F(Speculating, NothingIsDraftedBehindTheAnswersEnd) {
  request.stop.max_tokens = 4;
  start();
  EXPECT_EQ(answer({4, 1, 2}).slices[0].drafted, 2U);
  EXPECT_THAT(told(), ElementsAre(4, 1, 2));
  EXPECT_EQ(effects.updates[0].finish, finish_reason::length);
}

TEST_F(Speculating, NorBehindTheContextsEnd) {
  settings.context_length = 9;
  start();
  EXPECT_EQ(answer({4, 9}).slices[0].drafted, 1U);
  EXPECT_EQ(effects.updates.size(), 1U);
}

TEST_F(Speculating, AllOfAStepAreDrawnUnderTheSameProhibitions) {
  request.stop.min_tokens = 3;
  start();
  const auto first = answer({4, 1});
  EXPECT_EQ(first.slices[0].drafted, 1U) << "the third token is forbidden what the fourth is not";
  EXPECT_THAT(first.slices[0].forbidden, ElementsAre(0));
  EXPECT_THAT(answer({2, 3, 4}).slices[0].forbidden, IsEmpty());
}

TEST_F(Speculating, ATokenThatCannotBeDrawnEndsItsRequestWhenItIsItsTurn) {
  start();
  answer({4, no_token, no_token, no_token, no_token});
  EXPECT_THAT(told(), ElementsAre(4));
  EXPECT_FALSE(effects.updates[0].finished());
  const auto input = of->plan();
  step_output out;
  out.step = input->step;
  out.tokens.assign(input->slices[0].draws(), sampled_token{no_token});
  out.undrawn.assign(input->slices[0].draws(), "it is forbidden");
  effects = of->complete(out);
  ASSERT_TRUE(effects.updates[0].finished());
  EXPECT_EQ(effects.updates[0].error, "no token can be drawn: it is forbidden");
}

TEST_F(Speculating, LeavesStepsOfManyRequestsAlone) {
  settings.speculation.batch_max = 1;
  start();
  request.request = request_id{2};
  request.prompt = {5, 6};
  ASSERT_TRUE(of->admit(request).accepted());
  for (const auto& slice : answer({4, 7}).slices) EXPECT_EQ(slice.drafted, 0U);
}

TEST_F(Speculating, TakesWhatTheBudgetLeaves) {
  settings.step_tokens_max = 7;
  start();
  request.request = request_id{2};
  request.prompt = {5, 6, 7, 8};
  ASSERT_TRUE(of->admit(request).accepted());
  const auto input = answer({4, 1, 2, 9});
  EXPECT_EQ(input.tokens(), 7U);
  EXPECT_EQ(input.slices[0].drafted, 2U);
}

TEST_F(Speculating, OnlyWhatDecodesIsDrafted) {
  request.sampling.json_schema = "{}";
  start();
  EXPECT_EQ(answer({4}).slices[0].drafted, 0U) << "under a schema nothing is";
}

TEST_F(Speculating, APredictionIsTriedBeforeAnythingElse) {
  settings.speculation.prediction_max = 3;
  request.prediction = {3, 7, 8, 9, 10};
  start();
  auto input = answer({7, 8, 5, 0});
  EXPECT_THAT(input.slices[0].tokens, ElementsAre(3, 7, 8, 9));
  EXPECT_THAT(told(), ElementsAre(7, 8, 5));
  EXPECT_EQ(effects.updates[0].prediction_accepted, 2U);
  EXPECT_EQ(effects.updates[0].prediction_rejected, 1U);
  answer({9});
  EXPECT_EQ(answer({10}).slices[0].drafted, 0U) << "5 9 is nowhere";
  EXPECT_EQ(answer({4}).slices[0].drafted, 0U) << "9 10 is its end";
  answer({1});
  input = answer({5, 0, 0, 0});
  EXPECT_EQ(input.slices[0].drafted, 3U) << "4 1 is in the prompt";
  EXPECT_EQ(effects.updates[0].prediction_rejected, 1U) << "of the prediction, not of the prompt";
}

TEST_F(Speculating, APredictionNeedsNoLookup) {
  settings.speculation.tokens_max = 0;
  settings.speculation.prediction_max = 3;
  start();
  EXPECT_EQ(answer({4}).slices[0].drafted, 0U) << "that is off";
  request.request = request_id{2};
  request.prediction = {5, 6};
  ASSERT_TRUE(of->admit(request).accepted());
  const auto first = answer({1, 5});
  ASSERT_EQ(first.slices.size(), 2U);
  const auto second = answer({2, 6, 7});
  EXPECT_EQ(second.slices[0].drafted, 0U);
  EXPECT_THAT(second.slices[1].tokens, ElementsAre(5, 6));
}

TEST_F(Speculating, APredictionMovesWithItsRequest) {
  settings.speculation.prediction_max = 2;
  request.prediction = {3, 7, 8, 9, 10};
  start();
  answer({7, 1, 0});
  ASSERT_EQ(of->park(request_id{1}, epoch{1}), planner::parking::parked);
  auto moved = of->snapshot(request_id{1}, 0);
  EXPECT_EQ(moved.prediction, request.prediction);
  EXPECT_EQ(moved.prediction_accepted, 1U);
  EXPECT_EQ(moved.prediction_rejected, 1U);
  planner there(settings);
  ASSERT_TRUE(there.hold_place());
  auto blocks = there.reserve(blocks_for(moved.computed));
  ASSERT_TRUE(there.adopt(std::move(moved), epoch{2}, *blocks).accepted());
  auto step = [&](const std::vector<token_id>& drawn) {
    auto input = there.plan();
    step_output out;
    out.step = input->step;
    for (const auto id : drawn) out.tokens.emplace_back(id);
    effects = there.complete(out);
    return input->slices.at(0).drafted;
  };
  EXPECT_EQ(step({8}), 0U) << "7 1 is nowhere";
  EXPECT_EQ(step({9}), 0U);
  EXPECT_EQ(step({10, 4}), 1U) << "8 9, and 10 behind it";
  EXPECT_EQ(effects.updates.at(0).prediction_accepted, 2U);
  EXPECT_EQ(effects.updates.at(0).prediction_rejected, 1U);
}

TEST_F(Speculating, ADraftModelIsAskedWhereNothingElseDrafts) {
  settings.speculation.model_max = 3;
  start();
  auto input = answer({4, 1, 2, 9, 0});
  EXPECT_EQ(input.slices[0].drafted, 4U) << "looked up";
  EXPECT_EQ(input.slices[0].drafts_wanted, 0U);
  input = answer({5, 6, 0, 0}, {5, 7, 8});
  EXPECT_THAT(input.slices[0].tokens, ElementsAre(9)) << "9 was never there";
  EXPECT_EQ(input.slices[0].drafted, 0U);
  EXPECT_EQ(input.slices[0].drafts_wanted, 3U);
  EXPECT_EQ(input.slices[0].blocks.size(), 1U) << "13 tokens and 3 drafts: 16";
  EXPECT_THAT(told(), ElementsAre(5, 6)) << "one was right, and what followed the wrong one is the model's";
  EXPECT_EQ(of->view(request_id{1}, epoch{1})->computed, 12U);
  EXPECT_EQ(of->load().draft_tokens_total, 7U);
  EXPECT_EQ(of->load().accepted_tokens_total, 4U);
  input = answer({7, 8, 9, 3}, {7, 8, 9});
  EXPECT_EQ(input.slices[0].drafts_wanted, 3U);
  EXPECT_EQ(input.slices[0].blocks.size(), 1U) << "16 tokens with its drafts";
  EXPECT_THAT(told(), ElementsAre(7, 8, 9, 3));
  EXPECT_EQ(effects.updates[0].prediction_rejected, 0U);
}

TEST_F(Speculating, ADraftModelIsAskedForNoMoreThanThereIsRoomFor) {
  settings.speculation = {0, 2, 4, 2, 0, 8};
  request.stop.max_tokens = 4;
  start();
  EXPECT_EQ(answer({7, 8, 9}, {5, 5}).slices[0].drafts_wanted, 2U) << "the answer ends with the fourth token";
  EXPECT_THAT(told(), ElementsAre(7));
  EXPECT_EQ(answer({8, 9}, {8}).slices[0].drafts_wanted, 1U);
  EXPECT_EQ(effects.updates[0].finish, finish_reason::length);
  EXPECT_TRUE(of->idle());
}

// By what its passes take, and how often it is right.
TEST_F(Speculating, ADraftModelIsAskedForWhatItIsWorth) {
  settings.speculation = {0, 2, 4, 2, 0, 8};
  settings.blocks = 700;
  settings.context_length = 10'000;
  request.stop.max_tokens = 9000;
  const auto asked = [this](int steps, std::int64_t pass_ns, std::uint32_t right) {
    std::vector<std::uint32_t> wanted;
    for (int i = 0; i < steps; ++i) {
      auto input = of->plan();
      if (!input) break;
      step_output out;
      out.step = input->step;
      const auto count = input->slices[0].drafts_wanted;
      wanted.push_back(count);
      for (std::uint32_t k = 0; k < count; ++k) out.drafts.push_back(k < right ? 6 : 5);
      out.tokens.assign(1 + count, sampled_token{6});
      out.drafting_ns = pass_ns * (count + 1);
      out.duration_ns = 1'000'000 + out.drafting_ns;
      effects = of->complete(out);
    }
    return wanted;
  };
  const auto mean = [](const std::vector<std::uint32_t>& all) {
    return static_cast<double>(std::accumulate(all.begin(), all.end(), 0U)) / static_cast<double>(all.size());
  };
  start();
  const auto hopeful = asked(50, 50'000, 8);
  EXPECT_EQ(hopeful.front(), 4U) << "nothing is known yet";
  EXPECT_EQ(hopeful.back(), 8U) << "cheap, and always right";
  EXPECT_LT(mean(asked(300, 50'000, 0)), 1.5) << "never right, and cheap";
  EXPECT_LT(mean(asked(300, 300'000, 0)), 0.5) << "never right, and not";
  const auto again = asked(60, 50'000, 8);
  EXPECT_EQ(again.back(), 8U) << "it has been tried now and then";
  EXPECT_LT(mean(asked(300, 900'000, 1)), 2) << "a pass takes nearly as long as a step";
  EXPECT_GE(asked(200, 50'000, 1).back(), 1U);
}

TEST_F(Speculating, AsManyDraftsAsWereWantedComeBack) {
  settings.speculation = {0, 2, 4, 2, 0, 2};
  start();
  const auto input = of->plan();
  step_output out;
  out.step = input->step;
  out.tokens.assign(2, sampled_token{5});
  out.drafts = {5};
  EXPECT_THROW((void)of->complete(out), contract_violation);
}

TEST_F(Speculating, OfAPredictionIsKeptWhatCanBeOfUse) {
  settings.vocabulary = 20;
  settings.speculation.prediction_max = 4;
  const auto kept = [this](std::vector<token_id> prediction) {
    of = std::make_unique<planner>(settings);
    request.request = request_id{1};
    request.epoch = epoch{1};
    request.prompt = {1};
    request.prediction = std::move(prediction);
    EXPECT_TRUE(of->admit(request).accepted()) << "it is a hint";
    EXPECT_EQ(of->park(request_id{1}, epoch{1}), planner::parking::parked);
    return of->snapshot(request_id{1}, 0).prediction;
  };
  EXPECT_THAT(kept({5, 6, 20, 7}), ElementsAre(5, 6)) << "no token of the model";
  EXPECT_THAT(kept({-1, 7}), IsEmpty());
  EXPECT_EQ(kept(std::vector<token_id>(1000, 5)).size(), settings.context_length);
}

TEST_F(Speculating, WhoIsWrongAgainAndAgainDraftsMoreAndMoreSeldom) {
  settings.context_length = 1000;
  settings.blocks = 100;
  settings.speculation = {4, 1, 4, 2};
  request.prompt = {3, 3, 3};
  request.stop.max_tokens = 900;
  start();
  std::vector<int> between;
  for (int since = 0; between.size() < 13; ++since) {
    auto input = of->plan();
    step_output out;
    out.step = input->step;
    const auto drafted = input->slices[0].drafted;
    out.tokens.assign(1 + drafted, sampled_token{static_cast<token_id>(4 + since % 2)}); // never what was drafted
    if (drafted > 0) out.tokens[0].id = input->slices[0].tokens[1] == 4 ? 5 : 4;
    effects = of->complete(out);
    if (drafted == 0) continue;
    between.push_back(since);
    since = -1;
  }
  for (std::size_t i = 1; i < 5; ++i) EXPECT_LE(between[i], 2) << "a few times are nothing";
  EXPECT_GE(between.back(), 63);
  EXPECT_LE(between.back(), 70) << "but it tries again";
}

TEST_F(Speculating, CachedBlocksAreKeptButForOneThatItWouldTakeSoon) {
  settings.blocks = 5;
  settings.speculation = {40, 1, 4, 2};
  settings.step_tokens_max = 64;
  of = std::make_unique<planner>(settings);
  generate_request before; // leaves four blocks in the cache
  before.request = request_id{9};
  before.epoch = epoch{1};
  before.prompt.assign(64, 2);
  for (token_id i = 0; i < 64; ++i) before.prompt[static_cast<std::size_t>(i)] = 30 + i;
  before.stop.max_tokens = 1;
  ASSERT_TRUE(of->admit(before).accepted());
  answer({1});
  ASSERT_EQ(of->ledger().cached(), 4U);
  request.request = request_id{1};
  request.epoch = epoch{1};
  request.prompt.assign(10, 3);
  request.stop.max_tokens = 80;
  ASSERT_TRUE(of->admit(request).accepted());
  answer({3});
  answer(std::vector<token_id>(5, 3));  // four drafts
  answer(std::vector<token_id>(9, 3));  // twice as many
  answer(std::vector<token_id>(17, 3)); // and again: 42 tokens
  const auto input = of->plan();
  EXPECT_EQ(input->slices[0].drafted, 48 - 42 + 16U) << "what is left of its third block, and a fourth one";
  EXPECT_EQ(of->ledger().cached(), 1U);
}

class SpeculatingInLittleMemory : public Speculating {
protected:
  SpeculatingInLittleMemory() : Speculating(1) {}
};

TEST_F(SpeculatingInLittleMemory, DraftsThatHaveNoRoomAreNotMade) {
  request.prompt = {1, 2, 3, 4, 1, 2, 3, 4, 1, 2, 3, 4, 1, 2};
  start(); // 15 tokens in 16 places, the last one not computed yet
  EXPECT_EQ(answer({4, 1}).slices[0].drafted, 1U);
}

TEST_F(Speculating, BlocksOfDraftsThatWereWrongAreFree) {
  request.prompt = {1, 2, 3, 4, 1, 2, 3, 4, 1, 2, 3, 4, 1, 2};
  start();
  auto input = of->plan();
  EXPECT_EQ(input->slices[0].blocks.size(), 2U);
  EXPECT_EQ(of->ledger().used(), 2U);
  step_output out;
  out.step = input->step;
  out.tokens.assign(5, sampled_token{9});
  EXPECT_EQ(of->park(request_id{1}, epoch{1}), planner::parking::parked_after_step);
  effects = of->complete(out);
  EXPECT_EQ(of->ledger().used(), 1U);
  of->check();
  EXPECT_EQ(of->snapshot(request_id{1}, 0).computed, 15U);
}

TEST_F(Speculating, LogProbabilitiesOfAllThatAreTaken) {
  request.sampling.logprobs = 0;
  start();
  answer({4, 1, 9, 3, 4});
  EXPECT_EQ(of->park(request_id{1}, epoch{1}), planner::parking::parked);
  EXPECT_EQ(of->snapshot(request_id{1}, 0).tail.size(), 4U);
}

TEST(StepSlice, DrawsBehindDraftsAsIfTheyWereTheAnswer) {
  step_slice slice;
  slice.tokens = {3, 4, 1};
  slice.drafted = 2;
  slice.samples = true;
  slice.sample_index = 7;
  slice.generated = {2, 3};
  slice.prompt = {1};
  EXPECT_THAT(slice.drawn_at(2).generated, ElementsAre(2, 3)) << "nobody asks for it";
  slice.sampling.presence_penalty = 1;
  const auto last = slice.drawn_at(2);
  EXPECT_THAT(last.generated, ElementsAre(2, 3, 4, 1));
  EXPECT_EQ(last.sample_index, 9U);
  EXPECT_THAT(last.prompt, ElementsAre(1));
  EXPECT_THAT(slice.drawn_at(0).generated, ElementsAre(2, 3));
}

} // namespace
} // namespace godwit::protocols
