#include "gpu/sim/sim_support.hpp"

#include <godwit/gpu/sim/sim_executor.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <numeric>
#include <optional>
#include <set>
#include <utility>
#include <vector>

namespace godwit::gpu::sim::testing {
namespace {

using namespace std::chrono_literals;
using protocols::token_id;

executor_info info_of(std::uint32_t blocks = 32) {
  executor_info info;
  info.device = "sim";
  info.layers = 4;
  info.vocabulary = 500;
  info.positions_max = 1000;
  info.blocks = blocks;
  return info;
}

class SimExecutor : public ::testing::Test {
protected:
  /// Feeds tokens first .. last - 1 over the blocks; the token drawn.
  token_id feed(executor& on, const std::vector<token_id>& tokens, std::size_t first, std::size_t last,
                const std::vector<std::uint32_t>& blocks, std::uint64_t seed = 1,
                std::vector<protocols::block_copy> copies = {}) {
    protocols::step_input input;
    input.slices.push_back(slice(tokens, first, last, blocks, seed));
    input.copies = std::move(copies);
    return run(on, std::move(input)).tokens.at(0).id;
  }
  static protocols::step_slice slice(const std::vector<token_id>& tokens, std::size_t first, std::size_t last,
                                     const std::vector<std::uint32_t>& blocks, std::uint64_t seed = 1) {
    protocols::step_slice out;
    out.first_position = static_cast<std::uint32_t>(first);
    out.tokens.assign(tokens.begin() + static_cast<std::ptrdiff_t>(first),
                      tokens.begin() + static_cast<std::ptrdiff_t>(last));
    for (const auto block : blocks) out.blocks.emplace_back(block);
    out.samples = true;
    out.sampling.seed = seed;
    out.sample_index = static_cast<std::uint32_t>(last);
    return out;
  }
  protocols::step_output run(executor& on, protocols::step_input input) {
    const auto pass = on.begin(std::move(input));
    std::optional<std::string> error;
    pass->advance(pass->layers(), [&](std::string what) { error = std::move(what); });
    timers_.pass(1s);
    EXPECT_EQ(error, "");
    return pass->take();
  }
  static std::vector<token_id> prompt(std::size_t count) {
    std::vector<token_id> tokens(count);
    std::iota(tokens.begin(), tokens.end(), 7);
    return tokens;
  }
  hand_timers timers_;
};

TEST_F(SimExecutor, DrawsBehindDraftsWhatFollowsTheAnswer) {
  for (const auto memory : {sim_memory::hashes, sim_memory::none}) {
    sim_model model;
    model.memory = memory;
    const auto one = make_sim_executor(info_of(), {}, timers_, model),
               two = make_sim_executor(info_of(), {}, timers_, model);
    auto mine = prompt(14);
    std::vector<token_id> answer;
    for (std::size_t first = 0; answer.size() < 8; first = mine.size() - 1) {
      answer.push_back(feed(*one, mine, first, mine.size(), {3, 9}));
      mine.push_back(answer.back());
    }
    EXPECT_EQ(feed(*two, mine, 0, 14, {4, 8}), answer[0]);
    auto guessed = std::vector(mine.begin(), mine.begin() + 19);
    guessed[17] += 1; // answer[3]
    protocols::step_input input;
    input.slices = {slice(guessed, 14, 19, {4, 8})};
    input.slices[0].drafted = 4;
    input.slices[0].sample_index -= 4;
    const auto out = run(*two, std::move(input)).tokens;
    ASSERT_EQ(out.size(), 5U);
    for (std::size_t i = 0; i < 3; ++i) EXPECT_EQ(out[i].id, answer[i + 1]);
    if (memory == sim_memory::hashes) {
      EXPECT_NE(out[3].id, answer[4]) << "that is of another token";
    }
    EXPECT_EQ(feed(*two, mine, 17, 18, {4, 8}), answer[4]) << "whatever was written behind";
  }
}

TEST_F(SimExecutor, RepeatsARefrainAsOftenAsItIsTold) {
  sim_model model;
  model.refrain = 0.75;
  model.memory = sim_memory::none;
  const auto one = make_sim_executor(info_of(), {}, timers_, model);
  std::vector<token_id> said;
  for (std::uint32_t i = 0; i < 800; ++i) {
    protocols::step_input input;
    input.slices = {slice({7}, 0, 1, {1})};
    input.slices[0].sample_index = i;
    said.push_back(run(*one, std::move(input)).tokens.at(0).id);
  }
  std::size_t again = 0;
  for (std::size_t i = sim_refrain_tokens; i < said.size(); ++i)
    again += said[i] == said[i - sim_refrain_tokens] ? 1 : 0;
  const auto share = static_cast<double>(again) / static_cast<double>(said.size() - sim_refrain_tokens);
  EXPECT_NEAR(share, 0.75 * 0.75, 0.06);
}

TEST_F(SimExecutor, DrawsTheSameTokenAloneInACrowdAndInChunks) {
  const auto one = make_sim_executor(info_of(), {}, timers_), two = make_sim_executor(info_of(), {}, timers_);
  const auto mine = prompt(50);
  const auto alone = feed(*one, mine, 0, 50, {0, 1, 2, 3});
  const auto others = prompt(10);
  protocols::step_input input;
  input.slices = {slice(others, 0, 10, {20}), slice(mine, 0, 33, {9, 4, 30}), slice(others, 0, 3, {21})};
  (void)run(*two, std::move(input));
  EXPECT_EQ(feed(*two, mine, 33, 50, {9, 4, 30, 2}), alone);
}

TEST_F(SimExecutor, SaysSomethingElseOverWrongBlocks) {
  const auto one = make_sim_executor(info_of(), {}, timers_);
  const auto tokens = prompt(50);
  const auto right = feed(*one, tokens, 0, 50, {0, 1, 2, 3});
  (void)feed(*one, tokens, 0, 49, {4, 5, 6, 7});
  EXPECT_EQ(feed(*one, tokens, 49, 50, {4, 5, 6, 7}), right);
  EXPECT_NE(feed(*one, tokens, 49, 50, {4, 9, 6, 7}), right);
}

TEST_F(SimExecutor, DependsOnSeedAndTokens) {
  const auto one = make_sim_executor(info_of(), {}, timers_);
  auto tokens = prompt(20);
  std::set<token_id> drawn;
  for (std::uint64_t seed = 0; seed < 10; ++seed) drawn.insert(feed(*one, tokens, 0, 20, {0, 1}, seed));
  for (token_id first = 100; first < 110; ++first) {
    tokens[0] = first;
    drawn.insert(feed(*one, tokens, 0, 20, {0, 1}));
  }
  EXPECT_GT(drawn.size(), 15U);
}

TEST_F(SimExecutor, DependsOnHowARequestIsSampled) {
  const auto one = make_sim_executor(info_of(), {}, timers_);
  const auto draw = [&](auto change) {
    protocols::step_input input;
    input.slices = {slice(prompt(20), 0, 20, {0, 1})};
    change(input.slices[0]);
    return run(*one, std::move(input)).tokens.at(0);
  };
  const auto usual = draw([](auto&) {});
  EXPECT_TRUE(usual.top.empty());
  std::set<token_id> drawn{usual.id};
  drawn.insert(draw([](auto& s) { s.sampling.temperature = 0.5F; }).id);
  drawn.insert(draw([](auto& s) { s.sampling.top_p = 0.5F; }).id);
  drawn.insert(draw([](auto& s) { s.sampling.top_k = 5; }).id);
  drawn.insert(draw([](auto& s) { s.sampling.frequency_penalty = 0.5F; }).id);
  drawn.insert(draw([](auto& s) { s.sampling.logit_bias = {{7, 1.0F}}; }).id);
  drawn.insert(draw([](auto& s) { s.sampling.json_schema = "{}"; }).id);
  drawn.insert(draw([](auto& s) { s.sampling.reasoning = protocols::reasoning_start::thinking; }).id);
  drawn.insert(draw([](auto& s) { s.prompt = {1}; }).id);
  drawn.insert(draw([](auto& s) { s.generated = {1}; }).id);
  drawn.insert(draw([](auto& s) { s.generated = {1, 2}; }).id);
  EXPECT_GT(drawn.size(), 9U) << "two of 500 may be the same";
  const auto told = draw([](auto& s) { s.sampling.logprobs = 3; });
  EXPECT_EQ(told.id, usual.id) << "what is told of a token does not change it";
  EXPECT_LT(told.logprob, 0);
  ASSERT_EQ(told.top.size(), 3U);
  EXPECT_GE(told.top[0].logprob, told.top[2].logprob);
}

TEST_F(SimExecutor, ScoresAPromptAlikeInOneStepAndInChunks) {
  const auto one = make_sim_executor(info_of(), {}, timers_), two = make_sim_executor(info_of(), {}, timers_);
  const auto tokens = prompt(20);
  const auto scores = [&](executor& on, std::size_t first, std::size_t last, const std::vector<std::uint32_t>& blocks) {
    protocols::step_input input;
    input.slices = {slice(tokens, first, last, blocks)};
    for (auto i = first + 1; i < std::min(last + 1, tokens.size()); ++i) input.slices[0].scored.push_back(tokens[i]);
    input.slices[0].scores_top = 2;
    return run(on, std::move(input)).scores.at(0);
  };
  const auto whole = scores(*one, 0, 20, {0, 1});
  ASSERT_EQ(whole.size(), 19U);
  EXPECT_EQ(whole[3].id, tokens[4]);
  EXPECT_EQ(whole[3].top.size(), 2U);
  auto parts = scores(*two, 0, 9, {5});
  for (auto& more : scores(*two, 9, 20, {5, 2})) parts.push_back(std::move(more));
  EXPECT_EQ(parts, whole);
}

TEST_F(SimExecutor, CopiesBlocksAndLetsThemBeMoved) {
  const auto one = make_sim_executor(info_of(), {}, timers_), two = make_sim_executor(info_of(), {}, timers_);
  const auto tokens = prompt(30);
  const auto expected = feed(*one, tokens, 0, 30, {0, 1});
  (void)feed(*one, tokens, 0, 29, {2, 3});
  EXPECT_EQ(feed(*one, tokens, 29, 30, {2, 8}, 1, {{protocols::block_id(3), protocols::block_id(8)}}), expected);
  for (const std::uint32_t block : {2U, 3U}) {
    const auto from = one->key_region(0, protocols::block_id(block)),
               to = two->key_region(0, protocols::block_id(block + 9));
    ASSERT_EQ(from.bytes, to.bytes);
    std::memcpy(to.address, from.address, from.bytes);
  }
  EXPECT_EQ(feed(*two, tokens, 29, 30, {11, 12}), expected);
}

TEST_F(SimExecutor, DrawsItsStepsTimesFromTheSpreadOfTheModel) {
  latency_model latency;
  latency.base_us = 1000;
  latency.linear = {{{1, 0}}};
  latency.per_kv_token_us = 0;
  latency.per_decode_us = 0;
  latency.spread = {{1, 1.5, 2}, 0};
  const auto times = [&](std::uint64_t seed) {
    sim_model says;
    says.seed = seed;
    const auto one = make_sim_executor(info_of(), latency, timers_, says);
    std::vector<std::int64_t> out;
    for (int i = 0; i < 300; ++i) {
      protocols::step_input input;
      input.slices = {slice(prompt(1), 0, 1, {0})};
      out.push_back(run(*one, std::move(input)).duration_ns);
    }
    return out;
  };
  const auto some = times(1);
  EXPECT_EQ(some, times(1));
  EXPECT_NE(some, times(2));
  for (const auto usual : {1'000'000, 1'500'000, 2'000'000}) {
    const auto share = static_cast<double>(std::ranges::count(some, usual)) / 300;
    EXPECT_NEAR(share, 1.0 / 3, 0.1) << usual;
  }
  latency.spread.kept = 1;
  const auto same = times(1);
  EXPECT_EQ(std::ranges::count(same, same.front()), 300);
}

TEST_F(SimExecutor, TakesTheTimeOfTheModelLayerByLayer) {
  latency_model latency;
  latency.base_us = 1000;
  latency.linear = {{{1, 10}}};
  latency.per_kv_token_us = 0;
  const auto one = make_sim_executor(info_of(), latency, timers_);
  protocols::step_input input;
  input.slices = {slice(prompt(100), 0, 100, {0, 1, 2, 3, 4, 5, 6})};
  const auto pass = one->begin(std::move(input));
  int done = 0;
  pass->advance(1, [&](const std::string&) { ++done; });
  timers_.pass(499us);
  EXPECT_EQ(done, 0);
  timers_.pass(1us);
  EXPECT_EQ(done, 1);
  pass->advance(4, [&](const std::string&) { ++done; });
  timers_.pass(1499us);
  EXPECT_EQ(done, 1);
  timers_.pass(1us);
  EXPECT_EQ(done, 2);
  EXPECT_EQ(pass->take().duration_ns, 2'000'000);
}

// Three executors want to begin at once, and their steps take 2 ms: who asks third waits for three plans.
TEST_F(SimExecutor, StandsStillUntilOneSchedulerForAllHasPlannedItsStep) {
  latency_model latency;
  latency.base_us = 1000;
  latency.linear = {{{1, 10}}};
  latency.per_kv_token_us = 0;
  sim_model model;
  model.central = std::make_shared<central_scheduler>(100us, 50us);
  model.books = std::make_shared<step_books>();
  std::vector<std::unique_ptr<executor>> all;
  for (int i = 0; i < 3; ++i) all.push_back(make_sim_executor(info_of(), latency, timers_, model));
  const auto begin = [&](executor& on) {
    protocols::step_input input;
    input.slices = {slice(prompt(100), 0, 100, {0, 1, 2, 3, 4, 5, 6})};
    return on.begin(std::move(input));
  };
  std::vector<std::unique_ptr<forward>> passes;
  std::vector<int> done;
  for (int i = 0; i < 3; ++i) {
    passes.push_back(begin(*all[i]));
    passes.back()->advance(4, [&done, i](const std::string&) { done.push_back(i); });
  }
  timers_.pass(2150us - 1ns);
  EXPECT_TRUE(done.empty());
  timers_.pass(1ns);
  EXPECT_EQ(done, (std::vector{0}));
  timers_.pass(300us);
  EXPECT_EQ(done, (std::vector{0, 1, 2}));
  EXPECT_EQ(passes[2]->take().duration_ns, 2'000'000) << "the step itself";
  const auto late = begin(*all[0]); // nobody else wants anything now
  late->advance(1, [&](const std::string&) { done.push_back(9); });
  timers_.pass(650us - 1ns);
  EXPECT_EQ(done.size(), 3U);
  timers_.pass(1ns);
  EXPECT_EQ(done.back(), 9);
  late->advance(2, [&](const std::string&) { done.push_back(10); });
  timers_.pass(500us);
  EXPECT_EQ(done.back(), 10) << "only the first layer waits for the plan";
  EXPECT_EQ(model.central->steps(), 4U);
  EXPECT_EQ(model.central->stalls(), 1050us);
  EXPECT_EQ(model.central->longest_stall(), 450us);
  EXPECT_EQ(model.books->steps, 3U) << "the last one has not ended";
  EXPECT_EQ(model.books->requests, 3U);
  EXPECT_EQ(model.books->tokens, 300U);
  EXPECT_EQ(model.books->busy, 6ms);
}

/// What copies have taken as the test says, and what steps were told to pay.
struct told_load final : copy_load {
  std::chrono::nanoseconds taken() override { return so_far; }
  void slowed(std::chrono::nanoseconds alone, std::chrono::nanoseconds more, bool decodes) override {
    paid.emplace_back(alone, more);
    decoding += decodes ? 1 : 0;
  }
  std::chrono::nanoseconds so_far{0};
  std::vector<std::pair<std::chrono::nanoseconds, std::chrono::nanoseconds>> paid;
  int decoding = 0; ///< of these
};

class SimExecutorCopies : public SimExecutor {
protected:
  std::unique_ptr<executor> make(sim_memory memory) {
    latency_model latency;
    latency.base_us = 1000;
    latency.linear = {{{1, 10}}};
    latency.per_kv_token_us = 0;
    sim_model model;
    model.copies = copies_;
    model.memory = memory;
    return make_sim_executor(info_of(), latency, timers_, std::move(model));
  }
  std::unique_ptr<forward> begin(executor& on) { // a step of 2 ms
    protocols::step_input input;
    input.slices = {slice(prompt(100), 0, 100, {0, 1, 2, 3, 4, 5, 6})};
    return on.begin(std::move(input));
  }
  std::shared_ptr<told_load> copies_ = std::make_shared<told_load>();
};

TEST_F(SimExecutorCopies, AStepTakesSoMuchLongerAsCopiesTookMeanwhile) {
  for (const auto memory : {sim_memory::hashes, sim_memory::none}) {
    copies_->paid.clear();
    const auto one = make(memory);
    copies_->so_far += 5ms; // before the step: nothing to it
    const auto pass = begin(*one);
    bool done = false;
    pass->advance(4, [&](const std::string& error) {
      EXPECT_EQ(error, "");
      done = true;
    });
    timers_.pass(1ms);
    copies_->so_far += 30us;
    timers_.pass(1ms);
    copies_->so_far += 1ms; // while it makes up for those: left out
    timers_.pass(29us);
    EXPECT_FALSE(done);
    timers_.pass(1us);
    EXPECT_TRUE(done);
    EXPECT_EQ(pass->take().duration_ns, 2'030'000);
    EXPECT_EQ(copies_->paid, (std::vector{std::pair{std::chrono::nanoseconds(2ms), std::chrono::nanoseconds(30us)}}));
  }
}

TEST_F(SimExecutorCopies, SaysWhichStepsOnlyDecode) {
  const auto one = make(sim_memory::none);
  const auto slow_step = [&](std::vector<protocols::step_slice> slices) {
    protocols::step_input input;
    input.slices = std::move(slices);
    const auto pass = one->begin(std::move(input));
    pass->advance(4, [](const std::string&) {});
    copies_->so_far += 1us;
    timers_.pass(1s);
  };
  slow_step({slice(prompt(40), 39, 40, {0, 1, 2}), slice(prompt(3), 0, 3, {5})});
  EXPECT_EQ(copies_->decoding, 0);
  slow_step({slice(prompt(40), 39, 40, {0, 1, 2}), slice(prompt(4), 3, 4, {5})});
  EXPECT_EQ(copies_->decoding, 1);
  EXPECT_EQ(copies_->paid.size(), 2U);
}

TEST_F(SimExecutorCopies, OnlyTheLastLayersPay) {
  const auto one = make(sim_memory::none);
  const auto pass = begin(*one);
  int done = 0;
  pass->advance(2, [&](const std::string&) { ++done; });
  copies_->so_far += 50us;
  timers_.pass(1ms);
  EXPECT_EQ(done, 1);
  pass->advance(4, [&](const std::string&) { ++done; });
  timers_.pass(1ms);
  EXPECT_EQ(done, 1);
  timers_.pass(50us);
  EXPECT_EQ(done, 2);
}

TEST_F(SimExecutorCopies, AStepThatNothingWasCopiedInIsAsEver) {
  const auto one = make(sim_memory::none);
  EXPECT_EQ(run(*one,
                [] {
                  protocols::step_input input;
                  input.slices = {slice(prompt(100), 0, 100, {0, 1, 2, 3, 4, 5, 6})};
                  return input;
                }())
                .duration_ns,
            2'000'000);
  EXPECT_TRUE(copies_->paid.empty());
}

TEST_F(SimExecutorCopies, AStepIsForgottenWhileItMakesUpForThem) {
  const auto one = make(sim_memory::none);
  auto pass = begin(*one);
  pass->advance(4, [](const std::string&) { FAIL() << "it is gone"; });
  copies_->so_far += 1ms;
  timers_.pass(2500us);
  pass.reset();
  EXPECT_EQ(timers_.waiting(), 0U);
  timers_.pass(1s);
}

TEST_F(SimExecutor, ForgetsAStepThatIsDestroyed) {
  const auto one = make_sim_executor(info_of(), {}, timers_);
  protocols::step_input input;
  input.slices = {slice(prompt(3), 0, 3, {0})};
  auto pass = one->begin(std::move(input));
  pass->advance(4, [](const std::string&) { FAIL() << "it is gone"; });
  pass.reset();
  EXPECT_EQ(timers_.waiting(), 0U);
  timers_.pass(1s);
}

TEST_F(SimExecutor, EndsAnswersAsOftenAsItIsTold) {
  sim_model says;
  says.eos = {3};
  says.eos_share = 0.25;
  const auto one = make_sim_executor(info_of(), {}, timers_, says);
  EXPECT_EQ(one->info().eos, says.eos);
  int ends = 0;
  for (std::uint64_t seed = 0; seed < 400; ++seed) ends += feed(*one, prompt(5), 0, 5, {0}, seed) == 3 ? 1 : 0;
  EXPECT_NEAR(ends, 100, 35);
}

TEST_F(SimExecutor, NeverDrawsWhatIsForbidden) {
  auto info = info_of();
  info.vocabulary = 10;
  const auto one = make_sim_executor(info, {}, timers_);
  for (std::uint64_t seed = 0; seed < 100; ++seed) {
    protocols::step_input input;
    input.slices = {slice({1, 2, 3}, 0, 3, {0}, seed)};
    input.slices[0].forbidden = {0, 1, 2, 3, 5, 6, 7, 8};
    const auto token = run(*one, std::move(input)).tokens.at(0).id;
    EXPECT_TRUE(token == 4 || token == 9) << token;
  }
}

TEST_F(SimExecutor, WithoutMemoryDrawsByRequestSeedAndIndexAlone) {
  sim_model says;
  says.memory = sim_memory::none;
  const auto one = make_sim_executor(info_of(), {}, timers_, says),
             two = make_sim_executor(info_of(), {}, timers_, says);
  const auto draw = [&](executor& on, std::uint64_t request, std::uint64_t seed, std::size_t end,
                        std::uint32_t others) {
    protocols::step_input input;
    for (std::uint32_t i = 0; i < others; ++i) input.slices.push_back(slice(prompt(9), 0, 9, {20}, i));
    input.slices.push_back(slice(prompt(end), end - 1, end, {3, 4, 5}, seed));
    input.slices.back().request = protocols::request_id(request);
    return run(on, std::move(input)).tokens.back().id;
  };
  std::set<token_id> drawn;
  for (std::size_t end = 1; end < 48; ++end) {
    drawn.insert(draw(*one, 1, 1, end, 0));
    EXPECT_EQ(draw(*one, 1, 1, end, 0), draw(*two, 1, 1, end, 5));
  }
  EXPECT_GT(drawn.size(), 40U);
  EXPECT_NE(draw(*one, 1, 1, 9, 0), draw(*one, 2, 1, 9, 0));
  EXPECT_NE(draw(*one, 1, 1, 9, 0), draw(*one, 1, 2, 9, 0));
  // Neither how it is sampled: what `godwit sim` computes does not hang on it.
  auto penalised = slice(prompt(9), 8, 9, {3});
  penalised.request = protocols::request_id(1);
  penalised.sampling.frequency_penalty = 1;
  penalised.sampling.logprobs = 2;
  penalised.generated = {4};
  protocols::step_input input;
  input.slices = {penalised};
  const auto token = run(*one, std::move(input)).tokens.at(0);
  EXPECT_EQ(token.id, draw(*one, 1, 1, 9, 0));
  EXPECT_TRUE(token.top.empty());
}

TEST_F(SimExecutor, WithoutMemoryStillHasBlocksOfTheSameSizeToMove) {
  sim_model says;
  says.memory = sim_memory::none;
  const auto one = make_sim_executor(info_of(4), {}, timers_, says);
  EXPECT_EQ(one->key_region(0, protocols::block_id(3)).bytes, sim_block_bytes);
  EXPECT_EQ(one->key_region(0, protocols::block_id(4)).bytes, 0U);
  EXPECT_EQ(one->key_region(1, protocols::block_id(3)).bytes, 0U);
  EXPECT_NE(one->info().kv_layout, make_sim_executor(info_of(4), {}, timers_)->info().kv_layout);
}

TEST_F(SimExecutor, RunsOnTheDeviceOfAProfile) {
  const auto device = open_profile("llama-7b-a10");
  ASSERT_TRUE(device);
  const auto one = make_sim_executor(*device, timers_);
  EXPECT_EQ(one->info().blocks, device->kv_blocks);
  protocols::step_input input;
  input.slices = {slice(prompt(40), 39, 40, {1, 2, 3})};
  const auto expected = latency_model(*device).step_time(input);
  EXPECT_EQ(run(*one, std::move(input)).duration_ns, expected.count());
}

TEST_F(SimExecutor, RefusesWhatARealOneRefuses) {
  const auto one = make_sim_executor(info_of(4), {}, timers_);
  for (const auto& bad : {slice(prompt(20), 0, 20, {0}), slice(prompt(20), 0, 20, {0, 4}), slice({500}, 0, 1, {0}),
                          slice({-1}, 0, 1, {0}), slice({}, 0, 0, {0})}) {
    protocols::step_input input;
    input.slices = {bad};
    EXPECT_THROW((void)one->begin(std::move(input)), std::invalid_argument);
  }
}

// A draft model: as often right as it is told, where its KV is of the same tokens.
TEST_F(SimExecutor, ADraftModelDrawsWhatTheModelDrawsSoOften) {
  std::vector<token_id> tokens(300);
  std::iota(tokens.begin(), tokens.end(), 1);
  const std::vector<std::uint32_t> blocks{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18};
  const auto model = make_sim_executor(info_of(), {}, timers_);
  const auto right_of = [&](double right, sim_memory memory) {
    sim_model says;
    says.right = right;
    says.memory = memory;
    const auto draft = make_sim_executor(info_of(), {}, timers_, says);
    sim_model plain;
    plain.memory = memory;
    const auto with = make_sim_executor(info_of(), {}, timers_, plain);
    int count = 0;
    for (std::size_t i = 0; i < tokens.size(); ++i)
      count += feed(*draft, tokens, i, i + 1, blocks) == feed(*with, tokens, i, i + 1, blocks) ? 1 : 0;
    return count / 300.0;
  };
  for (const auto memory : {sim_memory::hashes, sim_memory::none}) {
    EXPECT_EQ(right_of(1, memory), 1.0);
    EXPECT_NEAR(right_of(0.7, memory), 0.7, 0.1);
    EXPECT_EQ(right_of(0, memory), 0.0);
  }
  auto other = tokens;
  other[3] = 77;
  EXPECT_NE(feed(*model, tokens, 0, 40, blocks), feed(*model, other, 0, 40, blocks)) << "with other KV it is wrong";
}

TEST_F(SimExecutor, KnowsNobodyToAskForDrafts) {
  const auto one = make_sim_executor(info_of(), {}, timers_);
  protocols::step_input input;
  input.slices.push_back(slice({1, 2}, 0, 2, {0}));
  input.slices[0].drafts_wanted = 1;
  EXPECT_THROW((void)one->begin(std::move(input)), std::invalid_argument);
}

} // namespace
} // namespace godwit::gpu::sim::testing
