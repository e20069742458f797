#include "gpu/cuda/device_test.hpp"

#include <godwit/gpu/model/model_directory.hpp>

#include <cctype>
#include <cmath>
#include <filesystem>
#include <fstream>

// Logits that PyTorch computed (tests/gpu/model/golden): of those of its models whose heads are large enough for the
// CUDA kernels, among them some whose weights are kept in codes.
namespace godwit::gpu::cuda::testing {
namespace {

class CudaGolden : public device_test, public ::testing::WithParamInterface<const char*> {};

/// In the source tree, or in the bundle for machines without one, beside the programs' folder.
std::filesystem::path golden_model(const std::string& name) {
  std::filesystem::path of_source = std::filesystem::path(GODWIT_SOURCE_DIR) / "tests/gpu/model/golden" / name;
  if (std::filesystem::exists(of_source)) return of_source;
  return std::filesystem::read_symlink("/proc/self/exe").parent_path().parent_path() / "golden" / name;
}

TEST_P(CudaGolden, LogitsAreAsCloseToPyTorchsAsThoseOfTheCpuInBf16) {
  const auto directory = golden_model(GetParam());
  const bool coded = std::string(GetParam()).find('/') != std::string::npos;
  if (!std::filesystem::exists(directory)) GTEST_SKIP() << "the goldens are not on this machine";
  auto opened = model::open_model(directory);
  ASSERT_TRUE(opened);
  const auto& config = opened->configuration;
  std::vector<protocols::token_id> prompt;
  std::ifstream text(directory / "prompt.txt");
  for (protocols::token_id id = 0; text >> id;) prompt.push_back(id);
  std::vector<float> expected(prompt.size() * config.vocabulary), got(expected.size());
  std::ifstream numbers(directory / "logits.f32", std::ios::binary);
  numbers.read(reinterpret_cast<char*>(expected.data()), static_cast<std::streamsize>(expected.size() * sizeof(float)));
  ASSERT_TRUE(numbers);

  model_ = backend_->upload(0, config, *opened->tensors); // rounded to bf16
  for (const bool deterministic : {false, true}) {
    cuda_executor_settings settings;
    settings.blocks = 3;
    settings.step_tokens = 64;
    settings.deterministic = deterministic;
    settings.logits_of_all_rows = true;
    settings.logits_tap = [&](const cpu::logits_row& row) {
      std::ranges::copy(row.values, got.begin() + static_cast<std::ptrdiff_t>(row.position * config.vocabulary));
    };
    const auto executor = backend_->make_executor(model_, settings);
    for (std::size_t first = 0; first < prompt.size(); first += 23) // two chunks, with the window between them
      run_step(*executor, first + 1,
               {slice_of(prompt, first, std::min<std::size_t>(23, prompt.size() - first), blocks{2, 0, 1})});
    double squares = 0, largest = 0;
    for (std::size_t i = 0; i < got.size(); ++i) {
      const double error = std::fabs(static_cast<double>(got[i]) - static_cast<double>(expected[i]));
      if (!(error <= largest) && !std::isnan(largest)) largest = error; // a NaN is the worst
      squares += error * error;
    }
    // The CPU device's bounds: tests/gpu/model/golden_test.cpp. Logits of those in codes are larger.
    EXPECT_LE(largest, coded ? 2.0 : 1.2) << deterministic;
    EXPECT_LE(std::sqrt(squares / static_cast<double>(got.size())), coded ? 0.2 : 0.1) << deterministic;
  }
}

INSTANTIATE_TEST_SUITE_P(Models, CudaGolden,
                         ::testing::Values("mistral", "phi3", "quantized/gptq4-act-order", "quantized/awq4",
                                           "quantized/fp8-block", "quantized/packed4-asym", "gguf/llama-legacy",
                                           "gguf/qwen2-q8_0"),
                         [](const auto& each) {
                           std::string name = each.param;
                           for (auto& c : name)
                             if (std::isalnum(static_cast<unsigned char>(c)) == 0) c = '_';
                           return name;
                         });

} // namespace
} // namespace godwit::gpu::cuda::testing
