// A model whose layers lie on several devices: what it computes is what one device computes, to the last bit.
#include "gpu/cpu/kernel_support.hpp"
#include "gpu/cpu/tiny_model.hpp"
#include "gpu/model/adapter_files.hpp"
#include "gpu/model/model_files.hpp"
#include "gpu/pipeline/adapted_executor.hpp"
#include "gpu/run_to_end.hpp"
#include "gpu/swapped.hpp"

#include <godwit/gpu/event.hpp>
#include <godwit/gpu/pipeline.hpp>
#include <godwit/protocols/batching/step_parts.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <numeric>
#include <thread>

namespace godwit::gpu::pipeline::testing {
namespace {

using cpu::compute_logits;
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
using counts = std::vector<std::uint32_t>;

model::config five_layers() {
  auto c = cpu::testing::tiny_config();
  c.layers = 5;
  return c;
}
std::vector<std::shared_ptr<const cpu::packed_model>> staged(const model::config& c, const memory_weights& weights,
                                                             const counts& layers) {
  return pack_stages(c, weights, cut_layers(c.layers, static_cast<std::uint32_t>(layers.size()), layers), 1);
}
bool bitwise_equal(std::span<const float> a, std::span<const float> b) {
  return a.size() == b.size() && cpu::testing::same_bits(a.data(), b.data(), a.size());
}

TEST(StageDivision, EvenlyMeansThatTheFirstOnesHaveOneMore) {
  EXPECT_THAT(cut_layers(7, 1), ElementsAre(stage{}));
  EXPECT_THAT(cut_layers(7, 3), ElementsAre(stage{0, 3, 0, 3}, stage{1, 3, 3, 2}, stage{2, 3, 5, 2}));
  EXPECT_THAT(cut_layers(7, 3, counts{1, 5, 1}), ElementsAre(stage{0, 3, 0, 1}, stage{1, 3, 1, 5}, stage{2, 3, 6, 1}));
  const auto three = cut_layers(7, 3);
  EXPECT_TRUE(three.front().begins() && !three.front().ends() && three.back().ends() && !three[1].begins());
}

TEST(StageDivision, SaysWhatCannotBe) {
  EXPECT_EQ(refuse_stages(7, 7, {}), "");
  EXPECT_EQ(refuse_stages(7, 2, counts{6, 1}), "");
  EXPECT_EQ(refuse_stages(7, 8, {}), "the model's 7 layers cannot be divided among 8 stages; at most one each");
  EXPECT_EQ(refuse_stages(7, 2, counts{6, 2}), "the model's 7 layers are not the 8 that the stages have together");
  EXPECT_EQ(refuse_stages(7, 2, counts{7}), "1 numbers of layers are given for 2 stages");
  EXPECT_EQ(refuse_stages(7, 2, counts{7, 0}), "a stage has at least one layer");
  EXPECT_EQ(refuse_stages(7, 2, counts{~0U, 8}), "the model's 7 layers are not the 4294967303 that the stages have "
                                                 "together");
  EXPECT_NE(refuse_stages(7, 0, {}), "");
  EXPECT_NE(refuse_stages(1000, 65, {}), "");
}

TEST(StageLink, GivesRowsInTheirOrderAndUsesBuffersAgain) {
  int made = 0;
  const auto link = std::make_shared<stage_link>([&](std::uint64_t bytes) {
    ++made;
    return allocation({new std::byte[bytes], bytes}, [](protocols::memory_region r) { delete[] r.address; });
  });
  EXPECT_THROW((void)link->take(1, 4), std::runtime_error) << "nothing is there";
  for (int round = 0; round < 3; ++round) {
    for (std::uint32_t part = 0; part < 2; ++part) {
      auto rows = link->empty(64);
      rows->step = 1;
      rows->rows = 4 + part;
      rows->data()[15] = static_cast<float>(part);
      link->put(std::move(rows));
    }
    EXPECT_EQ(link->take(1, 4)->data()[15], 0);
    EXPECT_THROW((void)link->take(1, 4), std::runtime_error) << "other rows come next";
    EXPECT_THROW((void)link->take(2, 5), std::runtime_error) << "those of another step";
    EXPECT_EQ(link->take(1, 5)->data()[15], 1);
  }
  EXPECT_EQ(made, 2);
  const auto fill = [&] {
    for (int i = 0; i < 1000; ++i) link->put(link->empty(1));
  };
  EXPECT_THROW(fill(), std::runtime_error) << "a stage that takes nothing";
}

// However sizes change from step to step: no more than twice the most that was out at once, and none made in vain.
TEST(StageLink, KeepsNoMoreThanTwiceWhatWasOutAtOnce) {
  std::uint64_t there = 0, most_there = 0, made = 0;
  const auto link = std::make_shared<stage_link>([&](std::uint64_t bytes) {
    ++made;
    there += bytes;
    most_there = std::max(most_there, there);
    return allocation({new std::byte[bytes], bytes}, [&there](protocols::memory_region r) {
      there -= r.bytes;
      delete[] r.address;
    });
  });
  std::uint64_t most_out = 0;
  for (std::uint32_t step = 0; step < 200; ++step) {
    std::vector<std::shared_ptr<hidden_rows>> out;
    std::uint64_t bytes = 0;
    for (std::uint32_t part = 0; part <= step % 5; ++part) {
      const std::uint64_t wanted = (std::uint64_t{4096} << ((step / 50 * 7 + part * 3) % 8)) - step % 3;
      out.push_back(link->empty(wanted));
      EXPECT_GE(out.back()->memory.bytes(), wanted);
      bytes += out.back()->memory.bytes();
    }
    most_out = std::max(most_out, bytes);
  }
  EXPECT_LE(most_there, 2 * most_out);
  // A chunk in two parts, of which the next stage holds the last one, and a few that decode, again and again.
  std::shared_ptr<hidden_rows> held;
  const auto round = [&] {
    for (const std::uint64_t rows : {512U, 512U, 12U}) held = link->empty(rows * 8192 * 4);
  };
  round();
  round();
  made = 0;
  for (int i = 0; i < 100; ++i) round();
  EXPECT_EQ(made, 0U) << "they are used again";
  held.reset();
  EXPECT_EQ(link.use_count(), 1) << "what is free does not hold it";
}

TEST(StagedModel, GivesTheBitsOfOneDeviceHoweverItIsCutInAnyChunks) {
  auto c = five_layers();
  std::vector<model::config> shapes{c};
  c.tied_embeddings = c.qkv_bias = true;
  shapes.push_back(c);
  c.output_bias = c.mlp_bias = true;
  c.sliding_window = 37;
  shapes.push_back(c);
  c = five_layers();
  c.kind = model::family::qwen3_moe;
  c.mixture = {7, 3, true};
  shapes.push_back(c);
  shapes.push_back(as_gemma3(five_layers()));
  shapes.push_back(as_gpt_oss(five_layers()));
  for (const auto& shape : shapes)
    for (const auto type : {data_type::bf16, data_type::f32}) {
      const memory_weights weights(shape, type, 7);
      const auto tokens = some_tokens(90, shape.vocabulary, 3);
      const auto expected = compute_logits(pack_model(shape, weights, 1), tokens, {.threads = 1});
      for (const auto& layers : {counts{3, 2}, counts{1, 4}, counts{4, 1}, counts{1, 3, 1}, counts{1, 1, 1, 1, 1}})
        for (const std::uint32_t chunk : {0U, 7U})
          EXPECT_TRUE(
              bitwise_equal(compute_logits(staged(shape, weights, layers), tokens, {.threads = 2}, chunk), expected))
              << to_string(type) << " chunks of " << chunk << ", " << layers.size() << " stages";
    }
}

TEST(StagedModel, HasEachWeightOnceAndASharedTableWhereItIsNeeded) {
  for (const bool tied : {false, true}) {
    auto c = five_layers();
    c.tied_embeddings = tied;
    const memory_weights weights(c, data_type::bf16, 3);
    const auto whole = packed_bytes(*pack_model(c, weights, 1));
    std::uint64_t sum = 0;
    for (const auto& one : staged(c, weights, {2, 2, 1})) {
      sum += packed_bytes(*one);
      EXPECT_LT(packed_bytes(*one), whole);
    }
    const std::uint64_t table = tied ? std::uint64_t{c.vocabulary} * c.hidden * 2 : 0;
    EXPECT_GE(sum, whole + table);
    EXPECT_LE(sum, whole + table + 4096) << "but for pages";
  }
  const auto c = five_layers();
  EXPECT_THROW((void)pack_model(c, memory_weights(c, data_type::bf16, 3), 1, {0, 2}, nullptr, {0, 2, 0, 3}),
               std::runtime_error)
      << "by heads and by layers";
}

/// One device and three, fed the same.
class StagedExecutor : public ::testing::Test {
protected:
  protocols::step_input input_of(std::size_t first, std::size_t count, std::uint64_t step) const {
    protocols::step_input input;
    input.step = step;
    input.slices.push_back(slice_of(tokens_, first, count, std::vector{4U, 1U, 6U}));
    return input;
  }
  static protocols::step_output run(executor& on, protocols::step_input input) {
    const auto step = on.begin(std::move(input));
    EXPECT_EQ(run_to_end(*step), "");
    return step->take();
  }
  model::config config_ = five_layers();
  memory_weights weights_{config_, data_type::bf16, 9};
  std::vector<protocols::token_id> tokens_ = some_tokens(40, config_.vocabulary, 5);
  std::unique_ptr<executor> one_ = make_cpu_executor(pack_model(config_, weights_, 1), {.threads = 1, .blocks = 8});
  std::unique_ptr<executor> many_ =
      make_cpu_executor(staged(config_, weights_, {2, 1, 2}), {.threads = 3, .blocks = 8, .swap_bytes = 1U << 20U});
};

TEST_F(StagedExecutor, SaysWhatOneDeviceSays) {
  ASSERT_EQ(many_->stages().size(), 3U);
  EXPECT_TRUE(one_->stages().empty());
  EXPECT_TRUE(many_->shards().empty());
  EXPECT_EQ(many_->info().layers, 5U);
  EXPECT_EQ(many_->info().kv_layout, one_->info().kv_layout);
  EXPECT_EQ(many_->info().block_bytes, one_->info().block_bytes);
  EXPECT_EQ(many_->info().blocks, 8U);
  EXPECT_EQ(many_->info().positions_max, one_->info().positions_max);
  EXPECT_THAT(many_->info().device, HasSubstr("3 stages of cpu"));
}

TEST_F(StagedExecutor, HasTheKvOfOneDeviceInTheSameRegions) {
  EXPECT_EQ(run(*one_, input_of(0, 37, 1)).tokens, run(*many_, input_of(0, 37, 1)).tokens);
  for (std::uint32_t layer = 0; layer < 5; ++layer)
    for (const std::uint32_t block : {4U, 1U, 6U})
      for (const bool keys : {true, false}) {
        const auto region = [&](executor& of) {
          return keys ? of.key_region(layer, protocols::block_id{block})
                      : of.value_region(layer, protocols::block_id{block});
        };
        const auto a = region(*one_), b = region(*many_);
        ASSERT_EQ(a.bytes, b.bytes);
        EXPECT_EQ(std::memcmp(a.address, b.address, a.bytes), 0) << "layer " << layer << " block " << block;
      }
  EXPECT_THROW((void)many_->key_region(5, protocols::block_id{0}), std::invalid_argument);
}

TEST_F(StagedExecutor, AdvancesLayerByLayerAcrossTheStages) {
  const auto expected = run(*one_, input_of(0, 30, 1));
  const auto step = many_->begin(input_of(0, 30, 1));
  ASSERT_EQ(step->layers(), 5U);
  for (const std::uint32_t upto : {1U, 3U, 5U}) {
    const event ran;
    step->advance(upto, [&](const std::string& error) {
      EXPECT_EQ(error, "");
      ran.set();
    });
    ran.wait();
  }
  EXPECT_EQ(step->take().tokens, expected.tokens);
  EXPECT_THROW(step->advance(5, {}), std::invalid_argument);
}

TEST_F(StagedExecutor, BlocksAreSwappedOutAndInOnEveryStage) {
  run(*one_, input_of(0, 30, 1));
  run(*many_, input_of(0, 30, 1));
  const auto space = many_->swap();
  ASSERT_TRUE(space);
  EXPECT_EQ(gpu::testing::copied_out(*space, gpu::testing::moves({4, 1}, {1, 0})), "");
  EXPECT_EQ(gpu::testing::copied_in(*space, gpu::testing::moves({3, 7}, {1, 0})), "");
  const auto next = [&](std::uint32_t a, std::uint32_t b) {
    protocols::step_input input;
    input.step = 2;
    input.slices.push_back(slice_of(tokens_, 30, 1, std::vector{a, b}));
    return input;
  };
  EXPECT_EQ(run(*many_, next(3, 7)).tokens, run(*one_, next(4, 1)).tokens);
}

// As an instance does it: a stage begins a part when the one before has left it.
TEST_F(StagedExecutor, PartsOfAStepThatSeveralStagesComputeAtOnceGiveTheSameToken) {
  const auto expected = run(*one_, input_of(0, 40, 1));
  const auto parts = protocols::cut_step(input_of(0, 40, 1), 4);
  ASSERT_EQ(parts.size(), 4U);
  protocols::stage_schedule schedule(3);
  (void)schedule.add(4);
  protocols::step_output last;
  std::uint32_t at_once = 0;
  while (schedule.done() < 4) {
    struct turn_under_way {
      protocols::stage_schedule::turn what;
      std::unique_ptr<forward> step;
      std::shared_ptr<event> ran = std::make_shared<event>();
      std::string error;
    };
    std::vector<std::unique_ptr<turn_under_way>> now;
    for (const auto what : schedule.begin()) {
      now.push_back(std::make_unique<turn_under_way>());
      auto& one = *now.back();
      one.what = what;
      one.step = many_->stages()[what.stage]->begin(parts[what.part]);
      one.step->advance(one.step->layers(), [&one](std::string error) {
        one.error = std::move(error);
        one.ran->set();
      });
    }
    at_once = std::max(at_once, static_cast<std::uint32_t>(now.size()));
    for (const auto& one : now) {
      one->ran->wait();
      ASSERT_EQ(one->error, "");
      const auto output = one->step->take();
      if (one->what.stage == 2) last = output;
      schedule.ended(one->what, output.duration_ns);
    }
  }
  EXPECT_EQ(at_once, 3U);
  EXPECT_EQ(last.tokens, expected.tokens);
}

/// The step in parts, each through all stages.
protocols::step_output run_parts(executor& on, const protocols::step_input& input, std::uint32_t count) {
  std::vector<protocols::step_output> drawn;
  for (const auto& part : protocols::cut_step(input, count)) {
    protocols::step_output out;
    for (const auto& stage : on.stages()) {
      const auto step = stage->begin(part);
      EXPECT_EQ(run_to_end(*step), "");
      out = step->take();
    }
    drawn.push_back(std::move(out));
  }
  EXPECT_EQ(drawn.size(), count);
  return protocols::join_parts(std::move(drawn));
}

// An adapter, whose layers are packed by stage; drafts; scored prompts; penalties; a copied block.
TEST(StagedModel, DrawsAndScoresAsOneDeviceWhateverASliceAsksFor) {
  auto c = five_layers();
  const memory_weights weights(c, data_type::bf16, 9);
  const std::vector whole{pack_model(c, weights, 1)};
  const auto parts = staged(c, weights, {2, 1, 2});
  const model::tests::scratch_directory folder("staged_adapters");
  model::tests::random_adapter_of(c, model::tests::all_projections(), 5, 3).write(folder.path() / "some");
  const auto directory = std::make_shared<model::adapter_directory>(folder.path());
  const auto which = directory->find("some");
  ASSERT_TRUE(which);
  const adapted_executor alone(whole, directory, *which, 3, 32), divided(parts, directory, *which, 3, 32);
  const auto &one = alone.of, &many = divided.of;
  const auto text = some_tokens(60, c.vocabulary, 4);
  const auto blocks = [](std::uint32_t first) { return std::vector{first, first + 1, first + 2, first + 3}; };

  protocols::step_input begun;
  begun.step = 1;
  begun.slices = {slice_of(text, 0, 20, blocks(0)), slice_of(text, 5, 20, blocks(4))};
  begun.slices[1].first_position = 0;
  const auto first = run_parts(*many, begun, 2);
  {
    const auto step = one->begin(begun);
    ASSERT_EQ(run_to_end(*step), "");
    EXPECT_EQ(step->take().tokens, first.tokens);
  }

  protocols::step_input all;
  all.step = 2;
  all.copies.emplace_back(protocols::block_id{5}, protocols::block_id{13}); // the second one's last block
  auto drafts = slice_of(text, 20, 4, blocks(0));
  drafts.drafted = 3;
  drafts.sampling.temperature = 0.8F;
  drafts.sampling.frequency_penalty = 0.5F;
  drafts.sample_index = 2;
  drafts.prompt = {text.begin(), text.begin() + 20};
  drafts.generated = {text[20]};
  auto copied = slice_of(text, 30, 1, std::vector{4U, 13U});
  copied.first_position = 20;
  copied.sampling.logprobs = 3;
  auto scored = slice_of(text, 0, 33, blocks(8));
  scored.scored.assign(text.begin() + 1, text.begin() + 30);
  scored.scores_top = 2;
  auto adapted = slice_of(text, 0, 50, std::vector{16U, 17U, 18U, 19U});
  adapted.adapter = which->id;
  adapted.sampling.logprobs = 5;
  auto plain = slice_of(text, 0, 50, std::vector{20U, 21U, 22U, 23U});
  plain.sampling.logprobs = 5;
  for (std::uint64_t i = 1; auto* slice : {&drafts, &copied, &scored, &adapted, &plain}) {
    slice->request = protocols::request_id{i++};
    all.slices.push_back(*slice);
  }
  const auto whole_step = one->begin(all);
  ASSERT_EQ(run_to_end(*whole_step), "");
  const auto expected = whole_step->take();
  ASSERT_EQ(expected.tokens.size(), 8U);
  ASSERT_EQ(expected.scores.size(), 1U);
  EXPECT_EQ(expected.scores[0].size(), 29U);
  for (const std::uint32_t count : {1U, 3U, 5U}) { // again and again: what a step writes is a function of what it reads
    const auto got = run_parts(*many, all, count);
    EXPECT_EQ(got.tokens, expected.tokens) << count << " parts";
    EXPECT_EQ(got.scores, expected.scores) << count << " parts";
  }
  EXPECT_NE(expected.tokens[6].logprob, expected.tokens[7].logprob) << "the adapter changes something";
}

TEST_F(StagedExecutor, AStageThatIsGivenWhatNobodyComputedFailsAndSaysSo) {
  const auto second = many_->stages()[1];
  const auto alone = second->begin(input_of(0, 5, 1));
  EXPECT_THAT(run_to_end(*alone), HasSubstr("a stage began before the one in front of it had ended"));
  EXPECT_THROW((void)alone->take(), std::logic_error);
}

TEST(JoinedStages, RefuseWhatIsNoModel) {
  EXPECT_THROW((void)join_stages({}, {}), std::invalid_argument);
  const auto c = five_layers();
  const auto one =
      std::shared_ptr(make_cpu_executor(pack_model(c, memory_weights(c, data_type::bf16, 3), 1), {.blocks = 2}));
  auto whole = one->info();
  whole.layers = 7;
  EXPECT_THROW((void)join_stages(whole, {one}), std::invalid_argument) << "layers are missing";
  EXPECT_THROW((void)make_cpu_executor(staged(c, memory_weights(c, data_type::bf16, 3), {4, 1}).front(), {.blocks = 2}),
               std::invalid_argument)
      << "a stage alone";
}

} // namespace
} // namespace godwit::gpu::pipeline::testing
