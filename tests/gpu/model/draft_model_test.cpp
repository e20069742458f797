#include "gpu/model/tokenizer_files.hpp"

#include <godwit/gpu/model/model_directory.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace godwit::gpu::model {
namespace {

using ::testing::HasSubstr;

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
  EXPECT_THAT(refuse_draft(*other, *llama), HasSubstr("tokens, and that of the model 'default' has 1536"));
  auto text = tests::default_tokenizer_json(); // as many, of which one is another
  for (auto at = text.find("<|im_start|>"); at != std::string::npos; at = text.find("<|im_start|>"))
    text.replace(at, 12, "<|im_other|>");
  auto read = tokenizer::from_json(text);
  ASSERT_TRUE(read) << read.error().what();
  auto changed = *other;
  changed.tokens = std::make_shared<const tokenizer>(std::move(*read));
  EXPECT_EQ(refuse_draft(*other, changed),
            "token 1 of its tokenizer is another than that of the model 'default'; a draft "
            "model is of the same family");
}

} // namespace
} // namespace godwit::gpu::model
