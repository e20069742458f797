#include "gpu/cpu/kernel_support.hpp"
#include "gpu/cpu/tiny_model.hpp"

#include <godwit/gpu/event.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <future>
#include <numeric>
#include <thread>

namespace godwit::gpu::cpu::testing {
namespace {

using blocks = std::vector<std::uint32_t>;

std::shared_ptr<const packed_model> packed(model::data_type type = model::data_type::bf16) {
  const auto config = tiny_config();
  return pack_model(config, memory_weights(config, type, 11), 1);
}

std::shared_ptr<const packed_model> packed_with_normed_heads() {
  auto config = tiny_config();
  config.qk_norm = true;
  return pack_model(config, memory_weights(config, model::data_type::bf16, 11), 1);
}

std::shared_ptr<const packed_model> packed_mixture(model::data_type type) {
  auto c = tiny_config();
  c.kind = model::family::qwen3_moe;
  c.intermediate = 40;
  c.mixture = {11, 4, true};
  return pack_model(c, memory_weights(c, type, 31), 1);
}

std::vector<float> logits_alone(const std::shared_ptr<const packed_model>& model,
                                std::span<const protocols::token_id> tokens) {
  const auto all = compute_logits(model, tokens, {.threads = 1});
  return {all.end() - config_of(*model).vocabulary, all.end()};
}

bool same(const std::vector<float>& a, const std::vector<float>& b) {
  return a.size() == b.size() && same_bits(a.data(), b.data(), a.size());
}

// Orca's selective batching: linear layers over all rows at once, attention per request.
TEST(CpuExecutor, GivesARequestInACrowdTheLogitsItHasAlone) {
  for (const auto& model : {packed(), packed(model::data_type::f32), packed_with_normed_heads(),
                            packed_mixture(model::data_type::bf16), packed_mixture(model::data_type::f32)}) {
    const auto mine = some_tokens(90, 101, 1);
    const auto expected = logits_alone(model, mine);
    runner busy(model, {.threads = 2, .blocks = 200});
    // Others fill and dirty the pool first.
    std::vector<std::vector<protocols::token_id>> others;
    std::vector<protocols::step_slice> crowd;
    for (unsigned i = 0; i < 20; ++i) {
      others.push_back(some_tokens(100, 101, 100 + i));
      blocks table(8);
      std::iota(table.begin(), table.end(), i * 8);
      crowd.push_back(slice_of(others.back(), 0, 20 + i, table));
    }
    busy.step(crowd);
    // Mine among them: a chunk of its prompt, then another, then tokens one by one, over blocks in no order.
    const blocks table{190, 3, 177, 160, 199, 161};
    crowd.erase(crowd.begin()); // its block 3 is mine now
    const auto with_others = [&](std::size_t first, std::size_t count, unsigned round) {
      auto slices = crowd;
      for (unsigned i = 0; i < slices.size(); ++i) {
        blocks own(8);
        std::iota(own.begin(), own.end(), (i + 1) * 8);
        slices[i] = slice_of(others[i + 1], 21 + i + round, i % 3 == 0 && round == 0 ? 1 : 1, own);
      }
      slices.insert(slices.begin() + 5, slice_of(mine, first, count, table));
      busy.step(slices);
      return busy.logits(5);
    };
    (void)with_others(0, 37, 0);
    (void)with_others(37, 40, 1);
    for (std::size_t token = 77; token < 89; ++token)
      (void)with_others(token, 1, 2 + static_cast<unsigned>(token - 77));
    EXPECT_TRUE(same(with_others(89, 1, 20), expected));
  }
}

TEST(CpuExecutor, ASliceWithoutATokenToDrawHarmsNoOther) {
  const auto executor = make_cpu_executor(packed(), {.threads = 2, .blocks = 8});
  protocols::step_input input;
  for (std::uint32_t i = 0; i < 3; ++i) {
    input.slices.push_back(slice_of(some_tokens(5, 101, i), 0, 5, blocks{i}));
    input.slices.back().samples = true;
  }
  for (protocols::token_id id = 0; id < 101; ++id) input.slices[1].forbidden.push_back(id); // all there are
  const auto pass = executor->begin(std::move(input));
  std::promise<std::string> done;
  pass->advance(pass->layers(), [&](std::string error) { done.set_value(std::move(error)); });
  EXPECT_EQ(done.get_future().get(), "");
  const auto out = pass->take();
  ASSERT_EQ(out.tokens.size(), 3U);
  EXPECT_GE(out.tokens[0].id, 0);
  EXPECT_EQ(out.tokens[1].id, protocols::no_token);
  EXPECT_EQ(out.undrawn, std::vector<std::string>{"every logit of the model is NaN or minus infinity, or its token is "
                                                  "forbidden"});
  EXPECT_GE(out.tokens[2].id, 0);
}

TEST(CpuExecutor, DecodesTheSameLogitsThatPrefillingGives) {
  const auto model = packed();
  const auto tokens = some_tokens(200, 101, 2);
  blocks table(13);
  std::iota(table.rbegin(), table.rend(), 0);
  runner decoding(model, {.threads = 2, .blocks = 13});
  for (std::size_t i = 0; i < tokens.size(); ++i) decoding.step({slice_of(tokens, i, 1, table)});
  EXPECT_TRUE(same(decoding.logits(0), logits_alone(model, tokens)));
}

TEST(CpuExecutor, DrawsGreedilyTheHighestLogit) {
  const auto model = packed();
  runner one(model, {.threads = 1, .blocks = 2});
  const auto tokens = some_tokens(9, 101, 3);
  const auto out = one.step({slice_of(tokens, 0, 9, blocks{1})});
  const auto& logits = one.logits(0);
  ASSERT_EQ(out.tokens.size(), 1U);
  EXPECT_EQ(out.tokens[0].id, std::ranges::max_element(logits) - logits.begin());
  EXPECT_GT(out.duration_ns, 0);
}

TEST(CpuExecutor, AnswersInTheOrderOfTheSlicesThatSample) {
  const auto model = packed();
  runner one(model, {.threads = 2, .blocks = 100});
  const auto tokens = some_tokens(16, 101, 4);
  std::vector<protocols::step_slice> slices;
  for (std::uint32_t i = 0; i < 80; ++i) { // more than one group of logits
    slices.push_back(slice_of(tokens, 0, 1 + i % 16, blocks{i}));
    slices.back().samples = i % 3 != 1;
  }
  const auto out = one.step(slices);
  std::size_t next = 0;
  for (std::uint32_t i = 0; i < 80; ++i) {
    if (!slices[i].samples) continue;
    const auto& logits = one.logits(i);
    EXPECT_EQ(out.tokens.at(next++).id, std::ranges::max_element(logits) - logits.begin());
  }
  EXPECT_EQ(next, out.tokens.size());
}

TEST(CpuExecutor, CopiesBlocksBeforeItWritesThem) {
  const auto model = packed();
  auto tokens = some_tokens(40, 101, 5);
  runner one(model, {.threads = 2, .blocks = 8});
  one.step({slice_of(tokens, 0, 36, blocks{0, 1, 2})});
  // A fork: the shared, half-filled block 2 is copied to 5; both continue differently.
  auto other = tokens;
  other[36] = (tokens[36] + 1) % 101;
  protocols::block_copy copy(protocols::block_id(2), protocols::block_id(5));
  one.step({slice_of(tokens, 36, 1, blocks{0, 1, 2}), slice_of(other, 36, 1, blocks{0, 1, 5})}, {copy});
  EXPECT_TRUE(same(one.logits(0), logits_alone(model, std::span(tokens).first(37))));
  EXPECT_TRUE(same(one.logits(1), logits_alone(model, std::span(other).first(37))));
}

TEST(CpuExecutor, LetsKvBeMovedBetweenExecutors) {
  const auto model = packed();
  const auto tokens = some_tokens(50, 101, 6);
  runner from(model, {.threads = 1, .blocks = 8}), to(model, {.threads = 2, .blocks = 20});
  from.step({slice_of(tokens, 0, 49, blocks{4, 2, 0, 1})});
  const blocks source{4, 2, 0, 1}, target{19, 3, 7, 11};
  for (std::uint32_t layer = 0; layer < 2; ++layer)
    for (std::size_t i = 0; i < 4; ++i) {
      const auto k = from.get().key_region(layer, protocols::block_id(source[i]));
      const auto v = from.get().value_region(layer, protocols::block_id(source[i]));
      ASSERT_EQ((k.bytes + v.bytes) * 2, from.get().info().block_bytes);
      std::memcpy(to.get().key_region(layer, protocols::block_id(target[i])).address, k.address, k.bytes);
      std::memcpy(to.get().value_region(layer, protocols::block_id(target[i])).address, v.address, v.bytes);
    }
  to.step({slice_of(tokens, 49, 1, target)});
  EXPECT_TRUE(same(to.logits(0), logits_alone(model, tokens)));
}

TEST(CpuExecutor, IsNotHarmedByWhatBlocksHeldBefore) {
  const auto model = packed();
  const auto tokens = some_tokens(21, 101, 7);
  runner one(model, {.threads = 1, .blocks = 2});
  for (std::uint32_t layer = 0; layer < 2; ++layer)
    for (std::uint32_t block = 0; block < 2; ++block)
      for (const auto& region : {one.get().key_region(layer, protocols::block_id(block)),
                                 one.get().value_region(layer, protocols::block_id(block))})
        std::memset(region.address, 0xff, region.bytes); // not a number, everywhere
  one.step({slice_of(tokens, 0, 18, blocks{0, 1})});
  for (std::size_t i = 18; i < 21; ++i) one.step({slice_of(tokens, i, 1, blocks{0, 1})});
  EXPECT_TRUE(same(one.logits(0), logits_alone(model, tokens)));
}

TEST(CpuExecutor, RunsLayerByLayerAsInOneGo) {
  const auto model = packed();
  const auto tokens = some_tokens(30, 101, 8);
  std::vector<float> logits;
  const auto runner = make_cpu_executor(model, {.threads = 2, .blocks = 2, .logits_tap = [&](const logits_row& row) {
                                                  logits.assign(row.values.begin(), row.values.end());
                                                }});
  protocols::step_input input;
  input.step = 42;
  input.slices.push_back(slice_of(tokens, 0, 30, blocks{1, 0}));
  const auto pass = runner->begin(std::move(input));
  std::vector<std::uint32_t> done;
  for (std::uint32_t layer = 1; layer <= pass->layers(); ++layer) {
    const event ran;
    pass->advance(layer, [&, layer](const std::string& error) {
      EXPECT_EQ(error, "");
      done.push_back(layer);
      ran.set();
    });
    ran.wait();
    EXPECT_EQ(logits.empty(), layer < pass->layers());
  }
  EXPECT_EQ(done, (std::vector<std::uint32_t>{1, 2}));
  EXPECT_EQ(pass->take().step, 42U);
  EXPECT_TRUE(same(logits, logits_alone(model, tokens)));
}

TEST(CpuExecutor, TwoOfThemWorkAtTheSameTimeOnTheSameWeights) {
  const auto model = packed();
  const auto work = [&](unsigned seed) {
    const auto tokens = some_tokens(120, 101, seed);
    blocks table(8);
    std::iota(table.begin(), table.end(), 0);
    runner own(model, {.threads = 2, .blocks = 8});
    own.step({slice_of(tokens, 0, 60, table)});
    for (std::size_t i = 60; i < 120; ++i) own.step({slice_of(tokens, i, 1, table)});
    return own.logits(0);
  };
  auto first = std::async(std::launch::async, work, 21);
  auto second = std::async(std::launch::async, work, 22);
  EXPECT_TRUE(same(first.get(), logits_alone(model, some_tokens(120, 101, 21))));
  EXPECT_TRUE(same(second.get(), logits_alone(model, some_tokens(120, 101, 22))));
}

TEST(CpuExecutor, CanBeDestroyedWhileAStepRuns) {
  const auto model = packed();
  const auto tokens = some_tokens(1500, 101, 9);
  blocks table(94);
  std::iota(table.begin(), table.end(), 0);
  for (int delay_us : {0, 100, 1000, 5000}) {
    auto runner = make_cpu_executor(model, {.threads = 2, .blocks = 94});
    protocols::step_input input;
    input.slices.push_back(slice_of(tokens, 0, 1500, table));
    auto pass = runner->begin(std::move(input));
    pass->advance(1, {});
    pass->advance(pass->layers(), {});
    std::this_thread::sleep_for(std::chrono::microseconds(delay_us));
    if (delay_us % 200 == 0) runner.reset(); // either may go first
    pass.reset();
  }
}

TEST(CpuExecutor, TakesTheNextStepAfterOneWasAbandoned) {
  const auto model = packed();
  const auto tokens = some_tokens(40, 101, 10);
  runner one(model, {.threads = 2, .blocks = 3});
  {
    protocols::step_input input;
    input.slices.push_back(slice_of(tokens, 0, 40, blocks{0, 1, 2}));
    const auto pass = one.get().begin(std::move(input));
    pass->advance(1, {});
  }
  one.step({slice_of(tokens, 0, 40, blocks{0, 1, 2})});
  EXPECT_TRUE(same(one.logits(0), logits_alone(model, tokens)));
}

TEST(CpuExecutor, RefusesWhatACallerMustNotAsk) {
  runner one(packed(), {.threads = 1, .blocks = 4});
  const auto tokens = some_tokens(64, 101, 12);
  const auto good = slice_of(tokens, 0, 20, blocks{0, 1});
  const auto refused = [&](std::vector<protocols::step_slice> slices, std::vector<protocols::block_copy> copies = {}) {
    EXPECT_THROW(one.step(slices, copies), std::invalid_argument);
  };
  refused({});
  refused({slice_of(tokens, 0, 20, blocks{0})});    // blocks do not cover
  refused({slice_of(tokens, 0, 20, blocks{0, 4})}); // outside the pool
  refused({good, slice_of(tokens, 0, 5, blocks{1})});
  refused({good}, {protocols::block_copy(protocols::block_id(9), protocols::block_id(0))});
  auto bad = good;
  bad.tokens[3] = 101;
  refused({bad});
  bad.tokens[3] = -1;
  refused({bad});
  bad = good;
  bad.first_position = 1999;
  refused({bad});
  bad = good;
  bad.tokens.clear();
  refused({bad});
  one.step({good}); // and is none the worse for it
  protocols::step_input input;
  input.slices.push_back(good);
  const auto pass = one.get().begin(input);
  EXPECT_THROW((void)one.get().begin(input), std::invalid_argument);
}

template <class Function> std::string error_of(const Function& function) {
  try {
    function();
  } catch (const std::runtime_error& error) {
    return error.what();
  }
  return "no error";
}

TEST(PackedModel, NamesTheTensorThatIsMissingOrHasAnotherShape) {
  const auto config = tiny_config();
  memory_weights weights(config, model::data_type::bf16, 1);
  weights.reshape("model.layers.1.mlp.up_proj.weight", {150, 71});
  EXPECT_EQ(
      error_of([&] { (void)pack_model(config, weights, 1); }),
      "tensor model.layers.1.mlp.up_proj.weight has shape [150, 71], config.json makes it [150, 72]; the files do "
      "not belong together");
  weights.remove("model.layers.0.self_attn.k_proj.weight");
  EXPECT_EQ(error_of([&] { (void)pack_model(config, weights, 1); }),
            "the model has no tensor model.layers.0.self_attn.k_proj.weight; its weight files are incomplete or of "
            "another architecture");
}

TEST(PackedModel, NamesTheNormOfHeadsThatIsMissingOrHasAnotherShape) {
  auto config = tiny_config();
  config.qk_norm = true;
  memory_weights weights(config, model::data_type::bf16, 1);
  weights.reshape("model.layers.1.self_attn.k_norm.weight", {120});
  EXPECT_EQ(error_of([&] { (void)pack_model(config, weights, 1); }),
            "tensor model.layers.1.self_attn.k_norm.weight has shape [120], config.json makes it [20]; the files do "
            "not belong together");
  weights.remove("model.layers.0.self_attn.q_norm.weight");
  EXPECT_EQ(error_of([&] { (void)pack_model(config, weights, 1); }),
            "the model has no tensor model.layers.0.self_attn.q_norm.weight; its weight files are incomplete or of "
            "another architecture");
}

TEST(PackedModel, IsNotMadeWhereItIsStopped) {
  const auto config = tiny_config();
  const memory_weights weights(config, model::data_type::bf16, 1);
  const std::atomic<bool> stop = true, go_on = false;
  EXPECT_EQ(error_of([&] { (void)pack_shards(config, weights, 1, 2, &stop); }), "the loading of the model was stopped");
  EXPECT_EQ(pack_shards(config, weights, 1, 2, &go_on).size(), 1U);
}

TEST(PackedModel, WidensWhereTypesAreMixed) {
  const auto config = tiny_config();
  memory_weights weights(config, model::data_type::bf16, 14);
  weights.retype("model.layers.0.self_attn.k_proj.weight", model::data_type::f32);
  weights.retype("model.norm.weight", model::data_type::f16);
  const auto tokens = some_tokens(40, 101, 15);
  const auto expected = plain_logits(config, weights, tokens);
  const auto logits = compute_logits(pack_model(config, weights, 2), tokens, {.threads = 1});
  for (std::size_t i = 0; i < expected.size(); ++i) ASSERT_NEAR(logits[i], expected[i], 1e-4);
}

TEST(CpuExecutor, SaysHowMuchMemoryIsMissingBeforeItTakesAny) {
  const auto error =
      error_of([] { (void)make_cpu_executor(packed(), {.threads = 1, .kv_bytes = std::uint64_t{1} << 45}); });
  EXPECT_TRUE(error.starts_with("not enough memory for a KV cache of ")) << error;
  EXPECT_NE(error.find(" blocks: 32.0 TiB needed, "), std::string::npos) << error;
  EXPECT_EQ(error_of([] { (void)make_cpu_executor(packed(), {.threads = 1, .kv_bytes = 100}); }),
            "a KV cache of 100 bytes holds no block; one takes 8.0 KiB");
}

TEST(CpuExecutor, DescribesItself) {
  const auto runner = make_cpu_executor(packed(), {.threads = 1, .blocks = 5, .isa = isa::scalar});
  EXPECT_EQ(runner->info().device, "cpu (1 thread, scalar)");
  EXPECT_EQ(runner->info().layers, 2U);
  EXPECT_EQ(runner->info().blocks, 5U);
  EXPECT_EQ(runner->info().vocabulary, 101U);
  EXPECT_EQ(runner->info().positions_max, 2000U);
  EXPECT_EQ(runner->info().weight_bytes, packed_bytes(*packed()));
  auto config = tiny_config();
  config.eos = {2, 5};
  const auto model = pack_model(config, memory_weights(config, model::data_type::bf16, 11), 1);
  EXPECT_EQ(make_cpu_executor(model, {.threads = 1, .blocks = 5})->info().eos, config.eos);
}

} // namespace
} // namespace godwit::gpu::cpu::testing
