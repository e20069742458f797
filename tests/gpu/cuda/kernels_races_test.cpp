#include "kernels_races.hpp"

#include "cuda/simt.hpp"
#include "cuda/simt_races.hpp"

#include "kernels_inline_stream.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <cstdint>
#include <vector>

// Races between a kernel's threads, as the thread sanitizer sees them on the emulator (preset tsan).

namespace {

std::atomic<int> expecting = 0;
std::atomic<std::size_t> races_found = 0;

} // namespace

#if defined(GODWIT_SEES_RACES)
// The sanitizer reports a second race at one address only if it is told to, and a block's memory lies where the last
// one's lay.
extern "C" const char* __tsan_default_options();
extern "C" const char* __tsan_default_options() { return "suppress_equal_addresses=0"; }

namespace __tsan {
class ReportDesc;
/// The sanitizer's hook: true keeps a report back.
bool OnReport(const ReportDesc* /*report*/, bool suppressed);
bool OnReport(const ReportDesc* /*report*/, bool suppressed) {
  if (expecting == 0) return suppressed;
  ++races_found;
  return true;
}
} // namespace __tsan
#endif

namespace godwit::gpu::cuda {

namespace testing {

expected_races::expected_races() {
  ++expecting;
  races_found = 0;
}
expected_races::~expected_races() { --expecting; }
std::size_t expected_races::found() const { return races_found; }

} // namespace testing

namespace {

std::uint32_t* words() { return reinterpret_cast<std::uint32_t*>(simt::shared()); }
std::uint32_t next_thread() { return (simt::thread_index() + 1) % simt::block_threads(); }

void without_a_barrier(std::uint32_t* out) {
  words()[simt::thread_index()] = 1;
  out[simt::thread_index()] = words()[next_thread()];
}

/// What was read may be written over by who is quicker.
void without_the_second_barrier(std::uint32_t* out) {
  words()[simt::thread_index()] = 1;
  simt::sync_block();
  out[simt::thread_index()] = words()[next_thread()];
  words()[simt::thread_index()] = 2;
}

void with_both_barriers(std::uint32_t* out) {
  for (std::uint32_t turn = 0; turn < 3; ++turn) {
    words()[simt::thread_index()] = turn;
    simt::sync_block();
    out[simt::thread_index()] = words()[next_thread()];
    simt::sync_block();
  }
}

/// Lanes of a warp meet in a shuffle, which orders no memory; in a barrier of the warp, which does.
void past_a_shuffle(std::uint32_t* out) {
  words()[simt::thread_index()] = 1;
  static_cast<void>(simt::shuffle_xor(1U, 1));
  out[simt::thread_index()] = words()[simt::thread_index() ^ 1U];
}
void past_a_barrier_of_the_warp(std::uint32_t* out) {
  words()[simt::thread_index()] = 1;
  simt::sync_warp();
  out[simt::thread_index()] = words()[simt::thread_index() ^ 1U];
}

/// The barrier of a warp orders nothing for another one.
void past_another_warps_barrier(std::uint32_t* out) {
  words()[simt::thread_index()] = 1;
  simt::sync_warp();
  out[simt::thread_index()] = words()[(simt::thread_index() + 32) % 64];
}

void all_blocks_write(std::uint32_t* out) {
  if (simt::thread_index() == 0) *out += 1;
}
void each_block_writes(std::uint32_t* out) { out[simt::block_index().x * 64 + simt::thread_index()] += 1; }

/// Own copies are there after the wait, those of others after a barrier too.
void copies_without_a_barrier(const std::uint32_t* in, std::uint32_t* out) {
  simt::copy16(words() + simt::thread_index() * 4, in, true);
  simt::commit_copies();
  simt::wait_copies<0>();
  out[simt::thread_index()] = words()[next_thread() * 4];
}
void copies_with_a_barrier(const std::uint32_t* in, std::uint32_t* out) {
  simt::copy16(words() + simt::thread_index() * 4, in, true);
  simt::commit_copies();
  simt::wait_copies<0>();
  simt::sync_block();
  out[simt::thread_index()] = words()[next_thread() * 4];
}
/// The copy may arrive while the others still read what was there.
void copies_over_what_is_read(const std::uint32_t* in, std::uint32_t* out) {
  words()[simt::thread_index() * 4] = 1;
  simt::sync_block();
  out[simt::thread_index()] = words()[next_thread() * 4];
  simt::copy16(words() + simt::thread_index() * 4, in, true);
  simt::commit_copies();
  simt::wait_copies<0>();
}

void lists(std::uint32_t* out) {
  if (simt::thread_index() == 0) *words() = 0;
  simt::sync_block();
  out[simt::add_shared(words(), 1U)] = simt::thread_index();
}

/// `ldmatrix` reads rows that other lanes wrote.
void reads_a_matrix(std::uint32_t* out, bool waits) {
  for (std::uint32_t i = 0; i < 4; ++i) words()[simt::thread_index() * 4 + i] = i;
  if (waits) simt::sync_warp();
  std::uint32_t r[4];
  simt::load_matrices(r, words() + (simt::thread_index() ^ 1U) * 4);
  out[simt::thread_index()] = r[0];
}

class CudaRaces : public ::testing::Test {
protected:
  void SetUp() override {
    if (!simt::emulator::sees_races) GTEST_SKIP() << "built without the thread sanitizer (preset tsan)";
  }
  template <class... Parameters, class... Arguments>
  std::size_t races(void (*kernel)(Parameters...), std::uint32_t blocks, Arguments... arguments) {
    const testing::expected_races expected;
    testing::inline_stream stream;
    for (int launch = 0; launch < 2; ++launch)
      simt::launch(stream, "test", kernel, {blocks, 1, 1}, 64, 64 * 16, arguments...);
    for (auto& word : out) word = 0; // what the launch did comes before what its stream does next
    return expected.found();
  }
  std::vector<std::uint32_t> in = std::vector<std::uint32_t>(4, 1), out = std::vector<std::uint32_t>(256);
};

} // namespace

TEST_F(CudaRaces, SharedMemoryIsOrderedByBarriersOfTheBlock) {
  EXPECT_GT(races(&without_a_barrier, 1, out.data()), 0U);
  EXPECT_GT(races(&without_the_second_barrier, 1, out.data()), 0U);
  EXPECT_EQ(races(&with_both_barriers, 1, out.data()), 0U);
}

TEST_F(CudaRaces, LanesAreOrderedByBarriersOfTheirWarpAndByNoShuffle) {
  EXPECT_GT(races(&past_a_shuffle, 1, out.data()), 0U);
  EXPECT_EQ(races(&past_a_barrier_of_the_warp, 1, out.data()), 0U);
  EXPECT_GT(races(&past_another_warps_barrier, 1, out.data()), 0U);
  EXPECT_GT(races(&reads_a_matrix, 1, out.data(), false), 0U);
  EXPECT_EQ(races(&reads_a_matrix, 1, out.data(), true), 0U);
}

TEST_F(CudaRaces, NothingOrdersTheBlocksOfALaunch) {
  EXPECT_GT(races(&all_blocks_write, 2, out.data()), 0U);
  EXPECT_EQ(races(&all_blocks_write, 1, out.data()), 0U);
  EXPECT_EQ(races(&each_block_writes, 3, out.data()), 0U);
}

TEST_F(CudaRaces, CopiesInTheBackgroundWriteFromTheirStartToTheirWait) {
  const auto* from = in.data();
  EXPECT_GT(races(&copies_without_a_barrier, 1, from, out.data()), 0U);
  EXPECT_GT(races(&copies_over_what_is_read, 1, from, out.data()), 0U);
  EXPECT_EQ(races(&copies_with_a_barrier, 1, from, out.data()), 0U);
}

TEST_F(CudaRaces, AtomicSumsRaceWithNothing) { EXPECT_EQ(races(&lists, 1, out.data()), 0U); }

} // namespace godwit::gpu::cuda
