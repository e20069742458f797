#include "cuda/kernels.hpp"

#include "kernels_inline_stream.hpp"
#include "kernels_values.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <numeric>
#include <vector>

namespace godwit::gpu::cuda {

namespace {

using namespace testing;

struct slice_shape {
  std::uint32_t first_position;
  std::uint32_t rows;
};

/// Slices with their queries, and KV in blocks that lie anywhere in a pool; unused tokens hold NaN.
class world {
public:
  world(std::uint32_t seed, data_type kind, std::uint32_t heads, std::uint32_t kv_heads, std::uint32_t size,
        const std::vector<slice_shape>& shapes)
      : random_(seed), type(kind), slices(shapes.size()) {
    std::uint32_t rows = 0, blocks = 0;
    for (std::size_t i = 0; i < shapes.size(); ++i) {
      slices[i] = {rows, shapes[i].rows, shapes[i].first_position, blocks};
      rows += shapes[i].rows;
      blocks += (shapes[i].first_position + shapes[i].rows + 15) / 16;
    }
    job.type = type;
    job.heads = heads;
    job.kv.kv_heads = kv_heads;
    job.kv.head_size = size;
    job.kv.block_stride = block_bytes(kv_heads, size) + 32;
    job.scale = 1.0F / std::sqrt(static_cast<float>(size));
    queries = random_narrow(random_, type, std::size_t{rows} * heads * size, 2);
    out = aligned<std::uint16_t>(queries.size(), 0x7FFF);
    const std::uint32_t in_pool = blocks + 5;
    pool = aligned<std::uint16_t>(in_pool * job.kv.block_stride / 2, 0x7FFF);
    std::vector<std::uint32_t> ids(in_pool);
    std::iota(ids.begin(), ids.end(), 0U);
    std::shuffle(ids.begin(), ids.end(), random_);
    table = aligned<std::uint32_t>(blocks);
    std::copy_n(ids.begin(), blocks, table.begin());
    for (const auto& slice : slices)
      for (std::uint32_t p = 0; p < slice.first_position + slice.rows; ++p)
        for (std::uint32_t h = 0; h < kv_heads; ++h)
          for (std::uint32_t d = 0; d < size; ++d)
            for (const bool value : {false, true}) element(slice, p, h, d, value) = narrow(type, normal_(random_));
    job.queries = queries.data();
    job.kv.base = pool.data();
    job.block_table = table.data();
    job.slices = slices.data();
    job.slices_count = static_cast<std::uint32_t>(slices.size());
    for (const auto& slice : slices) {
      job.slice_rows_max = std::max(job.slice_rows_max, slice.rows);
      job.positions_max = std::max(job.positions_max, slice.first_position + slice.rows);
    }
    job.out = out.data();
  }

  std::uint16_t& element(const attention_slice& slice, std::uint32_t position, std::uint32_t head, std::uint32_t d,
                         bool value) {
    const auto& kv = job.kv;
    const std::size_t block = table[slice.first_block + position / 16];
    return pool[block * kv.block_stride / 2 + ((value ? kv.kv_heads : 0) + head) * std::size_t{16} * kv.head_size +
                position % 16 * kv.head_size + d];
  }

  /// One row of one head, in double precision; `largest` gets the greatest value of V seen.
  std::vector<double> reference(const attention_slice& slice, std::uint32_t token, std::uint32_t head,
                                double& largest) {
    const std::uint32_t size = job.kv.head_size, kv_head = head / (job.heads / job.kv.kv_heads);
    const std::uint32_t position = slice.first_position + token;
    const std::uint32_t begin = job.window != 0 && position + 1 > job.window ? position + 1 - job.window : 0;
    std::vector<double> scores;
    for (std::uint32_t p = begin; p <= position; ++p) {
      double sum = 0;
      for (std::uint32_t d = 0; d < size; ++d)
        sum += double{widen(type, queries[(std::size_t{slice.first_row + token} * job.heads + head) * size + d])} *
               double{widen(type, element(slice, p, kv_head, d, false))};
      scores.push_back(sum * double{job.scale});
    }
    const double top = *std::max_element(scores.begin(), scores.end());
    double total = 0;
    for (auto& s : scores) total += s = std::exp(s - top);
    std::vector<double> result(size);
    for (std::uint32_t d = 0; d < size; ++d)
      for (std::uint32_t p = begin; p <= position; ++p) {
        const double v = double{widen(type, element(slice, p, kv_head, d, true))};
        largest = std::max(largest, std::abs(v));
        result[d] += scores[p - begin] / total * v;
      }
    return result;
  }

  void expect_right(const char* what) {
    for (const auto& slice : slices)
      for (std::uint32_t token = 0; token < slice.rows; ++token)
        for (std::uint32_t head = 0; head < job.heads; ++head) {
          double largest = 0;
          const auto right = reference(slice, token, head, largest);
          for (std::uint32_t d = 0; d < job.kv.head_size; ++d) {
            const double got = double{
                widen(type, out[(std::size_t{slice.first_row + token} * job.heads + head) * job.kv.head_size + d])};
            // the probabilities are rounded, and so is the sum
            const double slack = half_unit(type) * (largest + std::abs(right[d])) + 1e-5;
            ASSERT_NEAR(got, right[d], slack)
                << what << ": position " << slice.first_position + token << ", head " << head << ", element " << d;
          }
        }
  }

  void clear() { std::fill(out.begin(), out.end(), std::uint16_t{0x7FFF}); }
  std::vector<std::uint16_t> row(std::uint32_t slice, std::uint32_t token) const {
    const std::size_t width = std::size_t{job.heads} * job.kv.head_size;
    const auto* from = out.data() + (slices[slice].first_row + token) * width;
    return {from, from + width};
  }

private:
  random_source random_;
  std::normal_distribution<float> normal_{0, 1};

public:
  data_type type;
  attention_job job;
  aligned<std::uint16_t> queries, pool, out;
  aligned<std::uint32_t> table;
  aligned<attention_slice> slices;
  inline_stream stream;

  void decode(attention_split split) {
    job.split = split;
    aligned<float> scratch(attention_scratch_bytes(job) / sizeof(float), NAN);
    job.scratch = scratch.data();
    launch_decode(stream, job);
  }
};

constexpr std::uint32_t sizes[] = {16, 32, 64, 80, 96, 128};

} // namespace

TEST(CudaAttention, DecodesWithAnyHeadSizeGroupAndSplit) {
  std::uint32_t seed = 1;
  for (const auto size : sizes)
    for (const auto type : {data_type::bf16, data_type::f16}) {
      const std::uint32_t kv_heads = 1 + seed % 2, group = 1 + seed * 3 % 7;
      world w(seed++, type, kv_heads * group, kv_heads, size, {{0, 1}, {7, 0}, {15, 1}, {16, 1}, {130, 1}, {389, 1}});
      for (const attention_split split : {attention_split{1, 0}, {3, 0}, {1, 128}, {2, 64}}) {
        w.clear();
        w.decode(split);
        w.expect_right("decode");
      }
    }
}

TEST(CudaAttention, DecodesWithMoreQueryHeadsThanATileHasRows) {
  world w(3, data_type::bf16, 40, 2, 32, {{70, 1}, {5, 1}});
  w.decode({2, 0});
  w.expect_right("wide group");
}

TEST(CudaAttention, PutsMorePartsTogetherThanAreLoadedAtOnce) {
  world w(4, data_type::bf16, 4, 2, 32, {{1279, 1}, {700, 1}, {3, 1}});
  for (const attention_split split : {attention_split{3, 64}, {20, 0}}) { // 20 parts of the longest row
    w.clear();
    w.decode(split);
    w.expect_right("many parts");
  }
}

TEST(CudaAttention, SeesNoFurtherBackThanItsWindow) {
  for (const std::uint32_t window : {1U, 17U, 64U, 100U, 1000U}) {
    world w(window, data_type::bf16, 4, 2, 32, {{300, 1}, {99, 1}, {0, 1}, {180, 30}});
    w.job.window = window;
    w.decode({1, 0});
    w.expect_right("decode");
    w.clear();
    w.decode({1, 64});
    w.expect_right("fixed");
    w.clear();
    launch_prefill(w.stream, w.job);
    w.expect_right("prefill");
    world one(window, data_type::bf16, 4, 2, 32, {{300, 1}, {99, 1}, {0, 1}});
    one.job.window = window;
    for (const attention_split split : {attention_split{3, 0}, {2, 64}}) {
      one.clear();
      one.decode(split);
      one.expect_right("parts");
    }
  }
}

TEST(CudaAttention, PrefillsChunksOfAnyLengthBehindEarlierBlocks) {
  std::uint32_t seed = 11;
  for (const auto size : sizes)
    for (const auto type : {data_type::bf16, data_type::f16}) {
      const std::uint32_t kv_heads = 1 + seed % 2, group = 1 + seed * 3 % 5;
      world w(seed++, type, kv_heads * group, kv_heads, size, {{0, 1}, {0, 70}, {37, 21}, {9, 0}, {111, 33}});
      launch_prefill(w.stream, w.job);
      w.expect_right("prefill");
      w.clear();
      w.decode({1, 64});
      w.expect_right("prefill by the decode kernel");
    }
}

TEST(CudaAttention, FixedPartsGiveARowTheSameBitsAloneInABatchAndInAnyChunk) {
  for (const std::uint32_t window : {0U, 150U}) {
    // one request of 320 positions: its last rows as a chunk, in two chunks, and one by one
    world whole(5, data_type::bf16, 6, 2, 64, {{230, 90}});
    whole.job.window = window;
    whole.decode({1, 128});
    whole.expect_right("chunk");
    world cut = whole;
    cut.job.queries = cut.queries.data();
    const auto aim = [](world& w) {
      w.job.kv.base = w.pool.data();
      w.job.block_table = w.table.data();
      w.job.slices = w.slices.data();
      w.job.out = w.out.data();
      w.job.queries = w.queries.data();
      w.clear();
    };
    for (const std::uint32_t at : {1U, 26U, 64U, 89U}) {
      aim(cut);
      cut.slices[0] = {at, 90 - at, 230 + at, 0};
      cut.decode({1, 128});
      cut.slices[0] = {0, at, 230, 0};
      cut.decode({1, 128});
      EXPECT_TRUE(std::equal(cut.out.begin(), cut.out.end(), whole.out.begin())) << "cut at " << at;
    }
    for (const std::uint32_t parts : {1U, 2U, 3U, 7U}) {
      aim(cut);
      cut.job.slice_rows_max = 1;
      for (const std::uint32_t token : {0U, 13U, 25U, 26U, 89U}) {
        cut.slices[0] = {token, 1, 230 + token, 0};
        cut.decode({parts, 128});
        EXPECT_EQ(cut.row(0, 0),
                  [&] {
                    const std::size_t width = 6 * 64;
                    const auto* from = whole.out.data() + token * width;
                    return std::vector<std::uint16_t>(from, from + width);
                  }())
            << token << " in " << parts;
      }
    }
  }
}

// As a token leaves its KV whose row is NaN: its values are written as zeros (kernels_rope.cpp).
TEST(CudaAttention, ALaterTokensNanDoesNotReachEarlierRows) {
  for (const bool prefill : {true, false}) {
    world w(23, data_type::bf16, 4, 2, 32, {{30, 21}});
    const auto& slice = w.slices[0];
    for (std::uint32_t h = 0; h < 2; ++h)
      for (std::uint32_t d = 0; d < 32; ++d) {
        w.element(slice, 50, h, d, false) = narrow(w.type, std::nanf(""));
        w.element(slice, 50, h, d, true) = 0;
      }
    if (prefill)
      launch_prefill(w.stream, w.job);
    else
      w.decode({1, 64});
    const auto last = w.row(0, 20);
    EXPECT_TRUE(std::isnan(widen(w.type, last[0]))) << "its own is";
    w.slices[0].rows = 20;
    w.expect_right(prefill ? "prefill" : "decode");
  }
}

TEST(CudaAttention, FetchesLessFarAheadWithTheSameBitsWhereSharedMemoryIsSmall) {
  for (const auto type : {data_type::bf16, data_type::f16})
    for (const attention_split split : {attention_split{1, 0}, {3, 0}, {2, 64}}) {
      world w(17, type, 6, 2, 128, {{0, 1}, {15, 1}, {130, 1}, {389, 1}});
      w.decode(split);
      w.expect_right("as far ahead as can be");
      const std::vector<std::uint16_t> far(w.out.begin(), w.out.end());
      w.clear();
      w.stream.set_shared_bytes_max(99U << 10U); // compute capability 8.6
      w.decode(split);
      EXPECT_TRUE(std::equal(w.out.begin(), w.out.end(), far.begin()));
    }
}

} // namespace godwit::gpu::cuda
