#include "cuda/kernels.hpp"

#include "kernels_inline_stream.hpp"
#include "kernels_values.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <iterator>
#include <stdexcept>
#include <vector>

namespace godwit::gpu::cuda {

namespace {

using namespace testing;

constexpr data_type types[] = {data_type::bf16, data_type::f16};

} // namespace

TEST(CudaRows, EmbeddingIsTheTablesRowWidened) {
  random_source random(1);
  for (const auto& [type, hidden] : std::vector<std::pair<data_type, std::uint32_t>>{
           {data_type::bf16, 77}, {data_type::f16, 77}, {data_type::bf16, 2064}, {data_type::f16, 40}}) {
    const std::uint32_t vocabulary = 33;
    const auto table = random_narrow(random, type, std::size_t{vocabulary} * hidden);
    aligned<std::uint32_t> tokens(5);
    for (auto& token : tokens) token = below(random, vocabulary);
    tokens[3] = vocabulary; // a padded row's
    aligned<float> x(tokens.size() * hidden, NAN);
    embedding_job job;
    job.type = type;
    job.table = table.data();
    job.tokens = tokens.data();
    job.vocabulary = vocabulary;
    job.x = x.data();
    job.rows = 5;
    job.hidden = hidden;
    inline_stream stream;
    launch(stream, job);
    for (std::uint32_t row = 0; row < job.rows; ++row)
      for (std::uint32_t i = 0; i < hidden; ++i)
        ASSERT_EQ(x[row * hidden + i], row == 3 ? 0.0F : widen(type, table[tokens[row] * hidden + i]));
  }
}

TEST(CudaRows, NormIsOfTheSumThatItLeavesBehind) {
  random_source random(2);
  for (const auto type : types)
    for (const std::uint32_t hidden : {8U, 61U, 256U, 2052U, 4096U, 5120U, 8200U, 16384U, 16392U})
      for (int kind = 0; kind < 4; ++kind) {
        const std::uint32_t rows = 3;
        auto x = random_floats(random, std::size_t{rows} * hidden, 3);
        const auto before = x;
        const auto added = random_floats(random, x.size());
        const auto bias = random_narrow(random, type, hidden), weight = random_narrow(random, type, hidden);
        aligned<std::uint32_t> take(2);
        take[0] = 2;
        take[1] = 0;
        aligned<std::uint16_t> out(x.size(), 0x7FFF);
        norm_job job;
        job.type = type;
        job.x = x.data();
        if (kind == 1 || kind == 2) job.add = added.data();
        if (kind == 2) job.bias = bias.data();
        if (kind == 3) job.take = take.data();
        job.weight = weight.data();
        job.epsilon = 1e-5F;
        job.out = out.data();
        job.rows = kind == 3 ? 2 : rows;
        job.hidden = hidden;
        inline_stream stream;
        launch(stream, job);
        for (std::uint32_t row = 0; row < job.rows; ++row) {
          const float* own = x.data() + (kind == 3 ? take[row] : row) * hidden;
          double squares = 0;
          for (std::uint32_t i = 0; i < hidden; ++i) {
            const std::size_t at = static_cast<std::size_t>(own - x.data()) + i;
            float expected = before[at];
            if (job.add != nullptr) expected += added[at];
            if (job.bias != nullptr) expected += widen(type, bias[i]);
            ASSERT_EQ(own[i], expected);
            squares += double{own[i]} * double{own[i]};
          }
          const double scale = 1 / std::sqrt(squares / hidden + double{job.epsilon});
          for (std::uint32_t i = 0; i < hidden; ++i) {
            const double right = double{own[i]} * scale * double{widen(type, weight[i])};
            ASSERT_NEAR(double{widen(type, out[row * hidden + i])}, right,
                        std::abs(right) * (half_unit(type) + 2e-6) + 1e-7);
          }
        }
      }
}

TEST(CudaRows, NormAddsWhatDevicesBringInTheirOrderWhateverTheBatch) {
  random_source random(12);
  for (const std::uint32_t hidden : {61U, 256U, 2056U, 6152U, 12296U})
    for (const std::uint32_t parts : {1U, 2U, 4U}) {
      const std::uint32_t rows = 3;
      auto x = random_floats(random, std::size_t{rows} * hidden, 3);
      const auto before = x;
      const auto added = random_floats(random, std::size_t{parts} * rows * hidden);
      const auto bias = random_narrow(random, data_type::bf16, hidden),
                 weight = random_narrow(random, data_type::bf16, hidden);
      aligned<std::uint16_t> out(x.size());
      norm_job job;
      job.x = x.data();
      job.add = added.data();
      job.add_parts = parts;
      job.bias = bias.data();
      job.weight = weight.data();
      job.epsilon = 1e-5F;
      job.out = out.data();
      job.rows = rows;
      job.hidden = hidden;
      inline_stream stream;
      launch(stream, job);
      for (std::size_t i = 0; i < x.size(); ++i) {
        float sum = added[i];
        for (std::uint32_t p = 1; p < parts; ++p) sum += added[p * x.size() + i];
        ASSERT_EQ(x[i], before[i] + sum + widen(data_type::bf16, bias[i % hidden])) << parts << " parts, value " << i;
      }
    }
}

TEST(CudaRows, ColumnsOfSeveralDevicesAreJoinedWithZerosBehindThem) {
  random_source random(13);
  inline_stream stream;
  for (const auto& counts : std::vector<std::vector<std::uint32_t>>{{64, 37}, {1008, 1000, 992, 999}, {1, 1, 1}}) {
    const std::uint32_t rows = 3, width = (counts.front() + 7) / 8 * 8;
    join_job job;
    for (const auto count : counts) {
      job.first[job.parts_count + 1] = job.first[job.parts_count] + count;
      ++job.parts_count;
    }
    const std::uint32_t columns = job.first[job.parts_count], stride = (columns + 7) / 8 * 8;
    const auto parts = random_floats(random, std::size_t{job.parts_count} * rows * width);
    aligned<float> out(std::size_t{rows} * stride, NAN);
    job.parts = parts.data();
    job.width = width;
    job.out = out.data();
    job.stride = stride;
    job.rows = rows;
    launch(stream, job);
    for (std::uint32_t row = 0; row < rows; ++row) {
      for (std::uint32_t part = 0; part < job.parts_count; ++part)
        for (std::uint32_t i = 0; i < counts[part]; ++i)
          ASSERT_EQ(out[row * stride + job.first[part] + i], parts[(part * rows + row) * width + i]);
      for (std::uint32_t i = columns; i < stride; ++i) ASSERT_EQ(out[row * stride + i], 0.0F);
    }
    job.width = counts.front() - 1;
    EXPECT_THROW(launch(stream, job), std::invalid_argument);
  }
}

TEST(CudaRows, ARowsNormDoesNotDependOnItsBatch) {
  random_source random(3);
  const std::uint32_t hidden = 1000, rows = 9;
  auto x = random_floats(random, std::size_t{rows} * hidden);
  const auto weight = random_narrow(random, data_type::bf16, hidden);
  aligned<std::uint16_t> all(x.size()), one(hidden);
  norm_job job;
  job.x = x.data();
  job.weight = weight.data();
  job.epsilon = 1e-6F;
  job.out = all.data();
  job.rows = rows;
  job.hidden = hidden;
  inline_stream stream;
  launch(stream, job);
  job.rows = 1;
  job.out = one.data();
  for (std::uint32_t row = 0; row < rows; ++row) {
    job.x = x.data() + row * hidden;
    launch(stream, job);
    EXPECT_EQ(std::memcmp(one.data(), all.data() + row * hidden, hidden * 2), 0);
  }
}

TEST(CudaRows, SwigluTakesGatesThenUps) {
  random_source random(4);
  inline_stream stream;
  for (const auto type : types)
    for (const bool wide : {true, false})
      for (const bool biased : {true, false})
        for (const std::uint32_t intermediate : {8U, 100U, 2056U}) {
          const std::uint32_t rows = 2;
          const auto in32 = random_floats(random, std::size_t{rows} * 2 * intermediate, 4);
          const auto in16 = random_narrow(random, type, in32.size(), 4);
          const auto bias = random_narrow(random, type, std::size_t{2} * intermediate);
          aligned<std::uint16_t> out(std::size_t{rows} * intermediate, 0x7FFF);
          swiglu_job job;
          job.type = type;
          job.in_type = wide ? data_type::f32 : type;
          job.in = wide ? static_cast<const void*>(in32.data()) : in16.data();
          if (biased) job.bias = bias.data();
          job.out = out.data();
          job.rows = rows;
          job.intermediate = intermediate;
          launch(stream, job);
          for (std::uint32_t row = 0; row < rows; ++row)
            for (std::uint32_t i = 0; i < intermediate; ++i) {
              const auto at = [&](std::uint32_t column) {
                const std::size_t place = std::size_t{row} * 2 * intermediate + column;
                return double{wide ? in32[place] : widen(type, in16[place])} +
                       (biased ? double{widen(type, bias[column])} : 0.0);
              };
              const double gate = at(i), right = gate / (1 + std::exp(-gate)) * at(intermediate + i);
              ASSERT_NEAR(double{widen(type, out[row * intermediate + i])}, right,
                          std::abs(right) * (half_unit(type) + 1e-5) + 1e-6);
            }
        }
}

TEST(CudaRows, WhatIsTooLargeForHalfAFloatIsItsLargestAndNanStays) {
  inline_stream stream;
  const float nan = std::nanf("");
  const float values[] = {300, 300, 1, nan, 1, 1, 1, 1, 300, -300, 1, 1, 1, 1, 1, 1};
  aligned<float> in(std::size(values));
  std::copy(std::begin(values), std::end(values), in.begin());
  aligned<std::uint16_t> out(8, 0);
  swiglu_job job;
  job.type = data_type::f16;
  job.in_type = data_type::f32;
  job.in = in.data();
  job.out = out.data();
  job.rows = 1;
  job.intermediate = 8;
  launch(stream, job);
  EXPECT_EQ(widen(data_type::f16, out[0]), 65504.0F);
  EXPECT_EQ(widen(data_type::f16, out[1]), -65504.0F);
  EXPECT_TRUE(std::isnan(widen(data_type::f16, out[3])));
}

// What a product leaves in f16 may be infinite where its sum was not.
TEST(CudaRows, InfiniteGatesAndUpsAreTheLargestHalves) {
  inline_stream stream;
  for (const std::uint32_t intermediate : {8U, 5U}) {
    const float inf = HUGE_VALF, nan = std::nanf("");
    const float gates[] = {-inf, inf, 1, inf, nan}, ups[] = {1, 2, -inf, 0, 1};
    aligned<std::uint16_t> in(std::size_t{2} * intermediate, narrow(data_type::f16, 1));
    for (std::uint32_t i = 0; i < 5; ++i) {
      in[i] = narrow(data_type::f16, gates[i]);
      in[intermediate + i] = narrow(data_type::f16, ups[i]);
    }
    aligned<std::uint16_t> out(intermediate, 0x7FFF);
    swiglu_job job;
    job.type = job.in_type = data_type::f16;
    job.in = in.data();
    job.out = out.data();
    job.rows = 1;
    job.intermediate = intermediate;
    launch(stream, job);
    const auto got = [&](std::uint32_t i) { return widen(data_type::f16, out[i]); };
    EXPECT_EQ(got(0), 0.0F);
    EXPECT_EQ(got(1), 65504.0F);
    EXPECT_NEAR(got(2), -65504 / (1 + std::exp(-1.0F)), 32);
    EXPECT_EQ(got(3), 0.0F);
    EXPECT_TRUE(std::isnan(got(4)));
  }
}

TEST(CudaRows, NoValueInTheCacheIsNanOrInfinite) {
  inline_stream stream;
  const std::uint32_t size = 16;
  const float nan = std::nanf(""), inf = HUGE_VALF;
  const float special[] = {nan, inf, -inf, 3.4e38F, -3.4e38F, 1.5F, -0.25F};
  const float in_bf16[] = {0, 0x1.FEp127F, -0x1.FEp127F, 0x1.FEp127F, -0x1.FEp127F, 1.5F, -0.25F};
  for (const auto type : types) {
    aligned<float> qkv(std::size_t{3} * size, 1), cosine(size / 2, 1), sine(size / 2, 0);
    qkv[size] = nan; // a key's
    for (std::size_t i = 0; i < std::size(special); ++i) qkv[2 * size + i] = special[i];
    aligned<std::uint32_t> position(1, 0), slot(1, 0);
    aligned<std::uint16_t> queries(size, 0), pool(block_bytes(1, size) / 2, 0);
    rope_job job;
    job.kv = {pool.data(), block_bytes(1, size), 1, size};
    job.type = type;
    job.in_type = data_type::f32;
    job.qkv = qkv.data();
    job.cosine = cosine.data();
    job.sine = sine.data();
    job.positions = position.data();
    job.slots = slot.data();
    job.queries = queries.data();
    job.rows = 1;
    job.heads = 1;
    launch(stream, job);
    EXPECT_TRUE(std::isnan(widen(type, pool[0]))) << "a key's stays, for those who see it";
    const auto* values = pool.data() + std::size_t{16} * size;
    for (std::size_t i = 0; i < std::size(special); ++i) {
      const float bound = type == data_type::f16 ? 65504.0F : HUGE_VALF;
      EXPECT_EQ(widen(type, values[i]), std::clamp(in_bf16[i], -bound, bound)) << i;
    }
  }
}

TEST(CudaRows, QueriesAndKeysTurnAndKeysAndValuesFindTheirSlots) {
  random_source random(5);
  inline_stream stream;
  for (const auto type : types)
    for (const bool wide : {true, false})
      for (const std::uint32_t size : {16U, 64U, 80U, 128U}) {
        const std::uint32_t heads = 4, kv_heads = 2, rows = 5, positions = 40, all = heads + 2 * kv_heads;
        const auto in32 = random_floats(random, std::size_t{rows} * all * size);
        const auto in16 = random_narrow(random, type, in32.size());
        const auto bias = random_narrow(random, type, std::size_t{all} * size);
        const auto cosine = random_floats(random, std::size_t{positions} * size / 2);
        const auto sine = random_floats(random, cosine.size());
        aligned<std::uint32_t> position(rows), slots(rows);
        for (std::uint32_t row = 0; row < rows; ++row) {
          position[row] = below(random, positions);
          slots[row] = row * 7 + 3;
        }
        slots[2] = no_slot;
        aligned<std::uint16_t> queries(std::size_t{rows} * heads * size, 0x7FFF);
        rope_job job;
        job.kv = {nullptr, block_bytes(kv_heads, size) + 64, kv_heads, size};
        aligned<std::uint16_t> pool(3 * job.kv.block_stride / 2, 0x1234);
        const auto untouched = pool;
        job.kv.base = pool.data();
        job.type = type;
        job.in_type = wide ? data_type::f32 : type;
        job.qkv = wide ? static_cast<const void*>(in32.data()) : in16.data();
        if (size != 64) job.bias = bias.data();
        job.cosine = cosine.data();
        job.sine = sine.data();
        job.positions = position.data();
        job.slots = slots.data();
        job.queries = queries.data();
        job.rows = rows;
        job.heads = heads;
        launch(stream, job);
        std::size_t written = 0;
        for (std::uint32_t row = 0; row < rows; ++row)
          for (std::uint32_t head = 0; head < all; ++head)
            for (std::uint32_t d = 0; d < size; ++d) {
              const auto in = [&](std::uint32_t i) {
                const std::size_t at = (std::size_t{row} * all + head) * size + i;
                return double{wide ? in32[at] : widen(type, in16[at])} +
                       (job.bias != nullptr ? double{widen(type, bias[std::size_t{head} * size + i])} : 0.0);
              };
              const std::uint32_t half = size / 2;
              const std::size_t angle = std::size_t{position[row]} * half + d % half;
              double right = in(d);
              if (head < heads + kv_heads)
                right = in(d) * double{cosine[angle]} + (d < half ? -in(d + half) : in(d - half)) * double{sine[angle]};
              double got = 0;
              if (head < heads) {
                got = double{widen(type, queries[(std::size_t{row} * heads + head) * size + d])};
              } else {
                if (slots[row] == no_slot) continue;
                ++written;
                got = double{widen(type, pool[slots[row] / 16 * job.kv.block_stride / 2 +
                                              ((head - heads) * 16 + slots[row] % 16) * std::size_t{size} + d])};
              }
              ASSERT_NEAR(got, right, std::abs(right) * (half_unit(type) + 1e-6) + 1e-6 + half_unit(type) * 0.01);
            }
        std::size_t changed = 0;
        for (std::size_t i = 0; i < pool.size(); ++i) changed += pool[i] != untouched[i];
        EXPECT_LE(changed, written);
        EXPECT_GE(changed + 8, written);
      }
}

TEST(CudaRows, HeadsOfQueriesAndKeysAreNormedBeforeTheyTurnWhateverTheBatch) {
  random_source random(15);
  inline_stream stream;
  for (const auto type : types)
    for (const bool wide : {true, false})
      for (const std::uint32_t size : {16U, 64U, 80U, 128U}) {
        const std::uint32_t heads = 9, kv_heads = 3, rows = 4, positions = 40, all = heads + 2 * kv_heads;
        const auto in32 = random_floats(random, std::size_t{rows} * all * size, 3);
        const auto in16 = random_narrow(random, type, in32.size(), 3);
        const auto bias = random_narrow(random, type, std::size_t{all} * size);
        const auto query_norm = random_narrow(random, type, size), key_norm = random_narrow(random, type, size);
        const auto cosine = random_floats(random, std::size_t{positions} * size / 2);
        const auto sine = random_floats(random, cosine.size());
        aligned<std::uint32_t> position(rows), slots(rows);
        for (std::uint32_t row = 0; row < rows; ++row) {
          position[row] = below(random, positions);
          slots[row] = row * 7 + 3;
        }
        aligned<std::uint16_t> queries(std::size_t{rows} * heads * size, 0x7FFF);
        aligned<std::uint16_t> pool(2 * block_bytes(kv_heads, size) / 2, 0x1234);
        rope_job job;
        job.kv = {pool.data(), block_bytes(kv_heads, size), kv_heads, size};
        job.type = type;
        job.in_type = wide ? data_type::f32 : type;
        job.qkv = wide ? static_cast<const void*>(in32.data()) : in16.data();
        if (size != 64) job.bias = bias.data();
        job.query_norm = query_norm.data();
        job.key_norm = key_norm.data();
        job.epsilon = 0.5F; // large enough to be seen
        job.cosine = cosine.data();
        job.sine = sine.data();
        job.positions = position.data();
        job.slots = slots.data();
        job.queries = queries.data();
        job.rows = rows;
        job.heads = heads;
        launch(stream, job);
        const auto of_head = [&](std::uint32_t row, std::uint32_t head) {
          return head < heads ? queries.data() + (std::size_t{row} * heads + head) * size
                              : pool.data() + slots[row] / 16 * job.kv.block_stride / 2 +
                                    ((head - heads) * 16 + slots[row] % 16) * std::size_t{size};
        };
        for (std::uint32_t row = 0; row < rows; ++row)
          for (std::uint32_t head = 0; head < all; ++head) {
            std::vector<double> in(size);
            double squares = 0;
            for (std::uint32_t d = 0; d < size; ++d) {
              const std::size_t at = (std::size_t{row} * all + head) * size + d;
              in[d] = double{wide ? in32[at] : widen(type, in16[at])} +
                      (job.bias != nullptr ? double{widen(type, bias[std::size_t{head} * size + d])} : 0.0);
              squares += in[d] * in[d];
            }
            const double scale = 1 / std::sqrt(squares / size + double{job.epsilon});
            const auto& weight = head < heads ? query_norm : key_norm;
            const bool turns = head < heads + kv_heads;
            for (std::uint32_t d = 0; turns && d < size; ++d) in[d] *= scale * double{widen(type, weight[d])};
            const std::uint32_t half = size / 2;
            for (std::uint32_t d = 0; d < size; ++d) {
              const std::size_t angle = std::size_t{position[row]} * half + d % half;
              double right = in[d], parts = 0;
              if (turns) {
                const double across = (d < half ? -in[d + half] : in[d - half]) * double{sine[angle]};
                right = in[d] * double{cosine[angle]} + across;
                parts = std::abs(across);
              }
              ASSERT_NEAR(double{widen(type, of_head(row, head)[d])}, right,
                          std::abs(right) * (half_unit(type) + 1e-6) + (parts + 1) * 2e-6)
                  << "row " << row << ", head " << head << ", element " << d;
            }
          }
        // Each row by itself: the same bits.
        const auto together = queries, together_cached = pool;
        std::fill(queries.begin(), queries.end(), 0x7FFF);
        std::fill(pool.begin(), pool.end(), 0x1234);
        job.rows = 1;
        for (std::uint32_t row = 0; row < rows; ++row) {
          job.qkv = wide ? static_cast<const void*>(in32.data() + std::size_t{row} * all * size)
                         : in16.data() + std::size_t{row} * all * size;
          job.positions = position.data() + row;
          job.slots = slots.data() + row;
          job.queries = queries.data() + std::size_t{row} * heads * size;
          launch(stream, job);
        }
        EXPECT_EQ(std::memcmp(together.data(), queries.data(), queries.size() * 2), 0);
        EXPECT_EQ(std::memcmp(together_cached.data(), pool.data(), pool.size() * 2), 0);
        job.key_norm = nullptr;
        EXPECT_THROW(launch(stream, job), std::invalid_argument);
      }
}

// Few rows are spread over blocks of threads, so many are other launches than one by one.
TEST(CudaRows, ARowOfAThousandTurnsAsItDoesAlone) {
  random_source random(16);
  inline_stream stream;
  const std::uint32_t size = 16, heads = 40, kv_heads = 4, rows = 1100, all = heads + 2 * kv_heads;
  const auto qkv = random_floats(random, std::size_t{rows} * all * size);
  const auto norms = random_narrow(random, data_type::bf16, size);
  const auto cosine = random_floats(random, std::size_t{rows} * size / 2), sine = random_floats(random, cosine.size());
  aligned<std::uint32_t> position(rows), slots(rows);
  for (std::uint32_t row = 0; row < rows; ++row) position[row] = slots[row] = row;
  const std::size_t of_pool = std::size_t{(rows + 15) / 16} * block_bytes(kv_heads, size) / 2;
  for (const bool normed : {false, true}) {
    aligned<std::uint16_t> queries(std::size_t{rows} * heads * size, 0x7FFF), pool(of_pool, 0x1234);
    rope_job job;
    job.kv = {pool.data(), block_bytes(kv_heads, size), kv_heads, size};
    job.qkv = qkv.data();
    if (normed) job.query_norm = job.key_norm = norms.data();
    job.epsilon = 1e-5F;
    job.cosine = cosine.data();
    job.sine = sine.data();
    job.positions = position.data();
    job.slots = slots.data();
    job.queries = queries.data();
    job.rows = rows;
    job.heads = heads;
    launch(stream, job);
    const auto together = queries, together_cached = pool;
    std::fill(queries.begin(), queries.end(), 0x7FFF);
    std::fill(pool.begin(), pool.end(), 0x1234);
    job.rows = 1;
    for (std::uint32_t row = 0; row < rows; ++row) {
      job.qkv = qkv.data() + std::size_t{row} * all * size;
      job.positions = position.data() + row;
      job.slots = slots.data() + row;
      job.queries = queries.data() + std::size_t{row} * heads * size;
      launch(stream, job);
    }
    EXPECT_EQ(std::memcmp(together.data(), queries.data(), queries.size() * 2), 0);
    EXPECT_EQ(std::memcmp(together_cached.data(), pool.data(), pool.size() * 2), 0);
    EXPECT_EQ(std::count(queries.begin(), queries.end(), 0x7FFF), 0);
  }
}

TEST(CudaRows, PiecesMoveWholeAndNowhereElse) {
  random_source random(6);
  inline_stream stream;
  for (const std::uint64_t bytes : {16ULL, 48ULL, 16384ULL, 40000ULL})
    for (const std::uint32_t blocks : {1U, 5U, 64U}) {
      const std::uint32_t count = 7;
      const auto from = random_narrow(random, data_type::bf16, count * bytes / 2);
      aligned<std::uint16_t> to(count * (bytes + 32) / 2, 0xABCD);
      aligned<move_piece> list(count);
      for (std::uint32_t i = 0; i < count; ++i)
        list[i] = {from.data() + (i * 3 % count) * bytes / 2, to.data() + i * (bytes + 32) / 2};
      move_job job;
      job.pieces = list.data();
      job.count = count;
      job.bytes = bytes;
      job.thread_blocks = blocks;
      launch(stream, job);
      for (std::uint32_t i = 0; i < count; ++i) {
        EXPECT_EQ(std::memcmp(list[i].to, list[i].from, bytes), 0);
        for (std::size_t k = 0; k < 16; ++k) EXPECT_EQ(to[i * (bytes + 32) / 2 + bytes / 2 + k], 0xABCD);
      }
    }
}

TEST(CudaRows, ShapesThatNoKernelIsMadeForAreRefused) {
  inline_stream stream;
  norm_job norm;
  norm.type = data_type::f32;
  norm.rows = 1;
  EXPECT_THROW(launch(stream, norm), std::invalid_argument);
  attention_job attention;
  attention.slices_count = 1;
  attention.heads = 4;
  attention.kv.kv_heads = 3;
  attention.kv.head_size = 64;
  EXPECT_THROW(launch_decode(stream, attention), std::invalid_argument);
  attention.kv.kv_heads = 2;
  attention.kv.head_size = 72;
  EXPECT_THROW(launch_decode(stream, attention), std::invalid_argument);
  attention.kv.head_size = 64;
  attention.split.tokens = 100;
  EXPECT_THROW(launch_decode(stream, attention), std::invalid_argument);
  attention.split = {2, 0};
  EXPECT_THROW(launch_decode(stream, attention), std::invalid_argument); // no scratch
  move_job move;
  move.count = 1;
  move.bytes = 8;
  EXPECT_THROW(launch(stream, move), std::invalid_argument);
}

} // namespace godwit::gpu::cuda
