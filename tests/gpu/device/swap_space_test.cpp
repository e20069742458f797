#include "device/copied_swap_space.hpp"
#include "gpu/swapped.hpp"

#include <godwit/gpu/memory_pool.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cstring>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace godwit::gpu {
namespace {

using protocols::copy_urgency;
using protocols::memory_region;
using testing::moves;

/// Ends copies when it is told to.
class held_copier final : public protocols::memory_copier {
public:
  [[nodiscard]] std::string name() const override { return "held"; }
  [[nodiscard]] std::shared_ptr<std::byte> allocate_pinned(std::size_t bytes) override {
    if (none_left) return nullptr;
    allocated = bytes;
    return {new std::byte[bytes], std::default_delete<std::byte[]>()};
  }
  void gather(std::vector<memory_region>, memory_region into, copy_urgency urgency, completion done) override {
    EXPECT_EQ(into.kind, protocols::memory_kind::pinned);
    EXPECT_EQ(urgency, copy_urgency::bulk);
    open.push_back(std::move(done));
  }
  void scatter(memory_region, std::vector<memory_region>, copy_urgency, completion done) override {
    open.push_back(std::move(done));
  }
  void copy(std::vector<memory_region>, std::vector<memory_region>, copy_urgency, completion) override {
    ADD_FAILURE();
  }

  std::vector<completion> open;
  std::size_t allocated = 0;
  bool none_left = false;
};

std::vector<memory_region> no_regions(protocols::block_id) { return {}; }

TEST(CopiedSwapSpace, HasAsManySlotsAsWholeBlocksFit) {
  const auto copier = std::make_shared<held_copier>();
  EXPECT_EQ(make_copied_swap_space(copier, no_regions, 64, 64 * 5 + 63)->slots(), 5U);
  EXPECT_EQ(copier->allocated, 64U * 5);
  EXPECT_FALSE(make_copied_swap_space(copier, no_regions, 64, 63));
  EXPECT_FALSE(make_copied_swap_space(copier, no_regions, 0, 63));
  copier->none_left = true;
  EXPECT_THROW((void)make_copied_swap_space(copier, no_regions, 64, 128), out_of_memory);
}

TEST(CopiedSwapSpace, ARoundEndsWithItsLastCopyAndItsFirstError) {
  const auto copier = std::make_shared<held_copier>();
  const auto space = make_copied_swap_space(copier, no_regions, 64, 640);
  std::vector<std::string> told;
  space->copy_out(moves({0, 1, 2}, {0, 1, 2}), [&](std::string error) { told.push_back(std::move(error)); });
  ASSERT_EQ(copier->open.size(), 3U);
  copier->open[2]("");
  copier->open[0]("broken");
  EXPECT_TRUE(told.empty());
  copier->open[1]("more");
  EXPECT_THAT(told, ::testing::ElementsAre("broken"));
}

TEST(CopiedSwapSpace, GoesWhenNothingIsCopiedAnyMore) {
  const auto copier = std::make_shared<held_copier>();
  auto space = make_copied_swap_space(copier, no_regions, 64, 640);
  std::atomic<bool> ended = false;
  space->copy_in(moves({0}, {0}), [](const std::string&) {});
  std::thread ends([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(30));
    ended = true;
    copier->open.at(0)("");
  });
  space.reset();
  EXPECT_TRUE(ended);
  ends.join();
}

TEST(CopiedSwapSpace, GoesWithoutACopyThatDoesNotEndAndLeavesItWhatItUses) {
  auto copier = std::make_shared<held_copier>();
  auto pool = std::make_shared<int>(0);
  const std::weak_ptr<void> copier_there = copier, pool_there = pool;
  auto ended = std::make_shared<std::string>("");
  std::vector<std::string> lines;
  std::atomic<int> left = 0;
  auto how = std::make_shared<going>();
  how->patience = std::chrono::milliseconds(10);
  how->warn = [&](const std::string& line) { lines.push_back(line); };
  how->count = [&](left_part what, int more) {
    EXPECT_EQ(what, left_part::work);
    left += more;
  };
  how->keep = std::make_shared<int>(0);
  const std::weak_ptr<void> kept = how->keep;
  const auto waited = how->waited;
  auto space = make_copied_swap_space(
      copier, [pool = std::move(pool)](protocols::block_id) { return std::vector<memory_region>(); }, 64, 640,
      std::move(how));
  space->copy_out(moves({0, 1}, {0, 1}), [ended](const std::string&) { *ended = "told"; });
  copier->open.at(0)("");
  space.reset();
  EXPECT_EQ(ended.use_count(), 1) << "nobody will be told";
  EXPECT_THAT(lines, ::testing::ElementsAre(::testing::HasSubstr("held: a copy")));
  EXPECT_FALSE(pool_there.expired());
  EXPECT_EQ(left, 1);
  EXPECT_GE(std::chrono::nanoseconds(*waited), std::chrono::milliseconds(10)) << "whatever goes with it waits no more";

  const auto last = std::exchange(copier->open.at(1), nullptr);
  copier->open.clear();
  copier.reset();
  EXPECT_FALSE(copier_there.expired());
  last("");
  for (const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(30);
       !kept.expired() && std::chrono::steady_clock::now() < until;)
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  EXPECT_TRUE(kept.expired());
  EXPECT_TRUE(copier_there.expired() && pool_there.expired()) << "before what was to be kept";
  EXPECT_EQ(left, 0);
  EXPECT_EQ(*ended, "");
}

} // namespace
} // namespace godwit::gpu
