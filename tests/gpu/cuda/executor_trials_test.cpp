#include "gpu/cuda/device_test.hpp"

#include <algorithm>
#include <string>
#include <vector>

// On the emulated GPU with every build, and on a real one (ctest -L gpu): there the library has proposals to choose
// from.
namespace godwit::gpu::cuda::testing {
namespace {

using CudaTrialsOnDevice = device_test;

TEST_F(CudaTrialsOnDevice, StepsOfFewRowsGiveTheLogitsOfTheCpuPlainCapturedAndLaunched) {
  const auto config = small_config();
  const auto tokens = some_tokens(24, config.vocabulary, 5);
  const auto expected = cpu_logits(config, tokens);
  cuda_executor_settings settings;
  settings.blocks = 40;
  settings.step_tokens = 16;
  settings.trials = true;
  std::string told;
  settings.tell = [&](const std::string& line) { told += line; };
  auto one = runner(settings);
  EXPECT_THAT(told, HasSubstr("shapes tried"));
  for (const std::uint32_t batch : {1U, 2U, 4U, 8U, 16U}) {
    const auto all = [&](std::size_t first, std::size_t count) {
      std::vector<protocols::step_slice> slices;
      for (std::uint32_t i = 0; i < batch; ++i)
        slices.push_back(slice_of(tokens, first, count, first_blocks(2, 2 * i)));
      return slices;
    };
    one.step(all(0, 20));
    for (std::size_t at = 20; at < tokens.size(); ++at) {
      one.step(all(at, 1));
      for (std::uint32_t i = 0; i < batch; ++i)
        ASSERT_LT(distance(one.logits(i), expected[at]), tolerance) << batch << " rows, token " << at << ", row " << i;
    }
  }
}

} // namespace
} // namespace godwit::gpu::cuda::testing
