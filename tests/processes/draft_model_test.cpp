// A draft model beside each instance's, as an operator sets it up: answers are those of a server without one, in fewer
// steps, wherever requests go, and what cannot be is said in one line.
#include "processes/support/answers.hpp"
#include "processes/support/calm_answers.hpp"
#include "processes/support/console.hpp"
#include "processes/support/godwit_processes.hpp"
#include "processes/support/mover.hpp"
#include "processes/support/pair_of_processes.hpp"

#include <boost/json.hpp>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <unistd.h>

#include <cstdint>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

namespace godwit::test {

using namespace std::chrono_literals;
using ::testing::HasSubstr;

namespace {

namespace fs = std::filesystem;

class DraftModelOfProcesses : public ::testing::Test {
protected:
  void SetUp() override {
    if (!has_default_model()) GTEST_SKIP() << "built without the embedded model";
    fs::create_directory(folder_);
  }
  void TearDown() override { fs::remove_all(folder_); }

  /// The default model without its last layers.
  [[nodiscard]] std::string half_a_model(std::uint32_t layers = 3, const std::string& context = "2048") const {
    const auto from = fs::path(GODWIT_SOURCE_DIR) / "gpu/model/default",
               to = folder_ / ("half" + std::to_string(layers) + context);
    fs::create_directory(to);
    for (const auto* file : {"tokenizer.json", "tokenizer_config.json", "generation_config.json"})
      fs::create_symlink(from / file, to / file);
    auto config = contents(from / "config.json");
    const auto set = [&config](const std::string& old, const std::string& now) {
      const auto at = config.find(old);
      ASSERT_NE(at, std::string::npos) << old;
      config.replace(at, old.size(), now);
    };
    set("\"num_hidden_layers\": 6", "\"num_hidden_layers\": " + std::to_string(layers));
    set("\"max_position_embeddings\": 2048", "\"max_position_embeddings\": " + context);
    std::ofstream(to / "config.json") << config;
    std::ofstream(to / "model.safetensors", std::ios::binary)
        << with_leading_layers(contents(from / "model.safetensors"), layers);
    return to.string();
  }
  static std::string contents(const fs::path& file) {
    std::ifstream in(file, std::ios::binary);
    return {std::istreambuf_iterator<char>(in), {}};
  }
  /// safetensors: the length of a JSON object, that, and the tensors' bytes.
  static std::string with_leading_layers(const std::string& file, std::uint32_t layers) {
    std::uint64_t length = 0;
    std::memcpy(&length, file.data(), sizeof length);
    const auto all = boost::json::parse(std::string_view(file).substr(sizeof length, length)).as_object();
    const auto bytes = std::string_view(file).substr(sizeof length + length);
    boost::json::object kept;
    std::string data;
    for (const auto& [name, entry] : all) {
      constexpr std::string_view of_layers = "model.layers.";
      if (name == "__metadata__") continue;
      if (name.starts_with(of_layers) && std::stoul(std::string(name).substr(of_layers.size())) >= layers) continue;
      auto tensor = entry.as_object();
      const auto& place = tensor.at("data_offsets").as_array();
      const auto first = place.at(0).to_number<std::uint64_t>(), end = place.at(1).to_number<std::uint64_t>();
      tensor["data_offsets"] = {data.size(), data.size() + (end - first)};
      data += bytes.substr(first, end - first);
      kept[name] = std::move(tensor);
    }
    auto head = boost::json::serialize(kept);
    head.resize((head.size() + 7) / 8 * 8, ' ');
    length = head.size();
    std::string out(sizeof length, '\0');
    std::memcpy(out.data(), &length, sizeof length);
    return out + head + data;
  }
  struct sums {
    std::uint64_t drafted = 0, accepted = 0, steps = 0, generated = 0, store_hits = 0;
    [[nodiscard]] double right() const { return static_cast<double>(accepted) / static_cast<double>(drafted); }
  };
  static sums of(const std::string& control) {
    sums out;
    const auto status = console(control).status();
    EXPECT_TRUE(status);
    if (!status) return out;
    for (const auto& i : status->instances) {
      out.drafted += i.load.draft_tokens_total;
      out.accepted += i.load.accepted_tokens_total;
      out.steps += i.load.steps_total;
      out.generated += i.load.generated_tokens_total;
      out.store_hits += i.load.store_hit_tokens_total;
    }
    return out;
  }
  fs::path folder_ = fs::temp_directory_path() / ("godwit_draft_" + std::to_string(::getpid()));
};

} // namespace

TEST_F(DraftModelOfProcesses, AnswersAreWhatTheyAreWithoutInFewerSteps) {
  const auto questions = mixed_questions(8, 120);
  const auto calm = calm_answers(questions);
  for (const auto& draft : {std::string("default"), half_a_model()}) {
    served head(patient({"--instances", "1", "--threads", "1", "--draft-model", draft}));
    ASSERT_TRUE(head.wait_ready()) << head.process.err();
    std::vector<streamed_answer> answers; // one by one, or each step is of many
    for (const auto& one : questions) answers.push_back(ask_all(head.url(), {one}).at(0));
    EXPECT_EQ(difference(answers, calm), "") << draft;
    const auto seen = of(head.control());
    EXPECT_GT(seen.drafted, 0U);
    if (draft == "default") { // the other one is asked for less, or for nothing, as it is hardly ever right
      EXPECT_GT(seen.right(), 0.9) << "it is the same model";
      EXPECT_GT(seen.accepted, 30U);
      EXPECT_LT(seen.steps, seen.generated);
    }
    const auto status = console(head.control()).status();
    ASSERT_TRUE(status && status->instances.size() == 1);
    EXPECT_THAT(status->instances[0].device, HasSubstr("with a draft model"));
    EXPECT_GT(status->instances[0].load.drafting_ns_total, 0U);
    EXPECT_EQ(status->instances[0].load.model_accepted_tokens_total, seen.accepted) << "nothing is looked up";
  }
}

TEST_F(DraftModelOfProcesses, OneDeviceDraftsForTwoThatShareTheModel) {
  const auto questions = mixed_questions(6, 120);
  const std::vector<std::string> two{"--instances", "1", "--threads", "2", "--tensor-parallel", "2"};
  served calm(patient(two));
  auto drafted = two;
  drafted.insert(drafted.end(), {"--draft-model", "default"});
  served head(patient(drafted));
  ASSERT_TRUE(calm.wait_ready() && head.wait_ready()) << calm.process.err() << head.process.err();
  const auto expected = ask_all(calm.url(), questions);
  // How much is drafted hangs on what it takes, which a busy machine measures anew.
  for (int round = 0; round < 20 && of(head.control()).accepted <= 30; ++round)
    EXPECT_EQ(difference(ask_all(head.url(), questions), expected), "") << round;
  EXPECT_GT(of(head.control()).accepted, 30U);
  EXPECT_GT(of(head.control()).right(), 0.85) << "sums of two devices are rounded elsewhere";
}

TEST_F(DraftModelOfProcesses, ItsKvGoesWhereverARequestGoes) {
  const auto questions = mixed_questions(6, 300);
  const auto calm = calm_answers(questions);
  const auto draft = patient({"--draft-model", "default"});
  pair_of_processes both(draft, draft);
  ASSERT_EQ(both.wait_ready(), "");
  std::uint64_t moves = 0;
  for (int round = 0; round < 10 && moves < 20; ++round) {
    round_of_answers answers(both.head().url(), questions);
    mover operators(both.head().control(), {outwards, inwards});
    ASSERT_TRUE(answers.wait_ended(60s)) << both.logs();
    operators.stop();
    ASSERT_EQ(difference(answers.answers(), calm), "") << both.logs();
    moves += operators.committed(outwards) + operators.committed(inwards);
  }
  EXPECT_GE(moves, 20U);
  EXPECT_GT(of(both.head().control()).right(), 0.9) << "at each place it goes on as it was";
  EXPECT_EQ(both.operator_console().left_over(30s), "") << both.logs();
}

TEST_F(DraftModelOfProcesses, ItsKvComesFromTheStoreWithTheModels) {
  auto questions = mixed_questions(3, 40); // an odd number, so that each goes elsewhere than before
  for (std::size_t i = 0; i < questions.size(); ++i) {
    std::string before;
    for (int word = 0; word < 80; ++word) before += "word" + std::to_string(i * 1000 + word * 7) + " ";
    questions[i].prompt = before + questions[i].prompt;
  }
  const auto calm = calm_answers(questions);
  served head(patient({"--instances", "2", "--threads", "1", "--policy", "round_robin", "--migration", "never",
                       "--draft-model", "default", "--kv-store-bytes", "64MiB", "--kv-store-lookup-timeout", "1s",
                       "--kv-store-load-timeout", "30s"}));
  ASSERT_TRUE(head.wait_ready()) << head.process.err();
  sums seen;
  for (int round = 0; round < 20 && seen.store_hits == 0; ++round) {
    EXPECT_EQ(difference(ask_all(head.url(), questions), calm), "") << round;
    std::this_thread::sleep_for(500ms); // until it has been brought there
    seen = of(head.control());
  }
  EXPECT_GT(seen.store_hits, 0U) << head.process.err();
  EXPECT_GT(seen.right(), 0.9) << "it is the same model";
}

TEST_F(DraftModelOfProcesses, AMemberWithoutItIsToldSo) {
  served head(patient({"--instances", "1", "--threads", "1", "--draft-model", "default"}));
  ASSERT_TRUE(head.wait_ready()) << head.process.err();
  joined member(head.control(), patient({"--instances", "1", "--threads", "1"}));
  EXPECT_EQ(member.process.wait_exit(30s), 1);
  EXPECT_THAT(member.process.err(), HasSubstr("the head serves another model"));
  EXPECT_THAT(member.process.err(), HasSubstr("what follows + is the draft model's"));
}

TEST_F(DraftModelOfProcesses, WhatCannotBeIsSaidInOneLine) {
  const auto said = [](std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(), "serve");
    child_process command(godwit_program(), std::move(arguments));
    EXPECT_EQ(command.wait_exit(30s), 2) << command.err();
    return command.err();
  };
  EXPECT_THAT(said({"--draft-model", "/nonexistent"}), HasSubstr("--draft-model: "));
  EXPECT_THAT(said({"--draft-tokens", "8"}), HasSubstr("speculation.draft_max: nothing drafts so many tokens without"));
  EXPECT_THAT(said({"--draft-model", "default", "--draft-tokens", "0"}), HasSubstr("--draft-tokens is 0 tokens"));
  EXPECT_THAT(said({"--draft-model", "default", "--draft-tokens", "65"}), HasSubstr("--draft-tokens is 65 tokens"));
  child_process other(godwit_program(), {"model", "random", "--config", "tiny", "--out", (folder_ / "tiny").string()});
  ASSERT_EQ(other.wait_exit(30s), 0) << other.err();
  EXPECT_THAT(said({"--draft-model", (folder_ / "tiny").string()}),
              HasSubstr("its tokenizer has 512 tokens, and that of the model 'default' has 1536"));
  const auto shorter = half_a_model(2, "1024");
  EXPECT_THAT(said({"--draft-model", shorter}),
              HasSubstr("its context of 1024 tokens is shorter than the 2048 that are served; set --model-context-max "
                        "1024"));
  served told(patient({"--instances", "1", "--draft-model", shorter, "--model-context-max", "1024"}));
  EXPECT_TRUE(told.wait_ready()) << told.process.err();
}

} // namespace godwit::test
