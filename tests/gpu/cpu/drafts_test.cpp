#include "gpu/cpu/tiny_model.hpp"

#include <gtest/gtest.h>

#include <numeric>
#include <vector>

// Speculative decoding on the CPU: what is drawn behind drafts that are right is what is drawn without them.
namespace godwit::gpu::cpu::testing {
namespace {

using protocols::step_slice;
using protocols::token_id;

constexpr std::uint32_t prompt_tokens = 12, answer_tokens = 24;

std::vector<protocols::sampling_params> ways_to_sample() {
  std::vector<protocols::sampling_params> all(5);
  all[0].temperature = 0;
  all[1].seed = 5;
  all[2].seed = 6;
  all[2].top_p = 0.7F;
  all[2].logprobs = 2;
  all[3].seed = 7;
  all[3].frequency_penalty = 1.5F;
  all[3].presence_penalty = 0.5F;
  all[4].temperature = 0;
  all[4].repetition_penalty = 1.7F;
  return all;
}

/// An answer as it goes on, with whatever is drafted.
class decoding {
public:
  decoding(const std::shared_ptr<const packed_model>& model, const protocols::sampling_params& how,
           std::uint32_t threads = 2)
      : run_(model, {.threads = threads, .blocks = 8}), how_(how), tokens_(some_tokens(prompt_tokens, 101, 5)) {
    take(run_.step({slice(0, {})}));
  }
  /// One step; what it drew.
  std::vector<protocols::sampled_token> step(const std::vector<token_id>& drafts) {
    const auto drawn = run_.step({other(), slice(total() - 1, drafts), other()}).tokens;
    return {drawn.begin() + 1, drawn.end() - 1};
  }
  void keep(token_id token) { tokens_.push_back(token); }
  [[nodiscard]] const std::vector<protocols::sampled_token>& drawn() const { return drawn_; }
  void take(const protocols::step_output& out) {
    drawn_.push_back(out.tokens.at(0));
    keep(drawn_.back().id);
  }
  void alone(std::uint32_t upto) {
    while (drawn_.size() < upto) take(run_.step({slice(total() - 1, {})}));
  }

private:
  [[nodiscard]] std::size_t total() const { return tokens_.size(); }
  [[nodiscard]] step_slice slice(std::size_t first, const std::vector<token_id>& drafts) const {
    auto all = tokens_;
    all.insert(all.end(), drafts.begin(), drafts.end());
    const std::vector<std::uint32_t> table{5, 0, 3, 1};
    auto out = slice_of(all, first, all.size() - first, table);
    out.drafted = static_cast<std::uint32_t>(drafts.size());
    out.sample_index = static_cast<std::uint32_t>(total()) - prompt_tokens;
    out.sampling = how_;
    if (how_.penalised()) {
      out.prompt.assign(tokens_.begin(), tokens_.begin() + prompt_tokens);
      out.generated.assign(tokens_.begin() + prompt_tokens, tokens_.end());
    }
    return out;
  }
  /// Others of the step, which draw one token each.
  step_slice other() {
    const std::vector<std::uint32_t> table{others_++ % 2 == 0 ? 6U : 7U};
    return slice_of(some_tokens(4, 101, 9), 0, 4, table);
  }

  runner run_;
  protocols::sampling_params how_;
  std::vector<token_id> tokens_;
  std::vector<protocols::sampled_token> drawn_;
  unsigned others_ = 0;
};

TEST(CpuDrafts, WhatFollowsThemIsWhatFollowsTheAnswer) {
  for (const auto type : {model::data_type::bf16, model::data_type::f32}) {
    const auto config = tiny_config();
    const auto model = pack_model(config, memory_weights(config, type, 11), 1);
    for (const auto& how : ways_to_sample()) {
      decoding plain(model, how);
      plain.alone(answer_tokens);
      for (const std::uint32_t most : {1U, 3U, 16U}) {
        decoding guessed(model, how);
        std::uint32_t known = 1;
        for (unsigned round = 0; known < answer_tokens; ++round) {
          std::vector<token_id> drafts;
          for (auto i = known; i < std::min(answer_tokens, known + most); ++i) drafts.push_back(plain.drawn()[i].id);
          if (drafts.size() == most) drafts.pop_back(); // the step draws one more
          const auto wrong = round % 3 == 1 && !drafts.empty() ? drafts.size() / 2 : drafts.size();
          if (wrong < drafts.size()) drafts[wrong] = (drafts[wrong] + 1) % 101;
          const auto drawn = guessed.step(drafts);
          ASSERT_EQ(drawn.size(), drafts.size() + 1);
          for (std::size_t i = 0; i <= wrong && known < answer_tokens; ++i) {
            ASSERT_EQ(drawn[i], plain.drawn()[known]) << "token " << known << ", draw " << i;
            guessed.keep(drawn[i].id);
            ++known;
          }
        }
      }
    }
  }
}

TEST(CpuDrafts, OneThatCannotBeDrawnIsToldInItsPlace) {
  const auto config = tiny_config();
  const auto model = pack_model(config, memory_weights(config, model::data_type::bf16, 11), 1);
  runner one(model, {.threads = 2, .blocks = 2});
  auto slice = slice_of(some_tokens(5, 101, 1), 0, 5, std::vector<std::uint32_t>{1});
  slice.drafted = 2;
  for (token_id id = 0; id < 101; ++id) slice.forbidden.push_back(id);
  auto other = slice_of(some_tokens(5, 101, 1), 0, 5, std::vector<std::uint32_t>{0});
  other.drafted = 4;
  const auto out = one.step({slice, other});
  ASSERT_EQ(out.tokens.size(), 3U + 5U);
  for (std::size_t i = 0; i < 3; ++i) EXPECT_EQ(out.tokens[i].id, protocols::no_token);
  for (std::size_t i = 3; i < 8; ++i) EXPECT_GE(out.tokens[i].id, 0);
  EXPECT_EQ(out.undrawn.size(), 3U);
}

TEST(CpuDrafts, HaveToFollowATokenThatOneIsDrawnAfter) {
  const auto config = tiny_config();
  const auto model = pack_model(config, memory_weights(config, model::data_type::bf16, 11), 1);
  runner one(model, {.threads = 1, .blocks = 2});
  auto slice = slice_of(some_tokens(5, 101, 1), 0, 5, std::vector<std::uint32_t>{1});
  slice.drafted = 5;
  EXPECT_THROW((void)one.step({slice}), std::invalid_argument);
  slice.drafted = 2;
  slice.samples = false;
  EXPECT_THROW((void)one.step({slice}), std::invalid_argument);
}

} // namespace
} // namespace godwit::gpu::cpu::testing
