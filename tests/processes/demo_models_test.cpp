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
  const auto made = run({"model", "random", "--config", "tiny-qwen3-moe", "--out", directory.string()});
  ASSERT_EQ(made.code, 0) << made.err;
  for (const std::string division : {"--tensor-parallel", "--pipeline-parallel"})
    for (const std::string devices : {"1", "2"}) {
      if (devices == "1" && division == "--tensor-parallel") continue; // the same
      const auto demo =
          run({"demo", directory.string(), "--requests", "16", "--tokens", "150", division, devices, "--json"}, 120s);
      ASSERT_EQ(demo.code, 0) << demo.err;
      const auto report = boost::json::parse(demo.out).as_object();
      EXPECT_TRUE(report.at("identical").as_bool()) << division << ' ' << devices;
      EXPECT_GT(report.at("migrations").to_number<int>(), 0) << division << ' ' << devices;
    }
  std::filesystem::remove_all(directory);
}

} // namespace godwit::test
