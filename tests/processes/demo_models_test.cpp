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

TEST(DemoOfModels, AMixtureOfExpertsAnswersTheSameWhileItsRequestsMigrate) {
  const auto directory = std::filesystem::path(::testing::TempDir()) / ("godwit_mixture_" + std::to_string(::getpid()));
  child_process maker(godwit_program(), {"model", "random", "--config", "tiny-qwen3-moe", "--out", directory.string()});
  ASSERT_EQ(maker.wait_exit(60s), 0) << maker.err();
  for (const std::vector<std::string>& division :
       {std::vector<std::string>{}, {"--tensor-parallel", "2"}, {"--pipeline-parallel", "2"}}) {
    std::vector<std::string> arguments{"demo", directory.string(), "--requests", "16", "--tokens", "150", "--json"};
    arguments.insert(arguments.end(), division.begin(), division.end());
    child_process demo(godwit_program(), arguments);
    ASSERT_EQ(demo.wait_exit(120s), 0) << demo.err();
    const auto report = boost::json::parse(demo.out()).as_object();
    EXPECT_TRUE(report.at("identical").as_bool()) << demo.out();
    EXPECT_GT(report.at("migrations").to_number<int>(), 0) << demo.out();
  }
  std::filesystem::remove_all(directory);
}

} // namespace godwit::test
