#include "gpu/cuda/device_test.hpp"
#include "gpu/swapped.hpp"

#include <godwit/gpu/pipeline.hpp>

#include <chrono>
#include <optional>
#include <vector>

// A model whose layers lie on several devices: on emulated GPUs with every build, and on real ones where there are as
// many (ctest -L gpu). What one device computes is held to the CPU elsewhere; here several are held to one.
namespace godwit::gpu::cuda::testing {
namespace {

using layer_counts = std::vector<std::uint32_t>;

class CudaStaged : public ::testing::Test {
protected:
  void SetUp() override {
    auto found = find_backend(3);
    if (!found.backend) GTEST_SKIP() << found.why_not;
    backend_ = std::move(found.backend);
    auto config = small_config();
    config.layers = 4;
    upload(config, {1, 2, 1});
  }
  void upload(const model::config& config, const layer_counts& layers, model::data_type type = model::data_type::bf16) {
    config_ = config;
    weights_ = std::make_unique<memory_weights>(config, type, 11);
    whole_ = {backend_->upload(0, config, *weights_)};
    stages_ = upload_stages(*backend_, config, *weights_, layers);
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

  std::shared_ptr<cuda_backend> backend_;
  model::config config_;
  std::unique_ptr<memory_weights> weights_;
  model_parts whole_, stages_;
};

TEST_F(CudaStaged, GivesTheLogitsOfOneDeviceInBothModes) {
  const auto text = tokens(50, 1);
  for (const bool deterministic : {false, true}) {
    auto many = runner(stages_, 8, deterministic), one = runner(whole_, 8, deterministic);
    ASSERT_EQ(many.get().stages().size(), 3U);
    EXPECT_EQ(many.get().info().kv_layout, one.get().info().kv_layout);
    EXPECT_EQ(many.get().info().block_bytes, one.get().info().block_bytes);
    EXPECT_EQ(many.get().info().layers, 4U);
    std::size_t done = 0;
    for (const std::size_t count : {37U, 8U, 1U, 1U, 1U}) { // chunks, then tokens one by one
      for (auto* each : {&many, &one}) each->step({slice_of(text, done, count, blocks{5, 2, 7, 0})});
      done += count;
      if (deterministic)
        EXPECT_TRUE(same(many.logits(0), one.logits(0))) << "token " << done;
      else
        EXPECT_LT(distance(many.logits(0), one.logits(0)), tolerance) << "token " << done;
    }
  }
}

TEST_F(CudaStaged, KnowsModelsWithBiasesWindowsSharedEmbeddingsAndNormedHeads) {
  for (const int variant : {0, 1, 2, 3}) {
    auto config = small_config();
    config.layers = 3;
    config.qkv_bias = variant < 2;
    config.output_bias = config.mlp_bias = variant == 1; // the next norm adds them, which is another stage's
    config.tied_embeddings = variant == 2;
    config.qk_norm = variant == 3;
    if (variant == 1) config.sliding_window = 7;
    upload(config, {2, 1}, variant == 2 ? model::data_type::f16 : model::data_type::bf16);
    const auto text = tokens(29, 2);
    auto many = runner(stages_, 4, true), one = runner(whole_, 4, true);
    for (auto* each : {&many, &one}) {
      each->step({slice_of(text, 0, 28, blocks{3, 1})}, {}, 1);
      each->step({slice_of(text, 28, 1, blocks{3, 1})});
    }
    EXPECT_TRUE(same(many.logits(0), one.logits(0))) << variant;
  }
}

TEST_F(CudaStaged, GraphsOfDecodesGiveTheTokensOfPlainLaunches) {
  std::vector<std::vector<protocols::token_id>> answers[2];
  for (const bool graphs : {false, true}) {
    cuda_executor_settings settings;
    settings.blocks = 64;
    settings.step_tokens = 16; // grows, so that graphs are captured anew
    settings.graphs = graphs;
    settings.warn = [](const std::string& line) { ADD_FAILURE() << line; }; // of graphs that cannot be captured
    const auto executor = backend_->make_executor(stages_, settings, std::chrono::minutes(1));
    auto& lines = answers[graphs ? 1 : 0];
    for (std::uint32_t r = 0; r < 3; ++r) lines.push_back(tokens(4 + 3 * r, r));
    std::uint64_t number = 0;
    for (std::uint32_t round = 0; round < 12; ++round) {
      std::vector<protocols::step_slice> slices;
      std::vector<std::uint32_t> who;
      for (std::uint32_t r = 0; r < 3; ++r) {
        if (round > 0 && (round + r) % 4 == 0) continue; // batches of several sizes
        const std::size_t fed = round == 0 ? 0 : lines[r].size() - 1;
        slices.push_back(slice_of(lines[r], fed, lines[r].size() - fed, blocks{3 * r, 3 * r + 1, 3 * r + 2}));
        who.push_back(r);
      }
      const auto output = run_step(*executor, ++number, std::move(slices));
      ASSERT_EQ(output.tokens.size(), who.size());
      for (std::size_t i = 0; i < who.size(); ++i) lines[who[i]].push_back(output.tokens[i].id);
    }
  }
  EXPECT_EQ(answers[0], answers[1]);
}

TEST_F(CudaStaged, ABlockGoesOutToTheHostAndComesBackOnEveryStage) {
  const auto text = tokens(20, 4);
  cuda_executor_settings settings;
  settings.blocks = 6;
  settings.swap_bytes = 1U << 20U;
  settings.deterministic = true;
  const auto executor = backend_->make_executor(stages_, settings, std::chrono::minutes(1));
  const auto space = executor->swap();
  ASSERT_TRUE(space);
  auto one = runner(whole_, 6, true);
  one.step({slice_of(text, 0, 19, blocks{0, 1})});
  run_step(*executor, 1, {slice_of(text, 0, 19, blocks{0, 1})});
  ASSERT_EQ(gpu::testing::copied_out(*space, gpu::testing::moves({0, 1}, {3, 2})), "");
  ASSERT_EQ(gpu::testing::copied_in(*space, gpu::testing::moves({5, 4}, {3, 2})), "");
  const auto there = one.step({slice_of(text, 19, 1, blocks{0, 1})});
  EXPECT_EQ(run_step(*executor, 2, {slice_of(text, 19, 1, blocks{5, 4})}).tokens, there.tokens);
}

TEST_F(CudaStaged, AllStagesHaveTheBlocksOfTheOneWithRoomForTheFewest) {
  cuda_executor_settings settings;
  // An emulated GPU's memory is filled by hand.
  const double unit = backend_->devices().front().memory_bytes < (std::uint64_t{16} << 30U) ? 0.001 : 0.01;
  settings.memory_share = 4 * unit;
  const auto blocks_of = [&](const layer_counts& layers) {
    const auto parts = upload_stages(*backend_, config_, *weights_, layers);
    const auto executor = backend_->make_executor(parts, settings, std::chrono::minutes(1));
    for (const auto& stage : executor->stages()) EXPECT_EQ(stage->info().blocks, executor->info().blocks);
    return executor->info().blocks;
  };
  const auto halves = blocks_of({2, 2}), most = blocks_of({1, 3}), first = blocks_of({3, 1});
  EXPECT_NEAR(most, halves * 2 / 3, halves / 10) << "a block of three layers takes half as much again as one of two";
  EXPECT_NEAR(first, halves * 2 / 3, halves / 10);
  const auto parts = upload_stages(*backend_, config_, *weights_, layer_counts{2, 2});
  const auto blocks_with = [&](std::optional<double> share) {
    settings.memory_share_first = share;
    return backend_->make_executor(parts, settings, std::chrono::minutes(1))->info().blocks;
  };
  const auto all = blocks_with(std::nullopt);
  EXPECT_NEAR(blocks_with(unit), all / 4, all / 40) << "the first one has room for fewest";
  EXPECT_NEAR(blocks_with(8 * unit), all, all / 40) << "the others have";
  settings = {};
  settings.kv_bytes = 64 * runner(whole_, 1).get().info().block_bytes;
  const auto executor = backend_->make_executor(stages_, settings, std::chrono::minutes(1));
  EXPECT_EQ(executor->info().blocks, 64U) << "kv_bytes are those of all stages together";
  for (const auto& stage : executor->stages()) EXPECT_EQ(stage->info().blocks, 64U);
}

} // namespace
} // namespace godwit::gpu::cuda::testing
