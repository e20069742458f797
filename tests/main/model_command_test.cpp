#include "main/model_command.hpp"

#include <godwit/gpu/model/adapter.hpp>
#include <godwit/gpu/model/random_model.hpp>

#include <boost/json.hpp>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>

#include <unistd.h>

namespace godwit::main {
namespace {

namespace fs = std::filesystem;

// The smallest shape there is, so that the test writes little.
std::string smallest() {
  const auto& shapes = gpu::model::random_model_shapes();
  return std::min_element(shapes.begin(), shapes.end(),
                          [](const auto& a, const auto& b) {
                            return parameters_of(a.configuration) < parameters_of(b.configuration);
                          })
      ->name;
}

class ModelCommand : public ::testing::Test {
protected:
  void SetUp() override { fs::remove_all(directory_); }
  void TearDown() override { fs::remove_all(directory_); }

  int write(bool force = false) {
    out_.str("");
    errors_.str("");
    return write_random({smallest(), directory_, 3, force}, out_, errors_);
  }

  const fs::path directory_ = fs::path(::testing::TempDir()) / ("godwit_model_command_" + std::to_string(::getpid()));
  std::ostringstream out_;
  std::ostringstream errors_;
};

TEST_F(ModelCommand, WritesAModelThatTheLoaderReads) {
  ASSERT_EQ(write(), 0) << errors_.str();
  std::ostringstream shown;
  ASSERT_EQ(show_model(directory_.string(), true, shown, errors_), 0) << errors_.str();
  const auto parsed = boost::json::parse(shown.str().substr(0, shown.str().size() - 1)).as_object();
  const auto& c = gpu::model::find_random_model(smallest())->configuration;
  EXPECT_EQ(parsed.at("layers").to_number<std::uint32_t>(), c.layers);
  // bf16: two bytes a parameter.
  EXPECT_EQ(parsed.at("weight_bytes").to_number<std::uint64_t>(),
            2 * parsed.at("parameters").to_number<std::uint64_t>());
}

TEST_F(ModelCommand, CountsTheParametersThatTheTensorsOfEachTinyShapeHave) {
  for (const auto* name : {"tiny", "tiny-llama3", "tiny-mistral", "tiny-qwen2", "tiny-qwen3", "tiny-yarn",
                           "tiny-mixtral", "tiny-qwen3-moe", "tiny-gemma3", "tiny-gpt-oss"}) {
    const auto model = gpu::model::random_model(name); // bf16
    EXPECT_EQ(2 * parameters_of(model.configuration), model.tensors->total_bytes()) << name;
  }
}

TEST_F(ModelCommand, DoesNotWriteIntoADirectoryThatIsNotEmptyUnlessForced) {
  fs::create_directories(directory_);
  std::ofstream(directory_ / "mine") << "x";
  EXPECT_EQ(write(), 1);
  EXPECT_NE(errors_.str().find("--force"), std::string::npos) << errors_.str();
  EXPECT_FALSE(fs::exists(directory_ / "config.json"));
  EXPECT_EQ(write(true), 0) << errors_.str();
  EXPECT_TRUE(fs::exists(directory_ / "mine"));
}

TEST_F(ModelCommand, TakesAnEmptyDirectory) {
  fs::create_directories(directory_);
  EXPECT_EQ(write(), 0) << errors_.str();
}

TEST_F(ModelCommand, RefusesAFileInPlaceOfADirectory) {
  std::ofstream(directory_.string()) << "x";
  EXPECT_EQ(write(true), 1);
}

TEST_F(ModelCommand, NamesTheKnownShapesForAnUnknownOne) {
  EXPECT_EQ(write_random({"no such", directory_}, out_, errors_), 2);
  for (const auto& shape : gpu::model::random_model_shapes())
    EXPECT_NE(errors_.str().find(shape.name), std::string::npos) << errors_.str();
  list_random(out_);
  for (const auto& shape : gpu::model::random_model_shapes())
    EXPECT_NE(out_.str().find(shape.name), std::string::npos) << out_.str();
}

TEST_F(ModelCommand, WritesAnAdapterThatTheLoaderReads) {
  random_adapter_options options;
  options.out = directory_ / "sql";
  options.seed = 3;
  ASSERT_EQ(write_random_adapter(options, out_, errors_), 0) << errors_.str();
  EXPECT_NE(out_.str().find("--lora-dir " + directory_.string()), std::string::npos) << out_.str();
  const gpu::model::adapter_directory adapters(directory_);
  const auto found = adapters.find("sql");
  ASSERT_TRUE(found);
  const auto model = gpu::model::open_model(gpu::model::embedded_model());
  ASSERT_TRUE(model);
  EXPECT_EQ(gpu::model::read_adapter(adapters.open(*found, 1U << 30U), model->configuration).rank_max, 8U);
  EXPECT_EQ(write_random_adapter(options, out_, errors_), 1) << "it is there already";
  options.force = true;
  EXPECT_EQ(write_random_adapter(options, out_, errors_), 0);
  options.rank = 0;
  EXPECT_EQ(write_random_adapter(options, out_, errors_), 2);
  options.model = directory_ / "none";
  options.rank = 8;
  EXPECT_EQ(write_random_adapter(options, out_, errors_), 2);
}

TEST_F(ModelCommand, SaysInOneLineWhatItCannotOpen) {
  EXPECT_EQ(show_model(directory_.string(), false, out_, errors_), 1);
  EXPECT_NE(errors_.str().find(directory_.string()), std::string::npos) << errors_.str();
  EXPECT_TRUE(out_.str().empty());
}

TEST_F(ModelCommand, ShowsTheEmbeddedModel) {
  EXPECT_EQ(show_model("default", false, out_, errors_), 0) << errors_.str();
  EXPECT_NE(out_.str().find("parameters"), std::string::npos);
}

TEST_F(ModelCommand, IsChosenOnTheCommandLine) {
  const auto parse = [](const std::string& line) {
    CLI::App app;
    auto result = command_result{};
    add_model_command(app, result);
    app.parse(line);
    return static_cast<bool>(result.run);
  };
  EXPECT_TRUE(parse("model random --list"));
  EXPECT_TRUE(parse("model random --config 1b --out x --seed 4"));
  EXPECT_TRUE(parse("model show default"));
  EXPECT_TRUE(parse("model adapter --out x --rank 4 --model y"));
  EXPECT_THROW(parse("model adapter --rank 4"), CLI::ParseError);
  EXPECT_TRUE(parse("model random --config 1b --out x --seed 18446744073709551615"));
  EXPECT_THROW(parse("model random --config 1b --out x --seed 18446744073709551616"), CLI::ParseError);
  EXPECT_THROW(parse("model random --config 1b"), CLI::ParseError);
  EXPECT_THROW(parse("model random --out x"), CLI::ParseError);
  EXPECT_THROW(parse("model show"), CLI::ParseError);
  EXPECT_THROW(parse("model"), CLI::ParseError);
}

} // namespace
} // namespace godwit::main
