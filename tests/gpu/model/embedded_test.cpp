#include "gpu/model/model_files.hpp"

#include <gtest/gtest.h>

#include <fstream>

namespace godwit::gpu::model {
namespace {

constexpr auto source = GODWIT_SOURCE_DIR "/gpu/model/default";

TEST(EmbeddedModel, ItIsTheDirectoryOfTheSourceTreeByteForByte) {
  const auto files = embedded_model();
  if (!files) GTEST_SKIP() << "built without gpu/model/default";
  EXPECT_EQ(files->name(), "default");
  for (const auto* name : {"config.json", "generation_config.json", "tokenizer.json", "tokenizer_config.json"}) {
    std::ifstream in(std::filesystem::path(source) / name, std::ios::binary);
    const std::string text(std::istreambuf_iterator<char>(in), {});
    const auto bytes = files->find(name);
    ASSERT_TRUE(bytes) << name;
    EXPECT_EQ(std::string_view(reinterpret_cast<const char*>(bytes->data()), bytes->size()), text) << name;
  }
  EXPECT_FALSE(files->find("README.md"));
}

TEST(EmbeddedModel, ItOpensThroughTheSameCodeAsADirectory) {
  const auto files = embedded_model();
  if (!files) GTEST_SKIP() << "built without gpu/model/default";
  const auto embedded = open_model(files);
  ASSERT_TRUE(embedded) << embedded.error().what();
  const auto from_disk = open_model(std::filesystem::path(source));
  ASSERT_TRUE(from_disk) << from_disk.error().what();
  EXPECT_EQ(embedded->name, "default");
  EXPECT_EQ(embedded->configuration.vocabulary, from_disk->configuration.vocabulary);
  EXPECT_EQ(embedded->tensors->total_bytes(), from_disk->tensors->total_bytes());
  EXPECT_EQ(embedded->tokens->encode("hacker", false), from_disk->tokens->encode("hacker", false));
  EXPECT_TRUE(embedded->chat_template);
  EXPECT_FALSE(embedded->configuration.eos.empty());
  EXPECT_LE(embedded->tensors->total_bytes(), 12U << 20U);
}

} // namespace
} // namespace godwit::gpu::model
