#include "protocols/decoding/plain_beam_search.hpp"

#include <godwit/protocols/decoding/beam_search.hpp>
#include <godwit/protocols/ensure.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <random>
#include <span>
#include <vector>

namespace godwit::protocols {
namespace {

using testing_support::plain_beam_search;

/// A model of few tokens, whose next one depends on all before.
class small_model {
public:
  small_model(unsigned seed, std::size_t vocabulary) : seed_(seed), vocabulary_(vocabulary) {}

  [[nodiscard]] std::vector<token_logprob> next(const std::vector<token_id>& behind) const {
    std::uint64_t state = seed_;
    for (const auto token : behind) state = (state ^ static_cast<std::uint64_t>(token + 1)) * 0x9E3779B97F4A7C15ULL;
    std::mt19937_64 random{state};
    std::vector<double> weights(vocabulary_);
    double sum = 0;
    for (auto& w : weights) sum += w = std::exp(std::normal_distribution<double>{0, 2}(random));
    std::vector<token_logprob> out;
    for (std::size_t i = 0; i < vocabulary_; ++i)
      out.emplace_back(static_cast<token_id>(i), static_cast<float>(std::log(weights[i] / sum)));
    std::ranges::stable_sort(out, [](const auto& a, const auto& b) { return a.logprob > b.logprob; });
    return out;
  }

private:
  std::uint64_t seed_;
  std::size_t vocabulary_;
};

std::vector<token_id> ids_of(const beam& one) {
  std::vector<token_id> out;
  for (const auto& token : one.tokens) out.push_back(token.id);
  return out;
}

/// Returns the steps that it took.
std::size_t run(beam_search& search, const small_model& model) {
  std::size_t steps = 0;
  for (; !search.done(); ++steps) {
    std::vector<sampled_token> next;
    for (const auto& one : search.running()) {
      auto& token = next.emplace_back(0);
      token.top = model.next(ids_of(one));
      if (token.top.size() > search.wanted()) token.top.resize(search.wanted());
    }
    search.advance(next);
  }
  return steps;
}

beam_settings settings_of(std::uint32_t width, std::uint32_t tokens_max, std::vector<token_id> ends = {}) {
  beam_settings s;
  s.width = width;
  s.tokens_max = tokens_max;
  s.ends = std::move(ends);
  return s;
}

TEST(BeamSearch, OneBeamWithoutEndsIsGreedy) {
  const small_model model{1, 10};
  beam_search search{settings_of(1, 6)};
  run(search, model);
  std::vector<token_id> greedy;
  for (int i = 0; i < 6; ++i) greedy.push_back(model.next(greedy).front().id);
  ASSERT_EQ(search.answers().size(), 1U);
  EXPECT_EQ(ids_of(search.answers()[0]), greedy);
  EXPECT_FALSE(search.answers()[0].ended);
}

TEST(BeamSearch, WithBeamsForAllAnswersItFindsTheMostProbableOne) {
  for (unsigned seed = 0; seed < 50; ++seed) {
    const small_model model{seed, 3};
    beam_search search{settings_of(81, 4)};
    run(search, model);
    std::pair<double, std::vector<token_id>> best{-std::numeric_limits<double>::infinity(), {}};
    for (int n = 0; n < 81; ++n) {
      std::vector<token_id> answer;
      double logprob = 0;
      for (int i = 0, rest = n; i < 4; ++i, rest /= 3) {
        const auto token = static_cast<token_id>(rest % 3);
        const auto all = model.next(answer);
        logprob += static_cast<double>(std::ranges::find(all, token, &token_logprob::id)->logprob);
        answer.push_back(token);
      }
      best = std::max(best, std::pair{logprob, answer});
    }
    EXPECT_EQ(ids_of(search.answers().front()), best.second) << seed;
    EXPECT_NEAR(search.answers().front().logprob, best.first, 1e-9);
    EXPECT_EQ(search.answers().size(), 81U);
  }
}

// Early ends, lengths and penalties are as without anything clever.
TEST(BeamSearch, FindsWhatAPlainOneFinds) {
  std::size_t ended = 0, early = 0;
  for (unsigned seed = 0; seed < 600; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    std::mt19937 random{seed};
    const auto vocabulary = 2 + random() % 12;
    const small_model model{seed, vocabulary};
    auto settings = settings_of(1 + random() % 5, 1 + random() % 12);
    for (unsigned i = random() % 3; i > 0; --i) settings.ends.push_back(static_cast<token_id>(random() % vocabulary));
    settings.tokens_min = random() % 4 == 0 ? random() % 6 : 0;
    constexpr double penalties[] = {1, 0, 2, 0.5, -1};
    settings.length_penalty = penalties[random() % 5];
    const plain_beam_search plain{[&](const auto& behind) { return model.next(behind); },
                                  settings.width,
                                  settings.tokens_max,
                                  settings.tokens_min,
                                  settings.length_penalty,
                                  settings.ends};
    const auto expected = plain.run();
    beam_search search{settings};
    const auto steps = run(search, model);
    ASSERT_EQ(search.answers().size(), expected.size());
    for (std::size_t i = 0; i < expected.size(); ++i) {
      EXPECT_EQ(ids_of(search.answers()[i]), expected[i].answer);
      EXPECT_NEAR(search.answers()[i].logprob, expected[i].logprob, 1e-9);
      EXPECT_EQ(search.answers()[i].ended, expected[i].ended);
      ended += expected[i].ended ? 1 : 0;
    }
    early += steps < settings.tokens_max ? 1 : 0;
  }
  EXPECT_GT(ended, 300U);
  EXPECT_GT(early, 100U) << "or nothing is gained by looking whether a beam may improve";
}

TEST(BeamSearch, KeepsAsManyAlternativesOfATokenAsAreAskedFor) {
  const small_model model{3, 10};
  auto settings = settings_of(3, 4);
  settings.alternatives = 2;
  beam_search search{settings};
  run(search, model);
  for (const auto& answer : search.answers()) {
    std::vector<token_id> behind;
    for (const auto& token : answer.tokens) {
      const auto all = model.next(behind);
      ASSERT_EQ(token.top.size(), 2U);
      EXPECT_EQ(token.top[0], all[0]);
      EXPECT_EQ(token.top[1], all[1]);
      EXPECT_EQ(token.logprob, std::ranges::find(all, token.id, &token_logprob::id)->logprob);
      behind.push_back(token.id);
    }
  }
}

TEST(BeamSearch, AModelWhoseTokensAllEndHasAnswersOfOneToken) {
  const small_model model{3, 2};
  beam_search search{settings_of(2, 5, {0, 1})};
  EXPECT_EQ(run(search, model), 1U);
  ASSERT_EQ(search.answers().size(), 2U);
  for (const auto& answer : search.answers()) EXPECT_TRUE(answer.ended);
}

// A length of 2,000 to the power of the penalty is a number still.
TEST(BeamSearch, TheLargestPenaltiesPreferTheLongestAndTheShortest) {
  for (const double penalty : {10.0, -10.0}) {
    auto settings = settings_of(1, 2000, {0});
    settings.length_penalty = penalty;
    beam_search search{settings};
    while (!search.done()) {
      sampled_token next{1};
      next.top = {{1, -0.1F}, {2, -5}};
      if (search.running().front().tokens.size() == 1299) next.top = {{0, -0.09F}, {1, -0.1F}};
      search.advance(std::span{&next, 1});
    }
    EXPECT_EQ(search.answers().at(0).tokens.size(), penalty > 0 ? 2000U : 1300U);
  }
}

TEST(BeamSearch, WhatEndsAnAnswerTooEarlyTakesNobodysPlace) {
  const small_model model{5, 6};
  auto settings = settings_of(1, 4, {0, 1, 2, 3});
  settings.tokens_min = 3;
  beam_search search{settings};
  EXPECT_EQ(search.wanted(), 6U);
  run(search, model);
  EXPECT_GE(search.answers().at(0).tokens.size(), 3U);
}

TEST(BeamSearch, WhatCannotBeIsRefused) {
  EXPECT_THROW(beam_search{settings_of(0, 5)}, contract_violation);
  EXPECT_THROW(beam_search{settings_of(1, 0)}, contract_violation);
  auto settings = settings_of(1, 1);
  for (const double wrong : {std::numeric_limits<double>::quiet_NaN(), 10.5, -11.0}) {
    settings.length_penalty = wrong;
    EXPECT_THROW(beam_search{settings}, contract_violation);
  }
  beam_search search{settings_of(2, 3)};
  EXPECT_THROW(search.advance({}), contract_violation) << "a token for each beam";
}

} // namespace
} // namespace godwit::protocols
