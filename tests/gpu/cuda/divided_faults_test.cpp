#include "cuda/backend.hpp"
#include "cuda/emulated/emulated_driver.hpp"
#include "gpu/cuda/device_test.hpp"
#include "gpu/run_to_end.hpp"

#include <chrono>
#include <cstdint>
#include <memory>
#include <thread>
#include <vector>

// What only emulated GPUs that share a model can show: one that breaks, that stays away, that is late, that is small.
namespace godwit::gpu::cuda::testing {
namespace {

using namespace std::chrono_literals;
using gpu::testing::error_after;
using gpu::testing::run_to_end;

class EmulatedGpus : public ::testing::Test {
protected:
  void make(const std::vector<emulated::emulated_settings>& each) {
    backend_ = make_backend(emulated::make_emulated_drivers(each));
    parts_ = upload_parts(*backend_, config_, weights_, static_cast<std::uint32_t>(each.size()));
  }
  std::unique_ptr<executor> make_executor(std::chrono::nanoseconds wait_max = 60s, bool deterministic = false) const {
    cuda_executor_settings settings;
    settings.blocks = 8;
    settings.step_tokens = 16;
    settings.deterministic = deterministic;
    return backend_->make_executor(parts_, settings, wait_max);
  }
  protocols::step_input prompt(std::size_t count = 12) const {
    protocols::step_input input;
    input.slices.push_back(slice_of(some_tokens(count, config_.vocabulary, 1), 0, count, blocks{0, 1}));
    return input;
  }

  model::config config_ = four_kv_heads();
  memory_weights weights_{config_, model::data_type::bf16, 11};
  std::shared_ptr<cuda_backend> backend_;
  model_parts parts_;
};

// Kernels 1 to 40 are of the first prompt and of decodes behind it, plain and as graphs.
TEST_F(EmulatedGpus, OneThatBreaksEndsTheStepOfAllWithOneLine) {
  const auto tokens = some_tokens(12, config_.vocabulary, 1);
  for (const bool deterministic : {false, true})
    for (const std::size_t broken : {0U, 1U})
      for (const std::uint64_t kernel : {1, 4, 9, 10, 17, 24, 40, 60}) {
        std::vector<emulated::emulated_settings> each(2);
        each[broken].kernel_that_fails = kernel;
        make(each);
        const auto executor = make_executor(60s, deterministic);
        std::string first;
        std::uint64_t step = 0;
        while (first.empty() && step < 8)
          first = message_of([&] {
            run_step(*executor, ++step, {slice_of(tokens, step == 1 ? 0 : 2 + step, step == 1 ? 4 : 1, blocks{0})});
          });
        EXPECT_THAT(first, HasSubstr("made to fail"))
            << "device " << broken << ", kernel " << kernel << (deterministic ? ", deterministic" : "");
        EXPECT_EQ(first.find('\n'), std::string::npos);
        const auto later = message_of([&] { run_step(*executor, ++step, {slice_of(tokens, 0, 4, blocks{1})}); });
        EXPECT_THAT(later, HasSubstr("made to fail"));
      }
}

TEST_F(EmulatedGpus, OneWhoseStepIsDroppedEndsThoseOfTheOthers) {
  make(std::vector<emulated::emulated_settings>(2));
  for (const bool stays_first : {true, false}) {
    const auto many = make_executor();
    const auto stays = many->shards()[stays_first ? 0 : 1]->begin(prompt());
    auto goes = many->shards()[stays_first ? 1 : 0]->begin(prompt());
    goes->advance(1, {});
    EXPECT_EQ(error_after(*stays, [&] { goes.reset(); }),
              std::string("a step was abandoned by rank ") + (stays_first ? "1" : "0"));
  }
}

TEST_F(EmulatedGpus, OneThatIsGoneEndsTheStepsOfTheOthers) {
  make(std::vector<emulated::emulated_settings>(2));
  auto many = make_executor();
  std::shared_ptr<executor> stays = many->shards()[1];
  const auto step = stays->begin(prompt());
  EXPECT_EQ(error_after(*step, [&] { many.reset(); }), "rank 0 is gone");
}

TEST_F(EmulatedGpus, OneThatStaysAwayIsAnErrorOfTheOthersAndNoHang) {
  make(std::vector<emulated::emulated_settings>(2));
  const auto many = make_executor(50ms);
  const auto alone = many->shards()[1]->begin(prompt());
  EXPECT_THAT(run_to_end(*alone), HasSubstr("rank 0 did not come to a sum"));
  EXPECT_THAT(message_of([&] { (void)many->shards()[0]->begin(prompt()); }), HasSubstr("rank 0 did not come to a sum"));
}

TEST_F(EmulatedGpus, CanBeDestroyedWhileAStepRuns) {
  emulated::emulated_settings late;
  late.delay_us_max = 100;
  make(std::vector(4, late));
  for (const int delay_us : {0, 500, 5000}) {
    auto executor = make_executor();
    auto pass = executor->begin(prompt());
    pass->advance(1, {});
    pass->advance(2, {});
    std::this_thread::sleep_for(std::chrono::microseconds(delay_us));
    if (delay_us == 0) executor.reset(); // either may go first
    pass.reset();
  }
  EXPECT_EQ(run_to_end(*make_executor()->begin(prompt())), "") << "and the devices serve on";
}

TEST_F(EmulatedGpus, ThatAreLateGiveTheSameTokens) {
  const auto tokens = some_tokens(12, config_.vocabulary, 3);
  std::vector<protocols::token_id> expected;
  for (const std::uint64_t seed : {0, 1, 2}) {
    std::vector<emulated::emulated_settings> each(2);
    for (std::size_t i = 0; i < 2; ++i) {
      each[i].delay_us_max = seed == 0 ? 0 : 150;
      each[i].seed = seed * 10 + i;
    }
    make(each);
    const auto executor = make_executor();
    const auto drawn = draws_along(*executor, tokens, static_cast<std::uint32_t>(seed));
    if (seed == 0) expected = drawn;
    EXPECT_EQ(drawn, expected) << "seed " << seed;
  }
}

TEST_F(EmulatedGpus, HaveAsManyBlocksAsTheSmallest) {
  std::vector<emulated::emulated_settings> each(2);
  each[1].memory_bytes = std::uint64_t{8} << 20U;
  make(each);
  cuda_executor_settings settings;
  settings.step_tokens = 16;
  const auto many = backend_->make_executor(parts_, settings, 60s);
  EXPECT_LE(many->info().blocks * many->info().block_bytes / 2, std::uint64_t{8} << 20U);
  EXPECT_GT(many->info().blocks, 100U);
  for (const auto& rank : many->shards()) EXPECT_EQ(rank->info().blocks, many->info().blocks);
}

TEST_F(EmulatedGpus, AreNotGivenTheRestOfTheMemoryWhereTheKvCacheIsToBeTiny) {
  make(std::vector<emulated::emulated_settings>(2));
  cuda_executor_settings settings;
  settings.step_tokens = 16;
  settings.kv_bytes = 1; // no whole byte for each device
  EXPECT_THROW((void)backend_->make_executor(parts_, settings, 60s), out_of_memory);
}

// Giving memory back, and taking some, may wait for a device that waits for this one.
TEST_F(EmulatedGpus, TakeNothingWhileAStepIsUnderWayAndGiveNothingBackWhileTheyWorkTogether) {
  std::vector<emulated::emulated_settings> each(2);
  for (auto& one : each) one.counts = std::make_shared<emulated::memory_counts>();
  make(each);
  cuda_executor_settings settings;
  settings.blocks = 70;
  settings.step_tokens = 16;
  settings.allowed = [](const protocols::step_slice&) {
    auto mask = std::make_shared<model::token_mask>();
    mask->words = {~std::uint64_t{0}, ~std::uint64_t{0}};
    return mask;
  };
  const auto many = backend_->make_executor(parts_, settings, 60s);
  const auto count = [&](auto which) {
    return std::vector<std::uint64_t>{(*each[0].counts).*which, (*each[1].counts).*which};
  };
  const auto given_back = count(&emulated::memory_counts::given_back);
  const auto tokens = some_tokens(1000, config_.vocabulary, 3);
  for (const std::size_t rows : {10U, 300U, 900U}) { // each larger than there was room for
    protocols::step_input input;
    auto& slice = input.slices.emplace_back(slice_of(tokens, 0, rows, first_blocks(63)));
    slice.forbidden.resize(rows * 30, 1);
    slice.sampling.logit_bias.resize(rows * 30);
    slice.sampling.repetition_penalty = 1.1F;
    slice.sampling.json_schema = "{}";
    slice.prompt = slice.generated = tokens;
    const auto pass = many->begin(input);
    const auto taken = count(&emulated::memory_counts::taken);
    EXPECT_EQ(run_to_end(*pass), "");
    EXPECT_NE(pass->take().tokens.at(0).id, protocols::no_token);
    EXPECT_EQ(count(&emulated::memory_counts::taken), taken) << rows;
    EXPECT_EQ(count(&emulated::memory_counts::given_back), given_back) << rows;
  }
}

TEST_F(EmulatedGpus, OneThatIsFullEndsTheStepOfAll) {
  std::vector<emulated::emulated_settings> each(2);
  each[1].memory_bytes = std::uint64_t{2} << 20U;
  make(each);
  cuda_executor_settings settings;
  settings.step_tokens = 16;
  settings.kv_bytes = 1 << 19U;
  const auto many = backend_->make_executor(parts_, settings, 60s);
  const auto tokens = some_tokens(1000, config_.vocabulary, 3);
  protocols::step_input input;
  input.slices.push_back(slice_of(tokens, 0, 1000, first_blocks(63)));
  ASSERT_GE(many->info().blocks, 63U);
  const auto first = many->shards()[0]->begin(input);
  EXPECT_THROW((void)many->shards()[1]->begin(input), out_of_memory);
  EXPECT_THAT(run_to_end(*first), HasSubstr("rank 1: a step takes"));
}

} // namespace
} // namespace godwit::gpu::cuda::testing
