#include "gpu/cuda/device_test.hpp"

#include <godwit/gpu/model/model_directory.hpp>

#include <algorithm>

// The model that is compiled in, against the CPU device.
namespace godwit::gpu::cuda::testing {
namespace {

class CudaDefaultModel : public device_test {
protected:
  void SetUp() override {
    device_test::SetUp();
    if (IsSkipped()) return;
    auto files = model::embedded_model();
    if (!files) GTEST_SKIP() << "no model is compiled in";
    auto opened = model::open_model(files);
    ASSERT_TRUE(opened);
    directory_ = std::make_unique<model::model_directory>(std::move(*opened));
    model_ = backend_->upload(0, directory_->configuration, *directory_->tensors);
    packed_ = cpu::pack_model(directory_->configuration, *directory_->tensors, 1);
  }

  std::unique_ptr<model::model_directory> directory_;
  std::shared_ptr<const cpu::packed_model> packed_;
};

/// Of logits against the row's largest, six layers deep.
constexpr double model_tolerance = 0.02;

TEST_F(CudaDefaultModel, AnswersGreedilyAsTheCpuWhereverTheBestTokenIsClear) {
  for (const bool deterministic : {true, false}) {
    auto tokens = directory_->tokens->encode("The library was quiet in the evening, and", false);
    const auto table = first_blocks(8);
    cpu::testing::runner reference(packed_, {.threads = 1, .blocks = 8});
    auto one = runner(8, deterministic);
    std::size_t done = 0, equal = 0, unclear = 0;
    for (int round = 0; round < 12; ++round) {
      const std::size_t count = tokens.size() - done;
      const auto slice = slice_of(tokens, done, count, table);
      const auto expected = reference.step({slice}).tokens.at(0).id;
      const auto got = one.step({slice}).tokens.at(0).id;
      auto sorted = reference.logits(0);
      ASSERT_LT(distance(one.logits(0), sorted), model_tolerance) << "token " << round;
      std::ranges::partial_sort(sorted, sorted.begin() + 2, std::ranges::greater());
      if (static_cast<double>(sorted[0] - sorted[1]) > 2 * model_tolerance * static_cast<double>(sorted[0])) {
        EXPECT_EQ(got, expected) << "token " << round;
        ++equal;
      } else {
        ++unclear;
      }
      done = tokens.size();
      tokens.push_back(expected); // both go on alike
    }
    EXPECT_GE(equal, 4U) << unclear << " tokens were too close to say";
  }
}

} // namespace
} // namespace godwit::gpu::cuda::testing
