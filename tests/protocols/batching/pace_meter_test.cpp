// What an instance learns of itself by its steps.
#include <godwit/protocols/batching/pace_meter.hpp>
#include <godwit/protocols/policy/expected_latency.hpp>
#include <godwit/protocols/workload/random.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>

namespace godwit::protocols {
namespace {

/// A device whose steps take 2 ms, 0.1 ms more for each that decodes, 20 us for each token of a prompt and 5 ns for
/// each that it attends to.
struct device {
  static constexpr double base = 2e6, decode = 1e5, token = 2e4, pair = 5;

  static step_sample step(std::uint32_t decodes, std::uint32_t first = 0, std::uint32_t upto = 0) {
    step_sample s;
    s.decodes = s.decoding = s.decoded_tokens = decodes;
    s.prompt_tokens = upto - first;
    s.prompt_pairs = attention_pairs(first, upto);
    s.took_ns = static_cast<std::int64_t>((decodes > 0 ? base + decode * decodes : 0) + token * s.prompt_tokens +
                                          pair * s.prompt_pairs);
    return s;
  }
};

TEST(PaceMeter, KnowsNothingBeforeItHasSeenAPrompt) {
  pace_meter meter;
  EXPECT_FALSE(meter.pace(0, 0, 0).knows_prompts);
  meter.took(device::step(3));
  const auto pace = meter.pace(3, 10, 3);
  EXPECT_FALSE(pace.knows_prompts);
  EXPECT_DOUBLE_EQ(pace.step, 2.3e6);
  EXPECT_DOUBLE_EQ(pace.decode, 2.3e6);
  EXPECT_EQ(meter.missed(), 1);
}

TEST(PaceMeter, TellsWhatTokensCostFromWhatTheyAttendTo) {
  pace_meter meter;
  workload::counter_random random(1);
  for (int i = 0; i < 300; ++i) {
    const auto decodes = static_cast<std::uint32_t>(4 + random.below(3));
    meter.took(device::step(decodes));
    const auto first = static_cast<std::uint32_t>(random.below(20) * 512);
    meter.took(device::step(decodes, first, first + 100 + static_cast<std::uint32_t>(random.below(400))));
  }
  const auto pace = meter.pace(5, 10, 5);
  EXPECT_NEAR(pace.token, device::token, device::token * 0.05);
  EXPECT_NEAR(pace.pair, device::pair, device::pair * 0.05);
  EXPECT_NEAR(pace.step, 2.5e6, 0.15e6);
  EXPECT_NEAR(meter.pace(0, 10, 5).step, 2.4e6, 0.1e6) << "nobody decodes: as little as there was";
  EXPECT_EQ(meter.pace(0, 10, 5).decode, 0);
}

// Four stages, all of them busy: each step takes 8 ms, and one ends every two.
TEST(PaceMeter, TellsHowManyStepsOverlap) {
  pace_meter alone, overlapping;
  EXPECT_EQ(alone.pace(1, 1, 1).overlap, 1);
  for (int i = 0; i < 200; ++i) {
    auto step = i % 4 == 0 ? device::step(4, 0, 300) : device::step(4);
    step.blocks_granted = 1;
    step.blocks_used = 100;
    alone.took(step);
    step.alone_ns = step.took_ns / 4;
    overlapping.took(step);
  }
  const auto one = alone.pace(4, 100, 1), four = overlapping.pace(4, 100, 1);
  EXPECT_EQ(one.overlap, 1);
  EXPECT_NEAR(four.overlap, 4, 0.01);
  EXPECT_EQ(four.step, one.step) << "of a whole step";
  EXPECT_EQ(four.token, one.token);
  EXPECT_EQ(four.decode, one.decode);
  EXPECT_LT(four.block, one.block) << "what becomes free does in less time";
  EXPECT_NEAR(static_cast<double>(overlapping.prompt_ns_total()), static_cast<double>(alone.prompt_ns_total()) / 4,
              static_cast<double>(alone.prompt_ns_total()) * 0.001);
}

TEST(PaceMeter, PutsAllDownToTheTokensWherePromptsAreAlike) {
  pace_meter meter;
  for (int i = 0; i < 100; ++i) meter.took(device::step(0, 0, 512));
  const auto pace = meter.pace(0, 0, 0);
  const auto took = static_cast<double>(device::step(0, 0, 512).took_ns);
  EXPECT_NEAR(512 * pace.token + attention_pairs(0, 512) * pace.pair, took, took * 0.01);
  EXPECT_NEAR(512 * pace.token, took, took * 0.01);
}

TEST(PaceMeter, ForgetsAnotherPace) {
  pace_meter meter;
  for (int i = 0; i < 500; ++i) meter.took(device::step(0, 0, static_cast<std::uint32_t>(100 + i % 7 * 60)));
  auto slower = device::step(0, 0, 400);
  const auto before = meter.pace(0, 0, 0);
  slower.took_ns *= 3;
  for (int i = 0; i < 500; ++i) meter.took(slower);
  const auto after = meter.pace(0, 0, 0);
  const auto of = [](const step_pace& p) { return 400 * p.token + attention_pairs(0, 400) * p.pair; };
  EXPECT_NEAR(of(after), 3 * of(before), 0.1 * of(before));
}

TEST(PaceMeter, FewerThatDecodeTakeLess) {
  pace_meter meter;
  meter.took(device::step(1));
  for (int i = 0; i < 50; ++i) meter.took(device::step(40));
  EXPECT_NEAR(meter.pace(40, 0, 0).step, 6e6, 0.1e6);
  EXPECT_NEAR(meter.pace(20, 0, 0).step, 4e6, 0.1e6);
  EXPECT_NEAR(meter.pace(10, 0, 0).step, 3e6, 0.1e6);
  EXPECT_NEAR(meter.pace(0, 0, 0).step, 2.1e6, 0.1e6);
  EXPECT_NEAR(meter.pace(80, 0, 0).step, 6e6, 0.1e6) << "nothing is known of more";
}

TEST(PaceMeter, CountsWhatPromptsTookButNotWhatOthersDidBesideThem) {
  pace_meter meter;
  meter.took(device::step(0, 0, 500));
  EXPECT_EQ(meter.prompt_ns_total(), static_cast<std::uint64_t>(device::step(0, 0, 500).took_ns)) << "all of it";
  for (int i = 0; i < 50; ++i) meter.took(device::step(40));
  const auto before = meter.prompt_ns_total();
  meter.took(device::step(40, 0, 500));
  EXPECT_NEAR(static_cast<double>(meter.prompt_ns_total() - before),
              static_cast<double>(device::step(0, 0, 500).took_ns), 0.1e6);
  meter.took(device::step(40));
  auto quick = device::step(40, 0, 10);
  quick.took_ns = 1;
  const auto then = meter.prompt_ns_total();
  meter.took(quick);
  EXPECT_EQ(meter.prompt_ns_total(), then) << "never less than nothing";
}

// A request of a few tokens says how long a step takes, and nothing of its tokens.
TEST(PaceMeter, DoesNotTakeAStepForItsTokens) {
  pace_meter meter;
  step_sample few;
  few.took_ns = 20'000'000;
  few.prompt_tokens = 4;
  few.prompt_pairs = 10;
  meter.took(few);
  EXPECT_EQ(meter.pace(0, 0, 0).token, 0);
  EXPECT_EQ(meter.pace(0, 0, 0).step, 20e6);
  few.took_ns = 30'000'000;
  few.prompt_tokens = 500;
  few.prompt_pairs = attention_pairs(0, 500);
  meter.took(few);
  EXPECT_NEAR(meter.pace(0, 0, 0).token, 20e3, 1e3);
}

TEST(PaceMeter, IsNotMisledByAMachineThatStoodStill) {
  pace_meter meter;
  for (int i = 0; i < 100; ++i) meter.took(device::step(0, 0, 400 + i));
  const auto of = [&] { return 450 * meter.pace(0, 0, 0).token + attention_pairs(0, 450) * meter.pace(0, 0, 0).pair; };
  const double before = of();
  auto still = device::step(0, 0, 450);
  still.took_ns += 60'000'000'000;
  meter.took(still);
  EXPECT_LT(of(), 1.2 * before);
  for (int i = 0; i < 400; ++i) {
    auto slow = device::step(0, 0, 400 + i % 100);
    slow.took_ns *= 50;
    meter.took(slow);
  }
  EXPECT_NEAR(of(), 50 * before, 5 * before) << "it is slow now";
}

// Cold weights, and kernels that are compiled when they are first run.
TEST(PaceMeter, SoonForgetsAFirstStepThatWasSlow) {
  pace_meter meter;
  auto cold = device::step(0, 0, 600);
  cold.took_ns = 8'000'000'000;
  meter.took(cold);
  const auto expected = [&] { return 600 * meter.pace(0, 0, 0).token; };
  EXPECT_NEAR(expected(), 8e9, 1e7);
  const auto warm = device::step(0, 0, 600);
  for (int i = 0; i < 4; ++i) meter.took(warm);
  EXPECT_LT(expected(), 4 * static_cast<double>(warm.took_ns));
  for (int i = 0; i < 20; ++i) meter.took(warm);
  EXPECT_LT(expected(), 2 * static_cast<double>(warm.took_ns));
}

// A health probe, and then a full batch for ever.
TEST(PaceMeter, SoonForgetsALightStepThatWasSlow) {
  pace_meter meter;
  step_sample cold;
  cold.took_ns = 500'000'000;
  cold.prompt_tokens = 8;
  cold.prompt_pairs = 36;
  meter.took(cold);
  for (int i = 0; i < 200; ++i) {
    meter.took(device::step(32));
    if (i % 4 == 0) meter.took(device::step(32, 0, 200 + static_cast<std::uint32_t>(i)));
  }
  const auto pace = meter.pace(32, 0, 0);
  EXPECT_NEAR(pace.step, 5.2e6, 0.1e6);
  EXPECT_NEAR(300 * pace.token + attention_pairs(0, 300) * pace.pair, 300 * device::token, 300 * device::token * 0.2);
}

// Steps vary more than such prompts add to them, and nobody may be told that a long one takes seconds.
TEST(PaceMeter, IsNotMisledByShortPromptsAndJitter) {
  for (std::uint64_t seed = 0; seed < 40; ++seed) {
    for (const std::uint32_t decodes : {0U, 60U}) {
      workload::counter_random random(seed);
      const auto jitter = [&](double ns) { return static_cast<std::int64_t>(ns * (0.7 + 0.6 * random.unit())); };
      pace_meter meter;
      for (int i = 0; i < 400; ++i) {
        auto decode = device::step(1 + static_cast<std::uint32_t>(random.below(decodes + 1U)));
        decode.took_ns = jitter(10e6 + device::decode * decode.decodes);
        meter.took(decode);
        if (random.below(4) != 0) continue;
        const auto most = seed % 2 == 0 ? 8U : 40U;
        auto s = device::step(static_cast<std::uint32_t>(random.below(decodes + 1U)), 0,
                              1 + static_cast<std::uint32_t>(random.below(most)));
        s.took_ns = jitter(10e6 + device::decode * s.decodes + device::token * s.prompt_tokens);
        meter.took(s);
      }
      const auto pace = meter.pace(0, 0, 0);
      const double expected = 16 * pace.step + 8000 * pace.token + attention_pairs(0, 8000) * pace.pair;
      EXPECT_LT(expected, (decodes == 0 ? 3 : 6) * (16 * 10e6 + 8000 * device::token)) << seed << ' ' << decodes;
    }
  }
}

// As Llumnix's are where a handful of prompts came by then.
TEST(PaceMeter, SeesNothingInChance) {
  for (std::uint64_t seed = 0; seed < 50; ++seed) {
    workload::counter_random random(seed);
    pace_meter meter;
    for (int i = 0; i < 24; ++i) {
      auto step = device::step(0, 0, 20 + static_cast<std::uint32_t>(random.below(60)));
      step.took_ns = static_cast<std::int64_t>(2e6 + 1e5 * step.prompt_tokens * (0.9 + 0.2 * random.unit()));
      meter.took(step);
    }
    const auto pace = meter.pace(0, 0, 0);
    EXPECT_LT(6000 * pace.token + attention_pairs(0, 6000) * pace.pair, 5 * 6000 * 1.3e5) << seed;
  }
}

TEST(PaceMeter, CountsWhatEachRequestWaitsForAToken) {
  pace_meter meter;
  auto step = device::step(10);
  step.decoded_tokens = 30; // with drafts
  meter.took(step);
  EXPECT_DOUBLE_EQ(meter.pace(10, 0, 0).decode, 1e6);
}

TEST(PaceMeter, KnowsWhatPrefixCachesLeave) {
  pace_meter meter;
  for (int i = 0; i < 100; ++i) meter.started(1000, i % 2 == 0 ? 1000 : 500);
  EXPECT_NEAR(meter.missed(), 0.75, 0.01);
}

// A pool of which a request holds 10 blocks for 2 s.
TEST(PaceMeter, KnowsHowSoonBlocksAndPlacesAreLeft) {
  pace_meter meter;
  EXPECT_NEAR(meter.pace(0, 100, 4).block, pace_meter::usual_stay_ns / 100, 1e3) << "nothing is known";
  step_sample step;
  step.took_ns = 10'000'000;
  for (int i = 0; i < 20'000; ++i) { // 20 requests, one of which ends each 100 ms, and another one starts
    step.blocks_used = 200;
    step.places_used = 20;
    step.blocks_granted = i == 0 ? 200 : (i % 10 == 0 ? 10 : 0);
    step.places_granted = i == 0 ? 20 : (i % 10 == 0 ? 1 : 0);
    meter.took(step);
  }
  const auto pace = meter.pace(20, 200, 20);
  EXPECT_NEAR(pace.block, 10e6, 1e6);
  EXPECT_NEAR(pace.place, 100e6, 10e6);
  EXPECT_NEAR(meter.pace(10, 100, 10).block, 20e6, 2e6) << "half of it is in use, and left half as soon";
  // Requests only grow: what is left is bounded from below.
  step.blocks_granted = step.places_granted = 0;
  for (int i = 0; i < 20'000; ++i) {
    ++step.blocks_used;
    meter.took(step);
  }
  EXPECT_NEAR(meter.pace(20, 1000, 20).block, pace_meter::longest_stay_ns / 1000, 1);
}

TEST(PaceMeter, IsFiniteWhateverComes) {
  for (std::uint64_t seed = 0; seed < 200; ++seed) {
    workload::counter_random random(seed);
    pace_meter meter;
    for (int i = 0; i < 100; ++i) {
      const auto some = [&](std::uint64_t most) { return random.below(3) == 0 ? 0 : random.below(most); };
      step_sample s;
      s.took_ns = static_cast<std::int64_t>(some(1'000'000'000)) - 10;
      s.prompt_tokens = static_cast<std::uint32_t>(some(100'000));
      s.prompt_pairs = static_cast<double>(some(1'000'000'000'000));
      s.decodes = static_cast<std::uint32_t>(some(1000));
      s.decoding = s.decodes;
      s.decoded_tokens = static_cast<std::uint32_t>(some(5000));
      s.blocks_granted = static_cast<std::int64_t>(some(10'000)) - 5'000;
      s.blocks_used = some(100'000);
      s.places_granted = static_cast<std::int64_t>(some(100)) - 50;
      s.places_used = some(1000);
      meter.took(s);
      meter.started(static_cast<std::uint32_t>(some(1000)), 0);
      const auto p = meter.pace(some(100), some(100'000), some(1000));
      for (const double x : {p.step, p.token, p.pair, p.decode, p.block, p.place, meter.missed()})
        ASSERT_TRUE(std::isfinite(x) && x >= 0) << seed;
    }
  }
}

} // namespace
} // namespace godwit::protocols
