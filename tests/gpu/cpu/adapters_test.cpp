#include "gpu/cpu/kernel_support.hpp"
#include "gpu/cpu/tiny_model.hpp"
#include "gpu/model/adapter_files.hpp"
#include "gpu/model/model_files.hpp"

#include <godwit/gpu/event.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <chrono>
#include <cmath>
#include <map>
#include <numeric>
#include <string>
#include <thread>

// Low-rank adapters on the CPU: beside the model's weights they give what a model with both added up would.
namespace godwit::gpu::cpu::testing {
namespace {

using model::projection;
using model::tests::all_projections;
using model::tests::made_adapter;
using model::tests::random_adapter_of;
using model::tests::scratch_directory;

const std::map<projection, std::string>& names() {
  static const std::map<projection, std::string> all{
      {projection::query, "self_attn.q_proj"}, {projection::key, "self_attn.k_proj"},
      {projection::value, "self_attn.v_proj"}, {projection::output, "self_attn.o_proj"},
      {projection::gate, "mlp.gate_proj"},     {projection::up, "mlp.up_proj"},
      {projection::down, "mlp.down_proj"}};
  return all;
}

/// Its values, not what is packed.
void merge(memory_weights& weights, const made_adapter& adapter) {
  for (const auto& [place, update] : adapter.updates) {
    auto& values = weights.values_to_change("model.layers." + std::to_string(place.first) + "." +
                                            names().at(place.second) + ".weight");
    const auto added = adapter.added(place.first, place.second);
    for (std::size_t i = 0; i < values.size(); ++i)
      values[i] = static_cast<float>(static_cast<double>(values[i]) + added[i]);
  }
}

/// A process's adapters, and who holds them.
class shelf {
public:
  explicit shelf(std::vector<std::shared_ptr<const packed_model>> shards, std::uint64_t bytes = 1U << 24U)
      : directory_("adapters"), found_(std::make_shared<model::adapter_directory>(directory_.path())),
        store_(std::make_shared<cpu_adapters>(found_, bytes)) {
    store_->serve(std::move(shards));
  }
  adapter_outcome load(const std::string& name) {
    const auto which = found_->find(name);
    adapter_outcome out;
    const event came;
    const auto asker = std::make_shared<const bool>(true);
    store_->load(which.value_or(protocols::adapter_ref(name, 1)), asker, [&](adapter_outcome outcome) {
      out = std::move(outcome);
      came.set();
    });
    came.wait();
    return out;
  }
  std::uint64_t hold(const std::string& name, const made_adapter& adapter) {
    adapter.write(directory_.path() / name);
    auto outcome = load(name);
    EXPECT_EQ(outcome.error, "");
    held_.push_back(std::move(outcome.held));
    return found_->find(name)->id;
  }
  void let_go() { held_.clear(); }
  [[nodiscard]] const std::shared_ptr<cpu_adapters>& store() const { return store_; }
  [[nodiscard]] const std::filesystem::path& path() const { return directory_.path(); }

private:
  scratch_directory directory_;
  std::shared_ptr<const model::adapter_directory> found_;
  std::shared_ptr<cpu_adapters> store_;
  std::vector<std::shared_ptr<const void>> held_;
};

double farthest(const std::vector<float>& got, const std::vector<double>& expected) {
  double most = 0;
  for (std::size_t i = 0; i < got.size(); ++i)
    most = std::max(most, std::abs(static_cast<double>(got[i]) - expected[i]));
  return most;
}

struct adapter_case {
  std::string name;
  std::vector<projection> which;
  std::uint32_t rank = 8;
  bool ranks_differ = false;
  bool by_root = false;
};

class AdapterLogits : public ::testing::TestWithParam<adapter_case> {};

TEST_P(AdapterLogits, AreThoseOfTheSumOfBothInDouble) {
  auto config = tiny_config();
  config.qkv_bias = config.output_bias = config.mlp_bias = true;
  const auto& what = GetParam();
  const auto tokens = some_tokens(50, config.vocabulary, 3);
  memory_weights weights(config, model::data_type::f32, 21);
  for (const std::uint32_t degree : {1U, 2U}) {
    const auto shards = pack_shards(config, weights, degree, 1);
    auto adapter = random_adapter_of(config, what.which, what.rank, 5, model::data_type::f32, what.ranks_differ);
    adapter.by_root = what.by_root;
    auto both = weights;
    merge(both, adapter);
    shelf here(shards);
    cpu_executor_settings settings;
    settings.threads = 2;
    settings.adapters = here.store();
    const auto id = here.hold("some", adapter);
    const auto expected = plain_logits(config, both, tokens);
    EXPECT_LT(farthest(compute_logits(shards, tokens, settings, 17, id), expected), 2e-3);
    EXPECT_GT(farthest(compute_logits(shards, tokens, settings), expected), 0.1) << "it changes something";
    EXPECT_LT(farthest(compute_logits(shards, tokens, settings), plain_logits(config, weights, tokens)), 2e-3);
  }
}

INSTANTIATE_TEST_SUITE_P(
    Of, AdapterLogits,
    ::testing::Values(adapter_case{"everything", all_projections()},
                      adapter_case{"queries_and_values", {projection::query, projection::value}, 16},
                      adapter_case{"the_mlp", {projection::gate, projection::down}, 3},
                      adapter_case{"keys_only", {projection::key}, 1},
                      adapter_case{"many_ranks", all_projections(), 11, true},
                      adapter_case{"large_ranks", all_projections(), 70}, // deeper than the model is wide
                      adapter_case{"roots", {projection::output, projection::up}, 4, false, true}),
    [](const auto& one) { return one.param.name; });

TEST(CpuAdapters, OfAMixtureOfExpertsAreAddedToItsAttention) {
  auto config = tiny_config();
  config.kind = model::family::mixtral;
  config.mixture = {5, 2, true};
  const auto tokens = some_tokens(50, config.vocabulary, 3);
  memory_weights weights(config, model::data_type::f32, 21);
  const auto packed = pack_model(config, weights, 1);
  const auto adapter = random_adapter_of(config, {projection::query, projection::output}, 8, 5);
  shelf here({packed});
  cpu_executor_settings settings;
  settings.threads = 2;
  settings.adapters = here.store();
  const auto id = here.hold("some", adapter);
  const auto plain = plain_logits(config, weights, tokens);
  merge(weights, adapter);
  EXPECT_LT(farthest(compute_logits(packed, tokens, settings, 17, id), plain_logits(config, weights, tokens)), 2e-3);
  EXPECT_LT(farthest(compute_logits(packed, tokens, settings), plain), 2e-3);
}

TEST(CpuAdapters, WhatTheyAddIsNormedWithTheProductWhereItIs) {
  const auto config = as_gemma3(tiny_config());
  const auto tokens = some_tokens(50, config.vocabulary, 3);
  memory_weights weights(config, model::data_type::f32, 21);
  const auto adapter = random_adapter_of(config, all_projections(), 8, 5);
  const auto plain = plain_logits(config, weights, tokens);
  auto both = weights;
  merge(both, adapter);
  const auto expected = plain_logits(config, both, tokens);
  for (const std::uint32_t degree : {1U, 2U}) {
    const auto shards = pack_shards(config, weights, degree, 1);
    shelf here(shards);
    cpu_executor_settings settings;
    settings.threads = 2;
    settings.adapters = here.store();
    const auto id = here.hold("some", adapter);
    EXPECT_LT(farthest(compute_logits(shards, tokens, settings, 17, id), expected), 2e-3) << degree;
    EXPECT_GT(farthest(compute_logits(shards, tokens, settings), expected), 0.1) << "it changes something";
    EXPECT_LT(farthest(compute_logits(shards, tokens, settings), plain), 2e-3) << degree;
  }
}

TEST(CpuAdapters, OfOtherTypesAreRoundedToThatOfTheWeights) {
  const auto config = tiny_config();
  const auto tokens = some_tokens(40, config.vocabulary, 3);
  using model::data_type;
  for (const auto weight_type : {data_type::bf16, data_type::f16, data_type::f32})
    for (const auto type : {data_type::bf16, data_type::f16, data_type::f32}) {
      memory_weights weights(config, weight_type, 21);
      const auto packed = pack_model(config, weights, 1);
      const auto adapter = random_adapter_of(config, all_projections(), 8, 5, type);
      merge(weights, adapter);
      shelf here({packed});
      cpu_executor_settings settings;
      settings.adapters = here.store();
      const auto id = here.hold("some", adapter);
      const auto got = compute_logits(packed, tokens, settings, 0, id);
      const auto expected = plain_logits(config, weights, tokens);
      // Of activations in bf16 an answer is off by some tenths at worst; without the adapter by more than 2.
      EXPECT_LT(farthest(got, expected), weight_type == data_type::bf16 ? 0.5 : 0.02)
          << to_string(weight_type) << " with " << to_string(type);
    }
}

// Requests with one adapter, with another and with none in one batch, as in Punica and S-LoRA: nobody's numbers depend
// on the others'.
TEST(CpuAdapters, ARequestInACrowdHasTheLogitsThatItHasAlone) {
  for (const auto& [type, experts] : {std::pair{model::data_type::bf16, false}, std::pair{model::data_type::f32, false},
                                      std::pair{model::data_type::bf16, true}}) {
    auto config = tiny_config();
    auto adapted = all_projections();
    if (experts) {
      config.kind = model::family::qwen3_moe;
      config.mixture = {7, 3, true};
      adapted = {projection::query, projection::key, projection::value, projection::output};
    }
    const auto packed = pack_model(config, memory_weights(config, type, 11), 1);
    shelf here({packed});
    std::vector<std::uint64_t> ids{0};
    for (unsigned i = 0; i < 3; ++i)
      ids.push_back(here.hold("a" + std::to_string(i), random_adapter_of(config, adapted, 4 + 9 * i, i, type)));
    std::vector<std::vector<float>> alone;
    std::vector<std::vector<protocols::token_id>> texts;
    for (unsigned i = 0; i < 24; ++i) {
      texts.push_back(some_tokens(30 + i, config.vocabulary, 40 + i));
      cpu_executor_settings settings;
      settings.threads = 1;
      settings.adapters = here.store();
      settings.isa = isa::scalar;
      const auto all = compute_logits(packed, texts.back(), settings, 0, ids[i % ids.size()]);
      alone.emplace_back(all.end() - config.vocabulary, all.end());
    }
    for (const auto kind : isas_here())
      for (const std::uint32_t threads : {1U, 3U}) {
        runner busy(packed, {.threads = threads, .blocks = 24 * 4, .isa = kind, .adapters = here.store()});
        const auto slice = [&](unsigned i, std::size_t first, std::size_t count) {
          std::vector<std::uint32_t> table(4);
          std::iota(table.begin(), table.end(), i * 4);
          auto out = slice_of(texts[i], first, count, table);
          out.adapter = ids[i % ids.size()];
          return out;
        };
        std::vector<protocols::step_slice> prompts, mixed;
        for (unsigned i = 0; i < 24; ++i) prompts.push_back(slice(i, 0, i % 2 == 0 ? texts[i].size() - 1 : 19));
        busy.step(prompts);
        // Half of them decode, the others compute the rest of their prompts.
        for (unsigned i = 0; i < 24; ++i)
          mixed.push_back(i % 2 == 0 ? slice(i, texts[i].size() - 1, 1) : slice(i, 19, texts[i].size() - 19));
        busy.step(mixed);
        for (unsigned i = 0; i < 24; ++i)
          ASSERT_TRUE(same_bits(busy.logits(i).data(), alone[i].data(), alone[i].size()))
              << "request " << i << ", " << threads << " threads";
      }
  }
}

TEST(CpuAdapters, ValuesAreRoundedToTheNearestF16) {
  const auto as_the_compiler_does = [](float value) {
    return std::bit_cast<std::uint16_t>(static_cast<_Float16>(value));
  };
  for (std::uint32_t half = 0; half < 0x10000; ++half) {
    const bool is_number = (half & 0x7c00U) != 0x7c00U || (half & 0x3ffU) == 0;
    if (!is_number) continue;
    const auto bits = static_cast<std::uint16_t>(half);
    const auto* raw = reinterpret_cast<const std::byte*>(&bits);
    const float value = widen(model::data_type::f16, raw);
    ASSERT_EQ(narrow_to_f16(value), half);
    for (const float beside :
         {std::nextafter(value, 1e9F), std::nextafter(value, -1e9F), value * 1.0002F, value * 1.0005F})
      ASSERT_EQ(narrow_to_f16(beside), as_the_compiler_does(beside)) << beside;
  }
  for (const float value : random_values(10'000, 3, 1.0F, spread::wild))
    ASSERT_EQ(narrow_to_f16(value), as_the_compiler_does(value)) << value;
  for (const float value : {65519.0F, 65520.0F, 1e30F, -1e30F, 1e-30F, 0.0F, -0.0F})
    ASSERT_EQ(narrow_to_f16(value), as_the_compiler_does(value)) << value;
}

TEST(CpuAdapters, AStepNamesNoneThatIsNotThere) {
  const auto config = tiny_config();
  const auto packed = pack_model(config, memory_weights(config, model::data_type::bf16, 11), 1);
  const auto tokens = some_tokens(5, config.vocabulary, 3);
  const std::vector<std::uint32_t> table{0};
  auto slice = slice_of(tokens, 0, 5, table);
  slice.adapter = 7;
  runner without(packed, {.threads = 1, .blocks = 2});
  EXPECT_THROW((void)without.step({slice}), std::invalid_argument);
  shelf here({packed});
  runner with(packed, {.threads = 1, .blocks = 2, .adapters = here.store()});
  EXPECT_THROW((void)with.step({slice}), std::invalid_argument);
  slice.adapter = 0;
  EXPECT_EQ(with.step({slice}).tokens.size(), 1U) << "and the next step runs";
}

TEST(CpuAdapters, GoWhenNobodyHoldsThemAndAnotherNeedsTheRoom) {
  const auto config = tiny_config();
  const auto packed = pack_model(config, memory_weights(config, model::data_type::bf16, 11), 1);
  std::uint64_t one = 0;
  {
    shelf here({packed});
    (void)here.hold("a", random_adapter_of(config, all_projections(), 8, 1));
    one = here.store()->counts().bytes;
    EXPECT_EQ(here.store()->counts().adapters, 1U);
  }
  shelf here({packed}, 2 * one);
  const auto a = here.hold("a", random_adapter_of(config, all_projections(), 8, 1));
  const auto b = here.hold("b", random_adapter_of(config, all_projections(), 8, 2));
  EXPECT_TRUE(here.store()->find(a) && here.store()->find(b));
  EXPECT_EQ(here.store()->find(a)->size(), 1U) << "it is on one device";
  here.let_go();
  EXPECT_TRUE(here.load("a").held) << "it was used last";
  (void)here.hold("c", random_adapter_of(config, all_projections(), 8, 3));
  EXPECT_TRUE(here.store()->find(a));
  EXPECT_FALSE(here.store()->find(b));
  EXPECT_EQ(here.store()->counts().evictions_total, 1U);
  EXPECT_EQ(here.store()->counts().loads_total, 3U);
}

// A request with an adapter waits for those of others to end.
TEST(CpuAdapters, OneThatFindsNoRoomWaitsForIt) {
  const auto config = tiny_config();
  const auto packed = pack_model(config, memory_weights(config, model::data_type::bf16, 11), 1);
  std::uint64_t one = 0;
  {
    shelf here({packed});
    (void)here.hold("a", random_adapter_of(config, all_projections(), 8, 1));
    one = here.store()->counts().bytes;
  }
  shelf here({packed}, one + one / 2);
  (void)here.hold("a", random_adapter_of(config, all_projections(), 8, 1));
  random_adapter_of(config, all_projections(), 8, 2).write(here.path() / "b");
  const auto which = model::adapter_directory(here.path()).find("b");
  const event came;
  adapter_outcome outcome;
  const auto asker = std::make_shared<const bool>(true);
  here.store()->load(*which, asker, [&](adapter_outcome what) {
    outcome = std::move(what);
    came.set();
  });
  std::this_thread::sleep_for(std::chrono::milliseconds(50)); // it has been looked at
  EXPECT_FALSE(came.ready());
  EXPECT_TRUE(here.store()->find(model::adapter_directory(here.path()).find("a")->id)) << "which is held";
  here.let_go();
  came.wait();
  EXPECT_EQ(outcome.error, "");
  EXPECT_TRUE(here.store()->find(which->id));
}

TEST(CpuAdapters, ThatCannotBeHadSayWhy) {
  const auto config = tiny_config();
  const auto packed = pack_model(config, memory_weights(config, model::data_type::bf16, 11), 1);
  shelf here({packed}, 60'000);
  auto other = config;
  other.hidden = 64;
  random_adapter_of(other, {projection::key}, 8, 1).write(here.path() / "other");
  random_adapter_of(config, {projection::key}, 300, 1).write(here.path() / "large");
  random_adapter_of(config, {projection::key}, 8, 1).write(here.path() / "fits");
  EXPECT_NE(here.load("other").error.find("it was trained for another model"), std::string::npos);
  EXPECT_NE(here.load("large").error.find("more than the"), std::string::npos);
  EXPECT_NE(here.load("none").error.find("adapter_model.safetensors"), std::string::npos);
  EXPECT_EQ(here.load("fits").error, "");
  EXPECT_EQ(here.store()->counts().failures_total, 3U);
}

} // namespace
} // namespace godwit::gpu::cpu::testing
