#include "gpu/cuda/device_test.hpp"

#include <godwit/gpu/event.hpp>
#include <godwit/protocols/messages/memory_copier.hpp>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <future>

// A model that several devices share: on emulated GPUs with every build, and on real ones where there are as many
// (ctest -L gpu).
namespace godwit::gpu::cuda::testing {
namespace {

constexpr float rounding = 0.1F; ///< of a log-probability, between one device and several

/// With as many devices as the degree, and the whole model on the first one as well.
class CudaDivided : public ::testing::TestWithParam<std::uint32_t> {
protected:
  void SetUp() override {
    auto found = find_backend(GetParam());
    if (!found.backend) GTEST_SKIP() << found.why_not;
    backend_ = std::move(found.backend);
    upload(four_kv_heads());
  }
  void upload(const model::config& config, model::data_type type = model::data_type::bf16) {
    config_ = config;
    weights_ = std::make_unique<memory_weights>(config, type, 11);
    whole_ = {backend_->upload(0, config, *weights_)};
    parts_ = upload_parts(*backend_, config, *weights_, GetParam());
  }
  [[nodiscard]] std::vector<protocols::token_id> tokens(std::size_t count, unsigned seed) const {
    return some_tokens(count, config_.vocabulary, seed);
  }
  cuda_runner runner(const model_parts& parts, std::uint32_t pool, bool deterministic = false) {
    cuda_executor_settings settings;
    settings.blocks = pool;
    settings.deterministic = deterministic;
    return {*backend_, parts, settings};
  }
  /// Logits of every row, prefilled in chunks.
  std::vector<float> all_logits(const model_parts& parts, const std::vector<protocols::token_id>& text,
                                std::size_t chunk, bool deterministic) {
    std::vector<float> all(text.size() * config_.vocabulary, NAN);
    cuda_executor_settings settings;
    settings.blocks = static_cast<std::uint32_t>(text.size() / 16 + 1);
    settings.step_tokens = 64;
    settings.deterministic = deterministic;
    settings.logits_of_all_rows = true;
    settings.logits_tap = [&](const cpu::logits_row& row) {
      std::ranges::copy(row.values, all.begin() + static_cast<std::ptrdiff_t>(row.position * config_.vocabulary));
    };
    const auto executor = backend_->make_executor(parts, settings, std::chrono::minutes(1));
    std::uint64_t step = 0;
    for (std::size_t first = 0; first < text.size(); first += chunk)
      run_step(*executor, ++step,
               {slice_of(text, first, std::min(chunk, text.size() - first), first_blocks(settings.blocks))});
    return all;
  }

  std::shared_ptr<cuda_backend> backend_;
  model::config config_;
  std::unique_ptr<memory_weights> weights_;
  model_parts whole_, parts_;
};

TEST_P(CudaDivided, GivesTheLogitsOfOneDeviceAndOfTheCpuInBothModes) {
  const auto text = tokens(50, 1);
  const auto expected = cpu::compute_logits(cpu::pack_model(config_, *weights_, 1), text, {.threads = 1});
  const auto cpu_row = [&](std::size_t row) {
    return std::span(expected).subspan(row * config_.vocabulary, config_.vocabulary);
  };
  for (const bool deterministic : {false, true}) {
    auto many = runner(parts_, 8, deterministic), one = runner(whole_, 8, deterministic);
    std::size_t done = 0;
    for (const std::size_t count : {37U, 8U, 1U, 1U, 1U}) { // chunks, then tokens one by one
      for (auto* each : {&many, &one}) each->step({slice_of(text, done, count, blocks{5, 2, 7, 0})});
      done += count;
      EXPECT_LT(distance(many.logits(0), cpu_row(done - 1)), tolerance) << deterministic << " token " << done;
      EXPECT_LT(distance(many.logits(0), one.logits(0)), tolerance) << deterministic << " token " << done;
    }
  }
}

TEST_P(CudaDivided, KnowsModelsWithBiasesWindowsSharedEmbeddingsAndNormedHeads) {
  for (const int variant : {0, 1, 2, 3}) {
    auto config = four_kv_heads();
    config.qkv_bias = variant < 2;
    config.output_bias = config.mlp_bias = variant == 1;
    config.tied_embeddings = variant == 2;
    config.qk_norm = variant == 3;
    if (variant == 1) config.sliding_window = 7;
    if (variant == 2) config.intermediate = 72; // fewer tiles than devices
    upload(config, variant == 2 ? model::data_type::f16 : model::data_type::bf16);
    const auto text = tokens(29, 2);
    const auto expected = cpu::compute_logits(cpu::pack_model(config, *weights_, 1), text, {.threads = 1});
    auto many = runner(parts_, 4, variant == 1);
    many.step({slice_of(text, 0, 28, blocks{3, 1})}, {}, 1);
    many.step({slice_of(text, 28, 1, blocks{3, 1})});
    EXPECT_LT(distance(many.logits(0), std::span(expected).subspan(28 * config.vocabulary)), tolerance) << variant;
  }
}

TEST_P(CudaDivided, DeterministicGivesTheSameBitsInAnyChunks) {
  const auto text = tokens(270, 3); // more rows than have their logits at once
  const auto expected = all_logits(parts_, text, 270, true);
  EXPECT_TRUE(same(all_logits(parts_, text, 100, true), expected));
  const std::vector<protocols::token_id> begin(text.begin(), text.begin() + 20);
  const std::vector<float> first(expected.begin(), expected.begin() + 20 * config_.vocabulary);
  EXPECT_TRUE(same(all_logits(parts_, begin, 7, true), first));
  EXPECT_TRUE(same(all_logits(parts_, begin, 1, true), first));
  EXPECT_LT(distance(expected, cpu::compute_logits(cpu::pack_model(config_, *weights_, 1), text, {.threads = 1})),
            tolerance);
}

TEST_P(CudaDivided, DeterministicGivesARequestInACrowdTheBitsItHasAlone) {
  const auto mine = tokens(45, 4);
  auto alone = runner(parts_, 3, true);
  alone.step({slice_of(mine, 0, 45, blocks{0, 1, 2})});
  auto busy = runner(parts_, 40, true);
  const auto with_others = [&](std::size_t first, std::size_t count, std::uint32_t crowd) {
    busy.step(among_others(slice_of(mine, first, count, blocks{31, 7, 39}), crowd));
    return busy.logits(crowd / 2);
  };
  with_others(0, 37, 5);
  for (std::size_t i = 37; i < 44; ++i) with_others(i, 1, static_cast<std::uint32_t>(i % 4));
  EXPECT_TRUE(same(with_others(44, 1, 7), alone.logits(0)));
}

TEST_P(CudaDivided, GraphsOfDecodesGiveTheTokensOfPlainLaunches) {
  std::vector<std::vector<protocols::token_id>> answers[2];
  for (const bool graphs : {false, true}) {
    cuda_executor_settings settings;
    settings.blocks = 64;
    settings.step_tokens = 16; // grows, so that graphs are captured anew
    settings.graphs = graphs;
    const auto executor = backend_->make_executor(parts_, settings, std::chrono::minutes(1));
    auto& lines = answers[graphs ? 1 : 0];
    std::uint64_t number = 0;
    for (std::uint32_t r = 0; r < 3; ++r) lines.push_back(tokens(4 + 3 * r, r));
    for (std::uint32_t round = 0; round < 18; ++round) {
      std::vector<protocols::step_slice> slices;
      for (std::uint32_t r = 0; r < 3; ++r) {
        if (round > 0 && (round + r) % 4 == 0) continue; // batches of several sizes
        const std::size_t fed = round == 0 ? 0 : lines[r].size() - 1;
        auto& slice = slices.emplace_back(slice_of(lines[r], fed, lines[r].size() - fed, blocks{r * 3, r * 3 + 1}));
        slice.sampling.temperature = r == 0 ? 0.0F : 0.8F;
        slice.sampling.seed = r;
        slice.sample_index = round;
        slice.sampling.presence_penalty = r == 2 ? 0.5F : 0.0F;
        slice.generated = tokens(5, 4);
        slice.forbidden.resize(round < 12 ? 1 : 9000, 1); // a list, which grows where tokens are drawn alone
        if (r == 1) slice.sampling.top_k = 5;
      }
      if (round == 5) slices.push_back(slice_of(tokens(40, 9), 0, 40, blocks{20, 21, 22}));
      const auto out = run_step(*executor, ++number, slices);
      std::size_t next = 0;
      for (std::uint32_t r = 0; r < 3; ++r)
        if (round == 0 || (round + r) % 4 != 0) lines[r].push_back(out.tokens.at(next++).id);
    }
    if (!graphs) continue;
    // All ranks at once, since their graphs meet; one whose last step had none throws.
    std::vector<std::future<double>> seconds;
    for (const auto& rank : executor->shards())
      seconds.push_back(std::async(std::launch::async, [this, rank] { return backend_->time_graphs(*rank, 2); }));
    for (auto& rank : seconds) EXPECT_GT(rank.get(), 0.0);
  }
  EXPECT_EQ(answers[0], answers[1]);
}

/// The same choices, wherever the numbers are further apart than roundings move them.
void expect_alike(const protocols::sampled_token& got, const protocols::sampled_token& expected) {
  EXPECT_NEAR(got.logprob, expected.logprob, rounding);
  ASSERT_EQ(got.top.size(), expected.top.size());
  const auto apart = [&](std::size_t i) {
    return i + 1 < expected.top.size() && expected.top[i].logprob - expected.top[i + 1].logprob > 2 * rounding;
  };
  for (std::size_t i = 0; i < got.top.size(); ++i) {
    EXPECT_NEAR(got.top[i].logprob, expected.top[i].logprob, rounding);
    if ((i == 0 || apart(i - 1)) && apart(i)) {
      EXPECT_EQ(got.top[i].id, expected.top[i].id) << "entry " << i;
    }
  }
}

TEST_P(CudaDivided, DrawsAndScoresAsOneDeviceDoes) {
  const auto text = tokens(20, 5);
  const auto answer = [&](const model_parts& parts) {
    auto on = runner(parts, 8, true);
    auto drawn = slice_of(text, 0, 20, blocks{0, 1});
    drawn.sampling.temperature = 0;
    drawn.sampling.logprobs = 5;
    auto scored = slice_of(text, 0, 20, blocks{2, 3});
    scored.scored.assign(text.begin() + 1, text.end());
    scored.scores_top = 5;
    scored.sampling.temperature = 0;
    return on.step({drawn, scored});
  };
  const auto one = answer(whole_), many = answer(parts_);
  ASSERT_EQ(many.tokens.size(), 2U);
  ASSERT_EQ(many.tokens[0].top.size(), 5U);
  expect_alike(many.tokens[0], one.tokens[0]);
  EXPECT_EQ(many.tokens[0].id, many.tokens[0].top[0].id);
  EXPECT_EQ(many.tokens[1].id, many.tokens[0].id) << "the same text";
  ASSERT_EQ(many.scores.size(), 1U);
  ASSERT_EQ(many.scores[0].size(), 19U);
  for (std::size_t i = 0; i < 19; ++i) {
    EXPECT_EQ(many.scores[0][i].id, one.scores[0][i].id);
    ASSERT_EQ(many.scores[0][i].top.size(), 5U);
    expect_alike(many.scores[0][i], one.scores[0][i]);
  }
  EXPECT_EQ(many.step, one.step);
  EXPECT_GT(many.duration_ns, 0);
}

// Nothing has been summed over devices in layer 0, so the bytes must be the very same.
TEST_P(CudaDivided, ItsDevicesKvPutTogetherIsThatOfOneDevice) {
  const auto text = tokens(40, 6);
  const auto copier = backend_->make_copier(0);
  const auto fetch = [&](std::vector<protocols::memory_region> regions) {
    std::uint64_t bytes = 0;
    for (const auto& region : regions) bytes += region.bytes;
    const auto pinned = copier->allocate_pinned(bytes);
    const event landed;
    copier->gather(std::move(regions), {pinned.get(), bytes, protocols::memory_kind::pinned},
                   protocols::copy_urgency::bulk, [&](const std::string& error) {
                     EXPECT_EQ(error, "");
                     landed.set();
                   });
    landed.wait();
    return std::vector<std::byte>(pinned.get(), pinned.get() + bytes);
  };
  auto one = runner(whole_, 4, true), many = runner(parts_, 4, true);
  for (auto* each : {&one, &many}) each->step({slice_of(text, 0, 40, blocks{2, 0, 3})});
  ASSERT_EQ(many.get().shards().size(), GetParam());
  for (const std::uint32_t block : {2U, 0U}) { // full ones
    const protocols::block_id id(block);
    std::vector<protocols::memory_region> keys, values;
    for (const auto& rank : many.get().shards()) {
      keys.push_back(rank->key_region(0, id));
      values.push_back(rank->value_region(0, id));
    }
    EXPECT_EQ(fetch(keys), fetch({one.get().key_region(0, id)})) << block;
    EXPECT_EQ(fetch(values), fetch({one.get().value_region(0, id)})) << block;
  }
}

TEST_P(CudaDivided, SaysWhatOneDeviceWouldSayOfTheWholeModel) {
  auto one = runner(whole_, 6, true), many = runner(parts_, 6, true);
  const auto &whole = one.get().info(), &info = many.get().info();
  EXPECT_THAT(info.device, HasSubstr(std::to_string(GetParam()) + " x cuda 0, 1"));
  EXPECT_THAT(info.device, HasSubstr("deterministic"));
  EXPECT_EQ(info.blocks, 6U);
  EXPECT_EQ(info.block_bytes, whole.block_bytes);
  EXPECT_EQ(info.kv_layout, whole.kv_layout);
  EXPECT_EQ(info.vocabulary, whole.vocabulary);
  EXPECT_GT(info.weight_bytes, whole.weight_bytes) << "embeddings and norms are everywhere";
  EXPECT_LT(info.weight_bytes, whole.weight_bytes * GetParam());
  cuda_executor_settings settings;
  settings.step_tokens = 16;
  settings.kv_bytes = 10 * info.block_bytes + 1;
  EXPECT_EQ(backend_->make_executor(parts_, settings, std::chrono::minutes(1))->info().blocks, 10U)
      << "room is that of whole blocks";
}

TEST_P(CudaDivided, AStepThatIsAbandonedEndsAtOnceAndADeviceServesTheNextExecutor) {
  const auto text = tokens(60, 7);
  for (const std::uint32_t upto : {0U, 1U, 2U}) {
    cuda_executor_settings settings;
    settings.blocks = 4;
    settings.step_tokens = 64;
    const auto executor = backend_->make_executor(parts_, settings, std::chrono::minutes(1));
    protocols::step_input input;
    input.slices.push_back(slice_of(text, 0, 60, first_blocks(4)));
    auto pass = executor->begin(input);
    if (upto > 0) pass->advance(upto, {});
    pass.reset();
    if (upto < 2) { // else it may have ended before
      EXPECT_THAT(message_of([&] { run_step(*executor, 2, input.slices); }), HasSubstr("a step was abandoned by rank"));
    }
  }
  auto next = runner(parts_, 4);
  EXPECT_EQ(next.step({slice_of(text, 0, 60, first_blocks(4))}).tokens.size(), 1U);
}

TEST_P(CudaDivided, RefusesPartsThatDoNotBelongTogether) {
  cuda_executor_settings settings;
  settings.blocks = 4;
  settings.step_tokens = 16;
  EXPECT_THROW((void)backend_->make_executor({parts_[0]}, settings, std::chrono::minutes(1)), std::invalid_argument);
  EXPECT_THROW((void)backend_->make_executor({parts_[1], parts_[0]}, settings, std::chrono::minutes(1)),
               std::invalid_argument);
  EXPECT_THAT(message_of([&] {
                (void)backend_->upload(0, config_, *weights_, {0, 3});
              }),
              HasSubstr("4 KV heads cannot be divided among 3 devices"));
}

INSTANTIATE_TEST_SUITE_P(Degrees, CudaDivided, ::testing::Values(2U, 4U),
                         [](const auto& param_info) { return "On" + std::to_string(param_info.param); });

} // namespace
} // namespace godwit::gpu::cuda::testing
