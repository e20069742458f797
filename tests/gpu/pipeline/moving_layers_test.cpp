// Layers that move from stage to stage between steps: what comes out is what one device computes, to the last bit.
#include "cpu/stage_layers.hpp"
#include "gpu/cpu/kernel_support.hpp"
#include "gpu/cpu/tiny_model.hpp"
#include "gpu/model/adapter_files.hpp"
#include "gpu/model/model_files.hpp"
#include "gpu/pipeline/adapted_executor.hpp"
#include "gpu/run_to_end.hpp"
#include "gpu/swapped.hpp"

#include <godwit/gpu/drafted_executor.hpp>
#include <godwit/gpu/event.hpp>
#include <godwit/gpu/model/quantize.hpp>
#include <godwit/gpu/pipeline.hpp>
#include <godwit/protocols/batching/step_parts.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <random>

namespace godwit::gpu::pipeline::testing {
namespace {

using cpu::make_cpu_executor;
using cpu::pack_model;
using cpu::pack_stages;
using cpu::testing::as_gemma3;
using cpu::testing::as_gpt_oss;
using cpu::testing::memory_weights;
using cpu::testing::slice_of;
using cpu::testing::some_tokens;
using gpu::testing::run_to_end;
using model::data_type;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using layer_counts = std::vector<std::uint32_t>;

model::config seven_layers() {
  auto c = cpu::testing::tiny_config();
  c.layers = 7;
  return c;
}

/// What `move` says; it has to be over when it returns on CPUs.
std::string moved(executor& of, const layer_counts& layers) {
  std::string said = "nothing";
  of.division()->move(layers, [&](std::string error) { said = std::move(error); });
  return said;
}

protocols::step_output run(executor& on, protocols::step_input input) {
  const auto step = on.begin(std::move(input));
  EXPECT_EQ(run_to_end(*step), "");
  return step->take();
}

layer_counts any_division(std::mt19937_64& random, std::uint32_t all, std::size_t stages) {
  layer_counts out(stages, 1);
  for (auto left = all - stages; left > 0; --left) ++out[random() % stages];
  return out;
}

/// Matrices of the layers from `first` on as one has them, all else as the other.
class last_layers_in_codes final : public model::weights {
public:
  last_layers_in_codes(std::shared_ptr<const model::weights> plain, std::shared_ptr<const model::weights> coded,
                       std::uint32_t first)
      : plain_(std::move(plain)), coded_(std::move(coded)), first_(first) {}
  [[nodiscard]] const model::tensor_view* find(std::string_view name) const noexcept override {
    constexpr std::string_view layers = "model.layers.";
    const bool coded =
        name.starts_with(layers) && static_cast<std::uint32_t>(name[layers.size()] - '0') >= first_; // below 10
    return (coded ? coded_ : plain_)->find(name);
  }
  [[nodiscard]] std::uint64_t total_bytes() const noexcept override { return plain_->total_bytes(); }

private:
  std::shared_ptr<const model::weights> plain_, coded_;
  std::uint32_t first_;
};

class MovingLayers : public ::testing::Test {
protected:
  std::unique_ptr<executor> staged(const layer_counts& layers, const cpu::cpu_executor_settings& settings) const {
    return make_cpu_executor(pack_stages(config_, weights_,
                                         cut_layers(config_.layers, static_cast<std::uint32_t>(layers.size()), layers),
                                         1),
                             settings);
  }
  std::unique_ptr<executor> alone(const cpu::cpu_executor_settings& settings) const {
    return make_cpu_executor(pack_model(config_, weights_, 1), settings);
  }
  model::config config_ = seven_layers();
  memory_weights weights_{config_, data_type::bf16, 9};
  std::mt19937_64 random_{5};
};

TEST_F(MovingLayers, SaysWhichLayersAreWhere) {
  const auto many = staged({3, 2, 2}, {.threads = 3, .blocks = 4});
  const auto whole = many->info().weight_bytes;
  ASSERT_TRUE(many->division());
  EXPECT_THAT(many->division()->layers(), ElementsAre(3, 2, 2));
  EXPECT_EQ(moved(*many, {1, 5, 1}), "");
  EXPECT_THAT(many->division()->layers(), ElementsAre(1, 5, 1));
  std::uint64_t blocks = 0, weights = 0;
  for (const auto& stage : many->stages()) {
    blocks += stage->info().block_bytes;
    weights += stage->info().weight_bytes;
  }
  EXPECT_EQ(many->stages()[1]->info().layers, 5U);
  EXPECT_EQ(blocks, many->info().block_bytes);
  EXPECT_EQ(weights, whole);
  EXPECT_FALSE(alone({.threads = 1, .blocks = 4})->division());
  // 101 tokens, padded, of a hidden size of 72; a layer has 7 matrices.
  EXPECT_THAT(many->division()->beside(), ElementsAre(0, 0, ::testing::AllOf(::testing::Gt(0.1), ::testing::Lt(0.4))));
}

TEST_F(MovingLayers, RefusesWhatIsNoDivision) {
  const auto many = staged({4, 3}, {.threads = 2, .blocks = 4});
  for (const auto& layers : {layer_counts{}, {7}, {4, 4}, {7, 0}, {3, 2, 2}})
    EXPECT_THROW(many->division()->move(layers, {}), std::invalid_argument);
  EXPECT_THAT(many->division()->layers(), ElementsAre(4, 3));
}

TEST_F(MovingLayers, NeverInTheMiddleOfAStep) {
  const auto many = staged({4, 3}, {.threads = 2, .blocks = 4});
  protocols::step_input input;
  input.slices.push_back(slice_of(some_tokens(20, config_.vocabulary, 5), 0, 20, std::vector{0U, 1U}));
  {
    const auto step = many->stages()[1]->begin(input);
    EXPECT_THROW(many->division()->move({3, 4}, {}), std::logic_error);
  }
  EXPECT_THAT(many->division()->layers(), ElementsAre(4, 3)) << "all of it or nothing";
  EXPECT_EQ(moved(*many, {3, 4}), "");
}

// Two requests step by step, chunks and tokens, blocks copied and swapped in between; another division after each.
TEST_F(MovingLayers, ChangeNoBitWhateverHappensBetweenTheSteps) {
  auto shape = config_;
  std::vector<model::config> shapes{shape};
  shape.tied_embeddings = shape.qkv_bias = true;
  shapes.push_back(shape);
  shape = seven_layers();
  shape.kind = model::family::qwen3_moe;
  shape.mixture = {7, 3, true};
  shapes.push_back(shape);
  shapes.push_back(as_gemma3(seven_layers()));
  shapes.push_back(as_gpt_oss(seven_layers()));
  for (const auto& one_shape : shapes)
    for (const auto type : {data_type::bf16, data_type::f32}) {
      config_ = one_shape;
      weights_ = memory_weights(config_, type, 9);
      const auto one = alone({.threads = 1, .blocks = 16, .swap_bytes = 1U << 22U});
      const auto many = staged({3, 3, 1}, {.threads = 3, .blocks = 16, .swap_bytes = 1U << 22U});
      const auto text = some_tokens(120, config_.vocabulary, 3);
      std::vector<std::uint32_t> table{3, 9, 4, 1}, other{5, 6, 7, 8};
      std::size_t at = 0;
      for (std::uint64_t step = 1; at < 60; ++step) {
        const auto layers = any_division(random_, config_.layers, 3);
        ASSERT_EQ(moved(*many, layers), "");
        const auto count = std::min<std::size_t>(1 + random_() % 9, 60 - at);
        protocols::step_input input;
        input.step = step;
        input.slices = {slice_of(text, at, count, table), slice_of(text, at, count, other)};
        for (auto& slice : input.slices) {
          slice.sampling.logprobs = 4;
          slice.samples = true;
        }
        input.slices[1].tokens.assign(text.begin() + 60 + static_cast<std::ptrdiff_t>(at),
                                      text.begin() + 60 + static_cast<std::ptrdiff_t>(at + count));
        if (step % 4 == 0) { // its last block is shared, and copied before it is written
          const auto last = at / protocols::tokens_per_block;
          const auto fresh = table[last] == 11 ? 12U : 11U;
          input.copies.emplace_back(protocols::block_id{table[last]}, protocols::block_id{fresh});
          table[last] = fresh;
          input.slices[0].blocks[last] = protocols::block_id{fresh};
        }
        const auto expected = run(*one, input);
        ASSERT_EQ(run(*many, input).tokens, expected.tokens) << "step " << step;
        ASSERT_EQ(expected.tokens.size(), 2U);
        at += count;
        if (step % 5 != 0) continue;
        // Out and back in elsewhere, with a move in between.
        for (auto* executor : {one.get(), many.get()}) {
          EXPECT_EQ(gpu::testing::copied_out(*executor->swap(), gpu::testing::moves({other[0]}, {2})), "");
          if (executor == many.get()) {
            EXPECT_EQ(moved(*many, any_division(random_, config_.layers, 3)), "");
          }
          const auto to = other[0] == 13 ? 14U : 13U;
          EXPECT_EQ(gpu::testing::copied_in(*executor->swap(), gpu::testing::moves({to}, {2})), "");
        }
        other[0] = other[0] == 13 ? 14 : 13;
      }
      for (std::uint32_t layer = 0; layer < config_.layers; ++layer)
        for (const auto block : table) {
          const auto a = one->key_region(layer, protocols::block_id{block});
          const auto b = many->key_region(layer, protocols::block_id{block});
          ASSERT_EQ(a.bytes, b.bytes);
          if (block == table[3]) continue; // nothing has been computed there
          EXPECT_EQ(std::memcmp(a.address, b.address, a.bytes), 0) << "layer " << layer << " block " << block;
        }
    }
}

TEST_F(MovingLayers, ABlockStaysWhereItIsToWhoeverCopiesIt) {
  const auto many = staged({4, 3}, {.threads = 2, .blocks = 4});
  std::vector<std::byte*> before;
  const auto regions = [&](const auto& use) {
    for (std::uint32_t layer = 0; layer < 7; ++layer) {
      use(many->key_region(layer, protocols::block_id{2}).address);
      use(many->value_region(layer, protocols::block_id{2}).address);
    }
  };
  regions([&](std::byte* at) { before.push_back(at); });
  EXPECT_EQ(moved(*many, {1, 6}), "");
  std::size_t i = 0;
  regions([&](std::byte* at) { EXPECT_EQ(at, before[i++]); });
}

TEST_F(MovingLayers, TakeTheirPartOfAnAdapterAlong) {
  const model::tests::scratch_directory folder("moving_adapters");
  model::tests::random_adapter_of(config_, model::tests::all_projections(), 5, 3).write(folder.path() / "some");
  const auto directory = std::make_shared<model::adapter_directory>(folder.path());
  const auto which = directory->find("some");
  ASSERT_TRUE(which);
  const adapted_executor whole({pack_model(config_, weights_, 1)}, directory, *which, 1, 8);
  const adapted_executor divided(pack_stages(config_, weights_, cut_layers(7, 2, layer_counts{2, 5}), 1), directory,
                                 *which, 2, 8);
  const auto &one = whole.of, &many = divided.of;
  const auto text = some_tokens(40, config_.vocabulary, 4);
  std::vector<protocols::sampled_token> plain;
  for (const auto& layers : {layer_counts{2, 5}, {6, 1}, {1, 6}, {4, 3}})
    for (const bool adapted : {false, true}) {
      protocols::step_input input;
      input.slices.push_back(slice_of(text, 0, 40, std::vector{0U, 1U, 2U}));
      input.slices[0].adapter = adapted ? which->id : 0;
      input.slices[0].sampling.logprobs = 5;
      ASSERT_EQ(moved(*many, layers), "");
      const auto expected = run(*one, input);
      EXPECT_EQ(run(*many, input).tokens, expected.tokens);
      if (!adapted)
        plain = expected.tokens;
      else
        EXPECT_NE(expected.tokens, plain) << "the adapter changes something";
    }
}

// A file may keep some layers in codes and others not: whoever gets one of the others has the memory for it.
TEST_F(MovingLayers, MayBeKeptInOtherCodesThanThoseThatWereThere) {
  config_.hidden = 64;
  config_.intermediate = 96;
  config_.heads = 4;
  config_.head_size = 16;
  const auto plain = std::make_shared<memory_weights>(config_, data_type::bf16, 9);
  const last_layers_in_codes mixed(plain, model::quantize(plain, config_, model::rounding::q8_0), 5);
  const auto packed = pack_stages(config_, mixed, cut_layers(7, 2, layer_counts{4, 3}), 1);
  EXPECT_FALSE(packed[0]->coded);
  for (const auto& stage : cpu::ready_to_move(packed)) EXPECT_TRUE(stage->coded && stage->rounding);
  const auto one = make_cpu_executor(pack_model(config_, mixed, 1), {.threads = 1, .blocks = 8});
  const auto many = make_cpu_executor(pack_stages(config_, mixed, cut_layers(7, 2, layer_counts{4, 3}), 1),
                                      {.threads = 2, .blocks = 8});
  const auto text = some_tokens(40, config_.vocabulary, 4);
  for (const auto& layers : {layer_counts{4, 3}, {6, 1}, {1, 6}}) {
    ASSERT_EQ(moved(*many, layers), "");
    protocols::step_input input;
    input.slices.push_back(slice_of(text, 0, 40, std::vector{0U, 1U, 2U}));
    input.slices[0].sampling.logprobs = 5;
    EXPECT_EQ(run(*many, input).tokens, run(*one, input).tokens);
  }
}

// Memory is held by whoever computes with it: what is left of an executor still computes with what others brought.
TEST_F(MovingLayers, OutliveTheStageThatTheyCameFrom) {
  const auto text = some_tokens(20, config_.vocabulary, 5);
  protocols::step_input input;
  input.slices.push_back(slice_of(text, 0, 20, std::vector{0U, 1U}));
  const auto one = alone({.threads = 1, .blocks = 4});
  const auto expected = run(*one, input);
  auto many = staged({4, 3}, {.threads = 2, .blocks = 4});
  EXPECT_EQ(moved(*many, {1, 6}), "");
  std::vector<std::shared_ptr<executor>> stages(many->stages().begin(), many->stages().end());
  (void)run(*stages[0], input); // its rows wait on their way
  many.reset();
  stages[0].reset();
  EXPECT_EQ(run(*stages[1], input).tokens, expected.tokens);
}

TEST_F(MovingLayers, AnExecutorWithADraftModelHasThem) {
  auto many = std::shared_ptr(staged({4, 3}, {.threads = 2, .blocks = 8}));
  const auto both = make_drafted_executor(many, std::shared_ptr(alone({.threads = 1, .blocks = 8})));
  EXPECT_EQ(both->division(), many->division());
}

} // namespace
} // namespace godwit::gpu::pipeline::testing
