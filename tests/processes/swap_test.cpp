// KV of preempted requests in the host's memory, as an operator sets it up: answers are those of a server with memory
// enough, and what cannot be is said in one line.
#include "processes/support/answers.hpp"
#include "processes/support/console.hpp"
#include "processes/support/godwit_processes.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace godwit::test {

using namespace std::chrono_literals;
using ::testing::HasSubstr;

namespace {

class SwapOfProcesses : public ::testing::Test {
protected:
  void SetUp() override {
    if (!has_default_model()) GTEST_SKIP() << "built without the embedded model";
  }
};

} // namespace

TEST_F(SwapOfProcesses, WhoWaitsInTheHostsMemoryGoesOnAsIfNothingHadHappened) {
  const auto questions = mixed_questions(12, 240);
  for (const auto* devices : {"1", "2"}) {
    served calm(patient({"--instances", "1", "--threads", "1", "--tensor-parallel", devices}));
    ASSERT_TRUE(calm.wait_ready()) << calm.process.err();
    const auto expected = ask_all(calm.url(), questions);
    // Room for two of them and a little more.
    served tight(patient({"--instances", "1", "--threads", "1", "--tensor-parallel", devices, "--model-context-max",
                          "512", "--kv-bytes", "1536KiB", "--swap-bytes", "8MiB", "--preemption", "swap",
                          "--no-llumlet-prefix-caching"}));
    ASSERT_TRUE(tight.wait_ready()) << tight.process.err();
    EXPECT_TRUE(ask_all(tight.url(), questions) == expected) << devices;
    const auto status = console(tight.control()).status();
    ASSERT_TRUE(status && status->instances.size() == 1);
    const auto& load = status->instances[0].load;
    EXPECT_GT(load.swaps_total, 0U) << devices;
    EXPECT_GT(load.swapped_in_tokens_total, 0U) << devices;
    EXPECT_EQ(load.swap_blocks_used, 0U);
    EXPECT_EQ(load.swap_blocks, (std::uint64_t{8} << 20U) / (16 * 3072)) << "3 KiB a token";
  }
}

TEST_F(SwapOfProcesses, WhatCannotBeIsSaidInOneLine) {
  const auto said = [](std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(), "serve");
    child_process command(godwit_program(), std::move(arguments));
    EXPECT_EQ(command.wait_exit(30s), 2) << command.err();
    return command.err();
  };
  EXPECT_THAT(said({"--preemption", "swap"}), HasSubstr("llumlet.preemption: swap needs memory of the host"));
  EXPECT_THAT(said({"--swap-bytes", "1GiB", "--llumlet-batching", "static"}),
              HasSubstr("llumlet.swap_bytes: llumlet.batching static preempts nobody"));
  EXPECT_THAT(said({"--swap-bytes", "1000"}), HasSubstr("less than a block of KV, which has 49152 bytes"));
  EXPECT_THAT(said({"--swap-bytes", "1000000GiB"}), HasSubstr("is more than this machine has available for each"));
  EXPECT_THAT(said({"--preemption", "never"}), HasSubstr("preemption"));
}

} // namespace godwit::test
