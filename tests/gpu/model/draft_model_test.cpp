#include <godwit/gpu/model/model_directory.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace godwit::gpu::model {
namespace {

using testing::HasSubstr;

TEST(DraftModel, IsOfTheSameFamily) {
  const auto golden = [](const std::string& name) {
    return open_model(std::filesystem::path(GODWIT_SOURCE_DIR) / "tests/gpu/model/golden" / name);
  };
  const auto llama = golden("llama"), again = golden("llama");
  ASSERT_TRUE(llama && again);
  EXPECT_EQ(refuse_draft(*llama, *again), "");
  const auto files = embedded_model();
  if (!files) GTEST_SKIP() << "built without the embedded model";
  const auto other = open_model(files);
  ASSERT_TRUE(other);
  EXPECT_EQ(refuse_draft(*other, *other), "");
  EXPECT_THAT(refuse_draft(*other, *llama), HasSubstr("of its tokenizer is another than that of the model 'default'"));
}

} // namespace
} // namespace godwit::gpu::model
