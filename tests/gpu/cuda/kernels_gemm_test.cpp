#include "cuda/kernels.hpp"

#include "kernels_inline_stream.hpp"
#include "kernels_values.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <cstring>
#include <stdexcept>

namespace godwit::gpu::cuda {

namespace {

using namespace testing;

struct product {
  product(random_source& random, data_type kind, std::uint32_t rows, std::uint32_t columns, std::uint32_t depth)
      : x(random_narrow(random, kind, std::size_t{rows} * depth)),
        w(random_narrow(random, kind, std::size_t{columns} * depth)), y(std::size_t{rows} * columns, NAN),
        narrow_y(y.size(), 0x7FFF) {
    job.type = kind;
    job.x = x.data();
    job.w = w.data();
    job.y = y.data();
    job.rows = rows;
    job.columns = columns;
    job.depth = depth;
  }
  void expect_right(const float* before = nullptr) {
    for (std::uint32_t row = 0; row < job.rows; ++row)
      for (std::uint32_t column = 0; column < job.columns; ++column) {
        double sum = 0, size = 0;
        for (std::uint32_t k = 0; k < job.depth; ++k) {
          const double term = double{widen(job.type, x[std::size_t{row} * job.depth + k])} *
                              double{widen(job.type, w[std::size_t{column} * job.depth + k])};
          sum += term;
          size += std::abs(term);
        }
        const std::size_t at = std::size_t{row} * job.columns + column;
        if (before != nullptr) sum += double{before[at]};
        const bool is_narrow = job.y_type != data_type::f32;
        const double got = double{is_narrow ? widen(job.type, narrow_y[at]) : y[at]};
        // f32 sums in chains of an eighth, which a tensor core may cut off instead of rounding; the result's rounding
        ASSERT_NEAR(got, sum,
                    size * (job.depth / 8 + 8) * 0x1p-23 + (is_narrow ? std::abs(sum) * half_unit(job.type) : 0) + 1e-6)
            << row << ' ' << column << " of " << job.rows << " x " << job.columns << " x " << job.depth;
      }
  }
  aligned<std::uint16_t> x, w;
  aligned<float> y;
  aligned<std::uint16_t> narrow_y;
  gemm_job job;
};

} // namespace

TEST(CudaGemm, MultipliesOddShapes) {
  random_source random(1);
  inline_stream stream;
  struct shape {
    std::uint32_t rows, columns, depth;
  };
  for (const auto [rows, columns, depth] : {shape{1, 8, 8},
                                            {3, 24, 72},
                                            {8, 40, 520},
                                            {9, 16, 256},
                                            {16, 72, 264},
                                            {17, 8, 1000},
                                            {33, 40, 136},
                                            {64, 24, 40},
                                            {65, 72, 264},
                                            {130, 136, 96},
                                            {77, 8, 24},
                                            {1, 16, 4104}, // a segment in several passes
                                            {10, 16, 4104},
                                            {40, 40, 2056}})
    for (const auto type : {data_type::bf16, data_type::f16}) {
      product p(random, type, rows, columns, depth);
      launch_fixed(stream, p.job);
      p.expect_right();
      const auto before = random_floats(random, p.y.size());
      p.y = before;
      p.job.y = p.y.data();
      p.job.accumulate = true;
      launch_fixed(stream, p.job);
      p.expect_right(before.data());
      p.job.accumulate = false;
      p.job.y = p.narrow_y.data();
      p.job.y_type = type;
      launch_fixed(stream, p.job);
      p.expect_right();
    }
}

TEST(CudaGemm, MoreColumnsThanAGridTakesAreRefused) {
  inline_stream stream;
  gemm_job job;
  job.depth = 8;
  for (const std::uint32_t rows : {1U, 16U, 64U, 65U}) {
    job.rows = rows;
    job.columns = (rows <= 64 ? 16 : 64) * 65535U + 8;
    EXPECT_THROW(launch_fixed(stream, job), std::invalid_argument) << rows;
  }
}

TEST(CudaGemm, BigTilesMultiplyToo) {
  random_source random(2);
  inline_stream stream;
  product p(random, data_type::bf16, 65, 132 * 96, 24); // as many tiles as it takes
  launch_fixed(stream, p.job);
  p.expect_right();
}

TEST(CudaGemm, ARowsBitsDoNotDependOnItsBatch) {
  random_source random(3);
  inline_stream stream;
  for (const std::uint32_t depth : {296U, 1032U}) {
    product all(random, data_type::bf16, 150, 48, depth);
    launch_fixed(stream, all.job);
    all.expect_right();
    for (const std::uint32_t rows : {1U, 2U, 8U, 12U, 30U, 64U, 65U, 130U}) {
      const std::uint32_t first = below(random, all.job.rows - rows + 1);
      aligned<std::uint16_t> x(std::size_t{rows} * depth);
      std::copy_n(all.x.begin() + std::size_t{first} * depth, x.size(), x.begin());
      aligned<float> y(std::size_t{rows} * 48, NAN);
      gemm_job job = all.job;
      job.x = x.data();
      job.y = y.data();
      job.rows = rows;
      launch_fixed(stream, job);
      EXPECT_EQ(std::memcmp(y.data(), all.y.data() + std::size_t{first} * 48, y.size() * sizeof(float)), 0) << rows;
    }
  }
}

TEST(CudaGemm, BigAndSmallTilesGiveTheSameBits) {
  random_source random(4);
  inline_stream stream;
  product wide(random, data_type::bf16, 65, 132 * 96, 40);
  launch_fixed(stream, wide.job);
  product some = wide;
  some.job.columns = 64;
  some.job.x = some.x.data();
  some.job.w = some.w.data();
  some.job.y = some.y.data();
  launch_fixed(stream, some.job);
  for (std::uint32_t row = 0; row < 65; ++row)
    EXPECT_EQ(std::memcmp(some.y.data() + row * 64, wide.y.data() + std::size_t{row} * 132 * 96, 64 * sizeof(float)),
              0);
}

} // namespace godwit::gpu::cuda
