#include "cuda/backend.hpp"
#include "cuda/device_model.hpp"
#include "cuda/emulated/emulated_driver.hpp"
#include "cuda/workspace.hpp"
#include "gpu/cuda/device_test.hpp"

#include <godwit/gpu/event.hpp>

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <stdexcept>
#include <vector>

// What only an emulated GPU can show: a device that breaks, and one whose work comes late.
namespace godwit::gpu::cuda::testing {
namespace {

class EmulatedGpu : public ::testing::Test {
protected:
  void make(const emulated::emulated_settings& settings) {
    backend_ = make_backend({emulated::make_emulated_driver(settings)});
    model_ = backend_->upload(0, config_, weights_);
  }
  std::unique_ptr<executor> make_executor(bool graphs = true) const {
    cuda_executor_settings settings;
    settings.blocks = 4;
    settings.step_tokens = 16;
    settings.graphs = graphs;
    return backend_->make_executor(model_, settings);
  }

  model::config config_ = small_config();
  memory_weights weights_{config_, model::data_type::bf16, 11};
  std::shared_ptr<cuda_backend> backend_;
  std::shared_ptr<const cuda_model> model_;
};

TEST_F(EmulatedGpu, ThatBreaksEndsTheStepWithOneLineAndLeavesTheProcess) {
  const auto tokens = some_tokens(12, 101, 1);
  for (const std::uint64_t kernel : {1, 2, 5, 9, 15, 17, 30, 40}) {
    emulated::emulated_settings settings;
    settings.kernel_that_fails = kernel;
    make(settings);
    const auto executor = make_executor();
    std::string first;
    std::uint64_t step = 0;
    while (first.empty() && step < 6)
      first = message_of([&] {
        run_step(*executor, ++step, {slice_of(tokens, step == 1 ? 0 : 2 + step, step == 1 ? 4 : 1, blocks{0})});
      });
    EXPECT_THAT(first, HasSubstr("made to fail")) << "kernel " << kernel << ", step " << step;
    EXPECT_EQ(first.find('\n'), std::string::npos);
    const auto later = message_of([&] { run_step(*executor, ++step, {slice_of(tokens, 0, 4, blocks{1})}); });
    EXPECT_EQ(later, first) << "a broken device stays broken and says why";
    EXPECT_THAT(message_of([&] { (void)make_executor(); }), HasSubstr("made to fail"));
  }
}

TEST_F(EmulatedGpu, ThatBreaksTellsEachPartOfAStepOnce) {
  emulated::emulated_settings settings;
  settings.kernel_that_fails = 4;
  make(settings);
  const auto executor = make_executor();
  protocols::step_input input;
  input.slices.push_back(slice_of(some_tokens(4, 101, 1), 0, 4, blocks{0}));
  const auto pass = executor->begin(std::move(input));
  std::atomic<int> told = 0, failed = 0;
  const event ran;
  for (const std::uint32_t upto : {1U, 2U})
    pass->advance(upto, [&, upto](const std::string& error) {
      ++told;
      if (!error.empty()) ++failed;
      if (upto == 2) ran.set();
    });
  ran.wait();
  EXPECT_EQ(told, 2);
  EXPECT_EQ(failed, 2);
  EXPECT_THROW((void)pass->take(), std::logic_error);
}

TEST_F(EmulatedGpu, ThatMakesNoGraphsServesWithoutThem) {
  const auto tokens = some_tokens(12, 101, 3);
  make({});
  const auto expected = draws_along(*make_executor(false), tokens, 1);
  emulated::emulated_settings settings;
  settings.captures_that_fail = ~std::uint64_t{0};
  make(settings);
  const auto executor = make_executor();
  EXPECT_EQ(draws_along(*executor, tokens, 1), expected);
  EXPECT_THAT(message_of([&] { (void)backend_->time_graphs(*executor, 1); }), HasSubstr("makes no graphs"));
}

// Each stream's work waits before it begins, in another way with every seed: what is not ordered goes wrong.
TEST_F(EmulatedGpu, ThatIsLateGivesTheSameTokens) {
  const auto tokens = some_tokens(12, 101, 3);
  std::vector<protocols::token_id> expected;
  for (const std::uint64_t seed : {0, 1, 2, 3}) {
    emulated::emulated_settings settings;
    settings.delay_us_max = seed == 0 ? 0 : 150;
    settings.seed = seed;
    make(settings);
    const auto executor = make_executor();
    const auto drawn = draws_along(*executor, tokens, static_cast<std::uint32_t>(seed));
    if (seed == 0) expected = drawn;
    EXPECT_EQ(drawn, expected) << "seed " << seed;
  }
}

// What draws read comes beside the layers, which are over long before it is there.
TEST_F(EmulatedGpu, WhoseCopiesAreSlowDrawsAsTheStepSays) {
  const auto tokens = some_tokens(12, 101, 3);
  emulated::emulated_settings settings;
  settings.copy_us = 10'000;
  make(settings);
  const auto executor = make_executor();
  for (std::uint64_t step = 1; step <= 7; ++step) {
    auto slice = slice_of(tokens, step == 1 ? 0 : 2 + step, step == 1 ? 4 : 1, blocks{0});
    const protocols::token_id only = step % 2 == 0 ? 17 : 70;
    for (protocols::token_id id = 0; id < 101; ++id)
      if (id != only) slice.forbidden.push_back(id);
    EXPECT_EQ(run_step(*executor, step, {slice}).tokens.at(0).id, only) << step;
  }
}

TEST_F(EmulatedGpu, ThatIsFullRefusesAStepAndServesTheNext) {
  emulated::emulated_settings settings;
  settings.memory_bytes = std::uint64_t{3} << 20U;
  make(settings);
  const auto executor = make_executor();
  const auto tokens = some_tokens(900, 101, 3);
  cuda_executor_settings all;
  all.step_tokens = 1;
  all.kv_bytes = 1'000'000;
  const auto other = backend_->make_executor(model_, all);
  EXPECT_THROW(run_step(*other, 1, {slice_of(tokens, 0, 900, first_blocks(57))}), out_of_memory);
  EXPECT_EQ(run_step(*other, 2, {slice_of(tokens, 0, 3, blocks{0})}).tokens.size(), 1U);
}

/// Ten steps of one request: a prompt, then tokens one by one, by `each`.
std::vector<protocols::token_id> ten_steps(executor& on, const std::function<void(std::uint64_t step)>& between) {
  const auto tokens = some_tokens(20, 101, 3);
  std::vector<protocols::token_id> drawn;
  for (std::uint64_t step = 1; step <= 10; ++step) {
    between(step);
    const auto slice = slice_of(tokens, step == 1 ? 0 : 9 + step, step == 1 ? 11 : 1, blocks{0, 1});
    drawn.push_back(run_step(on, step, {slice}).tokens.at(0).id);
  }
  return drawn;
}

// Graphs have addresses baked in: the layers' memory moves, then there is none for logits, and the step fails.
TEST_F(EmulatedGpu, ThatIsFullInTheMiddleOfGrowingLaunchesNoGraphOverWhatItGaveBack) {
  const auto driver = emulated::make_emulated_driver({std::uint64_t{64} << 20U});
  backend_ = make_backend({driver});
  config_.vocabulary = 4096;
  memory_weights weights(config_, model::data_type::bf16, 11);
  model_ = backend_->upload(0, config_, weights);
  cuda_executor_settings settings;
  settings.blocks = 80;
  settings.step_tokens = 16;
  settings.graphs = false;
  const auto expected = ten_steps(*backend_->make_executor(model_, settings), [](std::uint64_t) {});
  settings.graphs = true;
  const auto executor = backend_->make_executor(model_, settings);
  const auto prompt = some_tokens(200, 101, 5);
  auto scored = slice_of(prompt, 0, 200, first_blocks(13, 10));
  scored.scored.assign(prompt.begin() + 1, prompt.end());
  scored.scored.push_back(1);
  const auto between = [&](std::uint64_t step) {
    if (step != 6) return; // graphs are there by then
    const auto free = driver->memory().free_bytes;
    const std::uint64_t left = std::uint64_t{2} << 20U; // for 200 tokens, not for the logits and draws of 200
    ASSERT_GT(free, left);
    const auto others = driver->allocate(free - left, "others");
    EXPECT_THAT(message_of([&] { run_step(*executor, 100, {scored}); }), HasSubstr("a step's draws takes"));
  };
  EXPECT_EQ(ten_steps(*executor, between), expected);
}

TEST_F(EmulatedGpu, TakesMemoryForDecodesOfAnyLengthAtTheStart) {
  emulated::emulated_settings settings;
  settings.multiprocessors = 16; // a lone request is divided, a batch of 64 is not
  settings.counts = std::make_shared<emulated::memory_counts>();
  make(settings);
  cuda_executor_settings wanted;
  wanted.blocks = 64;
  wanted.step_tokens = 64;
  const auto executor = backend_->make_executor(model_, wanted);
  const auto tokens = some_tokens(1024, 101, 3);
  const std::uint64_t taken = settings.counts->taken;
  std::uint64_t step = 0;
  for (std::size_t done = 0; done < 960; done += 64)
    run_step(*executor, ++step, {slice_of(tokens, done, 64, first_blocks(64))});
  for (std::size_t i = 960; i < 965; ++i) run_step(*executor, ++step, {slice_of(tokens, i, 1, first_blocks(64))});
  EXPECT_EQ(settings.counts->taken, taken);
  EXPECT_GE(backend_->time_graphs(*executor, 1), 0.0) << "and nothing voids its graphs";
}

TEST_F(EmulatedGpu, MovesNothingForAListThatGrowsWithEveryToken) {
  emulated::emulated_settings settings;
  settings.counts = std::make_shared<emulated::memory_counts>();
  const auto driver = emulated::make_emulated_driver(settings);
  const auto model = upload_model(driver, config_, weights_);
  workspace memory(*driver, *model, false, 16);
  const std::uint64_t taken = settings.counts->taken;
  for (std::uint64_t length = 1; length <= 2000; ++length) {
    sampling_lists lists;
    lists.counts = length;
    memory.reserve_lists(lists);
  }
  EXPECT_EQ(settings.counts->taken, taken);
  for (std::uint64_t length = 1; length <= 1'000'000; length += 7) {
    sampling_lists lists;
    lists.counts = length;
    memory.reserve_lists(lists);
  }
  EXPECT_LE(settings.counts->taken, taken + 2 * 8) << "twice as much each time, on both sides";
}

TEST_F(EmulatedGpu, WithoutRoomForWhatProductsWorkWithIsRefusedWithWhatIsMissing) {
  emulated::emulated_settings settings;
  settings.memory_bytes = std::uint64_t{8} << 20U;
  settings.product_bytes = std::uint64_t{32} << 20U;
  make(settings);
  try {
    (void)make_executor();
    ADD_FAILURE() << "it was made";
  } catch (const out_of_memory& failure) {
    EXPECT_THAT(failure.what(), HasSubstr("working memory of products takes 32.0 MiB; emulated GPU has "));
  }
}

} // namespace
} // namespace godwit::gpu::cuda::testing
