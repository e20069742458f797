#include "gpu/cuda/device_test.hpp"

#include <algorithm>
#include <chrono>

// Models whose layers are mixtures of experts, on one device and on several.
namespace godwit::gpu::cuda::testing {
namespace {

model::config mixture_config(bool qwen) {
  auto c = small_config();
  c.kind = qwen ? model::family::qwen3_moe : model::family::mixtral;
  c.qk_norm = qwen;
  c.tied_embeddings = qwen;
  c.intermediate = qwen ? 40 : 72;
  c.mixture = qwen ? model::mixture_config{19, 6, false} : model::mixture_config{4, 2, true};
  return c;
}

class CudaMixtures : public device_test {};

// Where two experts are as good as each other rounding decides, and a row has others than on the CPU.
TEST_F(CudaMixtures, GiveTheCpusLogitsButWhereRoundingChoosesOthers) {
  for (const bool qwen : {false, true})
    for (const auto type : {model::data_type::bf16, model::data_type::f16}) {
      const auto config = mixture_config(qwen);
      model_ = upload(config, type);
      const auto tokens = some_tokens(60, config.vocabulary, 1);
      const auto expected = cpu_logits(config, tokens);
      for (const bool deterministic : {false, true}) {
        auto one = runner(8, deterministic);
        std::size_t done = 0, apart = 0, seen = 0;
        for (const std::size_t count : {37U, 8U, 1U, 1U, 1U, 1U, 1U, 1U, 1U, 1U, 1U, 1U, 1U, 1U, 1U, 1U, 1U}) {
          one.step({slice_of(tokens, done, count, blocks{5, 2, 7, 0})}, {}, done % 2 == 0 ? 0 : 1);
          done += count;
          ++seen;
          const auto error = distance(one.logits(0), expected[done - 1]);
          apart += error < tolerance ? 0 : 1;
          EXPECT_LT(error, count > 1 ? tolerance : 1.0) << "after " << done; // of the prompt's ends none is close
        }
        EXPECT_LE(apart, seen / 4) << qwen << ' ' << to_string(type) << ' ' << deterministic;
      }
    }
}

TEST_F(CudaMixtures, DeterministicGivesARequestInACrowdTheBitsItHasAlone) {
  for (const bool qwen : {false, true}) {
    model_ = upload(mixture_config(qwen));
    const auto mine = some_tokens(45, 101, 4);
    auto alone = runner(3, true);
    alone.step({slice_of(mine, 0, 45, blocks{0, 1, 2})});
    auto busy = runner(60, true);
    const blocks table{51, 7, 59};
    const auto with_others = [&](std::size_t first, std::size_t count, std::uint32_t crowd) {
      busy.step(among_others(slice_of(mine, first, count, table), crowd));
      return busy.logits(crowd / 2);
    };
    with_others(0, 17, 5); // tiles of both kinds
    with_others(17, 20, 15);
    for (std::size_t i = 37; i < 44; ++i) with_others(i, 1, static_cast<std::uint32_t>(i % 4));
    EXPECT_TRUE(same(with_others(44, 1, 17), alone.logits(0))) << qwen;
  }
}

TEST_F(CudaMixtures, GraphsOfDecodesGiveTheTokensOfPlainLaunches) {
  model_ = upload(mixture_config(true));
  std::vector<std::vector<protocols::token_id>> answers[2];
  for (const bool graphs : {false, true}) {
    cuda_executor_settings settings;
    settings.blocks = 64;
    settings.step_tokens = 16;
    settings.graphs = graphs;
    settings.deterministic = true;
    settings.warn = [](const std::string& line) { ADD_FAILURE() << line; };
    const auto executor = backend_->make_executor(model_, settings);
    for (std::uint32_t request = 0; request < 3; ++request)
      answers[graphs ? 1 : 0].push_back(draws_along(*executor, some_tokens(12, 101, request), request));
  }
  EXPECT_EQ(answers[0], answers[1]);
}

/// The same on two devices, by heads or by layers.
class CudaMixturesOnTwo : public ::testing::Test {
protected:
  void SetUp() override {
    auto found = find_backend(2);
    if (!found.backend) GTEST_SKIP() << found.why_not;
    backend_ = std::move(found.backend);
  }
  cuda_runner runner(const model_parts& parts, bool deterministic) {
    cuda_executor_settings settings;
    settings.blocks = 8;
    settings.deterministic = deterministic;
    return {*backend_, parts, settings};
  }
  std::shared_ptr<cuda_backend> backend_;
};

TEST_F(CudaMixturesOnTwo, StagesChangeNoBit) {
  for (const bool qwen : {false, true}) {
    const auto config = mixture_config(qwen);
    const memory_weights weights(config, model::data_type::bf16, 11);
    const auto text = some_tokens(40, config.vocabulary, 2);
    auto one = runner({backend_->upload(0, config, weights)}, true);
    auto two = runner(upload_stages(*backend_, config, weights, std::vector<std::uint32_t>{1, 1}), true);
    for (auto* each : {&one, &two}) {
      each->step({slice_of(text, 0, 38, blocks{3, 1, 5})}, {}, 1);
      each->step({slice_of(text, 38, 1, blocks{3, 1, 5})});
      each->step({slice_of(text, 39, 1, blocks{3, 1, 5})});
    }
    EXPECT_TRUE(same(one.logits(0), two.logits(0))) << qwen;
  }
}

TEST_F(CudaMixturesOnTwo, PartsOfEachExpertAddUp) {
  for (const bool deterministic : {false, true}) {
    auto config = four_kv_heads();
    config.kind = model::family::mixtral;
    config.intermediate = 72;
    config.mixture = {4, 2, true};
    const memory_weights weights(config, model::data_type::bf16, 11);
    const auto text = some_tokens(60, config.vocabulary, 3);
    auto one = runner({backend_->upload(0, config, weights)}, deterministic);
    auto two = runner(upload_parts(*backend_, config, weights, 2), deterministic);
    std::size_t done = 0, apart = 0;
    for (const std::size_t count : {37U, 8U, 1U, 1U, 1U, 1U, 1U, 1U, 1U, 1U, 1U, 1U}) {
      for (auto* each : {&one, &two}) each->step({slice_of(text, done, count, blocks{5, 2, 7, 0})});
      done += count;
      const auto error = distance(two.logits(0), one.logits(0));
      apart += error < tolerance ? 0 : 1;
      EXPECT_LT(error, count > 1 ? tolerance : 1.0) << "after " << done;
    }
    EXPECT_LE(apart, 3U) << deterministic;
  }
}

} // namespace
} // namespace godwit::gpu::cuda::testing
