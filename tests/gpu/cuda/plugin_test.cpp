#include "device/cuda_plugin.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <string>

#include <unistd.h>

namespace godwit::gpu::cuda {
namespace {

using ::testing::AllOf;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::Not;

std::filesystem::path fake(int number) {
  return std::filesystem::path(GODWIT_BINARY_DIR) / "tests" / "gpu" / "cuda" /
         ("libfake_cuda_" + std::to_string(number) + ".so");
}

TEST(CudaPlugin, ThatIsMissingIsLookedForInEveryPlace) {
  const auto loaded = load_cuda({"one/a.so", "two/b.so"});
  EXPECT_EQ(loaded.backend, nullptr);
  EXPECT_TRUE(loaded.plugin_missing);
  EXPECT_EQ(loaded.why_not, "there is no CUDA plug-in (looked for one/a.so, two/b.so)");
}

TEST(CudaPlugin, OfThisBuildIsAskedForGpus) {
  const auto loaded = open_plugin(fake(1), {});
  EXPECT_EQ(loaded.backend, nullptr);
  EXPECT_FALSE(loaded.plugin_missing);
  EXPECT_EQ(loaded.why_not, "no GPU: made for a test");
}

TEST(CudaPlugin, OfAnotherBuildIsRefused) {
  const auto loaded = open_plugin(fake(2), {});
  EXPECT_EQ(loaded.backend, nullptr);
  EXPECT_THAT(loaded.why_not, AllOf(HasSubstr("is of another build (godwit 0.0.1, compiler of another time) than this "
                                              "program (godwit "),
                                    EndsWith("; install both from one build"), Not(HasSubstr("\n"))));
}

TEST(CudaPlugin, OfAnotherInterfaceIsRefused) {
  EXPECT_THAT(open_plugin(fake(3), {}).why_not,
              HasSubstr("speaks version 77 of the plug-in's interface, this program version 1"));
}

TEST(CudaPlugin, ThatIsNoneIsRefused) {
  EXPECT_THAT(open_plugin("libm.so.6", {}).why_not, HasSubstr("libm.so.6 is no CUDA plug-in of godwit"));
  const auto text = ::testing::TempDir() + "text_" + std::to_string(::getpid()) + ".so";
  std::ofstream(text) << "text";
  EXPECT_THAT(open_plugin(text, {}).why_not, HasSubstr("the CUDA plug-in cannot be loaded: "));
  std::remove(text.c_str());
}

// Where it was built, it loads, finds its libraries and says what it sees, with a GPU or without one.
TEST(CudaPlugin, AsBuiltLoads) {
  const auto built = std::filesystem::path(GODWIT_BINARY_DIR) / "bin" / plugin_name;
  if (!std::filesystem::exists(built)) GTEST_SKIP() << "the plug-in was not built";
  const auto loaded = open_plugin(built, {});
  if (loaded.backend)
    EXPECT_FALSE(loaded.backend->devices().empty());
  else
    EXPECT_THAT(loaded.why_not, AllOf(HasSubstr("GPU"), Not(HasSubstr("\n"))));
}

} // namespace
} // namespace godwit::gpu::cuda
