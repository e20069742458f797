#include "cuda/kernels_sampling_input.hpp"

#include "kernels_inline_stream.hpp"
#include "kernels_values.hpp"

#include "model/exponential.hpp"
#include <godwit/gpu/model/philox.hpp>
#include <godwit/gpu/model/sampler.hpp>

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <limits>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

// The GPU's sampler against the CPU's: the same tokens from the same logits.

namespace godwit::gpu::cuda {

namespace {

using namespace testing;
using protocols::step_slice;

constexpr float infinity = std::numeric_limits<float>::infinity();

struct drawn_rows {
  std::vector<sampled_row> rows;
  std::vector<top_entry> top;
  std::uint32_t top_stride = 0;
};

/// One launch for rows of one vocabulary.
drawn_rows run(const std::vector<std::vector<float>>& logits, const sampling_input& input, bool exact_always = false,
               std::uint32_t rows_at_once = 64) {
  const auto size = static_cast<std::uint32_t>(logits.front().size());
  const std::uint32_t stride = (size + 3) / 4 * 4;
  const auto copy = [](const auto& from) {
    aligned<typename std::decay_t<decltype(from)>::value_type> to(from.size());
    std::copy(from.begin(), from.end(), to.begin());
    return to;
  };
  aligned<float> all(std::size_t{stride} * logits.size(), NAN);
  for (std::size_t i = 0; i < logits.size(); ++i)
    std::copy(logits[i].begin(), logits[i].end(), all.begin() + i * stride);
  const auto rows = copy(input.rows);
  const auto masks = copy(input.masks), forbidden = copy(input.forbidden);
  const auto biases = copy(input.biases);
  const auto counts = copy(input.counts);
  drawn_rows result;
  for (const auto& row : input.rows)
    result.top_stride = std::max({result.top_stride, static_cast<std::uint32_t>(std::max(0, row.logprobs)),
                                  static_cast<std::uint32_t>(std::max(0, row.scores_top))});
  aligned<sampled_row> sampled(rows.size());
  aligned<top_entry> top(rows.size() * result.top_stride);
  aligned<std::uint8_t> scratch(std::min<std::size_t>(rows.size(), rows_at_once) * sampling_scratch_bytes(size), 0xFF);
  sampling_job job;
  job.logits = all.data();
  job.logits_stride = stride;
  job.vocabulary = size;
  job.rows = rows.data();
  job.count = static_cast<std::uint32_t>(rows.size());
  job.masks = masks.data();
  job.forbidden = forbidden.data();
  job.biases = biases.data();
  job.counts = counts.data();
  job.sampled = sampled.data();
  job.top = top.data();
  job.top_stride = result.top_stride;
  job.rows_at_once = rows_at_once;
  job.scratch = scratch.data();
  job.exact_always = exact_always;
  inline_stream stream;
  launch(stream, job);
  result.rows.assign(sampled.begin(), sampled.end());
  result.top.assign(top.begin(), top.end());
  return result;
}

/// As a model's: some tokens far above the rest; or flat; or with ties; or with what breaks things.
std::vector<float> random_logits(random_source& random, std::uint32_t size) {
  std::normal_distribution<float> normal(0, 1);
  std::vector<float> logits(size);
  const auto kind = below(random, 10);
  const float scale = kind < 3 ? 1.0F : kind < 6 ? 4.0F : 0.05F;
  for (auto& x : logits) x = normal(random) * scale;
  if (kind % 2 == 0)
    for (std::uint32_t i = 0; i < 5; ++i) logits[below(random, size)] += 8;
  if (kind == 7)
    for (auto& x : logits) x = std::round(x * 40); // ties
  if (kind == 8)
    for (auto& x : logits) x = 0.25F;
  if (kind == 9) {
    for (std::uint32_t i = 0; i < size / 3; ++i) logits[below(random, size)] = -infinity;
    logits[below(random, size)] = NAN;
    if (below(random, 2) == 0) logits[below(random, size)] = infinity;
    if (below(random, 4) == 0) logits.assign(size, below(random, 2) == 0 ? -infinity : NAN);
    if (below(random, 4) == 0) logits[0] = -0.0F;
  }
  return logits;
}

step_slice random_slice(random_source& random, std::uint32_t size) {
  step_slice slice;
  auto& wanted = slice.sampling;
  slice.sample_index = below(random, 1000);
  wanted.seed = std::uint64_t{random()} << 32U | random();
  const auto one_of = [&](const auto& from) {
    return from[below(random, static_cast<std::uint32_t>(std::size(from)))];
  };
  const float temperatures[] = {0.0F, 0.0F, 0.3F, 0.7F, 1.0F, 1.0F, 1.5F, 1e-20F, 100.0F};
  const float top_ps[] = {1.0F, 1.0F, 0.95F, 0.9F, 0.5F, 0.01F, 0.99999994F};
  const float min_ps[] = {0.0F, 0.0F, 0.0F, 0.05F, 0.5F, 1.0F};
  const std::int32_t top_ks[] = {0, 0, 0, 1, 2, 40, 50, 1000000, static_cast<std::int32_t>(size) - 1};
  wanted.temperature = one_of(temperatures);
  wanted.top_p = one_of(top_ps);
  wanted.min_p = one_of(min_ps);
  wanted.top_k = one_of(top_ks);
  const auto any = [&] { return static_cast<protocols::token_id>(below(random, size + 2)) - 1; };
  if (below(random, 3) == 0)
    for (std::uint32_t i = 0; i < 6; ++i) slice.forbidden.push_back(any());
  if (below(random, 3) == 0)
    for (std::uint32_t i = 0; i < 9; ++i)
      wanted.logit_bias.emplace_back(i % 3 == 0 ? 1 : any(), static_cast<float>(below(random, 41)) / 3 - 6);
  if (below(random, 3) == 0) {
    if (below(random, 2) == 0) wanted.repetition_penalty = 1.3F;
    if (below(random, 2) == 0) wanted.frequency_penalty = 0.37F;
    if (below(random, 2) == 0) wanted.presence_penalty = -0.9F;
    for (std::uint32_t i = 0; i < 30; ++i) (i % 2 == 0 ? slice.prompt : slice.generated).push_back(any() % 12);
  }
  const std::int32_t logprobs[] = {-1, -1, -1, -1, -1, -1, -1, -1, 0, 1, 5, 20, 1000};
  wanted.logprobs = one_of(logprobs);
  if (wanted.logprobs > static_cast<std::int32_t>(size)) wanted.logprobs = static_cast<std::int32_t>(size);
  return slice;
}

std::optional<model::token_mask> random_mask(random_source& random, std::uint32_t size) {
  if (below(random, 4) != 0) return std::nullopt;
  model::token_mask mask;
  mask.words.resize((size + 63) / 64 - below(random, 2));
  for (auto& word : mask.words) word = std::uint64_t{random()} << 32U | random();
  mask.must_end = below(random, 2) == 0;
  return mask;
}

std::string describe(const step_slice& slice, std::size_t size) {
  const auto& s = slice.sampling;
  return "vocabulary " + std::to_string(size) + " temperature " + std::to_string(s.temperature) + " top_p " +
         std::to_string(s.top_p) + " top_k " + std::to_string(s.top_k) + " min_p " + std::to_string(s.min_p) +
         " logprobs " + std::to_string(s.logprobs);
}

void expect_near(float got, float right, const std::string& what) {
  if (std::isfinite(right))
    EXPECT_NEAR(got, right, 2e-6F * std::max(1.0F, std::abs(right))) << what;
  else
    EXPECT_EQ(got, right) << what;
}

void expect_same_top(const drawn_rows& got, std::size_t index, const std::vector<protocols::token_logprob>& right,
                     const std::string& what) {
  for (std::size_t i = 0; i < right.size(); ++i) {
    const auto& entry = got.top[index * got.top_stride + i];
    ASSERT_EQ(entry.token, right[i].id) << what << " top " << i;
    expect_near(entry.logprob, right[i].logprob, what);
  }
}

/// Some rows at once, each with its own wishes; returns how many sums were formed in the CPU's order.
std::uint32_t compare(random_source& random, std::uint32_t size, std::uint32_t rows, bool exact_always) {
  std::vector<std::vector<float>> logits;
  std::vector<step_slice> slices;
  std::vector<std::optional<model::token_mask>> masks;
  sampling_input input;
  for (std::uint32_t i = 0; i < rows; ++i) {
    logits.push_back(random_logits(random, size));
    slices.push_back(random_slice(random, size));
    masks.push_back(random_mask(random, size));
    input.add(i);
    input.draw(slices[i], size, masks[i] ? &*masks[i] : nullptr);
  }
  const auto got = run(logits, input, exact_always);
  std::uint32_t walks = 0;
  model::sampler sampler;
  for (std::uint32_t i = 0; i < rows; ++i) {
    const auto what = describe(slices[i], size);
    protocols::sampled_token right;
    try {
      auto own = logits[i];
      right = sampler.draw(own, slices[i], masks[i] ? &*masks[i] : nullptr);
    } catch (const std::runtime_error&) {
      EXPECT_EQ(got.rows[i].token, -1) << what;
      continue;
    }
    EXPECT_EQ(got.rows[i].token, right.id) << what;
    if (got.rows[i].token != right.id) continue;
    if (slices[i].sampling.logprobs >= 0) expect_near(got.rows[i].logprob, right.logprob, what);
    expect_same_top(got, i, right.top, what);
    walks += got.rows[i].exact_walks;
  }
  return walks;
}

} // namespace

TEST(CudaSampling, DrawsTheCpusTokensFromTheSameLogits) {
  random_source random(1);
  std::uint32_t walks = 0;
  for (const std::uint32_t size : {1U, 2U, 7U, 31U, 33U, 64U, 100U, 513U, 1536U})
    walks += compare(random, size, size < 1000 ? 300 : 150, false);
  EXPECT_LT(walks, 30U); // of 2,550 draws: sums in the CPU's order are the exception
}

TEST(CudaSampling, DrawsThemWithEverySumInTheCpusOrder) {
  random_source random(2);
  for (const std::uint32_t size : {2U, 33U, 700U}) EXPECT_GT(compare(random, size, 100, true), 20U);
}

TEST(CudaSampling, DrawsThemFromVocabulariesWhoseListsAreLong) {
  random_source random(3);
  compare(random, 9000, 24, false);
}

TEST(CudaSampling, FewerRowsAtOnceDrawTheSame) {
  random_source random(7);
  std::vector<std::vector<float>> logits;
  sampling_input input;
  for (std::uint32_t i = 0; i < 20; ++i) {
    logits.push_back(random_logits(random, 100));
    input.add(i);
    input.draw(random_slice(random, 100), 100, nullptr);
  }
  const auto right = run(logits, input);
  for (const std::uint32_t at_once : {1U, 3U, 200U}) {
    const auto got = run(logits, input, false, at_once);
    for (std::uint32_t i = 0; i < 20; ++i)
      EXPECT_EQ(got.rows[i].token, right.rows[i].token) << at_once << ", row " << i;
  }
}

// Numbers that fall on a border between two tokens, as near as floating point goes.
TEST(CudaSampling, DoubtfulDrawsAreTheCpus) {
  random_source random(4);
  const std::uint32_t size = 64;
  std::uint32_t walks = 0;
  model::sampler sampler;
  std::vector<std::vector<float>> logits;
  std::vector<step_slice> slices;
  sampling_input input;
  for (std::uint32_t i = 0; i < 64; ++i) {
    // one token has all the weight but for what is less than the sums' errors
    std::vector<float> row(size, -36.5F - static_cast<float>(i) / 32);
    row[i % size] = 0;
    logits.push_back(row);
    step_slice slice;
    slice.sampling.seed = i;
    slice.sampling.top_p = i % 2 == 0 ? 1.0F : 0.99999994F;
    slices.push_back(slice);
    input.add(i);
    input.draw(slice, size, nullptr);
  }
  // a top-p that every sum reaches exactly: four equal tokens, three quarters
  for (std::uint32_t i = 0; i < 8; ++i) {
    std::vector<float> row(size, -infinity);
    for (std::uint32_t k = 0; k < 4; ++k) row[k * 3 + i] = 1.5F;
    logits.push_back(row);
    step_slice slice;
    slice.sampling.seed = i;
    slice.sampling.top_p = 0.75F;
    slices.push_back(slice);
    input.add(64 + i);
    input.draw(slice, size, nullptr);
  }
  const auto got = run(logits, input);
  for (std::uint32_t i = 0; i < slices.size(); ++i) {
    auto own = logits[i];
    EXPECT_EQ(got.rows[i].token, sampler.draw(own, slices[i]).id) << i;
    walks += got.rows[i].exact_walks;
  }
  EXPECT_GE(walks, 8U);
}

// The first four tokens together weigh what the number says, to the last bit of a double: whether one of them or a
// later one is drawn is up to the roundings of the CPU's own sums.
TEST(CudaSampling, NumbersOnABorderFallWhereTheCpusRoundingsPutThem) {
  random_source random(6);
  const std::uint32_t size = 700;
  std::vector<std::vector<float>> logits;
  std::vector<step_slice> slices;
  sampling_input input;
  while (slices.size() < 60) {
    step_slice slice;
    slice.sampling.seed = random();
    const double number = model::uniform(slice.sampling.seed, 0);
    if (number > 0.3 || number < 0.01) continue;
    std::uniform_real_distribution<float> uniform(-36, -3); // so wide that sums in double are rounded
    std::vector<float> row(size);
    for (auto& x : row) x = uniform(random);
    row[100] = 0;
    long double rest = 0;
    for (std::uint32_t i = 4; i < size; ++i) rest += model::exp_nonpositive(row[i]);
    long double wanted = number / (1.0L - number) * rest;
    for (std::uint32_t i = 0; i < 4; ++i) {
      float logit = static_cast<float>(std::log(wanted));
      while (model::exp_nonpositive(logit) > wanted) logit = std::nextafter(logit, -infinity);
      row[i] = logit;
      wanted -= model::exp_nonpositive(logit);
    }
    input.add(static_cast<std::uint32_t>(slices.size()));
    input.draw(slice, size, nullptr);
    logits.push_back(row);
    slices.push_back(slice);
  }
  const auto got = run(logits, input);
  model::sampler sampler;
  std::uint32_t walks = 0, early = 0;
  for (std::uint32_t i = 0; i < slices.size(); ++i) {
    auto own = logits[i];
    const auto right = sampler.draw(own, slices[i]).id;
    EXPECT_EQ(got.rows[i].token, right) << i;
    early += right < 4;
    walks += got.rows[i].exact_walks;
  }
  EXPECT_GE(walks, 50U);
  EXPECT_GE(early, 10U);
  EXPECT_LE(early, 50U);
}

TEST(CudaSampling, ScoresTokensThatAreThere) {
  random_source random(5);
  for (const std::uint32_t size : {5U, 300U}) {
    std::vector<std::vector<float>> logits;
    std::vector<protocols::token_id> tokens;
    sampling_input input;
    for (std::uint32_t i = 0; i < 60; ++i) {
      logits.push_back(random_logits(random, size));
      tokens.push_back(static_cast<protocols::token_id>(below(random, size + 2)) - 1);
      input.add(i);
      input.score(tokens[i], static_cast<std::int32_t>(i % 4));
    }
    const auto got = run(logits, input);
    for (std::uint32_t i = 0; i < 60; ++i) {
      const auto right = model::score(logits[i], tokens[i], static_cast<std::int32_t>(i % 4));
      expect_near(got.rows[i].scored_logprob, right.logprob, "scored");
      expect_same_top(got, i, right.top, "scored");
      EXPECT_EQ(got.rows[i].token, -1);
    }
  }
}

} // namespace godwit::gpu::cuda
