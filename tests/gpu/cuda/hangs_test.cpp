#include "cuda/backend.hpp"
#include "cuda/emulated/emulated_driver.hpp"
#include "gpu/cuda/device_test.hpp"
#include "gpu/run_to_end.hpp"
#include "gpu/swapped.hpp"

#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

// GPUs that do not end what they have: whoever drops a step, a swap space or an executor goes on all the same, and
// nothing that they may still write is given back meanwhile.
namespace godwit::gpu::cuda::testing {
namespace {

using namespace std::chrono_literals;
using gpu::testing::copied_out;
using gpu::testing::moves;
using gpu::testing::run_to_end;
using ::testing::ElementsAre;

constexpr std::size_t gpus = 2;

template <class Condition> bool eventually(const Condition& holds) {
  const auto until = std::chrono::steady_clock::now() + 30s;
  while (!holds() && std::chrono::steady_clock::now() < until) std::this_thread::sleep_for(1ms);
  return holds();
}

class HangingGpu : public ::testing::Test {
protected:
  HangingGpu() {
    std::vector<emulated::emulated_settings> each(gpus);
    for (std::size_t i = 0; i < gpus; ++i) {
      each[i].stands = stands_[i] = std::make_shared<emulated::standstill>();
      each[i].counts = counts_[i] = std::make_shared<emulated::memory_counts>();
    }
    backend_ = make_backend(emulated::make_emulated_drivers(each));
  }
  ~HangingGpu() override {
    for (const auto& one : stands_) one->end();
  }

  void upload(model_parts parts) {
    parts_ = std::move(parts);
    for (std::size_t i = 0; i < gpus; ++i) weights_held_[i] = counts_[i]->taken - counts_[i]->given_back;
  }
  void upload_to_one() { upload({backend_->upload(0, config_, weights_)}); }

  cuda_executor_settings settings(std::chrono::nanoseconds patience = 20ms) {
    cuda_executor_settings s;
    s.blocks = 8;
    s.step_tokens = 16;
    s.patience = patience;
    s.warn = [this](const std::string& line) {
      const std::lock_guard lock(mutex_);
      lines_.push_back(line);
    };
    return s;
  }
  std::unique_ptr<executor> make(const cuda_executor_settings& s) { return backend_->make_executor(parts_, s, 60s); }
  std::vector<std::string> lines() {
    const std::lock_guard lock(mutex_);
    return lines_;
  }

  [[nodiscard]] protocols::step_input prompt() const {
    protocols::step_input input;
    input.slices.push_back(slice_of(some_tokens(12, config_.vocabulary, 1), 0, 12, blocks{0, 1}));
    return input;
  }
  /// Begun, and held up by the device.
  std::unique_ptr<forward> hanging_step(executor& on, std::size_t device, completion done = {}) {
    stands_[device]->begin();
    auto step = on.begin(prompt());
    step->advance(step->layers(), std::move(done));
    stands_[device]->wait_until_held();
    return step;
  }
  /// Pieces of memory beside the weights.
  [[nodiscard]] std::uint64_t held(std::size_t device = 0) const {
    return counts_[device]->taken - counts_[device]->given_back - weights_held_[device];
  }
  [[nodiscard]] std::uint64_t given_back(std::size_t device = 0) const { return counts_[device]->given_back; }
  void expect_all_is_given_back() const {
    EXPECT_TRUE(eventually([&] { return held(0) == 0 && held(1) == 0; })) << held(0) << " and " << held(1);
  }
  /// Who had something of it may still have it for a moment.
  void forget_the_model() {
    parts_.clear();
    weights_held_ = {};
    expect_all_is_given_back();
  }
  /// As soon as all that was left has gone.
  std::unique_ptr<executor> make_in_time(const cuda_executor_settings& s) {
    std::unique_ptr<executor> made;
    const auto makes = [&] {
      try {
        if (!made) made = make(s);
      } catch (const driver_error&) {
        return false;
      }
      return true;
    };
    EXPECT_TRUE(eventually(makes));
    return made;
  }
  void expect_serves() {
    const auto made = make_in_time(settings(1min));
    ASSERT_TRUE(made);
    EXPECT_EQ(run_to_end(*made->begin(prompt())), "");
  }
  std::string refusal() {
    return message_of([&] { (void)make(settings()); });
  }

  model::config config_ = four_kv_heads();
  memory_weights weights_{config_, model::data_type::bf16, 11};
  std::array<std::shared_ptr<emulated::standstill>, gpus> stands_;
  std::array<std::shared_ptr<emulated::memory_counts>, gpus> counts_;
  std::array<std::uint64_t, gpus> weights_held_{};
  std::mutex mutex_;
  std::vector<std::string> lines_;
  std::shared_ptr<cuda_backend> backend_;
  model_parts parts_;
};

TEST_F(HangingGpu, KeepsWhatAStepUsesAndHoldsUpNobodyWhoDropsIt) {
  upload_to_one();
  auto executor = make(settings());
  EXPECT_EQ(run_to_end(*executor->begin(prompt())), "");
  const auto told = std::make_shared<std::atomic<int>>(0);
  auto step = hanging_step(*executor, 0, [told](const std::string&) { ++*told; });
  const auto held_before = held(), given_back_before = given_back();
  step.reset();
  EXPECT_EQ(told.use_count(), 1) << "its completion has gone";
  EXPECT_THAT(lines(), ElementsAre(HasSubstr("a step that was given up does not end")));
  EXPECT_THAT(message_of([&] { (void)executor->begin(prompt()); }), HasSubstr("a step before did not end"));
  executor.reset();
  EXPECT_EQ(held(), held_before);
  EXPECT_EQ(given_back(), given_back_before);
  EXPECT_THAT(refusal(), HasSubstr("cuda 0 has not ended a step"));

  stands_[0]->end();
  expect_all_is_given_back();
  EXPECT_EQ(*told, 0);
  expect_serves();
}

TEST_F(HangingGpu, LeavesAnExecutorDeadThoughItsStepEndsAfterAll) {
  upload_to_one();
  auto executor = make(settings());
  hanging_step(*executor, 0).reset();
  stands_[0]->end();
  EXPECT_THAT(message_of([&] { (void)executor->begin(prompt()); }), HasSubstr("a step before did not end"));
  executor.reset();
  expect_all_is_given_back();
}

TEST_F(HangingGpu, ThatGoesOnWithinThePatienceIsWaitedFor) {
  upload_to_one();
  auto executor = make(settings(1min));
  auto step = hanging_step(*executor, 0);
  std::atomic<bool> goes_on = false;
  std::thread ends([&] {
    std::this_thread::sleep_for(30ms);
    goes_on = true;
    stands_[0]->end();
  });
  step.reset();
  EXPECT_TRUE(goes_on);
  EXPECT_EQ(run_to_end(*executor->begin(prompt())), "");
  ends.join();
  executor.reset();
  EXPECT_EQ(held(), 0U) << "and the memory is there at once";
  EXPECT_THAT(lines(), ElementsAre());
}

TEST_F(HangingGpu, HoldsUpNobodyWhoDropsTheExecutorFirst) {
  upload_to_one();
  auto executor = make(settings());
  auto step = hanging_step(*executor, 0);
  executor.reset();
  step.reset();
  EXPECT_GT(held(), 0U);
  stands_[0]->end();
  expect_all_is_given_back();
}

// What frees memory waits for all work of the device, whoever has it.
TEST_F(HangingGpu, HoldsUpNobodyWhoDropsAnotherExecutorOnIt) {
  upload_to_one();
  auto s = settings();
  s.memory_patience = 20ms;
  auto hangs = make(settings()), idle = make(s);
  auto step = hanging_step(*hangs, 0);
  idle.reset();
  EXPECT_THAT(refusal(), HasSubstr("cuda 0 has not given back an executor's memory"));
  EXPECT_TRUE(eventually([&] { return !lines().empty(); }));
  EXPECT_THAT(lines(), ElementsAre(HasSubstr("does not give back an executor's memory")));
  step.reset();
  hangs.reset();
  stands_[0]->end();
  expect_all_is_given_back();
}

// As what frees much memory does, where nothing hangs.
TEST_F(HangingGpu, ThatIsSlowToFreeMemoryHoldsUpNobodyAndIsNotTakenForHung) {
  upload_to_one();
  auto works = make(settings(1min)), idle = make(settings());
  auto step = hanging_step(*works, 0);
  idle.reset();
  EXPECT_GT(held(), 0U);
  EXPECT_THAT(refusal(), HasSubstr("cuda 0 has not given back an executor's memory"));
  stands_[0]->end();
  step.reset();
  works.reset();
  expect_all_is_given_back();
  expect_serves();
  EXPECT_THAT(lines(), ElementsAre());
}

TEST_F(HangingGpu, KeepsTheMarkOfAnExecutorAsLongAsItsMemory) {
  upload_to_one();
  auto s = settings();
  std::atomic<std::uint64_t> held_at_end = 77;
  s.keep = std::shared_ptr<char>(new char, [&](const char* it) {
    delete it;
    held_at_end = held();
  });
  auto executor = make(s);
  s.keep.reset();
  auto step = hanging_step(*executor, 0);
  step.reset();
  executor.reset();
  EXPECT_EQ(held_at_end, 77U);
  stands_[0]->end();
  EXPECT_TRUE(eventually([&] { return held_at_end == 0; })) << "it goes last";
  expect_serves();
}

TEST_F(HangingGpu, KeepsTheSwapSpaceAndTheCacheThatACopyIsBetween) {
  upload_to_one();
  auto s = settings();
  s.swap_bytes = make(settings(1min))->info().block_bytes * 4;
  auto executor = make(s);
  auto space = executor->swap();
  ASSERT_EQ(copied_out(*space, moves({0, 1}, {2, 3})), "");
  stands_[0]->begin();
  const auto told = std::make_shared<std::atomic<int>>(0);
  space->copy_out(moves({0, 1, 2}, {0, 1, 2}), [told](const std::string&) { ++*told; });
  stands_[0]->wait_until_held();
  const auto held_before = held();
  executor.reset();
  space.reset();
  EXPECT_EQ(told.use_count(), 1);
  EXPECT_THAT(lines(), ElementsAre(HasSubstr("a copy between the KV cache and the swap space does not end")));
  EXPECT_EQ(held(), held_before);
  EXPECT_THAT(refusal(), HasSubstr("cuda 0 has not ended a step or a copy"));
  stands_[0]->end();
  expect_all_is_given_back();
  EXPECT_EQ(*told, 0);
  expect_serves();
}

TEST_F(HangingGpu, OfSeveralThatShareAModelEndsTheStepsOfTheOthers) {
  for (const bool deterministic : {false, true})
    for (const std::size_t hung : {0U, 1U}) {
      upload(upload_parts(*backend_, config_, weights_, gpus));
      auto s = settings();
      s.deterministic = deterministic;
      auto many = make_in_time(s);
      ASSERT_TRUE(many);
      auto other = many->shards()[1 - hung]->begin(prompt());
      const event ended;
      std::string error;
      other->advance(other->layers(), [&](std::string what) {
        error = std::move(what);
        ended.set();
      });
      hanging_step(*many->shards()[hung], hung).reset();
      ASSERT_TRUE(ended.wait_for(30s));
      EXPECT_EQ(error, "a step was abandoned by rank " + std::to_string(hung));
      other.reset();
      EXPECT_THROW((void)many->begin(prompt()), std::runtime_error);
      many.reset();
      EXPECT_GT(held(hung), 0U);
      stands_[hung]->end();
      expect_all_is_given_back();
      forget_the_model();
    }
}

// The rows that go from stage to stage are the link's, which both hold.
TEST_F(HangingGpu, OfTwoStagesHoldsUpNobody) {
  for (const std::size_t hung : {0U, 1U}) {
    const std::array<std::uint32_t, gpus> layers{1, 1};
    upload(upload_stages(*backend_, config_, weights_, layers));
    auto staged = make_in_time(settings());
    ASSERT_TRUE(staged);
    EXPECT_EQ(run_to_end(*staged->begin(prompt())), "");
    hanging_step(*staged, hung).reset();
    EXPECT_THAT(message_of([&] { (void)staged->begin(prompt()); }), HasSubstr("a step before did not end"));
    staged.reset();
    EXPECT_GT(held(hung), 0U);
    stands_[hung]->end();
    expect_all_is_given_back();
    forget_the_model();
  }
}

} // namespace
} // namespace godwit::gpu::cuda::testing
