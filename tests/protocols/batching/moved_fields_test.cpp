#include "protocols/batching/planner_support.hpp"

#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <vector>

/// What a peer says of a request that moves is checked, field by field.
namespace godwit::protocols {
namespace {

constexpr request_id mover{1};
constexpr token_id vocabulary_size = 100;
constexpr std::uint32_t prompt_size = 20;

planner_settings small_vocabulary() {
  planner_settings settings;
  settings.blocks = 16;
  settings.context_length = 500;
  settings.vocabulary = vocabulary_size;
  return settings;
}

/// Computed to its last token but one, of an answer of five whose last two the home may lack.
moved_request decoding() {
  moved_request moved;
  moved.request = mover;
  moved.epoch = epoch{1};
  moved.prompt = testing_support::counting_from(10, prompt_size);
  moved.answer = {1, 2, 3, 4, 5};
  moved.stop.max_tokens = 50;
  moved.state = request_state::running;
  moved.computed = 24;
  moved.cached_tokens = 16;
  moved.started = true;
  moved.tail_index = 3;
  moved.tail = {sampled_token{4}, sampled_token{5}};
  return moved;
}

/// Whose home lacks everything, the log-probabilities of the prompt included.
moved_request scored() {
  auto moved = decoding();
  moved.sampling.prompt_logprobs = 0;
  moved.tail_index = 0;
  moved.tail.clear();
  for (const auto token : moved.answer) moved.tail.emplace_back(token);
  for (std::uint32_t i = 1; i < prompt_size; ++i) moved.prompt_scores.emplace_back(moved.prompt[i]);
  return moved;
}

/// The same within its prompt.
moved_request scored_in_part() {
  auto moved = scored();
  moved.answer.clear();
  moved.tail.clear();
  moved.computed = 16;
  moved.prompt_scores.resize(16);
  return moved;
}

/// After a preemption, before it has run again.
moved_request preempted() {
  auto moved = decoding();
  moved.state = request_state::preempted;
  moved.computed = 0;
  return moved;
}

/// With the blocks and the place that it needs; both are the caller's again where it is refused.
admission adopted_by(planner& p, const moved_request& moved) {
  const bool has_kv = moved.computed > 0;
  EXPECT_TRUE(!has_kv || p.hold_place());
  const auto blocks = p.reserve(blocks_for(moved.computed)).value();
  const auto answer = p.adopt(moved, epoch{2}, blocks);
  if (!answer.accepted()) {
    if (has_kv) p.free_place();
    p.give_back(blocks);
  }
  p.check();
  return answer;
}

TEST(PlannerMovedFields, WhatAgreesIsTakenUp) {
  for (const auto& moved : {decoding(), scored(), scored_in_part(), preempted()}) {
    planner p{small_vocabulary()};
    EXPECT_TRUE(adopted_by(p, moved).accepted());
  }
}

TEST(PlannerMovedFields, OneThatDoesNotAgreeIsRefusedAndLeavesNothing) {
  struct row {
    std::string what;
    std::function<moved_request()> good;
    std::function<void(moved_request&)> spoil;
  };
  using m = moved_request;
  const std::vector<row> rows{
      {"a prompt of nothing", preempted, [](m& r) { r.prompt.clear(), r.cached_tokens = 0; }},
      {"a token of the prompt outside the vocabulary", decoding, [](m& r) { r.prompt[3] = vocabulary_size; }},
      {"a token of the prompt below nought", decoding, [](m& r) { r.prompt[3] = -1; }},
      {"a token of the answer outside the vocabulary", decoding, [](m& r) { r.answer[0] = vocabulary_size; }},
      {"a token of the answer below nought", decoding, [](m& r) { r.answer[0] = -1; }},
      {"an answer that may have no tokens", decoding, [](m& r) { r.stop.max_tokens = 0; }},
      {"more cached than the prompt has", decoding, [](m& r) { r.cached_tokens = prompt_size + 1; }},
      {"computed to the end, so that nothing is left to draw from", decoding, [](m& r) { r.computed = 25; }},
      {"a tail that begins behind the answer", decoding, [](m& r) { r.tail_index = 6, r.tail.clear(); }},
      {"a tail that is short", decoding, [](m& r) { r.tail.pop_back(); }},
      {"a tail of other tokens", decoding, [](m& r) { r.tail[1].id = 6; }},
      {"log-probabilities for one token less than the prompt has", scored, [](m& r) { r.prompt_scores.pop_back(); }},
      {"one more", scored, [](m& r) { r.prompt_scores.emplace_back(1); }},
      {"none", scored, [](m& r) { r.prompt_scores.clear(); }},
      {"as many as are computed, but with an answer", scored, [](m& r) { r.prompt_scores.resize(24); }},
      {"fewer than are computed", scored_in_part, [](m& r) { r.prompt_scores.pop_back(); }},
      {"more than are computed", scored_in_part, [](m& r) { r.prompt_scores.emplace_back(1); }}};
  for (const auto& [what, good, spoil] : rows) {
    SCOPED_TRACE(what);
    auto moved = good();
    spoil(moved);
    planner p{small_vocabulary()};
    EXPECT_EQ(adopted_by(p, moved).reason, refusal::invalid);
    EXPECT_TRUE(p.idle());
    EXPECT_EQ(p.ledger().used(), 0U);
    EXPECT_EQ(p.places_held(), 0U);
  }
}

TEST(PlannerMovedFields, ScoresThatTheHomeHasAreNotCounted) {
  auto moved = scored();
  moved.tail_index = 1;
  moved.tail.erase(moved.tail.begin());
  moved.prompt_scores.clear();
  planner p{small_vocabulary()};
  EXPECT_TRUE(adopted_by(p, moved).accepted());
}

TEST(PlannerMovedFields, AnAnswerSoFarIsCheckedWhereARequestIsAdmittedToo) {
  for (const token_id wrong : {-1, vocabulary_size}) {
    const auto moved = decoding();
    generate_request request{mover, epoch{1}, moved.prompt, moved.answer, moved.sampling, moved.stop};
    planner p{small_vocabulary()};
    request.answer[2] = wrong;
    EXPECT_EQ(p.admit(request).reason, refusal::invalid);
    EXPECT_TRUE(p.idle());
  }
}

TEST(PlannerMovedFields, ARequestIsNotUnparkedUnderAnEarlierEpoch) {
  planner p{small_vocabulary()};
  ASSERT_TRUE(adopted_by(p, decoding()).accepted());
  ASSERT_EQ(p.park(mover, epoch{2}), planner::parking::parked);
  EXPECT_FALSE(p.unpark(mover, epoch{2}, epoch{1}));
  EXPECT_EQ(p.view(mover, epoch{2}).value().state, request_state::migrating) << "it stays parked under its own";
  EXPECT_TRUE(p.unpark(mover, epoch{2}, epoch{2}));
}

} // namespace
} // namespace godwit::protocols
