#include "protocols/batching/paged_model.hpp"
#include "protocols/batching/planner_support.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

namespace godwit::protocols {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using testing_support::asks_for;
using testing_support::drawn_by;
using testing_support::settings_for;
using testing_support::those_in;

planner_settings with_eos(std::uint32_t blocks, std::uint32_t budget = 64, std::uint32_t running = 8) {
  auto settings = settings_for(blocks, running, budget);
  settings.vocabulary = 100000;
  settings.eos = {2};
  return settings;
}

refusal reason_of(planner& p, generate_request request) { return p.admit(std::move(request)).reason; }

TEST(Planner, APromptIsPrefilledThenDecodedTokenByToken) {
  planner p{with_eos(8)};
  ASSERT_TRUE(p.admit(asks_for(1, 20, 2)).accepted());
  const auto prefill = p.plan().value();
  ASSERT_EQ(prefill.slices.size(), 1U);
  EXPECT_EQ(prefill.slices[0].first_position, 0U);
  EXPECT_EQ(prefill.slices[0].tokens.size(), 20U);
  EXPECT_EQ(prefill.slices[0].blocks.size(), 2U);
  EXPECT_TRUE(prefill.slices[0].samples);
  EXPECT_EQ(prefill.slices[0].sample_index, 0U);
  EXPECT_THAT(p.take_effects().begun, ElementsAre(request_id{1})) << "once, with its first step";
  auto effects = p.complete(drawn_by(prefill, 11));
  ASSERT_EQ(effects.updates.size(), 1U);
  EXPECT_EQ(effects.updates[0].first_index, 0U);
  EXPECT_EQ(effects.updates[0].tokens.at(0).id, 11);
  EXPECT_FALSE(effects.updates[0].finished());

  const auto decode = p.plan().value();
  EXPECT_THAT(p.take_effects().begun, IsEmpty());
  EXPECT_THAT(decode.slices[0].tokens, ElementsAre(11));
  EXPECT_EQ(decode.slices[0].first_position, 20U);
  EXPECT_EQ(decode.slices[0].sample_index, 1U);
  effects = p.complete(drawn_by(decode, 12));
  EXPECT_EQ(effects.updates.at(0).finish, finish_reason::length);
  EXPECT_EQ(effects.updates[0].prompt_tokens, 20U);
  EXPECT_THAT(effects.gone, ElementsAre(request_id{1}));
  EXPECT_TRUE(p.idle());
  EXPECT_EQ(p.ledger().used(), 0U);
}

TEST(Planner, LongPromptsComeInChunksBesideDecodesThatGoFirst) {
  planner p{with_eos(32, 16)};
  (void)p.admit(asks_for(1, 4, 10));
  (void)p.complete(drawn_by(*p.plan()));
  (void)p.admit(asks_for(2, 40, 10));
  auto step = p.plan().value();
  EXPECT_THAT(those_in(step), ElementsAre(1, 2));
  EXPECT_EQ(step.slices[0].tokens.size(), 1U);
  EXPECT_EQ(step.slices[1].tokens.size(), 15U);
  EXPECT_FALSE(step.slices[1].samples);
  auto effects = p.complete(drawn_by(step));
  EXPECT_EQ(effects.updates.size(), 1U) << "a chunk gives no token";
  step = p.plan().value();
  EXPECT_EQ(step.slices[1].first_position, 15U);
  (void)p.complete(drawn_by(step));
  step = p.plan().value();
  EXPECT_EQ(step.slices[1].tokens.size(), 10U);
  EXPECT_TRUE(step.slices[1].samples);
}

TEST(Planner, RequestsStartByPriorityThenArrivalThenAdmission) {
  planner p{with_eos(32, 64, 1)};
  (void)p.admit(asks_for(1, 4, 1, 5, 10));
  (void)p.admit(asks_for(2, 4, 1, 0, 30));
  (void)p.admit(asks_for(3, 4, 1, 0, 20));
  (void)p.admit(asks_for(4, 4, 1, 0, 20));
  (void)p.admit(asks_for(5, 4, 1, -1, 99));
  std::vector<std::uint64_t> order;
  while (const auto step = p.plan()) {
    order.push_back(step->slices.at(0).request.value());
    (void)p.complete(drawn_by(*step));
  }
  EXPECT_THAT(order, ElementsAre(5, 3, 4, 2, 1));
}

TEST(Planner, NobodyOvertakesARequestThatWaitsForBlocks) {
  planner p{with_eos(8)};
  (void)p.admit(asks_for(1, 60, 10));
  (void)p.complete(drawn_by(*p.plan()));
  (void)p.admit(asks_for(2, 100, 10));
  (void)p.admit(asks_for(3, 4, 10));
  EXPECT_THAT(those_in(*p.plan()), ElementsAre(1));
}

TEST(Planner, RefusesWithAReasonAndTheLimit) {
  auto settings = with_eos(4);
  settings.waiting_max = 2;
  settings.context_length = 50;
  planner p{settings};
  const auto too_long = p.admit(asks_for(1, 50));
  EXPECT_EQ(too_long.reason, refusal::too_long);
  EXPECT_EQ(too_long.limit, 50U);
  EXPECT_EQ(reason_of(p, asks_for(1, 0)), refusal::invalid);
  EXPECT_EQ(reason_of(p, asks_for(1, 5, 0)), refusal::invalid);
  auto foreign = asks_for(1, 5);
  foreign.prompt[2] = 100000;
  EXPECT_EQ(reason_of(p, foreign), refusal::invalid);
  foreign.prompt[2] = -1;
  EXPECT_EQ(reason_of(p, foreign), refusal::invalid);
  EXPECT_EQ(reason_of(p, asks_for(1, 5)), refusal::none);
  EXPECT_EQ(reason_of(p, asks_for(1, 5)), refusal::duplicate);
  EXPECT_EQ(reason_of(p, asks_for(2, 5)), refusal::none);
  const auto full = p.admit(asks_for(3, 5));
  EXPECT_EQ(full.reason, refusal::queue_full);
  EXPECT_EQ(full.limit, 2U);
  auto taken_before = asks_for(4, 5);
  taken_before.taken_before = true;
  EXPECT_EQ(reason_of(p, taken_before), refusal::none) << "no queue is full for it";
  p.check();
}

TEST(Planner, APromptLargerThanThePoolNeverFits) {
  planner p{with_eos(3)};
  EXPECT_EQ(reason_of(p, asks_for(1, 49)), refusal::never_fits);
  EXPECT_EQ(reason_of(p, asks_for(1, 48)), refusal::none);
}

TEST(Planner, ARequestWithoutATokenEndsWithWhatTheDeviceSaysOfIt) {
  planner p{with_eos(32)};
  (void)p.admit(asks_for(1, 4));
  (void)p.admit(asks_for(2, 4));
  (void)p.admit(asks_for(3, 4));
  auto output = drawn_by(*p.plan());
  ASSERT_EQ(output.tokens.size(), 3U);
  output.tokens[0].id = output.tokens[2].id = no_token;
  output.undrawn = {"the schema is too complex"};
  const auto effects = p.complete(output);
  ASSERT_EQ(effects.updates.size(), 3U);
  EXPECT_EQ(effects.updates[0].error, "no token can be drawn: the schema is too complex");
  EXPECT_EQ(effects.updates[1].error, "");
  EXPECT_EQ(effects.updates[2].finish, finish_reason::error);
  EXPECT_NE(effects.updates[2].error.find("does not say why"), std::string::npos);
}

TEST(Planner, WhatTheDeviceSaysOfARequestThatIsCancelledIsTakenForNoOther) {
  planner p{with_eos(32)};
  (void)p.admit(asks_for(1, 4));
  (void)p.admit(asks_for(2, 4));
  auto output = drawn_by(*p.plan());
  ASSERT_EQ(p.cancel({request_id{1}, epoch{1}}), planner::cancellation::freed_after_step);
  output.tokens[0].id = output.tokens[1].id = no_token;
  output.undrawn = {"the schema is too complex", "every logit is NaN"};
  const auto effects = p.complete(output);
  ASSERT_EQ(effects.updates.size(), 1U);
  EXPECT_EQ(effects.updates[0].error, "no token can be drawn: every logit is NaN");
}

TEST(Planner, ARequestThatOutgrowsThePoolEndsWithAnError) {
  planner p{with_eos(2)};
  (void)p.admit(asks_for(1, 30, 100));
  std::uint32_t tokens = 0;
  step_effects effects;
  while (const auto step = p.plan()) {
    effects = p.complete(drawn_by(*step));
    tokens += static_cast<std::uint32_t>(effects.updates.size());
  }
  effects = p.take_effects();
  ASSERT_EQ(effects.updates.size(), 1U);
  EXPECT_EQ(effects.updates[0].finish, finish_reason::error);
  EXPECT_EQ(effects.updates[0].first_index, 3U);
  EXPECT_NE(effects.updates[0].error.find("2 blocks"), std::string::npos);
  EXPECT_EQ(tokens, 3U) << "30 of the prompt, 2 of the answer, and the one drawn from the last position";
  EXPECT_TRUE(p.idle());
}

// Its prompt fills the pool, and all of it is cached: no block is left for the one token that is missing.
TEST(Planner, ARequestThatOutgrewThePoolWhenItWasPreemptedEndsToo) {
  planner p{with_eos(2)};
  const auto large = asks_for(1, 32, 100, 1);
  (void)p.admit(large);
  (void)p.complete(drawn_by(*p.plan())); // 33 tokens now, and room for 32
  auto urgent = large;
  urgent.request = request_id{2};
  urgent.priority = 0;
  urgent.prompt.pop_back();
  urgent.stop.max_tokens = 2;
  (void)p.admit(urgent);
  auto step = p.plan();
  ASSERT_TRUE(step);
  ASSERT_THAT(those_in(*step), ElementsAre(2));
  EXPECT_THAT(p.take_effects().preempted, ElementsAre(request_id{1}));
  (void)p.complete(drawn_by(*step, large.prompt.back())); // so that both blocks are again what they were
  step = p.plan();
  ASSERT_TRUE(step);
  const auto effects = p.take_effects();
  ASSERT_EQ(effects.updates.size(), 1U) << "it would wait for ever";
  EXPECT_EQ(effects.updates[0].request, request_id{1});
  EXPECT_EQ(effects.updates[0].finish, finish_reason::error);
  EXPECT_NE(effects.updates[0].error.find("2 blocks"), std::string::npos);
  (void)p.complete(drawn_by(*step));
  EXPECT_TRUE(p.idle());
}

TEST(Planner, TheLastInLineIsPreemptedAndRecomputedFromPromptAndAnswer) {
  auto settings = with_eos(4);
  settings.prefix_caching = false;
  planner p{settings};
  (void)p.admit(asks_for(1, 30, 40));
  (void)p.admit(asks_for(2, 14, 40)); // 2 blocks each with the first tokens
  std::map<std::uint64_t, std::uint32_t> next;
  bool recomputed = false;
  while (const auto step = p.plan()) {
    for (const auto& slice : step->slices) {
      const auto answered = next[slice.request.value()];
      if (slice.request == request_id{2} && slice.first_position == 0 && answered > 0) {
        recomputed = true;
        EXPECT_EQ(slice.tokens.size(), 14U + answered);
        EXPECT_EQ(slice.sample_index, answered);
      }
    }
    const auto effects = p.complete(drawn_by(*step));
    for (const auto& update : effects.updates) {
      EXPECT_EQ(update.first_index, next[update.request.value()]);
      next[update.request.value()] += static_cast<std::uint32_t>(update.tokens.size());
    }
    p.check();
  }
  EXPECT_TRUE(recomputed);
  EXPECT_GE(p.load().preemptions_total, 1U);
  EXPECT_EQ(next[2], 40U);
}

TEST(Planner, AHigherPriorityTakesTheBlocksOfALowerOneEvenIfThatOneWasPlannedFirst) {
  auto settings = with_eos(4, 64);
  settings.prefix_caching = false;
  planner p{settings};
  (void)p.admit(asks_for(1, 15, 40, 1)); // decodes, less important
  (void)p.complete(drawn_by(*p.plan()));
  (void)p.admit(asks_for(2, 16, 100, 0));
  for (int i = 0; i < 80; ++i) {
    const auto step = p.plan();
    if (!step) break;
    (void)p.complete(drawn_by(*step));
    p.check();
    for (const auto& r : p.requests())
      if (r.request == request_id{2}) {
        EXPECT_EQ(r.preemptions, 0U);
      }
  }
  EXPECT_GE(p.load().preemptions_total, 1U);
}

TEST(Planner, EndOfSequenceAndStopTokensEndAnAnswer) {
  planner p{with_eos(8)};
  (void)p.admit(asks_for(1, 4, 10));
  auto with_stop = asks_for(2, 4, 10);
  with_stop.stop.stop_token_ids = {9};
  (void)p.admit(with_stop);
  auto ignoring = asks_for(3, 4, 10);
  ignoring.stop.ignore_eos = true;
  (void)p.admit(ignoring);
  auto effects = p.complete(drawn_by(*p.plan(), 2));
  ASSERT_EQ(effects.updates.size(), 3U);
  EXPECT_EQ(effects.updates[0].finish, finish_reason::stop);
  EXPECT_EQ(effects.updates[1].finish, finish_reason::stop);
  EXPECT_EQ(effects.updates[2].finish, finish_reason::none);
  (void)p.admit([&] {
    auto again = with_stop;
    again.request = request_id{4};
    return again;
  }());
  effects = p.complete(drawn_by(*p.plan(), 9));
  ASSERT_EQ(effects.updates.size(), 2U);
  EXPECT_EQ(effects.updates[0].finish, finish_reason::none) << "9 is an ordinary token for request 3";
  EXPECT_EQ(effects.updates[1].finish, finish_reason::stop);
  EXPECT_EQ(effects.updates[1].tokens.size(), 1U) << "the stop token counts";
}

TEST(Planner, BeforeMinTokensNothingThatEndsIsDrawn) {
  planner p{with_eos(8)};
  auto request = asks_for(1, 4, 10);
  request.stop.min_tokens = 2;
  request.stop.stop_token_ids = {9};
  (void)p.admit(request);
  for (int i = 0; i < 2; ++i) {
    const auto step = p.plan().value();
    EXPECT_THAT(step.slices[0].forbidden, ElementsAre(2, 9));
    (void)p.complete(drawn_by(step));
  }
  EXPECT_THAT(p.plan()->slices[0].forbidden, IsEmpty());
}

TEST(Planner, TheContextLengthEndsAnAnswer) {
  auto settings = with_eos(8);
  settings.context_length = 10;
  planner p{settings};
  (void)p.admit(asks_for(1, 8, 100));
  EXPECT_FALSE(p.complete(drawn_by(*p.plan())).updates.at(0).finished());
  EXPECT_EQ(p.complete(drawn_by(*p.plan())).updates.at(0).finish, finish_reason::length);
}

TEST(Planner, PenaltiesSeePromptAndAnswer) {
  planner p{with_eos(8)};
  auto request = asks_for(1, 3, 10);
  request.sampling.presence_penalty = 0.5F;
  request.answer = {41, 42};
  (void)p.admit(request);
  (void)p.admit(asks_for(2, 3, 10));
  const auto step = p.plan().value();
  EXPECT_EQ(step.slices[0].prompt, request.prompt);
  EXPECT_EQ(step.slices[0].generated, request.answer);
  EXPECT_THAT(step.slices[1].prompt, IsEmpty());
}

TEST(Planner, ARedispatchedRequestGoesOnBehindItsAnswerSoFar) {
  planner p{with_eos(8)};
  auto request = asks_for(1, 4, 5);
  request.answer = {21, 22, 23};
  request.epoch = epoch{2};
  (void)p.admit(request);
  const auto step = p.plan().value();
  EXPECT_EQ(step.slices[0].tokens.size(), 7U);
  EXPECT_EQ(step.slices[0].sample_index, 3U);
  const auto effects = p.complete(drawn_by(step));
  EXPECT_EQ(effects.updates.at(0).first_index, 3U);
  EXPECT_EQ(effects.updates[0].epoch, epoch{2});
  EXPECT_EQ(p.complete(drawn_by(*p.plan())).updates.at(0).finish, finish_reason::length) << "max_tokens counts all 5";
}

TEST(Planner, ARedispatchedRequestThatHadEndedIsToldSoAtOnce) {
  planner p{with_eos(8)};
  auto by_length = asks_for(1, 4, 2);
  by_length.answer = {21, 22};
  auto by_eos = asks_for(2, 4, 9);
  by_eos.answer = {21, 2};
  ASSERT_TRUE(p.admit(by_length).accepted());
  ASSERT_TRUE(p.admit(by_eos).accepted());
  const auto effects = p.take_effects();
  ASSERT_EQ(effects.updates.size(), 2U);
  EXPECT_EQ(effects.updates[0].finish, finish_reason::length);
  EXPECT_EQ(effects.updates[0].first_index, 2U);
  EXPECT_EQ(effects.updates[1].finish, finish_reason::stop);
  EXPECT_FALSE(p.plan());
}

TEST(Planner, ALaterEpochTakesThePlaceOfAnEarlierOne) {
  planner p{with_eos(8)};
  (void)p.admit(asks_for(1, 20, 5));
  const auto step = p.plan().value();
  auto later = asks_for(1, 20, 5);
  later.epoch = epoch{2};
  ASSERT_TRUE(p.admit(later).accepted());
  EXPECT_EQ(reason_of(p, asks_for(1, 20, 5)), refusal::duplicate);
  const auto effects = p.complete(drawn_by(step));
  EXPECT_THAT(effects.updates, IsEmpty()) << "the earlier epoch is silent";
  p.check();
  EXPECT_EQ(p.complete(drawn_by(*p.plan())).updates.at(0).epoch, epoch{2});
}

TEST(Planner, CancelFreesTheBlocksAtOnceOutsideAStepAndWithItsEndInside) {
  planner p{with_eos(8)};
  (void)p.admit(asks_for(1, 20, 5));
  (void)p.admit(asks_for(2, 20, 5));
  EXPECT_EQ(p.cancel({request_id{1}, epoch{1}}), planner::cancellation::freed);
  EXPECT_THAT(p.take_effects().gone, ElementsAre(request_id{1}));
  const auto step = p.plan().value();
  EXPECT_EQ(p.cancel({request_id{2}, epoch{1}}), planner::cancellation::freed_after_step);
  EXPECT_EQ(p.cancel({request_id{2}, epoch{1}}), planner::cancellation::unknown);
  EXPECT_EQ(p.ledger().used(), 2U) << "the device writes them";
  const auto effects = p.complete(drawn_by(step));
  EXPECT_THAT(effects.updates, IsEmpty());
  EXPECT_THAT(effects.gone, ElementsAre(request_id{2}));
  EXPECT_EQ(p.ledger().used(), 0U);
  EXPECT_TRUE(p.idle());
}

TEST(Planner, CancelLeavesALaterEpochAlone) {
  planner p{with_eos(8)};
  auto later = asks_for(1, 20, 5);
  later.epoch = epoch{3};
  (void)p.admit(later);
  EXPECT_EQ(p.cancel({request_id{1}, epoch{2}}), planner::cancellation::unknown);
  EXPECT_EQ(p.cancel({request_id{7}, epoch{2}}), planner::cancellation::unknown);
  EXPECT_EQ(p.cancel({request_id{1}, epoch{3}}), planner::cancellation::freed);
}

TEST(Planner, APrefixIsComputedOnce) {
  planner p{with_eos(16)};
  auto first = asks_for(1, 40, 1);
  (void)p.admit(first);
  (void)p.complete(drawn_by(*p.plan()));
  auto second = first;
  second.request = request_id{2};
  second.prompt.resize(36);
  second.prompt.push_back(99999);
  (void)p.admit(second);
  const auto step = p.plan().value();
  EXPECT_EQ(step.slices[0].first_position, 32U);
  EXPECT_EQ(step.slices[0].tokens.size(), 5U);
  const auto effects = p.complete(drawn_by(step));
  EXPECT_EQ(effects.updates.at(0).cached_tokens, 32U);
  EXPECT_EQ(p.load().prefix_hit_tokens_total, 32U);
  auto salted = second;
  salted.request = request_id{3};
  salted.cache_salt = 5;
  (void)p.admit(salted);
  EXPECT_EQ(p.plan()->slices[0].first_position, 0U);
}

TEST(Planner, APromptWhollyKnownIsFinishedInACopyOfItsLastBlock) {
  planner p{with_eos(16)};
  (void)p.admit(asks_for(1, 32, 1));
  (void)p.complete(drawn_by(*p.plan()));
  auto again = asks_for(1, 32, 2);
  (void)p.admit(again);
  const auto step = p.plan().value();
  ASSERT_EQ(step.copies.size(), 1U);
  EXPECT_EQ(step.slices[0].first_position, 31U);
  EXPECT_EQ(step.slices[0].blocks.at(1), step.copies[0].to);
  EXPECT_GE(p.ledger().references(step.copies[0].from), 1U) << "until the copy is made";
  const auto effects = p.complete(drawn_by(step));
  EXPECT_EQ(effects.updates.at(0).cached_tokens, 31U);
  EXPECT_EQ(p.plan()->slices[0].blocks.at(1), step.copies[0].from) << "equal blocks are kept once";
  p.check();
}

TEST(Planner, APromptWhollyKnownStartsEvenWhereThereIsNoRoomForACopy) {
  planner p{with_eos(2)};
  (void)p.admit(asks_for(1, 32, 1));
  (void)p.complete(drawn_by(*p.plan()));
  (void)p.admit(asks_for(1, 32, 1));
  const auto step = p.plan().value();
  EXPECT_THAT(step.copies, IsEmpty());
  EXPECT_EQ(step.slices[0].first_position, 16U);
  EXPECT_TRUE(p.complete(drawn_by(step)).updates.at(0).finished());
}

TEST(Planner, BlocksHeldOutsideMakeRequestsWaitNotFail) {
  planner p{with_eos(3)};
  std::vector<block_id> held;
  while (const auto block = p.ledger().allocate()) held.push_back(*block);
  (void)p.admit(asks_for(1, 20, 5));
  EXPECT_FALSE(p.plan());
  EXPECT_TRUE(p.take_effects().empty());
  EXPECT_TRUE(p.has_work());
  for (const auto block : held) p.ledger().release(block);
  EXPECT_TRUE(p.plan());
}

TEST(Planner, AStaticBatchRunsToItsEndBeforeTheNextIsFormed) {
  auto settings = with_eos(32, 64, 2);
  settings.mode = batching_mode::static_batch;
  planner p{settings};
  (void)p.admit(asks_for(1, 4, 1));
  (void)p.admit(asks_for(2, 4, 4));
  (void)p.admit(asks_for(3, 4, 1));
  std::vector<std::vector<std::uint64_t>> steps;
  while (const auto step = p.plan()) {
    steps.push_back(those_in(*step));
    (void)p.complete(drawn_by(*step));
  }
  EXPECT_THAT(steps, ElementsAre(ElementsAre(1, 2), ElementsAre(2), ElementsAre(2), ElementsAre(2), ElementsAre(3)));
}

// vLLM's first scheduler: a step of prompts holds up those who decode.
TEST(Planner, PrefillFirstComputesPromptsOrElseDecodes) {
  auto settings = with_eos(32, 40, 4);
  settings.mode = batching_mode::prefill_first;
  planner p{settings};
  std::vector<std::vector<std::uint64_t>> steps;
  const auto ends_a_step = [&] {
    const auto step = p.plan();
    ASSERT_TRUE(step);
    steps.push_back(those_in(*step));
    (void)p.complete(drawn_by(*step));
  };
  (void)p.admit(asks_for(1, 4, 5));
  (void)p.admit(asks_for(2, 4, 5));
  ends_a_step();
  ends_a_step();
  (void)p.admit(asks_for(3, 60, 5)); // more than a step's budget
  ends_a_step();
  ends_a_step();
  ends_a_step();
  EXPECT_THAT(steps,
              ElementsAre(ElementsAre(1, 2), ElementsAre(1, 2), ElementsAre(3), ElementsAre(3), ElementsAre(1, 2, 3)));
}

TEST(Planner, ReportsItsLoad) {
  planner p{with_eos(16, 64, 1)};
  (void)p.admit(asks_for(1, 20, 5));
  (void)p.admit(asks_for(2, 30, 5));
  EXPECT_EQ(p.load().waiting, 2U);
  EXPECT_EQ(p.load().waiting_blocks, 4U);
  (void)p.complete(drawn_by(*p.plan()));
  const auto load = p.load();
  EXPECT_EQ(load.running, 1U);
  EXPECT_EQ(load.waiting, 1U);
  EXPECT_EQ(load.waiting_blocks, 2U);
  EXPECT_EQ(load.blocks_total, 16U);
  EXPECT_EQ(load.blocks_used, 2U);
  EXPECT_EQ(load.steps_total, 1U);
  EXPECT_EQ(load.generated_tokens_total, 1U);
  const auto requests = p.requests();
  ASSERT_EQ(requests.size(), 2U);
  EXPECT_EQ(requests[0].state, request_state::running);
  EXPECT_EQ(requests[0].answer_tokens, 1U);
  EXPECT_EQ(requests[1].state, request_state::waiting);
}

TEST(Planner, MisuseIsABug) {
  planner p{with_eos(8)};
  EXPECT_THROW((void)p.complete({}), contract_violation);
  (void)p.admit(asks_for(1, 4));
  const auto step = p.plan().value();
  EXPECT_THROW((void)p.plan(), contract_violation);
  auto wrong = drawn_by(step);
  wrong.tokens.clear();
  EXPECT_THROW((void)p.complete(wrong), contract_violation);
  auto settings = with_eos(8, 4, 8);
  EXPECT_THROW(planner{settings}, contract_violation);
}

TEST(Planner, AStaticBatchWhoseLastMemberOutgrewThePoolMakesRoomAtOnce) {
  auto settings = with_eos(2);
  settings.mode = batching_mode::static_batch;
  planner p{settings};
  ASSERT_EQ(reason_of(p, asks_for(1, 30, 100)), refusal::none);
  ASSERT_EQ(reason_of(p, asks_for(2, 5)), refusal::none);
  for (int steps = 0; steps < 10; ++steps) {
    const auto input = p.plan();
    ASSERT_TRUE(input) << "a waiting request must not be forgotten";
    const auto effects = p.take_effects();
    if (those_in(*input) == std::vector<std::uint64_t>{2}) {
      ASSERT_FALSE(effects.updates.empty());
      EXPECT_EQ(effects.updates[0].finish, finish_reason::error);
      return;
    }
    (void)p.complete(drawn_by(*input));
  }
  FAIL() << "the first request never ended";
}

/// Two samples of a prompt of `prompt` tokens; returns how many steps until both have a token.
struct sampled_twice {
  explicit sampled_twice(planner_settings settings, std::uint32_t prompt = 40)
      : model(settings.blocks), p(std::move(settings)) {
    for (const std::uint64_t id : {1, 2}) {
      auto request = asks_for(1, prompt, 8);
      request.request = request_id{id};
      if (id == 2) request.sibling = request_id{1};
      EXPECT_TRUE(p.admit(std::move(request)).accepted());
    }
  }
  step_input step() {
    auto input = p.plan().value();
    const auto effects = p.complete(model.run(input));
    for (const auto& update : effects.updates)
      for (const auto& token : update.tokens) answers[update.request.value()].push_back(token.id);
    p.check();
    return input;
  }
  testing_support::paged_model model;
  planner p;
  std::map<std::uint64_t, std::vector<token_id>> answers;
};

TEST(Planner, SamplesOfOnePromptShareItsBlocksAndCopyTheOneThatBothWrite) {
  for (const bool prefix_caching : {false, true}) {
    auto settings = with_eos(16);
    settings.prefix_caching = prefix_caching;
    sampled_twice both{settings};
    const auto prefill = both.step();
    EXPECT_EQ(those_in(prefill), (std::vector<std::uint64_t>{1})); // the second waits for the first one's KV
    EXPECT_EQ(prefill.tokens(), 40U);
    const auto next = both.step();
    EXPECT_EQ(those_in(next), (std::vector<std::uint64_t>{1, 2}));
    EXPECT_EQ(next.tokens(), 2U); // and computes one token of the prompt, for its logits
    ASSERT_EQ(next.copies.size(), 1U);
    EXPECT_EQ(next.copies[0].from, next.slices[0].blocks[2]);
    EXPECT_EQ(next.copies[0].to, next.slices[1].blocks[2]);
    for (int i = 0; i < 2; ++i) EXPECT_EQ(next.slices[0].blocks[i], next.slices[1].blocks[i]);
    EXPECT_EQ(both.p.ledger().used(), 4U); // 3 of the prompt, and a copy of the last
    while (!both.p.idle()) both.step();
    EXPECT_EQ(both.answers[1].size(), 8U);
    EXPECT_EQ(both.answers[1], both.answers[2]); // the same sampling here
    EXPECT_EQ(both.p.ledger().used(), 0U);
  }
}

TEST(Planner, ASampleWhoseSiblingIsGoneComputesThePromptItself) {
  auto settings = with_eos(16);
  settings.prefix_caching = false;
  sampled_twice both{settings};
  ASSERT_EQ(both.p.cancel({request_id{1}, epoch{1}}), planner::cancellation::freed);
  const auto prefill = both.step();
  EXPECT_EQ(those_in(prefill), (std::vector<std::uint64_t>{2}));
  EXPECT_EQ(prefill.tokens(), 40U);
}

TEST(Planner, SaysWhatIsWrongWithItsSettings) {
  try {
    const planner p(with_eos(16, 4, 8));
    FAIL() << "such a step decodes no batch";
  } catch (const contract_violation& failure) {
    EXPECT_STREQ(failure.what(),
                 "planner: the step's budget of 4 tokens is smaller than a batch of 8 decoding requests");
  }
}

TEST(Planner, APromptThatIsToBeScoredIsComputedAlthoughItIsCached) {
  sampled_twice both{with_eos(16)};
  while (!both.p.idle()) both.step();
  auto request = asks_for(1, 40, 1);
  request.request = request_id{3};
  request.sampling.prompt_logprobs = 0;
  ASSERT_TRUE(both.p.admit(request).accepted());
  const auto prefill = both.p.plan().value();
  EXPECT_EQ(prefill.tokens(), 40U);
  EXPECT_EQ(prefill.slices[0].scored.size(), 39U);
  const auto effects = both.p.complete(both.model.run(prefill));
  ASSERT_EQ(effects.updates.size(), 1U);
  EXPECT_EQ(effects.updates[0].prompt_scores, testing_support::paged_model::scores_of(request.prompt));
}

// Of the first token nothing can be told: nothing stands before it.
TEST(Planner, APromptOfOneTokenIsComputedWithoutScores) {
  for (const std::uint32_t prompt_tokens : {1U, 2U}) {
    SCOPED_TRACE(prompt_tokens);
    testing_support::paged_model model{16};
    planner p{with_eos(16)};
    auto request = asks_for(1, prompt_tokens, 1);
    request.sampling.prompt_logprobs = 2;
    request.stop.ignore_eos = true;
    ASSERT_TRUE(p.admit(request).accepted());
    const auto prefill = p.plan().value();
    ASSERT_EQ(prefill.slices.size(), 1U);
    EXPECT_EQ(prefill.tokens(), prompt_tokens);
    EXPECT_EQ(prefill.slices[0].scored.size(), prompt_tokens - 1);
    EXPECT_TRUE(prefill.slices[0].samples);
    const auto effects = p.complete(model.run(prefill));
    ASSERT_EQ(effects.updates.size(), 1U);
    EXPECT_EQ(effects.updates[0].tokens.size(), 1U);
    EXPECT_EQ(effects.updates[0].finish, finish_reason::length);
    EXPECT_EQ(effects.updates[0].prompt_scores, testing_support::paged_model::scores_of(request.prompt));
    EXPECT_TRUE(p.idle());
  }
}

} // namespace
} // namespace godwit::protocols
