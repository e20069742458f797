#include "cuda/area.hpp"
#include "cuda/block_moves.hpp"
#include "cuda/emulated/emulated_driver.hpp"
#include "cuda/graph_cache.hpp"
#include "cuda/step_shape.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

namespace godwit::gpu::cuda {
namespace {

using ::testing::ElementsAre;

protocols::block_copy copy(std::uint32_t from, std::uint32_t to) {
  return protocols::block_copy(protocols::block_id(from), protocols::block_id(to));
}

TEST(BlockMoves, RunTogetherUnlessOneNeedsAnother) {
  const auto runs = [](std::vector<protocols::block_copy> copies) { return independent_runs(copies); };
  EXPECT_THAT(runs({}), ElementsAre());
  EXPECT_THAT(runs({copy(1, 2), copy(1, 3), copy(4, 5)}), ElementsAre(3));
  EXPECT_THAT(runs({copy(2, 6), copy(6, 5)}), ElementsAre(1, 1)) << "reads what was written";
  EXPECT_THAT(runs({copy(1, 2), copy(3, 1)}), ElementsAre(1, 1)) << "writes what is read";
  EXPECT_THAT(runs({copy(1, 2), copy(3, 2)}), ElementsAre(1, 1)) << "writes what is written";
  EXPECT_THAT(runs({copy(1, 2), copy(2, 3), copy(4, 5), copy(3, 6)}), ElementsAre(1, 2, 1));
}

TEST(StepShape, BatchesAreRoundedUpToFewSizes) {
  EXPECT_EQ(bucket_of(1), 1U);
  EXPECT_EQ(bucket_of(3), 4U);
  EXPECT_EQ(bucket_of(17), 32U);
  EXPECT_EQ(bucket_of(33), 64U);
  EXPECT_EQ(bucket_of(200), 224U);
}

TEST(StepShape, PositionsAreSharedSoThatEveryMultiprocessorHasSome) {
  device_properties device; // an H100
  device.multiprocessors = 132;
  device.shared_bytes_max = 227U << 10U;
  const auto places = decode_places(device, 128);
  EXPECT_EQ(places, 264U);
  EXPECT_EQ(decode_places(device, 64), 528U);
  EXPECT_EQ(decode_places(device, 80), 396U);
  EXPECT_EQ(decode_places(device, 96), 264U);
  // One request: as many parts as are useful and have their place at once; many requests: none is cut.
  EXPECT_EQ(decode_split({1, 32'768, 32, 8, places, 0}).parts, 33U);
  EXPECT_EQ(decode_split({1, 1024, 32, 8, places, 0}).parts, 4U);
  EXPECT_EQ(decode_split({1, 100, 32, 8, places, 0}).parts, 1U);
  EXPECT_EQ(decode_split({8, 32'768, 32, 8, places, 0}).parts, 4U);
  EXPECT_EQ(decode_split({128, 32'768, 32, 8, places, 0}).parts, 1U);

  device.multiprocessors = 108; // an A100
  device.shared_bytes_max = 163U << 10U;
  EXPECT_EQ(decode_places(device, 128), 108U);
  device.shared_bytes_max = 99U << 10U; // where less is fetched ahead
  EXPECT_EQ(decode_places(device, 128), 108U);
}

TEST(StepShape, FixedPartsAreAFunctionOfTheModelsLengthAlone) {
  EXPECT_EQ(fixed_part_tokens(2048), 512U);
  EXPECT_EQ(fixed_part_tokens(131'072), 2048U);
  for (const std::uint32_t longest : {1U, 2048U, 100'000U, 131'072U, 10'000'000U}) {
    const auto tokens = fixed_part_tokens(longest);
    EXPECT_EQ(tokens % 64, 0U);
    const auto split = decode_split({7, longest, 32, 8, 132, tokens});
    EXPECT_EQ(split.tokens, tokens);
    EXPECT_LE(split.parts, 64U);
    EXPECT_GE(std::uint64_t{split.parts} * tokens, longest);
    EXPECT_EQ(decode_split({100, longest, 8, 1, 4, tokens}).tokens, tokens);
  }
}

TEST(GraphCache, CapturesWhatComesAgainAndForgetsTheLongestUnused) {
  const auto device = emulated::make_emulated_driver();
  const auto stream = device->make_stream(stream_priority::high);
  graph_cache graphs(2, true);
  int written = 0, ran = 0;
  const auto run = [&](std::uint32_t rows, std::uint64_t version = 1) {
    graphs.run(*stream, {graph_key::part::layers, rows, 0}, version, [&](driver_stream& to) {
      ++written;
      to.run("counts", [&] { ++ran; });
    });
    stream->synchronize();
  };
  run(1); // as it is
  run(1); // captured
  run(1); // launched
  EXPECT_EQ(written, 2);
  EXPECT_EQ(ran, 3);
  EXPECT_EQ(graphs.launches(), 2U);
  run(1, 2); // memory has moved: captured again
  EXPECT_EQ(written, 3);
  run(2);
  run(3); // no room for 1
  run(1);
  EXPECT_EQ(written, 6);
  EXPECT_EQ(graphs.launches(), 3U);
  EXPECT_EQ(ran, 7);
}

TEST(GraphCache, WhatCannotBeCapturedRunsAsItIsUnlessOthersWaitForIt) {
  for (const bool alone : {true, false}) {
    emulated::emulated_settings settings;
    settings.captures_that_fail = 4;
    const auto device = emulated::make_emulated_driver(settings);
    const auto stream = device->make_stream(stream_priority::high);
    std::vector<std::string> told;
    graph_cache graphs(2, alone, [&](const std::string& line) { told.push_back(line); });
    int written = 0, ran = 0;
    const auto run = [&](std::uint64_t version = 1) {
      graphs.run(*stream, {graph_key::part::layers, 1, 0}, version, [&](driver_stream& to) {
        ++written;
        to.run("counts", [&] { ++ran; });
      });
      stream->synchronize();
    };
    run();
    if (!alone) {
      EXPECT_THROW(run(), driver_error);
      continue;
    }
    run();
    EXPECT_EQ(written, 3) << "once for the capture";
    run();
    EXPECT_TRUE(told.empty());
    run();
    EXPECT_EQ(written, 7) << "which is tried three times";
    run();
    EXPECT_EQ(written, 8) << "and then no more";
    EXPECT_EQ(graphs.why_not(), "the emulated GPU makes no graphs");
    EXPECT_THAT(told,
                ElementsAre(::testing::HasSubstr("without a graph, more slowly: the emulated GPU makes no graphs")));
    run(2); // memory has moved
    run(2);
    EXPECT_EQ(written, 11) << "one more that fails, and one that does not";
    run(2);
    EXPECT_EQ(written, 11);
    EXPECT_EQ(graphs.launches(), 2U);
    EXPECT_EQ(ran, 8);
    EXPECT_EQ(graphs.why_not(), "");
    EXPECT_EQ(told.size(), 1U);
  }
}

TEST(GraphCache, LeavesNoCaptureOpenWhenALaunchIsRefused) {
  const auto device = emulated::make_emulated_driver();
  const auto stream = device->make_stream(stream_priority::high);
  const auto memory = device->allocate(16, "numbers");
  graph_cache graphs(2, true);
  const graph_key key{graph_key::part::logits, 1, 0};
  graphs.run(*stream, key, 1, [](driver_stream&) {});
  EXPECT_THROW(graphs.run(*stream, key, 1, [](driver_stream& to) { to.fill(nullptr, 0, 4); }), driver_error);
  stream->fill(memory.data(), 0, 16);
  stream->synchronize();
}

TEST(StepShape, NoBatchHasMorePartsThanMemoryIsTakenForAtTheStart) {
  for (const std::uint32_t kv_heads : {1U, 2U, 8U})
    for (const std::uint32_t places : {1U, 4U, 264U, 528U})
      for (std::uint32_t slices = 1; slices <= 600; ++slices) {
        const decode_shape shape{slices, 1'000'000, 32, kv_heads, places, 0};
        const auto parts = decode_split(shape).parts;
        if (parts > 1) {
          EXPECT_LE(slices * parts, decode_parts_max(shape)) << slices;
        }
      }
}

TEST(Area, KeepsItsPlacesUntilASectionHasToGrow) {
  const auto device = emulated::make_emulated_driver();
  area memory(*device, area::kind::twin, "sections");
  EXPECT_TRUE(memory.reserve({100, 0, 3000}));
  auto* second = memory.device<std::byte>(2);
  EXPECT_EQ(memory.host<std::byte>(2) - memory.host<std::byte>(0), second - memory.device<std::byte>(0));
  EXPECT_FALSE(memory.reserve({50, 1, 2000}));
  EXPECT_EQ(memory.device<std::byte>(2), second);
  EXPECT_TRUE(memory.reserve({100, 5000, 10}));
  EXPECT_FALSE(memory.reserve({100, 5000, 3000})) << "what was large enough stays so";
  EXPECT_EQ(memory.moves(), 2U);
  EXPECT_TRUE(memory.reserve({100, 5000, 3500}));
  EXPECT_FALSE(memory.reserve({100, 5000, 6000})) << "a small area grows to twice what it was";
}

TEST(Area, CountsAMoveThatHasNowhereToGo) {
  emulated::emulated_settings settings;
  settings.memory_bytes = 1U << 20U;
  const auto device = emulated::make_emulated_driver(settings);
  area memory(*device, area::kind::device, "sections");
  memory.reserve({1000});
  EXPECT_THROW(memory.reserve({2U << 20U}), out_of_memory);
  EXPECT_EQ(memory.moves(), 2U) << "what was there is gone";
  EXPECT_TRUE(memory.reserve({1000}));
}

TEST(Area, TakesWhatIsNeededWhereTwiceAsMuchIsNotThere) {
  emulated::emulated_settings settings;
  settings.memory_bytes = 1U << 20U;
  const auto device = emulated::make_emulated_driver(settings);
  area memory(*device, area::kind::device, "sections", true); // which keeps what it outgrows
  memory.reserve({400'000});
  EXPECT_TRUE(memory.reserve({430'000}));
  EXPECT_FALSE(memory.reserve({430'000}));
}

TEST(Area, OfDevicesThatWorkTogetherGivesNothingBackBeforeItGoes) {
  emulated::emulated_settings settings;
  settings.counts = std::make_shared<emulated::memory_counts>();
  const auto device = emulated::make_emulated_driver(settings);
  for (const auto kind : {area::kind::device, area::kind::twin}) {
    const std::uint64_t before = settings.counts->given_back;
    {
      area memory(*device, kind, "sections", true);
      std::uint64_t moved = 0;
      for (std::uint64_t bytes = 1000; bytes < 1'000'000; bytes += 1000) moved += memory.reserve({bytes}) ? 1U : 0U;
      EXPECT_LE(moved, 11U);
      EXPECT_EQ(settings.counts->given_back, before);
    }
    EXPECT_EQ(settings.counts->given_back, settings.counts->taken);
  }
}

} // namespace
} // namespace godwit::gpu::cuda
