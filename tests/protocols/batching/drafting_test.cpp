#include "protocols/batching/planner_support.hpp"

#include <godwit/protocols/batching/drafting.hpp>
#include <godwit/protocols/ensure.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace godwit::protocols {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using testing_support::those_in;

step_slice decode(std::uint64_t id, std::uint32_t position, token_id token, std::uint32_t wanted) {
  step_slice out;
  out.request = request_id{id};
  out.first_position = position;
  out.tokens = {token};
  out.blocks = {block_id{static_cast<std::uint32_t>(id)}, block_id{7}};
  out.samples = true;
  out.drafts_wanted = wanted;
  out.sample_index = 3;
  out.sampling.seed = 40 + id;
  return out;
}

step_output drew(const std::vector<token_id>& ids) {
  step_output out;
  for (const auto id : ids) out.tokens.emplace_back(id);
  return out;
}

TEST(Drafting, AStepThatWantsNothingIsComputedByTheDraftModelToo) {
  step_input step;
  step.step = 9;
  step.copies = {{block_id{1}, block_id{2}}};
  step.slices = {decode(1, 5, 11, 0), decode(2, 0, 12, 0)};
  step.slices[1].tokens = {12, 13, 14};
  step.slices[1].scored = {13, 14};
  step.slices[1].scores_top = 2;
  step.slices[1].adapter = 4;
  auto expected = step;
  drafting all(step, 100, 100);
  const auto pass = all.next();
  ASSERT_TRUE(pass);
  EXPECT_EQ(pass->step, 9U);
  EXPECT_EQ(pass->copies, step.copies);
  ASSERT_EQ(pass->slices.size(), 2U);
  for (std::size_t i = 0; i < 2; ++i) {
    EXPECT_EQ(pass->slices[i].tokens, step.slices[i].tokens);
    EXPECT_EQ(pass->slices[i].blocks, step.slices[i].blocks);
    EXPECT_EQ(pass->slices[i].first_position, step.slices[i].first_position);
    EXPECT_FALSE(pass->slices[i].samples);
    EXPECT_THAT(pass->slices[i].scored, IsEmpty());
    EXPECT_EQ(pass->slices[i].adapter, 0U);
  }
  all.drew({});
  EXPECT_FALSE(all.next());
  EXPECT_THAT(all.drafts(), IsEmpty());
  EXPECT_EQ(std::move(all).step(), expected);
}

TEST(Drafting, EachPassDraftsOneTokenOfThoseThatWantMore) {
  step_input step;
  step.slices = {decode(1, 5, 11, 2), decode(2, 8, 12, 0), decode(3, 20, 13, 1)};
  drafting all(step, 100, 100);
  auto pass = all.next();
  ASSERT_TRUE(pass);
  EXPECT_THAT(those_in(pass), ElementsAre(1, 2, 3));
  EXPECT_TRUE(pass->slices[0].samples);
  EXPECT_FALSE(pass->slices[1].samples);
  EXPECT_TRUE(pass->slices[2].samples);
  EXPECT_EQ(pass->slices[0].sample_index, 3U);
  EXPECT_EQ(pass->slices[0].sampling.seed, 41U);
  all.drew(drew({21, 31}));
  pass = all.next();
  ASSERT_TRUE(pass);
  EXPECT_THAT(those_in(pass), ElementsAre(1, 3));
  EXPECT_THAT(pass->slices[0].tokens, ElementsAre(21));
  EXPECT_EQ(pass->slices[0].first_position, 6U);
  EXPECT_TRUE(pass->slices[0].samples);
  EXPECT_EQ(pass->slices[0].sample_index, 4U);
  EXPECT_THAT(pass->slices[1].tokens, ElementsAre(31));
  EXPECT_EQ(pass->slices[1].first_position, 21U);
  EXPECT_FALSE(pass->slices[1].samples) << "its KV only";
  EXPECT_THAT(pass->copies, IsEmpty()) << "they are done";
  all.drew(drew({22}));
  pass = all.next();
  ASSERT_TRUE(pass);
  EXPECT_THAT(those_in(pass), ElementsAre(1));
  EXPECT_THAT(pass->slices[0].tokens, ElementsAre(22));
  EXPECT_EQ(pass->slices[0].first_position, 7U);
  EXPECT_FALSE(pass->slices[0].samples);
  all.drew({});
  EXPECT_FALSE(all.next());
  EXPECT_THAT(all.drafts(), ElementsAre(21, 22, 31));
  const auto out = std::move(all).step();
  EXPECT_THAT(out.slices[0].tokens, ElementsAre(11, 21, 22));
  EXPECT_EQ(out.slices[0].drafted, 2U);
  EXPECT_EQ(out.slices[0].drafts_wanted, 0U);
  EXPECT_EQ(out.slices[0].draws(), 3U);
  EXPECT_EQ(out.slices[1], step.slices[1]);
  EXPECT_THAT(out.slices[2].tokens, ElementsAre(13, 31));
}

TEST(Drafting, DrawsAsTheModelWillAtThatPlace) {
  step_input step;
  step.slices = {decode(1, 5, 11, 2)};
  auto& slice = step.slices[0];
  slice.adapter = 3;
  slice.sampling.temperature = 0.5F;
  slice.sampling.frequency_penalty = 1;
  slice.sampling.logprobs = 5;
  slice.prompt = {1, 2};
  slice.generated = {8, 11};
  slice.forbidden = {0};
  drafting all(step, 100, 100);
  auto pass = all.next();
  const auto* drawn = &pass->slices[0];
  EXPECT_EQ(drawn->sampling.temperature, 0.5F);
  EXPECT_EQ(drawn->sampling.frequency_penalty, 1);
  EXPECT_EQ(drawn->sampling.logprobs, -1) << "nobody reads them";
  EXPECT_EQ(drawn->adapter, 0U) << "the draft model has none";
  EXPECT_THAT(drawn->prompt, ElementsAre(1, 2));
  EXPECT_THAT(drawn->generated, ElementsAre(8, 11));
  EXPECT_THAT(drawn->forbidden, ElementsAre(0));
  all.drew(drew({21}));
  pass = all.next();
  drawn = &pass->slices[0];
  EXPECT_THAT(drawn->generated, ElementsAre(8, 11, 21));
  EXPECT_THAT(drawn->forbidden, ElementsAre(0));
  EXPECT_EQ(drawn->sample_index, 4U);
}

// Models of one family may have heads that are padded differently.
TEST(Drafting, WhatOneVocabularyLacksIsItsFirstToken) {
  step_input step;
  step.slices = {decode(1, 5, 60, 3), decode(2, 0, 1, 0)};
  step.slices[1].tokens = {49, 50, -1};
  drafting all(step, 70, 50);
  auto pass = all.next();
  EXPECT_THAT(pass->slices[0].tokens, ElementsAre(0));
  EXPECT_THAT(pass->slices[1].tokens, ElementsAre(49, 0, 0));
  all.drew(drew({49}));
  (void)all.next();
  all.drew(drew({no_token}));
  (void)all.next();
  all.drew(drew({90}));
  (void)all.next();
  all.drew({});
  EXPECT_THAT(all.drafts(), ElementsAre(49, 0, 0));
  EXPECT_THAT(std::move(all).step().slices[0].tokens, ElementsAre(60, 49, 0, 0)) << "the model knows its own";
}

TEST(Drafting, HoldsDevicesToWhatTheyWereAsked) {
  step_input step;
  step.slices = {decode(1, 5, 11, 1)};
  for (const auto& wrong : {std::vector<token_id>{}, std::vector<token_id>{1, 2}}) {
    drafting all(step, 100, 100);
    (void)all.next();
    EXPECT_THROW(all.drew(drew(wrong)), contract_violation);
  }
  step.slices[0].samples = false;
  EXPECT_THROW(drafting(step, 100, 100), contract_violation);
  step.slices[0].samples = true;
  step.slices[0].tokens = {11, 12};
  step.slices[0].drafted = 1;
  EXPECT_THROW(drafting(step, 100, 100), contract_violation) << "it has some already";
}

} // namespace
} // namespace godwit::protocols
