#include "gpu/cuda/device_test.hpp"

#include <godwit/gpu/event.hpp>

#include <algorithm>
#include <cstdint>
#include <future>
#include <stdexcept>
#include <thread>

// On the emulated GPU with every build, and on a real one (ctest -L gpu).
namespace godwit::gpu::cuda::testing {
namespace {

using CudaExecutor = device_test;

TEST_F(CudaExecutor, GivesTheLogitsOfTheCpuInBothModes) {
  const auto config = small_config();
  const auto tokens = some_tokens(50, config.vocabulary, 1);
  const auto expected = cpu_logits(config, tokens);
  for (const bool deterministic : {false, true}) {
    auto one = runner(8, deterministic);
    one.step({slice_of(tokens, 0, 37, blocks{5, 2, 7, 0})}); // a chunk, then another, then tokens one by one
    EXPECT_LT(distance(one.logits(0), expected[36]), tolerance) << deterministic;
    one.step({slice_of(tokens, 37, 8, blocks{5, 2, 7, 0})});
    EXPECT_LT(distance(one.logits(0), expected[44]), tolerance) << deterministic;
    for (std::size_t i = 45; i < tokens.size(); ++i) {
      one.step({slice_of(tokens, i, 1, blocks{5, 2, 7, 0})});
      EXPECT_LT(distance(one.logits(0), expected[i]), tolerance) << deterministic << " token " << i;
    }
  }
}

TEST_F(CudaExecutor, KnowsModelsWithBiasesWindowsSharedEmbeddingsAndNormedHeads) {
  for (const int variant : {0, 1, 2, 3, 4, 5}) {
    auto config = small_config();
    config.qkv_bias = variant < 2;
    config.output_bias = config.mlp_bias = variant == 1;
    config.tied_embeddings = variant >= 2;
    if (variant == 3) config.sliding_window = 7;
    config.qk_norm = variant >= 4;
    if (variant == 5) config.head_size = 128;
    model_ = upload(config, variant == 2 ? model::data_type::f16 : model::data_type::bf16);
    const auto tokens = some_tokens(30, config.vocabulary, 2);
    const auto expected = cpu_logits(config, tokens);
    auto one = runner(4, variant == 1 || variant == 4);
    one.step({slice_of(tokens, 0, 28, blocks{3, 1})}, {}, 1);
    EXPECT_LT(distance(one.logits(0), expected[27]), tolerance) << variant;
    for (std::size_t i : {28U, 29U}) one.step({slice_of(tokens, i, 1, blocks{3, 1})});
    EXPECT_LT(distance(one.logits(0), expected[29]), tolerance) << variant;
  }
}

TEST_F(CudaExecutor, RoundsWhatIsKeptInF32) {
  auto config = small_config();
  config.eos = {2, 5};
  model_ = upload(config, model::data_type::f32);
  const auto tokens = some_tokens(20, config.vocabulary, 3);
  auto one = runner(2);
  one.step({slice_of(tokens, 0, 20, blocks{0, 1})});
  EXPECT_LT(distance(one.logits(0), cpu_logits(config, tokens)[19]), 2 * tolerance);
  EXPECT_THAT(one.get().info().device, HasSubstr("bf16"));
  EXPECT_EQ(one.get().info().eos, config.eos);
}

// Orca's selective batching: linear layers over all rows at once, attention per request.
TEST_F(CudaExecutor, DeterministicGivesARequestInACrowdTheBitsItHasAlone) {
  const auto mine = some_tokens(45, 101, 4);
  auto alone = runner(3, true);
  alone.step({slice_of(mine, 0, 45, blocks{0, 1, 2})});
  auto busy = runner(40, true);
  const blocks table{31, 7, 39};
  const auto with_others = [&](std::size_t first, std::size_t count, std::uint32_t crowd) {
    busy.step(among_others(slice_of(mine, first, count, table), crowd));
    return busy.logits(crowd / 2);
  };
  with_others(0, 17, 5);
  with_others(17, 20, 2);
  for (std::size_t i = 37; i < 44; ++i) with_others(i, 1, static_cast<std::uint32_t>(i % 4));
  EXPECT_TRUE(same(with_others(44, 1, 7), alone.logits(0)));
  EXPECT_LT(distance(alone.logits(0), cpu_logits(small_config(), mine)[44]), tolerance);
}

TEST_F(CudaExecutor, AManyPartedContextHasTheBitsOfOnePart) {
  // Longer than one part of the deterministic mode's attention, decoded and prefilled.
  const auto tokens = some_tokens(531, 101, 5);
  const auto table = first_blocks(34);
  auto one = runner(34, true);
  one.step({slice_of(tokens, 0, 530, table)});
  one.step({slice_of(tokens, 530, 1, table)});
  auto other = runner(34, true);
  other.step({slice_of(tokens, 0, 300, table)});
  other.step({slice_of(tokens, 300, 231, table)});
  EXPECT_TRUE(same(one.logits(0), other.logits(0)));
}

TEST_F(CudaExecutor, CopiesBlocksInTheirOrderBeforeItWritesThem) {
  const auto tokens = some_tokens(40, 101, 6);
  auto other = tokens;
  other[36] = (tokens[36] + 1) % 101;
  auto one = runner(8, true);
  one.step({slice_of(tokens, 0, 36, blocks{0, 1, 2})});
  // A fork: the half-filled block 2 is copied to 5 by way of 6; both go on differently.
  const auto copy = [](std::uint32_t from, std::uint32_t to) {
    return protocols::block_copy(protocols::block_id(from), protocols::block_id(to));
  };
  one.step({slice_of(tokens, 36, 1, blocks{0, 1, 2}), slice_of(other, 36, 1, blocks{0, 1, 5})},
           {copy(2, 6), copy(6, 5)});
  const auto left = one.logits(0), right = one.logits(1);
  auto alone = runner(8, true);
  alone.step({slice_of(tokens, 0, 37, blocks{0, 1, 2})});
  EXPECT_TRUE(same(left, alone.logits(0)));
  alone.step({slice_of(other, 0, 37, blocks{3, 4, 5})});
  EXPECT_TRUE(same(right, alone.logits(0)));
}

TEST_F(CudaExecutor, RunsLayerByLayerAsInOneGo) {
  const auto tokens = some_tokens(30, 101, 7);
  auto whole = runner(2), parts = runner(2);
  whole.step({slice_of(tokens, 0, 30, blocks{1, 0})});
  parts.step({slice_of(tokens, 0, 30, blocks{1, 0})}, {}, 1);
  EXPECT_TRUE(same(whole.logits(0), parts.logits(0)));
}

TEST_F(CudaExecutor, TellsOfEachPartOfAStepInOrderWhenAllAreAskedForAtOnce) {
  auto one = runner(2);
  protocols::step_input input;
  input.step = 42;
  input.slices.push_back(slice_of(some_tokens(5, 101, 8), 0, 5, blocks{0}));
  const auto pass = one.get().begin(std::move(input));
  EXPECT_THROW((void)pass->take(), std::logic_error);
  EXPECT_THROW(pass->advance(3, {}), std::invalid_argument);
  std::vector<int> told;
  const event ran;
  pass->advance(1, [&](const std::string& error) { told.push_back(error.empty() ? 1 : -1); });
  pass->advance(2, [&](const std::string& error) {
    told.push_back(error.empty() ? 2 : -2);
    ran.set();
  });
  EXPECT_THROW(pass->advance(2, {}), std::invalid_argument);
  ran.wait();
  EXPECT_EQ(told, (std::vector<int>{1, 2}));
  const auto out = pass->take();
  EXPECT_EQ(out.step, 42U);
  EXPECT_EQ(out.tokens.size(), 1U);
  EXPECT_GT(out.duration_ns, 0);
}

TEST_F(CudaExecutor, TwoOfThemWorkAtTheSameTimeOnTheSameWeights) {
  const auto work = [&](unsigned seed) {
    const auto tokens = some_tokens(24, 101, seed);
    auto own = runner(2, true);
    own.step({slice_of(tokens, 0, 16, blocks{0, 1})});
    for (std::size_t i = 16; i < 24; ++i) own.step({slice_of(tokens, i, 1, blocks{0, 1})});
    return own.logits(0);
  };
  auto first = std::async(std::launch::async, work, 21);
  auto second = std::async(std::launch::async, work, 22);
  const auto together = first.get();
  EXPECT_TRUE(same(together, work(21)));
  EXPECT_TRUE(same(second.get(), work(22)));
}

TEST_F(CudaExecutor, CanBeDestroyedWhileAStepRuns) {
  const auto tokens = some_tokens(200, 101, 9);
  for (const int delay_us : {0, 300, 3000}) {
    cuda_executor_settings settings;
    settings.blocks = 13;
    settings.step_tokens = 64;
    auto executor = backend_->make_executor(model_, settings);
    protocols::step_input input;
    input.slices.push_back(slice_of(tokens, 0, 200, first_blocks(13)));
    auto pass = executor->begin(std::move(input));
    pass->advance(1, {});
    pass->advance(pass->layers(), {});
    std::this_thread::sleep_for(std::chrono::microseconds(delay_us));
    if (delay_us == 0) executor.reset(); // either may go first
    pass.reset();
  }
}

TEST_F(CudaExecutor, TakesTheNextStepAfterOneWasAbandonedAndTellsNothingOfThat) {
  const auto tokens = some_tokens(40, 101, 10);
  auto one = runner(3, true), other = runner(3, true);
  std::atomic<bool> gone = false, told_late = false;
  {
    protocols::step_input input;
    input.slices.push_back(slice_of(tokens, 0, 40, blocks{0, 1, 2}));
    const auto pass = one.get().begin(std::move(input));
    pass->advance(2, [&](const std::string&) { told_late = told_late || gone; });
  }
  gone = true;
  one.step({slice_of(tokens, 0, 40, blocks{0, 1, 2})});
  other.step({slice_of(tokens, 0, 40, blocks{0, 1, 2})});
  EXPECT_TRUE(same(one.logits(0), other.logits(0)));
  EXPECT_FALSE(told_late);
}

TEST_F(CudaExecutor, RefusesWhatACallerMustNotAsk) {
  auto one = runner(4);
  const auto tokens = some_tokens(64, 101, 12);
  const auto good = slice_of(tokens, 0, 20, blocks{0, 1});
  EXPECT_THROW(one.step({}), std::invalid_argument);
  EXPECT_THROW(one.step({slice_of(tokens, 0, 20, blocks{0, 4})}), std::invalid_argument);
  EXPECT_THROW(one.step({good, slice_of(tokens, 0, 5, blocks{1})}), std::invalid_argument);
  EXPECT_THROW((void)one.get().key_region(2, protocols::block_id(0)), std::invalid_argument);
  EXPECT_THROW((void)one.get().value_region(0, protocols::block_id(4)), std::invalid_argument);
  one.step({good}); // and is none the worse for it
  protocols::step_input input;
  input.slices.push_back(good);
  const auto pass = one.get().begin(input);
  EXPECT_THROW((void)one.get().begin(input), std::invalid_argument);
}

TEST_F(CudaExecutor, GraphsOfDecodesGiveTheTokensOfPlainLaunches) {
  std::vector<std::vector<protocols::token_id>> answers[2];
  for (const bool graphs : {false, true}) {
    cuda_executor_settings settings;
    settings.blocks = 64;
    settings.step_tokens = 64;
    settings.graphs = graphs;
    const auto executor = backend_->make_executor(model_, settings);
    auto& lines = answers[graphs ? 1 : 0];
    constexpr std::uint32_t requests = 5;
    std::vector<protocols::step_slice> slices;
    for (std::uint32_t r = 0; r < requests; ++r) {
      lines.push_back(some_tokens(4 + 3 * r, 101, r));
      slices.push_back(slice_of(lines.back(), 0, lines.back().size(), blocks{r * 3, r * 3 + 1, r * 3 + 2}));
    }
    std::uint64_t number = 0;
    for (std::uint32_t round = 0; round < 14; ++round) {
      const auto out = run_step(*executor, ++number, slices);
      slices.clear();
      std::size_t next = 0;
      for (std::uint32_t r = 0; r < requests; ++r) {
        // Requests come and go, so batches of several sizes follow one another; each draws in its own way.
        const bool ran = round == 0 || (round + r) % 3 != 0;
        if (ran) lines[r].push_back(out.tokens.at(next++).id);
        if ((round + 1 + r) % 3 == 0) continue;
        slices.push_back(slice_of(lines[r], lines[r].size() - 1, 1, blocks{r * 3, r * 3 + 1, r * 3 + 2}));
        slices.back().sampling.temperature = r % 2 == 0 ? 0.0F : 0.8F;
        slices.back().sampling.seed = r;
        slices.back().sample_index = round;
        if (r == 3) slices.back().sampling.top_k = 5;
      }
      ASSERT_EQ(next, out.tokens.size());
    }
  }
  EXPECT_EQ(answers[0], answers[1]);
}

TEST_F(CudaExecutor, GraphsFollowContextsThatGrowBeyondTheirBuckets) {
  // Up to 256 positions are one bucket, of one part; behind it there are two parts.
  const auto tokens = some_tokens(261, 101, 13);
  const auto table = first_blocks(17);
  cuda_executor_settings settings;
  settings.blocks = 17;
  settings.step_tokens = 64;
  const auto graphs = backend_->make_executor(model_, settings);
  auto plain = runner(17);
  run_step(*graphs, 1, {slice_of(tokens, 0, 252, table)});
  plain.step({slice_of(tokens, 0, 252, table)});
  for (std::size_t i = 252; i < tokens.size(); ++i) {
    auto slice = slice_of(tokens, i, 1, table);
    slice.sampling.logprobs = 1;
    const auto got = run_step(*graphs, i, {slice}).tokens.at(0), same_as = plain.step({slice}).tokens.at(0);
    EXPECT_EQ(got.id, same_as.id) << i;
    EXPECT_EQ(got.logprob, same_as.logprob) << i;
  }
}

TEST_F(CudaExecutor, SaysWhatItIsAndWhereItsBlocksLie) {
  auto one = runner(6, true);
  const auto& info = one.get().info();
  EXPECT_THAT(info.device, HasSubstr("cuda 0 ("));
  EXPECT_THAT(info.device, HasSubstr("deterministic"));
  EXPECT_EQ(info.blocks, 6U);
  EXPECT_EQ(info.block_bytes, 2U * 2 * 2 * 16 * 32 * 2); // layers, K and V, heads, tokens, size, bytes
  EXPECT_EQ(info.kv_layout, "cuda/bf16/layers 2/heads 2/size 32/v1");
  const auto k = one.get().key_region(1, protocols::block_id(3)), v = one.get().value_region(1, protocols::block_id(3));
  EXPECT_EQ(k.kind, protocols::memory_kind::device);
  EXPECT_EQ(k.bytes, 2U * 16 * 32 * 2);
  EXPECT_EQ(v.address, k.address + k.bytes) << "a block's K and V of one layer travel as one piece";
  EXPECT_GE(info.weight_bytes, weights_->total_bytes());
}

TEST_F(CudaExecutor, TakesForItsPoolWhatItIsToldOrAShareOfTheMemory) {
  cuda_executor_settings settings;
  settings.step_tokens = 16;
  settings.kv_bytes = 100'000;
  EXPECT_EQ(backend_->make_executor(model_, settings)->info().blocks, 100'000U / 8192);
  settings.kv_bytes = 0;
  settings.memory_share = 0.001;
  const auto made = backend_->make_executor(model_, settings);
  const auto pool = made->info().blocks * made->info().block_bytes, all = backend_->devices().front().memory_bytes;
  EXPECT_LE(pool, all / 1000);
  EXPECT_GT(pool, all / 5000);
  settings.kv_bytes = 100;
  EXPECT_THAT(message_of([&] { (void)backend_->make_executor(model_, settings); }),
              HasSubstr("a KV cache of 100 bytes holds no block; one takes 8.0 KiB"));
  settings.kv_bytes = std::uint64_t{1} << 40U;
  EXPECT_THAT(message_of([&] { (void)backend_->make_executor(model_, settings); }), HasSubstr("blocks takes 1.0 TiB"));
}

TEST_F(CudaExecutor, RefusesModelsOfOtherSizesInOneLine) {
  auto config = small_config();
  config.head_size = 20;
  EXPECT_THAT(message_of([&] { (void)upload(config); }), HasSubstr("head_dim = 20 is none of"));
  EXPECT_THAT(message_of([&] { (void)upload(cpu::testing::as_gemma3(small_config())); }),
              ::testing::AllOf(HasSubstr("have no Gemma3ForCausalLM"), HasSubstr("--device cpu serves this model")));
  EXPECT_THAT(message_of([&] { (void)upload(cpu::testing::as_gpt_oss(small_config())); }),
              ::testing::AllOf(HasSubstr("have no GptOssForCausalLM"), HasSubstr("--device cpu serves this model")));
  config = small_config();
  config.vocabulary = 1U << 19U;
  EXPECT_THAT(message_of([&] { (void)upload(config); }), HasSubstr("vocab_size = 524288 is more than 524287"));
  config = small_config();
  config.hidden = 68;
  EXPECT_THAT(message_of([&] { (void)upload(config); }), HasSubstr("hidden_size = 68 is no multiple of 8"));
  EXPECT_THAT(message_of([&] { (void)backend_->upload(77, config, *weights_); }), HasSubstr("no CUDA device 77"));
}

} // namespace
} // namespace godwit::gpu::cuda::testing
