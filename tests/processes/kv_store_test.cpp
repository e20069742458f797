// The KV store over UCX between processes: what one computed another one loads, and the answers are those of one
// process without a store.
#include "processes/support/answers.hpp"
#include "processes/support/calm_answers.hpp"
#include "processes/support/console.hpp"
#include "processes/support/godwit_processes.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <optional>
#include <string>
#include <thread>
#include <vector>

namespace godwit::test {

using namespace std::chrono_literals;
using ::testing::HasSubstr;

namespace {

class KvStoreOfProcesses : public ::testing::Test {
protected:
  void SetUp() override {
    if (!has_default_model()) GTEST_SKIP() << "built without the embedded model";
  }
  /// Of some hundred tokens each.
  static const std::vector<question>& questions() {
    static const auto all = [] {
      auto out = mixed_questions(6, 40);
      for (std::size_t i = 0; i < out.size(); ++i) {
        std::string before;
        for (int word = 0; word < 80; ++word) before += "word" + std::to_string(i * 1000 + word * 7) + " ";
        out[i].prompt = before + out[i].prompt;
      }
      return out;
    }();
    return all;
  }
  static const std::vector<streamed_answer>& calm() {
    static const auto answers = calm_answers(questions());
    return answers;
  }
  struct sums {
    std::uint64_t loaded = 0, filed = 0, hits = 0;
  };
  static sums of(const served& head) {
    sums out;
    const auto status = console(head.control()).status();
    if (!status) return out;
    for (const auto& s : status->stores) out.loaded += s.report.loaded_total, out.filed += s.report.filed_total;
    for (const auto& i : status->instances) out.hits += i.load.store_hit_tokens_total;
    return out;
  }
  /// Until nothing has been brought to the stores for a while. False: that never is so.
  static bool settle(const served& head) {
    auto before = of(head).filed;
    for (int looks = 0; looks < 24; ++looks) {
      std::this_thread::sleep_for(2500ms); // shards report once a second
      const auto filed = of(head).filed;
      if (filed > 0 && filed == before) return true;
      before = filed;
    }
    return false;
  }
};

} // namespace

TEST_F(KvStoreOfProcesses, WhatOneComputedTheOtherLoads) {
  (void)calm();
  served head(
      patient({"--instances", "1", "--threads", "1", "--policy", "round_robin", "--migration", "never",
               "--kv-store-bytes", "64MiB", "--kv-store-lookup-timeout", "1s", "--kv-store-load-timeout", "30s"}));
  ASSERT_TRUE(head.wait_ready()) << head.process.err();
  joined member(head.control(), patient({"--instances", "1", "--threads", "1", "--kv-store-bytes", "64MiB",
                                         "--kv-store-lookup-timeout", "1s", "--kv-store-load-timeout", "30s"}));
  ASSERT_TRUE(member.wait_ready() && head.wait_instances(2, 30s));
  for (int round = 0; round < 3; ++round) { // an odd number of requests, so that each goes elsewhere than before
    EXPECT_TRUE(ask_all(head.url(), questions()) == calm()) << round;
    EXPECT_TRUE(ask_all(head.url(), {questions()[0]}) == std::vector{calm()[0]}) << round;
    ASSERT_TRUE(settle(head)) << head.process.err();
  }
  const auto seen = of(head);
  EXPECT_GT(seen.hits, 0U);
  EXPECT_EQ(seen.hits, 64 * seen.loaded) << head.process.err() << member.process.err();
  const auto status = console(head.control()).status();
  ASSERT_TRUE(status);
  ASSERT_EQ(status->stores.size(), 2U);
  for (const auto& s : status->stores) {
    EXPECT_GT(s.report.filed_total, 0U) << "both have their share";
    EXPECT_EQ(s.report.failed_total, 0U);
  }
  // One shard's process dies: its share is computed.
  member.process.signal(SIGKILL);
  ASSERT_TRUE(head.wait_instances(1, 30s));
  EXPECT_TRUE(ask_all(head.url(), questions()) == calm());
  EXPECT_EQ(console(head.control()).status()->stores.size(), 1U);
}

TEST_F(KvStoreOfProcesses, WhatMemoryHasNoRoomForComesBackFromTheDisk) {
  namespace fs = std::filesystem;
  (void)calm();
  const auto directory = fs::temp_directory_path() / ("godwit_disk_" + std::to_string(::getpid()));
  fs::create_directory(directory);
  {
    served head(patient({"--instances", "2", "--threads", "1", "--policy", "round_robin", "--migration", "never",
                         "--kv-store-bytes", "2MiB", "--kv-store-disk-bytes", "64MiB", "--kv-store-disk-dir",
                         directory.string(), "--kv-store-lookup-timeout", "1s", "--kv-store-load-timeout", "30s"}));
    ASSERT_TRUE(head.wait_ready()) << head.process.err();
    for (int round = 0; round < 3; ++round) { // an odd number of requests, so that each goes elsewhere than before
      EXPECT_TRUE(ask_all(head.url(), questions()) == calm()) << round;
      EXPECT_TRUE(ask_all(head.url(), {questions()[0]}) == std::vector{calm()[0]}) << round;
      ASSERT_TRUE(settle(head)) << head.process.err();
    }
    const auto status = console(head.control()).status();
    ASSERT_TRUE(status);
    ASSERT_EQ(status->stores.size(), 1U);
    const auto& store = status->stores.front().report;
    EXPECT_GT(store.disk_written_total, 0U);
    EXPECT_GT(store.disk_read_total, 0U);
    EXPECT_EQ(store.disk_failed_total, 0U) << head.process.err();
    EXPECT_EQ(store.failed_total, 0U) << head.process.err();
    EXPECT_GT(of(head).hits, 0U);
    EXPECT_TRUE(fs::is_empty(directory)) << "the file has no name";
  }
  fs::remove_all(directory);
}

TEST_F(KvStoreOfProcesses, WhatCannotBeIsSaidInOneLine) {
  const auto said = [](std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(), {"serve", "--kv-store-bytes", "64MiB"});
    child_process command(godwit_program(), std::move(arguments));
    EXPECT_EQ(command.wait_exit(30s), 2) << command.err();
    return command.err();
  };
  EXPECT_THAT(said({"--fabric-backend", "none"}), HasSubstr("kv_store.bytes: with fabric.backend none"));
  EXPECT_THAT(said({"--no-llumlet-prefix-caching"}), HasSubstr("kv_store.bytes: without llumlet.prefix_caching"));
  EXPECT_THAT(said({"--instances", "0"}), HasSubstr("kv_store.bytes: a process without instances"));
  EXPECT_THAT(said({"--kv-store-disk-bytes", "1GiB"}), HasSubstr("kv_store.disk_bytes: on which disk?"));
  EXPECT_THAT(said({"--kv-store-disk-dir", "/tmp"}), HasSubstr("nothing is kept there without kv_store.disk_bytes"));
  EXPECT_THAT(said({"--kv-store-disk-bytes", "1GiB", "--kv-store-disk-dir", "/nowhere"}),
              HasSubstr("kv_store.disk_directory: /nowhere: No such file or directory"));
  EXPECT_THAT(said({"--kv-store-disk-bytes", "1000", "--kv-store-disk-dir", "/tmp"}),
              HasSubstr("kv_store.disk_bytes: a chunk of 64 tokens has"));
  child_process small(godwit_program(), {"serve", "--kv-store-bytes", "1000"});
  EXPECT_EQ(small.wait_exit(30s), 2);
  EXPECT_THAT(small.err(), HasSubstr("a chunk of 64 tokens has"));
  child_process large(godwit_program(), {"node", "--join", "127.0.0.1:1", "--kv-store-bytes", "1000000GiB"});
  EXPECT_EQ(large.wait_exit(30s), 2);
  EXPECT_THAT(large.err(), HasSubstr("more than this machine has available"));
}

} // namespace godwit::test
