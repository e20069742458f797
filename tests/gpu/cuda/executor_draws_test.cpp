#include "gpu/cuda/device_test.hpp"

#include <godwit/gpu/model/sampler.hpp>

#include <cmath>
#include <stdexcept>

// What steps draw and score, against the CPU's sampler over the same logits.
namespace godwit::gpu::cuda::testing {
namespace {

/// A request's first token after a short prompt.
protocols::step_slice asked(unsigned seed, std::uint32_t block) {
  auto slice = slice_of(some_tokens(4, 101, seed), 0, 4, blocks{block});
  slice.sampling.temperature = 0.9F;
  slice.sampling.seed = seed;
  slice.sample_index = seed % 7;
  return slice;
}

std::vector<protocols::step_slice> requests_of_all_kinds() {
  std::vector<protocols::step_slice> all;
  for (unsigned i = 0; i < 10; ++i) all.push_back(asked(i, i));
  all[1].sampling.temperature = 0;
  all[2].sampling.top_k = 4;
  all[3].sampling.top_p = 0.6F;
  all[4].sampling.min_p = 0.2F;
  all[5].sampling.presence_penalty = 1.5F;
  all[5].sampling.frequency_penalty = 0.5F;
  all[5].generated = {7, 7, 7, 100, 3};
  all[6].sampling.repetition_penalty = 1.8F;
  all[6].prompt = some_tokens(40, 101, 99);
  all[6].generated = {5, 6};
  all[7].sampling.logit_bias = {{17, 30.0F}, {18, 29.0F}, {900, 100.0F}};
  all[7].sampling.logprobs = 3;
  all[8].sampling.temperature = 0;
  all[8].sampling.logprobs = 0;
  for (protocols::token_id id = 0; id < 90; ++id) all[8].forbidden.push_back(id);
  for (protocols::token_id id = 0; id < 101; ++id) all[9].forbidden.push_back(id); // all there are
  return all;
}

class CudaDraws : public device_test {
protected:
  static void expect_same(const protocols::sampled_token& got, const protocols::sampled_token& expected) {
    EXPECT_EQ(got.id, expected.id);
    EXPECT_NEAR(got.logprob, expected.logprob, 1e-4F);
    ASSERT_EQ(got.top.size(), expected.top.size());
    for (std::size_t i = 0; i < got.top.size(); ++i) {
      EXPECT_EQ(got.top[i].id, expected.top[i].id);
      EXPECT_NEAR(got.top[i].logprob, expected.top[i].logprob, 1e-4F);
    }
  }
};

TEST_F(CudaDraws, AreTheCpuSamplersFromTheSameLogits) {
  auto one = runner(16);
  const auto slices = requests_of_all_kinds();
  const auto out = one.step(slices);
  ASSERT_EQ(out.tokens.size(), slices.size());
  model::sampler reference;
  for (std::size_t i = 0; i + 1 < slices.size(); ++i) {
    SCOPED_TRACE(i);
    auto logits = one.logits(static_cast<std::uint32_t>(i));
    expect_same(out.tokens[i], reference.draw(logits, slices[i]));
  }
  EXPECT_EQ(out.tokens.back().id, protocols::no_token) << "its request ends, the others go on";
  EXPECT_EQ(out.undrawn.size(), 1U);
}

TEST_F(CudaDraws, AreTheSameFromGraphsWhoseListsGrow) {
  // Decodes of one size, first without lists, then with some, then with more than there was room for.
  auto plain = runner(16);
  cuda_executor_settings settings;
  settings.blocks = 16;
  settings.step_tokens = 16;
  const auto graphs = backend_->make_executor(model_, settings);
  auto slices = requests_of_all_kinds();
  plain.step(slices);
  run_step(*graphs, 1, slices);
  std::uint64_t number = 1;
  for (const std::uint32_t round : {0U, 1U, 2U, 3U}) {
    std::vector<protocols::step_slice> decodes;
    for (std::uint32_t i = 0; i < slices.size(); ++i) {
      auto next =
          slice_of(std::vector<protocols::token_id>(8, static_cast<protocols::token_id>(i)), 4 + round, 1, blocks{i});
      if (round >= 2) {
        next = slices[i];
        next.tokens = {static_cast<protocols::token_id>(i)};
        next.first_position = 4 + round;
        if (round == 3) next.forbidden.resize(3000, 1);
      }
      decodes.push_back(std::move(next));
    }
    const auto expected = plain.step(decodes), got = run_step(*graphs, ++number, decodes);
    ASSERT_EQ(got.tokens.size(), expected.tokens.size());
    for (std::size_t i = 0; i < got.tokens.size(); ++i) expect_same(got.tokens[i], expected.tokens[i]);
  }
}

// Speculative decoding: drafts that are right are followed by what follows the answer.
TEST_F(CudaDraws, BehindDraftsAreThoseOfTheAnswer) {
  cuda_executor_settings settings;
  settings.blocks = 8;
  settings.deterministic = true; // or rows that come together round in other ways
  const blocks table{5, 2};
  constexpr std::uint32_t prompt = 9, answer = 14;
  for (const float penalty : {1.0F, 1.6F}) {
    const auto slice = [&](const std::vector<protocols::token_id>& tokens, std::size_t first, std::uint32_t drafted) {
      auto out = slice_of(tokens, first, tokens.size() - first, table);
      out.sampling.temperature = 0.9F;
      out.sampling.seed = 3;
      out.sampling.repetition_penalty = penalty;
      out.sampling.logprobs = 1;
      out.drafted = drafted;
      const auto known = tokens.end() - drafted;
      out.sample_index = static_cast<std::uint32_t>(tokens.size()) - drafted - prompt;
      if (penalty != 1.0F) {
        out.prompt.assign(tokens.begin(), tokens.begin() + prompt);
        out.generated.assign(tokens.begin() + prompt, known);
      }
      return out;
    };
    const auto one = backend_->make_executor(model_, settings);
    auto tokens = some_tokens(prompt, 101, 5);
    std::vector<protocols::sampled_token> plain;
    std::uint64_t number = 0;
    for (std::size_t first = 0; plain.size() < answer; first = tokens.size() - 1) {
      plain.push_back(run_step(*one, ++number, {slice(tokens, first, 0)}).tokens.at(0));
      tokens.push_back(plain.back().id);
    }
    const auto two = backend_->make_executor(model_, settings);
    auto again = std::vector(tokens.begin(), tokens.begin() + prompt);
    run_step(*two, 1, {slice(again, 0, 0)});
    again.push_back(plain[0].id);
    number = 1;
    for (std::uint32_t known = 1; known + 4 < answer;) { // three drafts a step, the third one wrong
      auto with = again;
      with.insert(with.end(), {plain[known].id, plain[known + 1].id, (plain[known + 2].id + 1) % 101});
      const auto other = slice_of(some_tokens(6, 101, 8), 0, 6, blocks{7});
      const auto out = run_step(*two, ++number, {slice(with, again.size() - 1, 3), other});
      ASSERT_EQ(out.tokens.size(), 5U);
      for (std::uint32_t i = 0; i < 3; ++i, ++known) {
        expect_same(out.tokens[i], plain[known]);
        again.push_back(out.tokens[i].id);
      }
    }
  }
}

TEST_F(CudaDraws, AnswerInTheOrderOfTheSlicesThatSample) {
  auto one = runner(90);
  std::vector<protocols::step_slice> slices;
  for (std::uint32_t i = 0; i < 30; ++i) {
    slices.push_back(slice_of(some_tokens(16, 101, 4), 0, 1 + i % 5, blocks{i}));
    slices.back().samples = i % 3 != 1;
  }
  const auto out = one.step(slices);
  std::size_t next = 0;
  for (std::uint32_t i = 0; i < 30; ++i) {
    if (!slices[i].samples) continue;
    const auto& logits = one.logits(i);
    EXPECT_EQ(out.tokens.at(next++).id, std::ranges::max_element(logits) - logits.begin());
  }
  EXPECT_EQ(next, out.tokens.size());
}

TEST_F(CudaDraws, ScorePromptsOverAllTheirTokens) {
  std::map<std::pair<std::uint32_t, std::uint32_t>, std::vector<float>> rows;
  cuda_executor_settings settings;
  settings.blocks = 40;
  settings.step_tokens = 64;
  settings.logits_of_all_rows = true;
  settings.logits_tap = [&](const cpu::logits_row& row) {
    rows[{row.slice, row.position}].assign(row.values.begin(), row.values.end());
  };
  const auto executor = backend_->make_executor(model_, settings);
  // More rows than are drawn from at once; one request scores half of its tokens and samples, one all of them.
  const auto first = some_tokens(260, 101, 21), second = some_tokens(20, 101, 22);
  auto a = slice_of(first, 0, 260, first_blocks(17)), b = slice_of(second, 0, 20, first_blocks(2, 20));
  a.scored.assign(first.begin() + 1, first.begin() + 131);
  a.scores_top = 2;
  a.sampling.logprobs = 1;
  b.scored.assign(second.begin() + 1, second.end());
  b.scored.push_back(5000); // no token of the vocabulary
  b.samples = false;
  const auto out = run_step(*executor, 1, {a, b});
  ASSERT_EQ(out.tokens.size(), 1U);
  ASSERT_EQ(out.scores.size(), 2U);
  ASSERT_EQ(out.scores[0].size(), 130U);
  ASSERT_EQ(out.scores[1].size(), 20U);
  for (std::uint32_t i = 0; i < 130; ++i)
    expect_same(out.scores[0][i], model::score(rows.at({0, i}), a.scored[i], a.scores_top));
  for (std::uint32_t i = 0; i + 1 < 20; ++i)
    expect_same(out.scores[1][i], model::score(rows.at({1, i}), b.scored[i], b.scores_top));
  EXPECT_TRUE(std::isinf(out.scores[1][19].logprob));
  EXPECT_EQ(out.scores[1][19].id, 5000);
}

TEST_F(CudaDraws, KeepToWhatASchemaLeaves) {
  auto mask = std::make_shared<model::token_mask>();
  mask->words = {0, std::uint64_t{1} << 6U | std::uint64_t{1} << 30U}; // 70 and 94
  cuda_executor_settings settings;
  settings.blocks = 8;
  settings.allowed = [&](const protocols::step_slice& slice) -> std::shared_ptr<const model::token_mask> {
    if (slice.sampling.json_schema == "broken") throw std::runtime_error("it does not compile");
    return mask;
  };
  auto one = runner(settings);
  std::vector<protocols::step_slice> slices;
  for (unsigned i = 0; i < 5; ++i) {
    slices.push_back(asked(i, i));
    slices.back().sampling.json_schema = i == 2 ? "" : i == 3 ? "broken" : "{}";
    slices.back().sampling.temperature = i < 2 ? 0.0F : 5.0F;
  }
  const auto out = one.step(slices);
  for (const std::size_t i : {0U, 1U, 4U}) {
    const auto& logits = one.logits(static_cast<std::uint32_t>(i));
    EXPECT_TRUE(out.tokens[i].id == 70 || out.tokens[i].id == 94);
    if (i < 2) {
      EXPECT_EQ(out.tokens[i].id, logits[70] >= logits[94] ? 70 : 94);
    }
  }
  auto free = one.logits(2);
  EXPECT_EQ(out.tokens[2].id, model::sampler{}.draw(free, slices[2]).id);
  EXPECT_EQ(out.tokens[3].id, protocols::no_token) << "the request with the broken schema ends, the others go on";
  EXPECT_EQ(out.undrawn.size(), 1U) << "and it is told why";
}

TEST_F(CudaDraws, EndARequestWithASchemaWhereNobodyKnowsTheVocabulary) {
  auto one = runner(2);
  auto slice = asked(1, 0);
  slice.sampling.json_schema = "{}";
  EXPECT_EQ(one.step({slice}).tokens.at(0).id, protocols::no_token);
}

} // namespace
} // namespace godwit::gpu::cuda::testing
