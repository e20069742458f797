#include "gpu/cpu/tiny_model.hpp"
#include "gpu/run_to_end.hpp"

#include <godwit/gpu/event.hpp>
#include <godwit/gpu/tensor_parallel.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cstring>

namespace godwit::gpu::cpu::testing {
namespace {

using namespace std::chrono_literals;
using gpu::testing::error_after;
using gpu::testing::run_to_end;
using tensor_parallel::part_of;
using tensor_parallel::range;
using tensor_parallel::refuse_degree;
using ::testing::HasSubstr;

model::config four_kv_heads() {
  auto c = tiny_config();
  c.heads = 8;
  c.kv_heads = 4;
  return c;
}
std::vector<std::shared_ptr<const packed_model>> parts(std::uint32_t degree) {
  const auto c = four_kv_heads();
  return pack_shards(c, memory_weights(c, model::data_type::bf16, 3), degree, 1);
}
protocols::step_input prompt_of(std::size_t tokens) {
  protocols::step_input input;
  input.slices.push_back(slice_of(some_tokens(tokens, 101, 1), 0, tokens, std::vector{0U, 1U, 2U, 3U}));
  return input;
}

TEST(Division, PartsFollowEachOtherAndDifferByOneUnitAtMost) {
  for (const std::uint32_t total : {32U, 50U, 101U, 150U, 512U, 1000U, 32000U, 128256U})
    for (const std::uint32_t unit : {1U, 16U, 32U})
      for (std::uint32_t degree = 1; degree <= 8; ++degree) {
        std::uint32_t next = 0, largest = 0, smallest = ~0U;
        for (std::uint32_t rank = 0; rank < degree; ++rank) {
          const auto part = part_of(total, unit, {rank, degree});
          EXPECT_EQ(part.first, next);
          EXPECT_GT(part.count, 0U);
          if (total / unit >= degree) {
            EXPECT_EQ(part.first % unit, 0U);
          }
          next += part.count;
          largest = std::max(largest, part.count);
          smallest = std::min(smallest, part.count);
        }
        EXPECT_EQ(next, total);
        EXPECT_LE(largest - smallest, 2 * unit);
        EXPECT_EQ(part_of(total, unit, {0, degree}).count, largest);
      }
}

TEST(Division, ADegreeThatDoesNotDivideTheKvHeadsIsRefusedWithThoseThatDo) {
  auto c = four_kv_heads();
  for (const std::uint32_t fits : {1U, 2U, 4U}) EXPECT_EQ(refuse_degree(c, fits), "");
  EXPECT_EQ(refuse_degree(c, 3), "the model's 4 KV heads cannot be divided among 3 devices; a tensor-parallel degree "
                                 "that fits: 1, 2, 4");
  EXPECT_NE(refuse_degree(c, 0), "");
  EXPECT_NE(refuse_degree(c, 8), "");
  c.intermediate = 3;
  EXPECT_THAT(refuse_degree(c, 4), HasSubstr("fits: 1, 2"));
  EXPECT_THROW((void)pack_model(c, memory_weights(c, model::data_type::bf16, 1), 1, {0, 4}), std::runtime_error);
}

TEST(JoinedExecutor, SaysWhatOneDeviceWouldSayOfTheWholeModel) {
  const auto one = make_cpu_executor(parts(1), {.threads = 1, .blocks = 8});
  EXPECT_TRUE(one->shards().empty());
  for (const std::uint32_t degree : {2U, 4U}) {
    const auto many = make_cpu_executor(parts(degree), {.threads = degree, .blocks = 8});
    EXPECT_EQ(many->shards().size(), degree);
    EXPECT_EQ(many->info().kv_layout, one->info().kv_layout);
    EXPECT_EQ(many->info().block_bytes, one->info().block_bytes);
    EXPECT_EQ(many->info().blocks, 8U);
    EXPECT_EQ(many->info().vocabulary, one->info().vocabulary);
    EXPECT_THAT(many->info().device, HasSubstr(std::to_string(degree) + " x cpu (1 thread, "));
    for (const auto& rank : many->shards()) EXPECT_EQ(rank->info().block_bytes * degree, one->info().block_bytes);
  }
  EXPECT_THAT(make_cpu_executor(parts(4), {.threads = 1, .blocks = 8})->info().device, HasSubstr("4 x cpu (1 thread"));
  EXPECT_THAT(make_cpu_executor(parts(2), {.threads = 5, .blocks = 8})->info().device, HasSubstr("2 x cpu (3 threads"));
}

TEST(JoinedExecutor, RoomForKvIsOfWholeBlocks) {
  const auto block = make_cpu_executor(parts(1), {.threads = 1, .blocks = 1})->info().block_bytes;
  for (const std::uint32_t degree : {1U, 2U, 4U})
    EXPECT_EQ(make_cpu_executor(parts(degree), {.threads = 1, .kv_bytes = 10 * block + 1})->info().blocks, 10U);
}

// In layer 0 nothing has been summed over devices yet, so the bytes must be the very same.
TEST(JoinedExecutor, ItsDevicesKvPutTogetherIsThatOfOneDevice) {
  const auto one = make_cpu_executor(parts(1), {.threads = 1, .blocks = 4});
  EXPECT_EQ(run_to_end(*one->begin(prompt_of(40))), "");
  for (const std::uint32_t degree : {2U, 4U}) {
    const auto many = make_cpu_executor(parts(degree), {.threads = degree, .blocks = 4});
    EXPECT_EQ(run_to_end(*many->begin(prompt_of(40))), "");
    for (std::uint32_t block = 0; block < 3; ++block)
      for (const bool keys : {true, false}) {
        const auto region = [&](executor& of) {
          return keys ? of.key_region(0, protocols::block_id{block}) : of.value_region(0, protocols::block_id{block});
        };
        const auto whole = region(*one);
        std::vector<std::byte> together;
        for (const auto& rank : many->shards()) {
          const auto own = region(*rank);
          together.insert(together.end(), own.address, own.address + own.bytes);
        }
        ASSERT_EQ(together.size(), whole.bytes);
        EXPECT_EQ(std::memcmp(together.data(), whole.address, whole.bytes), 0) << degree << " " << block << keys;
      }
  }
}

TEST(JoinedExecutor, AnAbandonedStepEndsAtOnceOnAllDevicesAndNoneBeginsAfterIt) {
  for (const std::uint32_t upto : {0U, 1U, 2U}) {
    const auto many = make_cpu_executor(parts(4), {.threads = 4, .blocks = 4});
    auto step = many->begin(prompt_of(60));
    if (upto > 0) step->advance(upto, {});
    const auto began = std::chrono::steady_clock::now();
    step.reset();
    EXPECT_LT(std::chrono::steady_clock::now() - began, 10s);
    if (upto == 2) continue; // it may have ended before
    EXPECT_THAT(run_to_end(*many->begin(prompt_of(10))), HasSubstr("a step was abandoned by rank"));
  }
}

TEST(JoinedExecutor, OneDeviceThatStaysAwayIsAnErrorOfTheOthersAndNoHang) {
  const auto many = make_cpu_executor(parts(2), {.threads = 2, .blocks = 4}, 50ms);
  const auto alone = many->shards()[1]->begin(prompt_of(10));
  EXPECT_THAT(run_to_end(*alone), HasSubstr("rank 0 did not come to a sum"));
}

TEST(JoinedExecutor, OneDeviceWhoseStepIsDroppedEndsThoseOfTheOthers) {
  const auto many = make_cpu_executor(parts(2), {.threads = 2, .blocks = 4}, 20s);
  const auto stays = many->shards()[0]->begin(prompt_of(10));
  auto goes = many->shards()[1]->begin(prompt_of(10));
  goes->advance(1, {});
  EXPECT_EQ(error_after(*stays, [&] { goes.reset(); }), "a step was abandoned by rank 1");
}

TEST(JoinedExecutor, RunsLayerByLayer) {
  const auto many = make_cpu_executor(parts(2), {.threads = 2, .blocks = 4});
  const auto at_once = many->begin(prompt_of(30));
  ASSERT_EQ(run_to_end(*at_once), "");
  const auto expected = at_once->take();
  const auto other = make_cpu_executor(parts(2), {.threads = 2, .blocks = 4});
  const auto step = other->begin(prompt_of(30));
  for (std::uint32_t layer = 1; layer <= step->layers(); ++layer) {
    const event ran;
    step->advance(layer, [&](const std::string& error) {
      EXPECT_EQ(error, "");
      ran.set();
    });
    ran.wait();
  }
  EXPECT_EQ(step->take().tokens, expected.tokens);
}

TEST(JoinedExecutor, APartWithoutItsGroupIsACallersMistake) {
  const auto two = parts(2);
  EXPECT_THROW((void)make_cpu_executor(two[0], {.threads = 1, .blocks = 4}), std::invalid_argument);
  cpu_executor_settings wrong{.threads = 1, .blocks = 4};
  wrong.group = collective::make_host_group(2)[1];
  EXPECT_THROW((void)make_cpu_executor(two[0], wrong), std::invalid_argument);
  EXPECT_THROW((void)make_cpu_executor(parts(1)[0], wrong), std::invalid_argument);
}

} // namespace
} // namespace godwit::gpu::cpu::testing
