#include "cuda/device_copier.hpp"
#include "cuda/emulated/emulated_driver.hpp"
#include "cuda/kv_extents.hpp"

#include <godwit/gpu/event.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <numeric>
#include <vector>

namespace godwit::gpu::cuda {
namespace {

using protocols::copy_urgency;
using protocols::memory_kind;
using protocols::memory_region;
using regions = std::vector<memory_region>;

class DeviceCopier : public ::testing::Test {
protected:
  static constexpr std::size_t piece = 4096;

  regions device_pieces(const allocation& memory, std::initializer_list<std::size_t> numbers) const {
    regions all;
    for (const auto n : numbers) all.push_back({memory.data() + n * piece, piece, memory_kind::device});
    return all;
  }
  template <class Start> std::string wait_for(const Start& start) {
    const event ran;
    std::string told = "nothing";
    start([&](std::string error) {
      told = std::move(error);
      ran.set();
    });
    ran.wait();
    return told;
  }
  std::string gather(const regions& from, std::byte* to, std::size_t bytes, copy_urgency urgency = copy_urgency::bulk) {
    return wait_for([&](auto done) { copier_->gather(from, {to, bytes, memory_kind::pinned}, urgency, done); });
  }
  std::string scatter(std::byte* from, std::size_t bytes, const regions& to,
                      copy_urgency urgency = copy_urgency::bulk) {
    return wait_for([&](auto done) { copier_->scatter({from, bytes, memory_kind::pinned}, to, urgency, done); });
  }

  std::shared_ptr<driver> driver_ = emulated::make_emulated_driver();
  std::shared_ptr<protocols::memory_copier> copier_ = make_device_copier(driver_);
  allocation pool_ = driver_->allocate(32 * piece, "a pool");
  std::shared_ptr<std::byte> pinned_ = copier_->allocate_pinned(32 * piece);
};

TEST_F(DeviceCopier, ScattersAndGathersPiecesInTheirOrder) {
  auto* bytes = pinned_.get();
  for (std::size_t i = 0; i < 12 * piece; ++i) bytes[i] = static_cast<std::byte>(i / 7 % 251);
  const std::vector<std::byte> sent(bytes, bytes + 12 * piece);
  for (const auto urgency : {copy_urgency::bulk, copy_urgency::urgent}) {
    // Twelve of one length: a kernel's; three: the copy engines'.
    const auto places = device_pieces(pool_, {3, 9, 30, 0, 1, 2, 31, 12, 20, 17, 5, 7});
    EXPECT_EQ(scatter(bytes, 12 * piece, places, urgency), "");
    std::memset(bytes, 0, 12 * piece);
    EXPECT_EQ(gather(places, bytes, 12 * piece, urgency), "");
    EXPECT_TRUE(std::equal(sent.begin(), sent.end(), bytes));
    EXPECT_EQ(gather(device_pieces(pool_, {9, 7, 31}), bytes, 3 * piece, urgency), "");
    EXPECT_TRUE(std::equal(sent.begin() + piece, sent.begin() + 2 * piece, bytes));
    EXPECT_TRUE(std::equal(sent.begin() + 11 * piece, sent.end(), bytes + piece));
    EXPECT_TRUE(std::equal(sent.begin() + 6 * piece, sent.begin() + 7 * piece, bytes + 2 * piece));
    std::ranges::copy(sent, bytes);
  }
}

// For adapters of a network, which are told of a KV cache as a whole.
TEST_F(DeviceCopier, KnowsWhereAKvCacheBeginsAndEndsAsLongAsItIsThere) {
  EXPECT_FALSE(copier_->extent(pool_.data())) << "not one";
  auto extent = std::make_optional<kv_extent>(pool_.data() + piece, 4 * piece, true);
  const auto found = copier_->extent(pool_.data() + 3 * piece);
  ASSERT_TRUE(found);
  EXPECT_EQ(found->address, pool_.data() + piece);
  EXPECT_EQ(found->bytes, 4 * piece);
  EXPECT_FALSE(copier_->extent(pool_.data() + 5 * piece));
  EXPECT_FALSE(copier_->extent(pool_.data()));
  extent = kv_extent(pool_.data() + piece, 4 * piece, false); // where the one before was
  const auto again = copier_->extent(pool_.data() + piece);
  ASSERT_TRUE(again);
  EXPECT_NE(again->id, found->id);
  EXPECT_TRUE(found->takes_writes && !again->takes_writes);
  extent.reset();
  EXPECT_FALSE(copier_->extent(pool_.data() + piece));
}

// Memory of other devices is not for its kernels.
TEST_F(DeviceCopier, OneThatCopiesByEnginesLaunchesNoKernel) {
  emulated::emulated_settings settings;
  settings.kernel_that_fails = 1;
  driver_ = emulated::make_emulated_driver(settings);
  pool_ = driver_->allocate(32 * piece, "a pool");
  copier_ = make_device_copier(driver_, copy_by::engines);
  pinned_ = copier_->allocate_pinned(32 * piece);
  std::memset(pinned_.get(), 7, 12 * piece);
  const auto places = device_pieces(pool_, {3, 9, 30, 0, 1, 2, 31, 12, 20, 17, 5, 7});
  EXPECT_EQ(scatter(pinned_.get(), 12 * piece, places), "");
  std::memset(pinned_.get(), 0, 12 * piece);
  EXPECT_EQ(gather(places, pinned_.get(), 12 * piece), "");
  EXPECT_TRUE(std::all_of(pinned_.get(), pinned_.get() + 12 * piece, [](std::byte b) { return b == std::byte{7}; }));
}

TEST_F(DeviceCopier, CutsListsOfOtherSizesWhereBothHaveABorder) {
  auto* bytes = pinned_.get();
  for (std::size_t i = 0; i < 3 * piece; ++i) bytes[i] = static_cast<std::byte>(i % 253);
  const std::vector<std::byte> sent(bytes, bytes + 3 * piece);
  const regions uneven{{pool_.data() + 100, 1000, memory_kind::device},
                       {pool_.data(), 0, memory_kind::device},
                       {pool_.data() + 5 * piece, 3 * piece - 1000, memory_kind::device}};
  EXPECT_EQ(scatter(bytes, 3 * piece, uneven), "");
  std::string told = wait_for([&](auto done) {
    copier_->copy(uneven, device_pieces(pool_, {20, 22, 24}), copy_urgency::bulk, done);
  });
  EXPECT_EQ(told, "");
  std::memset(bytes, 0, 3 * piece);
  EXPECT_EQ(gather(device_pieces(pool_, {20, 22, 24}), bytes, 3 * piece), "");
  EXPECT_TRUE(std::equal(sent.begin(), sent.end(), bytes));
}

TEST_F(DeviceCopier, SeesNeighboursAsOne) {
  const auto pieces = common_pieces(device_pieces(pool_, {1, 2, 3, 7}), device_pieces(pool_, {10, 11, 12, 13}));
  ASSERT_EQ(pieces.size(), 2U);
  EXPECT_EQ(pieces[0].bytes, 3 * piece);
  EXPECT_EQ(pieces[1].bytes, piece);
  EXPECT_EQ(pieces[1].to, pool_.data() + 13 * piece);
}

TEST_F(DeviceCopier, SaysWhyACopyCannotBe) {
  EXPECT_THAT(gather(device_pieces(pool_, {1, 2}), pinned_.get(), piece),
              ::testing::HasSubstr("a copy of 8192 bytes into 4096"));
  std::vector<std::byte> pageable(piece);
  EXPECT_THAT(gather(device_pieces(pool_, {1}), pageable.data(), piece), ::testing::HasSubstr("pinned"));
  EXPECT_EQ(gather(device_pieces(pool_, {1}), pinned_.get(), piece), "") << "and is none the worse for it";
}

TEST_F(DeviceCopier, MayGoBeforeItsPinnedMemory) {
  const auto memory = copier_->allocate_pinned(100);
  copier_.reset();
  driver_.reset();
  pool_ = {};
  std::memset(memory.get(), 1, 100);
}

// Ends are told on another stream than the copies'.
TEST_F(DeviceCopier, TellsNoEndBeforeItsCopy) {
  for (std::uint64_t seed = 0; seed < 5; ++seed) {
    emulated::emulated_settings settings;
    settings.delay_us_max = 300;
    settings.seed = seed;
    driver_ = emulated::make_emulated_driver(settings);
    copier_ = make_device_copier(driver_);
    pool_ = driver_->allocate(32 * piece, "a pool");
    pinned_ = copier_->allocate_pinned(32 * piece);
    const auto places = device_pieces(pool_, {3, 9, 30});
    for (int i = 1; i < 20; ++i) {
      std::memset(pinned_.get(), i, 3 * piece);
      ASSERT_EQ(scatter(pinned_.get(), 3 * piece, places), "");
      std::memset(pinned_.get(), 0, 3 * piece);
      ASSERT_EQ(gather(places, pinned_.get(), 3 * piece), "");
      ASSERT_TRUE(std::all_of(pinned_.get(), pinned_.get() + 3 * piece, [&](auto b) { return b == std::byte(i); }));
    }
  }
}

TEST_F(DeviceCopier, EndsEachOfManyCopiesOnce) {
  std::atomic<int> ended = 0, wrong = 0;
  for (int i = 0; i < 200; ++i) { // more than there are lists for kernels
    const auto done = [&](const std::string& error) {
      ++ended;
      if (!error.empty()) ++wrong;
    };
    const auto places = device_pieces(pool_, {3, 9, 30, 0, 5, 2, 31, 12, 20, 17});
    copier_->gather(places, {pinned_.get(), 10 * piece, memory_kind::pinned},
                    i % 3 == 0 ? copy_urgency::urgent : copy_urgency::bulk, done);
  }
  copier_.reset(); // waits
  EXPECT_EQ(ended, 200);
  EXPECT_EQ(wrong, 0);
}

} // namespace
} // namespace godwit::gpu::cuda
