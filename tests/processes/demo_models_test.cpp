// Models of other families than the built-in one, under the demo's migrations and its kill.
#include "processes/support/godwit_processes.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <boost/json.hpp>

#include <filesystem>
#include <string>
#include <vector>

#include <unistd.h>

namespace godwit::test {

using namespace std::chrono_literals;

namespace {

void expect_the_same_answers_of(const std::string& model, const std::vector<std::string>& flags) {
  std::vector<std::string> arguments{"demo", model, "--requests", "16", "--tokens", "150", "--json"};
  arguments.insert(arguments.end(), flags.begin(), flags.end());
  child_process demo(godwit_program(), arguments);
  ASSERT_EQ(demo.wait_exit(120s), 0) << demo.err();
  const auto report = boost::json::parse(demo.out()).as_object();
  EXPECT_TRUE(report.at("identical").as_bool()) << demo.out();
  EXPECT_GT(report.at("migrations").to_number<int>(), 0) << demo.out();
}

/// A directory of this test alone.
std::filesystem::path scratch(const std::string& name) {
  return std::filesystem::path(::testing::TempDir()) / ("godwit_" + name + "_" + std::to_string(::getpid()));
}

} // namespace

TEST(DemoOfModels, AMixtureOfExpertsAnswersTheSameWhileItsRequestsMigrate) {
  const auto directory = scratch("mixture");
  child_process maker(godwit_program(), {"model", "random", "--config", "tiny-qwen3-moe", "--out", directory.string()});
  ASSERT_EQ(maker.wait_exit(60s), 0) << maker.err();
  for (const std::vector<std::string>& division :
       {std::vector<std::string>{}, {"--tensor-parallel", "2"}, {"--pipeline-parallel", "2"}})
    expect_the_same_answers_of(directory.string(), division);
  std::filesystem::remove_all(directory);
}

TEST(DemoOfModels, WeightsInCodesAnswerTheSameWhileTheirRequestsMigrate) {
  if (!has_default_model()) GTEST_SKIP() << "built without the embedded model";
  expect_the_same_answers_of("default", {"--quantization", "int8"});
  expect_the_same_answers_of("default", {"--quantization", "int4", "--pipeline-parallel", "2"});
  expect_the_same_answers_of("default", {"--quantization", "int4", "--tensor-parallel", "2"});
  expect_the_same_answers_of("default", {"--quantization", "q4_0"});
  expect_the_same_answers_of("default", {"--quantization", "q8_0", "--tensor-parallel", "2"});
}

TEST(DemoOfModels, AModelOfLlamaCppAnswersTheSameWhileItsRequestsMigrate) {
  const auto golden = std::filesystem::path(GODWIT_SOURCE_DIR) / "tests/gpu/model/golden/gguf";
  expect_the_same_answers_of((golden / "qwen2-q8_0/model.gguf").string(), {});
  expect_the_same_answers_of((golden / "llama-legacy").string(), {"--tensor-parallel", "2"});
  expect_the_same_answers_of((golden / "qwen3moe-mxfp4/model.gguf").string(), {"--pipeline-parallel", "2"});
}

TEST(DemoOfModels, FilesInCodesAreNotRoundedOnceMore) {
  const auto directory = std::filesystem::path(GODWIT_SOURCE_DIR) / "tests/gpu/model/golden/quantized/packed4";
  child_process serve(godwit_program(), {"serve", directory.string(), "--quantization", "int8"});
  EXPECT_EQ(serve.wait_exit(60s), 2);
  EXPECT_THAT(serve.err(), ::testing::HasSubstr("--quantization: packed4: its weights are quantized already "
                                                "(compressed-tensors); leave it out"));
}

TEST(DemoOfModels, AProcessThatRoundsItsWeightsDoesNotJoinOneThatDoesNot) {
  if (!has_default_model()) GTEST_SKIP() << "built without the embedded model";
  served head({"--instances", "1", "--threads", "1"});
  ASSERT_TRUE(head.wait_ready()) << head.process.err();
  joined member(head.control(), {"--instances", "1", "--threads", "1", "--quantization", "int8"});
  EXPECT_EQ(member.process.wait_exit(30s), 1);
  EXPECT_THAT(member.process.err(), ::testing::HasSubstr("the head serves another model"));
}

} // namespace godwit::test
