// Requests go back and forth between two processes while they are answered, hundreds of times, and nobody can tell.
#include "processes/support/pair_of_processes.hpp"

#include <gtest/gtest.h>

#include <filesystem>
#include <iostream>
#include <memory>
#include <string>

#include <unistd.h>

namespace godwit::test {

using namespace std::chrono_literals;

class MigrationTraffic : public ::testing::Test {
protected:
  void SetUp() override {
    if (!has_default_model()) GTEST_SKIP() << "built without the embedded model";
  }
  /// Rounds of requests, every one of them moved all the time by several operators at once, until so many migrations
  /// have been committed.
  static void run(const std::vector<std::string>& head_arguments, const std::vector<std::string>& member_arguments,
                  std::uint64_t migrations, pair_of_processes::kind kind = pair_of_processes::kind::head_and_member,
                  bool drafts = false, const std::vector<std::string>& models = {""}) {
    const bool past_head = kind == pair_of_processes::kind::two_members;
    const auto& there = past_head ? across : outwards;
    const auto& here = past_head ? back : inwards;
    pair_of_processes both(patient(head_arguments), patient(member_arguments), kind);
    ASSERT_EQ(both.wait_ready(), "");
    auto questions = mixed_questions(12, 400);
    for (std::size_t i = 0; i < questions.size(); ++i) questions[i].model = models[i % models.size()];
    const auto calm = ask_all(both.head().url(), questions);
    if (drafts) {
      served plain(patient({"--instances", "1", "--threads", "1"}));
      ASSERT_TRUE(plain.wait_ready()) << plain.process.err();
      ASSERT_EQ(difference(ask_all(plain.url(), questions), calm), "");
    }
    const auto deadline = std::chrono::steady_clock::now() + 240s;
    std::uint64_t out = 0;
    std::uint64_t in = 0;
    std::string summaries;
    std::size_t rounds = 0;
    for (; out + in < migrations && std::chrono::steady_clock::now() < deadline; ++rounds) {
      round_of_answers round(both.head().url(), questions);
      mover first(both.head().control(), {there, here});
      mover second(both.head().control(), {here, there});
      ASSERT_TRUE(round.wait_ended(60s)) << both.logs();
      first.stop();
      second.stop();
      ASSERT_EQ(difference(round.answers(), calm), "") << both.logs();
      out += first.committed(there) + second.committed(there);
      in += first.committed(here) + second.committed(here);
      summaries += "\n" + first.summary() + "; " + second.summary();
    }
    EXPECT_GE(out + in, migrations) << summaries;
    EXPECT_GT(out, 0U);
    EXPECT_GT(in, 0U);
    EXPECT_EQ(both.operator_console().left_over(30s), "") << both.logs();
    const auto now = both.operator_console().status();
    ASSERT_TRUE(now);
    EXPECT_EQ(now->moves_total, out + in) << "what the operators were told and what the home counts" << summaries;
    EXPECT_EQ(now->requests_failed_total, 0U);
    EXPECT_EQ(now->redispatches_total, 0U) << both.logs();
    for (const auto& one : now->instances) {
      EXPECT_EQ(one.load.accepted_tokens_total > 100, drafts) << one.load.accepted_tokens_total;
    }
    std::cout << out << " migrations there, " << in << " back, in " << rounds << " rounds of " << questions.size()
              << " requests" << summaries << std::endl;
  }
};

TEST_F(MigrationTraffic, HundredsOfMigrationsBetweenProcessesChangeNoToken) { run({}, {}, 500); }

TEST_F(MigrationTraffic, MembersExchangeRequestsPastTheirHeadAndChangeNoToken) {
  run({}, {}, 500, pair_of_processes::kind::two_members);
}

TEST_F(MigrationTraffic, BlocksThatTravelAsCheckedMessagesChangeNoTokenEither) {
  const std::vector<std::string> messages{"--no-fabric-cross-memory", "--fabric-checksum"};
  run(messages, messages, 300);
}

// Of what each instance drafts some is right; the home gets several tokens at a time, and calls them off at a time.
TEST_F(MigrationTraffic, DraftsChangeNoTokenEither) {
  const std::vector<std::string> speculate{"--speculation-tokens", "8", "--speculation-lookup-min", "1"};
  run(speculate, speculate, 300, pair_of_processes::kind::head_and_member, true);
}

// Half of the requests have an adapter, which each process brings when the first of them comes to it.
TEST_F(MigrationTraffic, RequestsWithAdaptersMoveLikeOthers) {
  const auto folder = std::filesystem::path(::testing::TempDir()) / ("godwit_adapters_" + std::to_string(::getpid()));
  std::filesystem::remove_all(folder);
  for (const std::string name : {"sql", "law"}) {
    child_process write(godwit_program(), {"model", "adapter", "--out", folder / name, "--rank", "12", "--seed",
                                           std::to_string(name.front())});
    ASSERT_EQ(write.wait_exit(20s), 0) << write.err();
  }
  const std::vector<std::string> adapters{"--lora-dir", folder};
  run(adapters, adapters, 300, pair_of_processes::kind::head_and_member, false, {"", "sql", "", "law"});
  std::filesystem::remove_all(folder);
}

// Caches that hold one or two of the requests only: migrations are refused, requests preempted, and moved all the same.
TEST_F(MigrationTraffic, MemoryPressureChangesNoTokenEither) {
  const std::vector<std::string> small{"--kv-bytes", "2MiB", "--model-context-max", "512"};
  run(small, small, 300);
}

} // namespace godwit::test
