// Recordings of real processes, with threads and a killed instance, run again message by message.
#include "processes/support/answers.hpp"
#include "processes/support/godwit_processes.hpp"

#include <godwit/transport/http/client.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <csignal>
#include <filesystem>
#include <functional>
#include <string>
#include <thread>
#include <utility>
#include <variant>
#include <vector>

#include <unistd.h>

namespace godwit::test {

using namespace std::chrono_literals;
using ::testing::HasSubstr;

namespace {

class Replaying : public ::testing::Test {
protected:
  struct outcome {
    int code = -1;
    std::string out, err;
  };
  void SetUp() override {
    if (!has_default_model()) GTEST_SKIP() << "built without the embedded model";
    file = (std::filesystem::path(::testing::TempDir()) / ("godwit_replay_" + std::to_string(::getpid()) + ".gwt"))
               .string();
  }
  void TearDown() override {
    std::filesystem::remove(file);
    std::filesystem::remove(beside());
  }
  static outcome run(std::vector<std::string> arguments) {
    child_process command(godwit_program(), std::move(arguments));
    const auto code = command.wait_exit(120s);
    return {code.value_or(-1), command.out(), command.err()};
  }
  /// Into `file` and `beside()`: a head and a node beside it answer, `meanwhile` is done, and they answer once more.
  void record_two(const std::vector<std::string>& flags, const std::function<void(served& head)>& meanwhile) {
    const auto recorded = [&flags](const std::string& to) {
      std::vector<std::string> all{"--instances",   "1",       "--threads",      "1", "--trace", to,
                                   "--trace-level", "content", "--trace-prompts"};
      all.insert(all.end(), flags.begin(), flags.end());
      return patient(std::move(all));
    };
    served head(recorded(file));
    ASSERT_TRUE(head.wait_ready()) << head.process.err();
    joined member(head.control(), recorded(beside()));
    ASSERT_TRUE(member.wait_ready()) << member.process.err();
    ASSERT_TRUE(head.wait_instances(2, 10s));
    for (const auto& answer : ask_all(head.url(), mixed_questions(8, 60))) EXPECT_EQ(answer.error, "");
    meanwhile(head);
    for (const auto& answer : ask_all(head.url(), mixed_questions(4, 20))) EXPECT_EQ(answer.error, "");
    member.process.signal(SIGTERM);
    EXPECT_EQ(member.process.wait_exit(20s), 0) << member.process.err();
    head.process.signal(SIGTERM);
    EXPECT_EQ(head.process.wait_exit(20s), 0) << head.process.err();
  }
  void expect_two_come_again() {
    for (const auto& one : {file, beside()}) {
      const auto again = run({"trace", "replay", one});
      EXPECT_EQ(again.code, 0) << again.out << again.err;
      EXPECT_THAT(again.out, HasSubstr("identical"));
    }
  }
  [[nodiscard]] std::string beside() const { return file + ".node"; }
  std::string file;
};

} // namespace

TEST_F(Replaying, ADemoWithMigrationsAndAKilledInstanceComesAgainAsItWas) {
  const auto demo = run({"demo", "--requests", "12", "--tokens", "400", "--trace", file});
  ASSERT_EQ(demo.code, 0) << demo.out << demo.err;
  const auto again = run({"trace", "replay", file});
  EXPECT_EQ(again.code, 0) << again.out << again.err;
  EXPECT_THAT(again.out, HasSubstr("identical"));

  const auto stopped = run({"trace", "replay", file, "--break", "type=commit_move"});
  EXPECT_EQ(stopped.code, 0) << stopped.err;
  EXPECT_THAT(stopped.err, HasSubstr("commit_move"));
  EXPECT_THAT(stopped.out, HasSubstr("identical so far"));
  EXPECT_EQ(run({"trace", "replay", file, "--break", "commit_move"}).code, 2);
  EXPECT_EQ(run({"trace", "replay", file, "--until", "nonsense"}).code, 2);
  EXPECT_EQ(run({"trace", "replay", file, "--until", "99999999"}).code, 2);
  const auto page = run({"trace", "ui", file, "--request", "99999999", "--output", file + ".html"});
  EXPECT_EQ(page.code, 1);
  EXPECT_THAT(page.err, HasSubstr("the recording has no request '99999999'"));
  EXPECT_FALSE(std::filesystem::exists(file + ".html"));
}

TEST_F(Replaying, AHeadAndANodeBesideItComeAgainEachByItself) {
  record_two({}, [](served&) {});
  expect_two_come_again();
}

TEST_F(Replaying, AHeadAndANodeWithADraftModelComeAgain) {
  record_two({"--draft-model", "default"}, [](served&) {});
  expect_two_come_again();
}

// That an adapter has come is said by a thread beside the actors.
TEST_F(Replaying, AHeadAndANodeWithAdaptersComeAgain) {
  const auto adapters = file + ".adapters";
  const auto made = run({"model", "adapter", "--out", adapters + "/sql", "--rank", "4"});
  ASSERT_EQ(made.code, 0) << made.err;
  record_two({"--lora-dir", adapters}, [](served& head) {
    auto questions = mixed_questions(8, 60);
    for (auto& question : questions) question.model = "sql";
    for (const auto& answer : ask_all(head.url(), questions)) EXPECT_EQ(answer.error, "");
    questions.resize(1);
    questions[0].model = "default";
    EXPECT_EQ(ask_all(head.url(), questions).at(0).error, "");
  });
  expect_two_come_again();
  std::filesystem::remove_all(adapters);
}

// A search's next step is asked for by a client's code, within a handler.
TEST_F(Replaying, BeamSearchesComeAgain) {
  {
    served head(patient(
        {"--instances", "2", "--threads", "1", "--trace", file, "--trace-level", "content", "--trace-prompts"}));
    ASSERT_TRUE(head.wait_ready()) << head.process.err();
    transport::http::client client;
    const auto answer = client.fetch({"POST",
                                      head.url() + "/v1/completions",
                                      {},
                                      R"({"prompt":["a","b"],"n":3,"max_tokens":9,"use_beam_search":true})"});
    const auto* const text = std::get_if<transport::http::client_answer>(&answer);
    ASSERT_TRUE(text != nullptr && text->status == 200);
    head.process.signal(SIGTERM);
    EXPECT_EQ(head.process.wait_exit(20s), 0) << head.process.err();
  }
  const auto again = run({"trace", "replay", file});
  EXPECT_EQ(again.code, 0) << again.out << again.err;
  EXPECT_THAT(again.out, HasSubstr("identical"));
}

// What a client's own time ends, and what is turned away, is told out of the front end's handlers.
TEST_F(Replaying, RequestsThatFailedComeAgain) {
  {
    served head(patient({"--instances", "1", "--threads", "1", "--trace", file, "--trace-level", "content",
                         "--trace-prompts", "--queue-max", "1", "--llumlet-sequences-max", "1"}));
    ASSERT_TRUE(head.wait_ready()) << head.process.err();
    const auto late = R"("max_tokens":2000,"ignore_eos":true,"timeout":0.3})";
    transport::http::client client;
    const std::vector<std::pair<std::string, std::string>> ends{
        {"", "timeout"}, {R"("n":3,"temperature":1,)", "overloaded"}, {R"("stream":true,)", "timeout"}};
    for (const auto& [more, code] : ends) {
      std::string said; // samples that have failed may still be in a step, and the next request turned away for them
      for (int asked = 0; asked < 200 && said.find(code) == std::string::npos; ++asked) {
        if (asked > 0) std::this_thread::sleep_for(50ms);
        const auto answer =
            client.fetch({"POST", head.url() + "/v1/completions", {}, R"({"prompt":"a",)" + more + late});
        const auto* const text = std::get_if<transport::http::client_answer>(&answer);
        ASSERT_TRUE(text) << "no answer";
        said = text->body;
      }
      EXPECT_THAT(said, HasSubstr("\"code\":\"" + code));
    }
    std::size_t turned_away = 0;
    for (const auto& answer : ask_all(head.url(), mixed_questions(12, 60))) turned_away += answer.error.empty() ? 0 : 1;
    EXPECT_GT(turned_away, 0U);
    head.process.signal(SIGTERM);
    EXPECT_EQ(head.process.wait_exit(20s), 0) << head.process.err();
  }
  const auto again = run({"trace", "replay", file});
  EXPECT_EQ(again.code, 0) << again.out << again.err;
  EXPECT_THAT(again.out, HasSubstr("identical"));
}

// Dumps are written by a thread beside the actors; what they are told of it comes out of the recording.
TEST_F(Replaying, AHeadAndANodeThatWereDumpedMeanwhileComeAgain) {
  const auto dumps = file + ".dumps", merged = file + ".dump";
  record_two({"--trace-dump-dir", dumps}, [&](served& head) {
    const auto level = run({"trace", "level", "--control", head.control()});
    EXPECT_EQ(level.code, 0) << level.err;
    EXPECT_THAT(level.out, HasSubstr("content"));
    const auto dumped = run({"trace", "dump", "--control", head.control(), "--output", merged});
    EXPECT_EQ(dumped.code, 0) << dumped.err;
  });
  expect_two_come_again();
  std::filesystem::remove(merged);
  EXPECT_GE(std::filesystem::remove_all(dumps), 3U); // the folder, and each one's
}

TEST_F(Replaying, AHeadThatHasOrderedAProcessComesAgain) {
  {
    std::vector<std::string> arguments{"--instances", "1", "--threads", "1", "--trace", file};
    for (const auto* more : {"--trace-level", "content", "--trace-prompts", "--scaling", "on", "--scaling-provisioner",
                             "process", "--scaling-hold", "300ms", "--scaling-instances-max", "2",
                             "--scaling-freeness-min", "100000", "--scaling-freeness-max", "200000"})
      arguments.emplace_back(more);
    served head(patient(std::move(arguments)));
    ASSERT_TRUE(head.wait_ready()) << head.process.err();
    ASSERT_TRUE(head.wait_instances(2, 20s)) << head.process.err();
    head.process.signal(SIGTERM);
    EXPECT_EQ(head.process.wait_exit(20s), 0) << head.process.err();
  }
  const auto again = run({"trace", "replay", file});
  EXPECT_EQ(again.code, 0) << again.out << again.err;
  EXPECT_THAT(again.out, HasSubstr("identical"));
  const std::filesystem::path mine(file); // its child has recorded too
  for (const auto& entry : std::filesystem::directory_iterator(mine.parent_path()))
    if (entry.path().filename().string().starts_with(mine.filename().string() + ".scaled-"))
      std::filesystem::remove(entry.path());
}

TEST_F(Replaying, ARecordingWithoutContentsIsRefusedWithAWord) {
  const auto sim = run({"sim", "--instances", "1", "--requests", "2", "--record", file});
  ASSERT_EQ(sim.code, 0) << sim.err;
  EXPECT_EQ(run({"trace", "replay", file}).code, 0) << "a simulation needs none";
  EXPECT_EQ(run({"trace", "replay", file + ".missing"}).code, 1);
}

} // namespace godwit::test
