#include "cuda/backend.hpp"
#include "cuda/emulated/emulated_driver.hpp"
#include "gpu/cuda/device_test.hpp"

#include <godwit/gpu/event.hpp>

#include <atomic>
#include <stdexcept>

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
  settings.captures_fail = true;
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

} // namespace
} // namespace godwit::gpu::cuda::testing
