#include "main/profile_fit.hpp"
#include "main/profile_measure.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <stdexcept>

namespace godwit::main {
namespace {

using gpu::sim::latency_model;

// A device that is exactly as the model says.
latency_model device() {
  latency_model out;
  out.base_us = out.per_decode_us = 0;
  out.linear.points = {{1, 900}, {16, 1000}, {64, 1900}, {512, 14'000}};
  out.logits.points = {{1, 100}, {256, 2500}};
  out.per_kv_token_us = 0.3;
  out.per_pair_us = 0.04;
  return out;
}

std::vector<step_sample> measured_on(const latency_model& device, double noise = 0) {
  auto samples = steps_to_measure({512, 256, 2048, 4096});
  for (std::size_t i = 0; i < samples.size(); ++i)
    samples[i].us = predicted_us(device, samples[i].shape) * (1 + noise * std::sin(static_cast<double>(i) * 1.7));
  return samples;
}

TEST(ProfileFit, FindsTheDeviceThatWasMeasured) {
  const auto truth = device();
  const auto fit = fit_steps(measured_on(truth));
  EXPECT_NEAR(fit.per_kv_token_us, truth.per_kv_token_us, 0.02 * truth.per_kv_token_us);
  EXPECT_NEAR(fit.per_pair_us, truth.per_pair_us, 0.02 * truth.per_pair_us);
  for (const std::uint32_t n : {1U, 2U, 13U, 16U, 64U, 200U, 512U})
    EXPECT_NEAR(fit.linear.at(n), truth.linear.at(n), 0.02 * truth.linear.at(n)) << n;
  for (const auto role :
       {step_role::linear, step_role::logits, step_role::decode, step_role::prefill, step_role::check})
    EXPECT_LT(error_of(fit, measured_on(truth), role).mean, 0.02) << to_string(role);
}

TEST(ProfileFit, FindsCachesThatMakeTheFirstPositionsCheaper) {
  auto truth = device();
  truth.kv.points = {{1, 0.1}, {4096, 410}, {65'536, 20'000}};
  const auto fit = fit_steps(measured_on(truth));
  EXPECT_NEAR(fit.kv.at(2048), truth.kv.at(2048), 30);
  EXPECT_LT(error_of(fit, measured_on(truth), step_role::decode).max, 0.02);
  EXPECT_LT(error_of(fit, measured_on(truth), step_role::check).max, 0.1);
}

TEST(ProfileFit, StaysMonotoneAndNearUnderNoise) {
  const auto fit = fit_steps(measured_on(device(), 0.1));
  for (std::uint32_t n = 2; n < 600; ++n) {
    EXPECT_LE(fit.linear.at(n), fit.linear.at(n + 1)) << n;
    EXPECT_LE(fit.logits.at(n), fit.logits.at(n + 1)) << n;
  }
  const auto error = error_of(fit, measured_on(device()), step_role::check);
  EXPECT_GT(error.steps, 5U);
  EXPECT_LT(error.max, 0.15);
}

TEST(ProfileFit, TellsErrorsFromWhatIsNotFittedToo) {
  auto samples = measured_on(device());
  const auto fit = fit_steps(samples);
  for (auto& sample : samples)
    if (sample.role == step_role::check) sample.us *= 2;
  const auto error = error_of(fit, samples, step_role::check);
  EXPECT_NEAR(error.bias, -0.5, 0.02);
  EXPECT_NEAR(error.mean, 0.5, 0.02);
  EXPECT_EQ(fit, fit_steps(samples)) << "what is held out must not be fitted";
}

TEST(StepsToMeasure, StayWithinTheSizesGiven) {
  for (const measured_sizes& sizes : {measured_sizes{512, 256, 2048, 1024}, measured_sizes{8, 4, 64, 9},
                                      measured_sizes{2048, 256, 131'072, 20'000}, measured_sizes{16, 1, 16, 1}}) {
    const auto steps = steps_to_measure(sizes);
    ASSERT_FALSE(steps.empty());
    EXPECT_LT(steps.size(), 200U);
    for (const auto& step : steps) {
      const auto input = step.shape.input();
      EXPECT_EQ(input.tokens(), step.shape.tokens());
      EXPECT_EQ(input.slices.size(), step.shape.sequences());
      EXPECT_LE(input.tokens(), sizes.step_tokens_max);
      EXPECT_LE(step.shape.blocks(), sizes.blocks);
      for (const auto& slice : input.slices) {
        EXPECT_LE(slice.first_position + slice.tokens.size(), sizes.positions_max);
        for (const auto block : slice.blocks) EXPECT_LT(block.value(), sizes.blocks);
      }
    }
  }
}

// Steps of two instances whose factors are drawn, with pauses that grow with the sequences that decode. Every third
// step is the last of its sequences, so that nobody knows what was waited for after it.
std::vector<std::vector<served_step>> served_on(const latency_model& device, const gpu::sim::step_spread& spread,
                                                double pause_us, double each_us, std::size_t count) {
  std::vector<std::vector<served_step>> out(2);
  for (std::uint64_t instance = 0; instance < out.size(); ++instance) {
    gpu::sim::step_factors factors(spread, instance);
    for (std::size_t i = 0; i < count; ++i) {
      served_step one;
      const auto decodes = static_cast<std::uint32_t>(i % 5 + 1);
      one.shape.parts.push_back({decodes, 100, 1, true});
      if (i % 4 == 0) one.shape.parts.push_back({1, 0, 60, true});
      const auto factor = factors.next();
      one.us = factor * predicted_us(device, one.shape);
      if (i % 3 != 0) one.pause_us = factor * (pause_us + decodes * each_us);
      out[instance].push_back(std::move(one));
    }
  }
  return out;
}

TEST(FitServed, FindsThePausesAndTheSpreadThatWereDrawnFrom) {
  gpu::sim::step_spread truth;
  for (int i = 0; i < 20; ++i) truth.factors.push_back(i < 15 ? 0.98 + 0.004 * i : 1 + 0.1 * (i - 14));
  truth.kept = 0.7;
  const auto fit = fit_served(device(), served_on(device(), truth, 200, 10, 20'000));
  EXPECT_EQ(fit.steps, 40'000U);
  const auto usual = truth.factors[10]; // of a pause, too
  EXPECT_NEAR(fit.overhead_us, 200 * usual, 6);
  EXPECT_NEAR(fit.per_decode_us, 10 * usual, 1);
  ASSERT_EQ(fit.spread.factors.size(), 20U);
  for (std::size_t i = 0; i < 20; ++i) EXPECT_NEAR(fit.spread.factors[i], truth.factors[i], 0.03) << i;
  EXPECT_NEAR(mean_factor(fit.spread), mean_factor(truth), 0.005);
  EXPECT_NEAR(fit.spread.kept, truth.kept, 0.05);
}

TEST(FitServed, MakesUpForWhatTheModelOfTheDeviceDoesNotKnow) {
  auto truth = device();
  for (auto& point : truth.linear.points) point.us *= point.count > 32 ? 1.3 : 1; // long steps only
  const auto served = served_on(truth, {}, 200, 0, 100);
  const auto fit = fit_served(device(), served);
  auto model = device();
  model.base_us = fit.overhead_us;
  double said = 0, took = 0;
  for (const auto& steps : served)
    for (const auto& one : steps) {
      said += predicted_us(model, one.shape) * mean_factor(fit.spread);
      took += one.us + 200;
    }
  EXPECT_NEAR(said / took, 1, 0.01);
  EXPECT_TRUE(std::is_sorted(fit.spread.factors.begin(), fit.spread.factors.end()));
}

TEST(FitServed, FindsThatStepsAreIndependentWhereTheyAre) {
  EXPECT_LT(fit_served(device(), served_on(device(), {{0.9, 1, 1.1, 1.5}, 0}, 200, 0, 5000)).spread.kept, 0.1);
}

TEST(FitServed, SaysNothingOfTheSpreadOfFewSteps) {
  const auto few = fit_served(device(), served_on(device(), {{1.1}, 0}, 200, 0, 19));
  EXPECT_TRUE(few.spread.factors.empty());
  EXPECT_GT(few.overhead_us, 0);
  EXPECT_EQ(mean_factor({}), 1);
  const auto still = fit_served(device(), served_on(device(), {}, 200, 0, 100)).spread;
  EXPECT_NEAR(mean_factor(still), 1, 0.001);
}

TEST(FitServed, LeavesOutStepsThatNeverEndedAndFailsWithoutPauses) {
  auto served = served_on(device(), {}, 200, 0, 60);
  for (auto& steps : served) steps.back().us = 0;
  EXPECT_EQ(fit_served(device(), served).steps, 118U);
  for (auto& steps : served)
    for (auto& one : steps) one.pause_us.reset();
  EXPECT_THROW((void)fit_served(device(), served), std::runtime_error);
}

} // namespace
} // namespace godwit::main
