#include "cuda/simt.hpp"

#include "kernels_inline_stream.hpp"
#include "kernels_races.hpp"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstdint>
#include <random>
#include <vector>

// The emulator is what all other tests of kernels stand on.

namespace godwit::gpu::cuda {

namespace {

using testing::inline_stream;

void reverse(const std::uint32_t* in, std::uint32_t* out) {
  auto* mine = reinterpret_cast<std::uint32_t*>(simt::shared());
  const std::uint32_t i = simt::thread_index(), n = simt::block_threads(), first = simt::block_index().x * n;
  mine[i] = in[first + i];
  simt::sync_block();
  out[first + i] = mine[n - 1 - i];
}

void forgets_the_barrier(std::uint32_t* out) {
  auto* mine = reinterpret_cast<std::uint32_t*>(simt::shared());
  const std::uint32_t i = simt::thread_index(), n = simt::block_threads();
  mine[i] = i;
  out[i] = mine[n - 1 - i];
  simt::sync_block();
}

void counts(std::uint32_t* ran) { ++*ran; }

void half_wait() {
  if (simt::thread_index() % 2 == 0) simt::sync_block();
}
void half_shuffle() {
  if (simt::lane() < 16)
    static_cast<void>(simt::shuffle_xor(1, 1));
  else
    static_cast<void>(simt::ballot(true));
}
void runs_over() { simt::shared()[simt::thread_index() + 1] = std::byte{1}; }
void misaligned(std::byte* p) { static_cast<void>(simt::load16(p + 4)); }

void sum_of_lanes(std::uint32_t* out) {
  std::uint32_t x = simt::lane() + 1;
  for (std::uint32_t mask = 16; mask > 0; mask /= 2) x += simt::shuffle_xor(x, mask);
  const std::uint32_t odd = simt::ballot(simt::lane() % 2 == 1);
  out[simt::thread_index()] = odd == 0xAAAAAAAAU ? x : 0;
}

void copies(const float* in, float* out, int kind) {
  auto* mine = reinterpret_cast<float*>(simt::shared());
  const std::uint32_t i = simt::thread_index();
  simt::copy16(mine + i * 4, in + i * 4, i != 5);
  simt::commit_copies();
  if (kind != 1) simt::wait_copies<0>();
  if (kind != 2) simt::sync_block();
  out[i] = mine[(i + 1) % simt::block_threads() * 4];
  simt::wait_copies<0>();
  simt::sync_block();
}

template <class Type> void product(const Type* a, const Type* b, float* d) {
  const std::uint32_t g = simt::lane() / 4, t = simt::lane() % 4;
  // PTX ISA 9.7.14.5.8: a row-major 16 x 16, b column-major 16 x 8, d row-major 16 x 8
  std::uint32_t fa[4], fb[2];
  const auto pair = [](const Type* low, const Type* high) {
    return low->bits | static_cast<std::uint32_t>(high->bits) << 16U;
  };
  for (std::uint32_t i = 0; i < 4; ++i) {
    const std::uint32_t row = i % 2 == 0 ? g : g + 8, column = t * 2 + (i < 2 ? 0 : 8);
    fa[i] = pair(a + row * 16 + column, a + row * 16 + column + 1);
  }
  for (std::uint32_t i = 0; i < 2; ++i) {
    const std::uint32_t row = t * 2 + i * 8;
    fb[i] = pair(b + g * 16 + row, b + g * 16 + row + 1);
  }
  float sums[4];
  for (std::uint32_t i = 0; i < 4; ++i) sums[i] = d[(i < 2 ? g : g + 8) * 8 + t * 2 + i % 2];
  simt::multiply_add<Type>(sums, fa, fb);
  for (std::uint32_t i = 0; i < 4; ++i) d[(i < 2 ? g : g + 8) * 8 + t * 2 + i % 2] = sums[i];
}

void transposes(const std::uint16_t* in, std::uint32_t* out) {
  auto* mine = reinterpret_cast<std::uint16_t*>(simt::shared());
  for (std::uint32_t i = simt::lane(); i < 256; i += 32) mine[i] = in[i];
  simt::sync_warp();
  std::uint32_t r[4];
  simt::load_transposed(r, mine + simt::lane() * 8);
  for (std::uint32_t i = 0; i < 4; ++i) out[simt::lane() * 4 + i] = r[i];
}

template <class Type> void expect_products() {
  std::mt19937 random(7);
  std::uniform_real_distribution<float> uniform(-2, 2);
  std::vector<Type> a(256), b(128);
  std::vector<float> d(128), before;
  for (auto& x : a) x = simt::narrow<Type>(uniform(random));
  for (auto& x : b) x = simt::narrow<Type>(uniform(random));
  for (auto& x : d) x = uniform(random);
  before = d;
  inline_stream stream;
  simt::launch(stream, "test", &product<Type>, {}, 32, 0, a.data(), b.data(), d.data());
  for (std::uint32_t row = 0; row < 16; ++row)
    for (std::uint32_t column = 0; column < 8; ++column) {
      double sum = before[row * 8 + column];
      for (std::uint32_t k = 0; k < 16; ++k)
        sum += double{simt::widen(a[row * 16 + k])} * double{simt::widen(b[column * 16 + k])};
      EXPECT_NEAR(d[row * 8 + column], sum, 1e-5) << row << ' ' << column;
    }
}

std::string error_of(void (*kernel)(), std::size_t shared_bytes = 0) {
  inline_stream stream;
  try {
    simt::launch(stream, "test", kernel, {2, 1, 1}, 64, shared_bytes);
  } catch (const simt::emulator::kernel_error& error) {
    return error.what();
  }
  return "";
}

} // namespace

TEST(Simt, ABlockHasNoMoreSharedMemoryThanItsDevice) {
  inline_stream stream;
  stream.set_shared_bytes_max(1024);
  std::vector<std::uint32_t> in(32), out(32);
  simt::launch(stream, "test", &reverse, {}, 32, 1024, in.data(), out.data());
  EXPECT_THROW(simt::launch(stream, "test", &reverse, {}, 32, 1025, in.data(), out.data()), driver_error);
}

TEST(Simt, GridsThatCudaRefusesAreRefused) {
  inline_stream stream;
  std::uint32_t ran = 0;
  const testing::expected_races expected;
  const auto launch = [&](simt::size3 grid) { simt::launch(stream, "test", &counts, grid, 32, 0, &ran); };
  for (const simt::size3 grid : {simt::size3{0, 1, 1}, {1, 0, 1}, {1, 1, 0}, {1, 65536, 1}, {1, 1, 65536}})
    EXPECT_THROW(launch(grid), simt::emulator::kernel_error);
  EXPECT_THROW(launch({1U << 31U, 1, 1}), simt::emulator::kernel_error);
  EXPECT_EQ(ran, 0U);
  launch({3, 2, 1});
  EXPECT_EQ(ran, 6U * 32);
}

TEST(Simt, ThreadsOfABlockMeetAtBarriers) {
  inline_stream stream;
  std::vector<std::uint32_t> in(3 * 96), out(3 * 96);
  for (std::uint32_t i = 0; i < in.size(); ++i) in[i] = i;
  simt::launch(stream, "test", &reverse, {3, 1, 1}, 96, 96 * 4, in.data(), out.data());
  for (std::uint32_t i = 0; i < out.size(); ++i) EXPECT_EQ(out[i], i / 96 * 96 + 95 - i % 96);
}

TEST(Simt, AMissingBarrierShows) {
  const testing::expected_races expected;
  inline_stream stream;
  std::vector<std::uint32_t> out(96);
  simt::launch(stream, "test", &forgets_the_barrier, {}, 96, 96 * 4, out.data());
  std::uint32_t wrong = 0;
  for (std::uint32_t i = 0; i < out.size(); ++i) wrong += out[i] != 95 - i;
  EXPECT_GT(wrong, 10U);
}

TEST(Simt, OrdersBelongToTheirSeeds) {
  const auto order = [](std::uint64_t seed) {
    const testing::expected_races expected;
    std::vector<std::uint32_t> seen;
    simt::emulator::shape shape;
    shape.threads = 64;
    simt::emulator::run(shape, seed, [&] { seen.push_back(simt::thread_index()); });
    return seen;
  };
  EXPECT_EQ(order(1), order(1));
  EXPECT_NE(order(1), order(2));
}

TEST(Simt, ThreadsThatWaitInVainAreAnError) {
  EXPECT_NE(error_of(&half_wait).find("32 wait at a barrier of the block"), std::string::npos) << error_of(&half_wait);
  EXPECT_NE(error_of(&half_shuffle).find("lanes of a warp meet in"), std::string::npos);
}

TEST(Simt, WritingBehindSharedMemoryIsAnError) {
  EXPECT_NE(error_of(&runs_over, 64).find("behind the block's shared memory"), std::string::npos);
  EXPECT_EQ(error_of(&runs_over, 65), "");
}

TEST(Simt, MisalignedAccessesAreAnError) {
  inline_stream stream;
  alignas(16) std::byte some[64]{};
  EXPECT_THROW(simt::launch(stream, "test", &misaligned, {}, 32, 0, static_cast<std::byte*>(some)),
               simt::emulator::kernel_error);
}

TEST(Simt, LanesExchange) {
  inline_stream stream;
  std::vector<std::uint32_t> out(128);
  simt::launch(stream, "test", &sum_of_lanes, {}, 128, 0, out.data());
  for (const auto x : out) EXPECT_EQ(x, 528U);
}

TEST(Simt, CopiesInTheBackgroundArriveAfterTheWaitAndTheBarrier) {
  inline_stream stream;
  std::vector<float> in(64 * 4, 1.0F), out(64);
  simt::launch(stream, "test", &copies, {}, 64, 64 * 16, in.data(), out.data(), 0);
  for (std::uint32_t i = 0; i < 64; ++i) EXPECT_EQ(out[i], i == 4 ? 0.0F : 1.0F);
  const testing::expected_races expected;
  for (int kind = 1; kind <= 2; ++kind) {
    simt::launch(stream, "test", &copies, {}, 64, 64 * 16, in.data(), out.data(), kind);
    std::uint32_t wrong = 0;
    for (const float x : out) wrong += x != 1.0F;
    EXPECT_GT(wrong, 5U) << kind; // no wait; no barrier
  }
}

TEST(Simt, MultipliesWithPtxsFragments) {
  expect_products<simt::bf16>();
  expect_products<simt::f16>();
}

TEST(Simt, LoadsMatricesTransposed) {
  std::vector<std::uint16_t> in(256);
  for (std::uint32_t i = 0; i < in.size(); ++i) in[i] = static_cast<std::uint16_t>(i);
  std::vector<std::uint32_t> out(128);
  inline_stream stream;
  simt::launch(stream, "test", &transposes, {}, 32, 512, in.data(), out.data());
  for (std::uint32_t lane = 0; lane < 32; ++lane)
    for (std::uint32_t matrix = 0; matrix < 4; ++matrix) {
      const std::uint32_t row = 2 * (lane % 4), column = lane / 4, low = matrix * 64 + row * 8 + column;
      EXPECT_EQ(out[lane * 4 + matrix], low | (low + 8) << 16U);
    }
}

TEST(Simt, RoundsToNearestEven) {
  // every f16 comes back, and midway goes to the even neighbour
  for (std::uint32_t bits = 0; bits < 0x7C00; ++bits) {
    const auto low = static_cast<std::uint16_t>(bits), high = static_cast<std::uint16_t>(bits + 1);
    const float a = simt::numbers::from_f16(low);
    ASSERT_EQ(simt::numbers::to_f16(a), low);
    ASSERT_EQ(simt::numbers::to_f16(-a), low | 0x8000);
    if (high == 0x7C00) continue;
    const float middle = (a + simt::numbers::from_f16(high)) / 2;
    ASSERT_EQ(simt::numbers::to_f16(middle), bits % 2 == 0 ? low : high);
    ASSERT_EQ(simt::numbers::to_f16(std::nextafter(middle, 1e9F)), high);
  }
  EXPECT_EQ(simt::numbers::from_f16(1), 0x1p-24F);
  EXPECT_EQ(simt::numbers::to_f16(65519.0F), 0x7BFF);
  EXPECT_EQ(simt::numbers::to_f16(65520.0F), 0x7C00);
  EXPECT_EQ(simt::numbers::to_bf16(1.00390625F), 0x3F80);
  EXPECT_EQ(simt::numbers::to_bf16(1.01171875F), 0x3F82);
  EXPECT_EQ(simt::numbers::to_bf16(std::bit_cast<float>(0x3F808001U)), 0x3F81);
}

} // namespace godwit::gpu::cuda
