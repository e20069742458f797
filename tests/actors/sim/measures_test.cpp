#include <godwit/actors/sim/simulation.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

namespace godwit::test {

using actors::sim::covered_ns;
using actors::sim::fragmentation_of;
using actors::sim::prompt_of;
using protocols::load_report;
using protocols::workload::workload_request;

namespace {

/// `outstanding`: what its running prompts lack besides.
load_report load_of(std::uint32_t total, std::uint32_t used, std::uint32_t demand, std::uint32_t outstanding = 0) {
  load_report load;
  load.blocks_total = total;
  load.blocks_used = used;
  load.waiting = demand > 0 ? 3 : 0;
  load.queued_blocks = demand + outstanding;
  load.outstanding_blocks = outstanding;
  return load;
}

workload_request request_of(std::uint32_t tokens, std::vector<std::uint64_t> hashes) {
  workload_request r;
  r.prompt_tokens = tokens;
  r.prefix_hashes = std::move(hashes);
  return r;
}

} // namespace

// Llumnix, figures 5 and 12.
TEST(FragmentedBlocks, AreThoseThatWouldHoldHeadsOfLineIfTheyLayTogether) {
  // 30, 20 and 40 of 100 are free, 90 in all; the first two in line need 50 and 60, one at a time fits.
  EXPECT_EQ(fragmentation_of(std::vector{load_of(100, 70, 50), load_of(100, 80, 60), load_of(100, 60, 0)}).blocks, 50U);
  // With 120 free, both do.
  EXPECT_EQ(fragmentation_of(std::vector{load_of(100, 70, 50), load_of(100, 80, 60), load_of(100, 30, 0)}).blocks,
            110U);
}

// Llumnix, figure 5: of how many heads of line the whole cluster's free memory would hold the demand.
TEST(FragmentedBlocks, ComeWithTheHeadsOfLineThatWouldFit) {
  const auto one = fragmentation_of(std::vector{load_of(100, 70, 50), load_of(100, 80, 60), load_of(100, 60, 40)});
  EXPECT_EQ(one.heads, 2U) << "the third finds its 40 blocks";
  EXPECT_EQ(one.fitting, 1U);
  EXPECT_EQ(fragmentation_of(std::vector{load_of(100, 70, 50), load_of(100, 80, 60), load_of(100, 30, 0)}).fitting, 2U);
  EXPECT_EQ(fragmentation_of(std::vector{load_of(100, 70, 31)}).heads, 1U);
  EXPECT_EQ(fragmentation_of(std::vector{load_of(100, 70, 31)}).fitting, 0U);
}

// Running prompts take what they lack first: it is no demand of who waits, and not free for others either.
TEST(FragmentedBlocks, DoNotCountWhatRunningPromptsLack) {
  const auto one = fragmentation_of(std::vector{load_of(100, 70, 15, 20), load_of(100, 90, 0)});
  EXPECT_EQ(one.blocks, 15U) << "10 are free here, and 10 there";
  EXPECT_EQ(one.fitting, 1U);
  EXPECT_EQ(fragmentation_of(std::vector{load_of(100, 70, 10, 20), load_of(100, 90, 0)}).heads, 0U) << "it fits";
  const auto none = fragmentation_of(std::vector{load_of(100, 70, 15, 20), load_of(100, 70, 0, 29)});
  EXPECT_EQ(none.heads, 1U);
  EXPECT_EQ(none.fitting, 0U) << "the other instance has 1";
  EXPECT_EQ(fragmentation_of(std::vector{load_of(100, 70, 5, 50), load_of(100, 95, 0)}).blocks, 5U)
      << "nothing is free";
}

TEST(Covered, IsTheTimeInWhichAtLeastOneSpanLasts) {
  EXPECT_EQ(covered_ns({}), 0);
  EXPECT_EQ(covered_ns({{5, 7}, {-3, 1}, {6, 9}, {6, 8}, {9, 10}, {4, 4}}), 9);
}

TEST(FragmentedBlocks, AreNoneWhereTheHeadOfLineFitsOrTheWholeClusterIsFull) {
  EXPECT_EQ(fragmentation_of({}).blocks, 0U);
  EXPECT_EQ(fragmentation_of(std::vector{load_of(100, 70, 30)}).blocks, 0U) << "it starts with the next step";
  EXPECT_EQ(fragmentation_of(std::vector{load_of(100, 70, 31)}).blocks, 0U) << "no other instance has anything";
  EXPECT_EQ(fragmentation_of(std::vector{load_of(100, 99, 50), load_of(100, 99, 0)}).blocks, 0U);
  EXPECT_EQ(fragmentation_of(std::vector{load_of(100, 90, 0), load_of(100, 0, 0)}).blocks, 0U) << "nobody waits";
}

TEST(PromptOf, RepeatsWhatTheTraceSaysIsSharedAndNothingElse) {
  const auto a = prompt_of(request_of(1100, {1, 2, 3}), 0, 32'000, 7);
  const auto b = prompt_of(request_of(1500, {1, 2, 4}), 1, 32'000, 7);
  const auto c = prompt_of(request_of(600, {5, 2}), 2, 32'000, 7);
  ASSERT_EQ(a.size(), 1100U);
  ASSERT_EQ(b.size(), 1500U);
  EXPECT_TRUE(std::equal(a.begin(), a.begin() + 1024, b.begin()));
  EXPECT_FALSE(std::equal(a.begin() + 1024, a.end(), b.begin() + 1024));
  EXPECT_FALSE(std::equal(a.begin(), a.begin() + 512, c.begin()));
  EXPECT_NE(prompt_of(request_of(64, {}), 3, 32'000, 7), prompt_of(request_of(64, {}), 4, 32'000, 7));
  EXPECT_EQ(prompt_of(request_of(64, {}), 3, 32'000, 7), prompt_of(request_of(64, {}), 3, 32'000, 7));
  EXPECT_THAT(a, ::testing::Each(::testing::AllOf(::testing::Ge(0), ::testing::Lt(32'000))));
}

} // namespace godwit::test
