#include "gpu/model/adapter_files.hpp"
#include "gpu/model/model_files.hpp"

#include "model/adapter_names.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <random>
#include <thread>

namespace godwit::gpu::model::tests {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

config small_config() {
  config c;
  c.vocabulary = 10;
  c.hidden = 8;
  c.intermediate = 12;
  c.layers = 2;
  c.heads = 4;
  c.kv_heads = 2;
  c.head_size = 2;
  c.positions_max = 64;
  return c;
}

std::shared_ptr<const file_source> in_memory(const made_adapter& from, const std::string& config) {
  file_map files;
  files.emplace(adapter_config_file, bytes_of_text(config));
  files.emplace(adapter_tensors_file, from.tensors());
  return memory_source("some", std::move(files));
}

std::string error_in(const made_adapter& from, const config& model = small_config(), std::string config = {}) {
  try {
    (void)read_adapter(in_memory(from, config.empty() ? from.config_text() : config), model);
  } catch (const model_error& error) {
    return error.what();
  }
  return {};
}

// Trained beside a part that sees, as PEFT names it with newer and with older versions of transformers.
TEST(Adapter, OfTheTextsPartOfAModelIsFoundByItsLongerNames) {
  const auto made = random_adapter_of(small_config(), {projection::query}, 4, 1);
  for (const std::string before :
       {"base_model.model.model.language_model.", "base_model.model.language_model.model."}) {
    file_map files;
    files.emplace(adapter_config_file, bytes_of_text(made.config_text()));
    const auto file = made.tensors();
    std::uint64_t size = 0;
    std::memcpy(&size, file.data(), sizeof size);
    std::string header(reinterpret_cast<const char*>(file.data()) + sizeof size, size);
    const std::string usual = "base_model.model.model.";
    for (auto at = header.find(usual); at != std::string::npos; at = header.find(usual, at + before.size()))
      header.replace(at, usual.size(), before);
    auto renamed = safetensors_file(header, file.size() - size - sizeof size);
    std::memcpy(renamed.data() + (renamed.size() - (file.size() - size - sizeof size)),
                file.data() + sizeof size + size, file.size() - size - sizeof size);
    files.emplace(adapter_tensors_file, std::move(renamed));
    const auto read = read_adapter(memory_source("some", std::move(files)), small_config());
    EXPECT_EQ(read.rank_max, 4U) << before;
  }
}

TEST(Adapter, OfAMixtureOfExpertsIsOfItsAttention) {
  auto mixture = small_config();
  mixture.mixture = {4, 2, true};
  EXPECT_EQ(error_in(random_adapter_of(mixture, {projection::query, projection::output}, 3, 1), mixture), "");
  EXPECT_THAT(error_in(random_adapter_of(mixture, {projection::query, projection::up}, 3, 1), mixture),
              HasSubstr("is not supported; of a mixture of experts adapters may change q, k, v and o projections"));
}

TEST(Adapter, IsReadAsPeftWritesIt) {
  const auto made = random_adapter_of(small_config(), {projection::query, projection::down}, 3, 1, data_type::bf16);
  const auto read = read_adapter(in_memory(made, made.config_text()), small_config());
  ASSERT_EQ(read.layers.size(), 2U);
  EXPECT_EQ(read.rank_max, 3U);
  const auto& query = read.layers[1][static_cast<std::size_t>(projection::query)];
  EXPECT_EQ(query.rank, 3U);
  EXPECT_FLOAT_EQ(query.scale, 1.0F);
  EXPECT_THAT(query.a.shape, ElementsAre(3, 8));
  EXPECT_THAT(query.b.shape, ElementsAre(8, 3));
  EXPECT_THAT(read.layers[0][static_cast<std::size_t>(projection::down)].a.shape, ElementsAre(3, 12));
  EXPECT_EQ(read.layers[0][static_cast<std::size_t>(projection::key)].rank, 0U);
}

TEST(Adapter, IsScaledByItsRankOrItsRoot) {
  auto made = random_adapter_of(small_config(), {projection::key}, 4, 1);
  made.alpha = 32;
  const auto scale = [&made] {
    const auto read = read_adapter(in_memory(made, made.config_text()), small_config());
    return read.layers[0][static_cast<std::size_t>(projection::key)].scale;
  };
  EXPECT_FLOAT_EQ(scale(), 8);
  made.by_root = true;
  EXPECT_FLOAT_EQ(scale(), 16);
}

TEST(Adapter, ThatIsOfAnotherKindIsRefusedInWords) {
  auto made = random_adapter_of(small_config(), {projection::key}, 4, 1);
  const auto with = [&made](const std::string& more) {
    made.more = more + ", ";
    return error_in(made);
  };
  EXPECT_EQ(with(R"("use_dora": false, "modules_to_save": null, "alpha_pattern": {})"), "");
  EXPECT_THAT(with(R"("use_dora": true)"), HasSubstr("\"use_dora\": is not supported"));
  EXPECT_THAT(with(R"("alora_invocation_tokens": [5, 6])"), HasSubstr("alora_invocation_tokens"));
  EXPECT_THAT(with(R"("some_new_kind": true)"), HasSubstr("some_new_kind"));
  EXPECT_EQ(with(R"("some_new_kind": false, "its_size": 16, "alora_invocation_tokens": null)"), "");
  EXPECT_THAT(with(R"("fan_in_fan_out": true)"), HasSubstr("fan_in_fan_out"));
  EXPECT_THAT(with(R"("lora_bias": true)"), HasSubstr("lora_bias"));
  EXPECT_THAT(with(R"("modules_to_save": ["lm_head"])"), HasSubstr("modules_to_save: is not supported"));
  EXPECT_THAT(with(R"("alpha_pattern": {"q_proj": 3})"), HasSubstr("alpha_pattern: is not supported"));
  EXPECT_THAT(with(R"("init_lora_weights": "pissa_niter_16")"), HasSubstr("init_lora_weights: \"pissa\""));
  EXPECT_EQ(with(R"("init_lora_weights": "gaussian")"), "");
  made.more.clear();
  const auto config = [](const std::string& text) {
    return error_in(random_adapter_of(small_config(), {projection::key}, 4, 1), small_config(), text);
  };
  EXPECT_THAT(config(R"({"peft_type": "IA3", "r": 4, "lora_alpha": 1})"), HasSubstr("only \"LORA\" is"));
  EXPECT_THAT(config(R"({"peft_type": "LORA", "bias": "all", "r": 4, "lora_alpha": 1})"), HasSubstr("bias: \"all\""));
  EXPECT_THAT(config(R"({"peft_type": "LORA", "r": 0, "lora_alpha": 1})"), HasSubstr("r: must be an integer"));
  EXPECT_THAT(config(R"({"peft_type": "LORA", "r": 8, "lora_alpha": 1})"), HasSubstr("its rank is 4"));
  EXPECT_THAT(config(R"({"peft_type": "LORA", "r": 4})"), HasSubstr("lora_alpha: is missing"));
  EXPECT_THAT(config("{"), HasSubstr("some/adapter_config.json"));
}

TEST(Adapter, ThatDoesNotFitTheModelIsRefusedInWords) {
  const auto made = random_adapter_of(small_config(), all_projections(), 4, 1);
  auto other = small_config();
  other.intermediate = 16;
  EXPECT_THAT(error_in(made, other), HasSubstr("it was trained for another model"));
  other = small_config();
  other.layers = 1;
  EXPECT_THAT(error_in(made, other), HasSubstr("the model has 1 layers"));
  made_adapter empty;
  EXPECT_THAT(error_in(empty, small_config(), R"({"peft_type": "LORA", "r": 4, "lora_alpha": 1})"),
              HasSubstr("has no tensors"));
  // What PEFT saves of embeddings, and of an output matrix.
  for (const auto* name :
       {"base_model.model.lm_head.lora_A.weight", "base_model.model.model.embed_tokens.lora_embedding_A",
        "base_model.model.model.layers.0.self_attn.q_proj.lora_magnitude_vector"}) {
    file_map files;
    files.emplace(adapter_config_file, bytes_of_text(R"({"peft_type": "LORA", "r": 4, "lora_alpha": 1})"));
    const std::string header =
        std::string(R"({")") + name + R"(":{"dtype":"F32","shape":[4,8],"data_offsets":[0,128]}})";
    files.emplace(adapter_tensors_file, safetensors_file(header, 128));
    try {
      (void)read_adapter(memory_source("some", std::move(files)), small_config());
      ADD_FAILURE() << name;
    } catch (const model_error& error) {
      EXPECT_THAT(error.what(), HasSubstr("is not supported"));
    }
  }
}

TEST(Adapter, OfWhichAHalfIsMissingIsRefused) {
  file_map files;
  files.emplace(adapter_config_file, bytes_of_text(R"({"peft_type": "LORA", "r": 4, "lora_alpha": 1})"));
  files.emplace(adapter_tensors_file,
                safetensors_file(R"({"base_model.model.model.layers.0.self_attn.q_proj.lora_A.weight":)"
                                 R"({"dtype":"F32","shape":[4,8],"data_offsets":[0,128]}})",
                                 128));
  try {
    (void)read_adapter(memory_source("some", std::move(files)), small_config());
    FAIL();
  } catch (const model_error& error) {
    EXPECT_THAT(error.what(), HasSubstr("q_proj.lora_B.weight\" is missing"));
  }
}

// Whoever writes into the directory may write anything: read or refused in words, never worse.
TEST(Adapter, OfDamagedFilesIsReadOrRefused) {
  const auto made = random_adapter_of(small_config(), {projection::query, projection::down}, 3, 1);
  const auto config = made.config_text();
  const auto tensors = made.tensors();
  std::uint64_t header = 0;
  std::memcpy(&header, tensors.data(), 8);
  std::mt19937 draw(5);
  std::size_t read = 0, refused = 0;
  for (int i = 0; i < 4000; ++i) {
    file_map files;
    auto text = bytes_of_text(config);
    auto body = tensors;
    auto& hurt = i % 2 == 0 ? text : body;
    const auto within = i % 2 == 0 ? text.size() : header + 8;
    for (unsigned n = 0; n <= draw() % 3; ++n) {
      const auto at = draw() % within;
      if (draw() % 8 == 0)
        hurt.resize(at);
      else if (at < hurt.size())
        hurt[at] = draw() % 2 == 0 ? std::byte{static_cast<unsigned char>(draw())}
                                   : std::byte{static_cast<unsigned char>("0123456789,:[]{}\"-eE"[draw() % 20])};
    }
    files.emplace(adapter_config_file, std::move(text));
    files.emplace(adapter_tensors_file, std::move(body));
    try {
      (void)read_adapter(memory_source("some", std::move(files)), small_config());
      ++read;
    } catch (const model_error&) {
      ++refused;
    }
  }
  EXPECT_GT(read, 10U);
  EXPECT_GT(refused, 1000U);
}

// ---- Directories ------------------------------------------------------------------------------------------------

TEST(AdapterDirectory, FindsWhatLiesThereNow) {
  const scratch_directory place("adapter-directory");
  const adapter_directory directory(place.path());
  EXPECT_THAT(directory.names(10), IsEmpty());
  EXPECT_FALSE(directory.find("sql"));
  const auto made = random_adapter_of(small_config(), {projection::key}, 4, 1);
  made.write(place.path() / "sql");
  std::filesystem::create_directories(place.path() / "empty");
  std::ofstream(place.path() / "file") << "x";
  EXPECT_THAT(directory.names(10), ElementsAre("sql"));
  const auto found = directory.find("sql");
  ASSERT_TRUE(found);
  EXPECT_EQ(found->name, "sql");
  EXPECT_NE(found->id, 0U);
  EXPECT_EQ(*directory.find("sql"), *found);
  EXPECT_FALSE(directory.find("empty"));
  made.write(place.path() / "copy");
  EXPECT_EQ(directory.find("copy")->id, found->id) << "the same content";
  std::filesystem::remove_all(place.path() / "sql");
  EXPECT_FALSE(directory.find("sql"));
  EXPECT_THAT(directory.names(1), ElementsAre("copy"));
}

TEST(AdapterDirectory, NamesNothingOutsideOfIt) {
  const scratch_directory place("adapter-outside");
  const auto made = random_adapter_of(small_config(), {projection::key}, 4, 1);
  made.write(place.path() / "in" / "one");
  made.write(place.path() / "out");
  const adapter_directory directory(place.path() / "in");
  EXPECT_TRUE(directory.find("one"));
  for (const std::string name : {"../out", "one/../../out", "", ".", "..", "one/", "/", "o\nne"})
    EXPECT_FALSE(directory.find(name)) << name;
  EXPECT_FALSE(directory.find(std::string(201, 'a')));
  EXPECT_THROW((void)directory.open({"../out", 1}, 1U << 20U), model_error);
}

TEST(AdapterDirectory, TellsWhenFilesHaveChanged) {
  const scratch_directory place("adapter-changes");
  const adapter_directory directory(place.path());
  random_adapter_of(small_config(), {projection::key}, 4, 1).write(place.path() / "sql");
  const auto before = *directory.find("sql");
  EXPECT_NE(directory.open(before, 1U << 20U), nullptr);
  random_adapter_of(small_config(), {projection::key}, 4, 2).write(place.path() / "sql");
  // Where it was written within one tick of the file system's clock, nobody sees it by the times.
  std::filesystem::last_write_time(place.path() / "sql" / adapter_tensors_file,
                                   std::filesystem::file_time_type::clock::now() + std::chrono::seconds(2));
  const auto after = *directory.find("sql");
  EXPECT_NE(after.id, before.id);
  EXPECT_THROW((void)directory.open(before, 1U << 20U), model_error);
  EXPECT_NE(directory.open(after, 1U << 20U), nullptr);
  EXPECT_THROW((void)directory.open(after, 100), model_error) << "larger than it may be";
}

// As some copies leave them.
TEST(AdapterDirectory, TellsWhenFilesHaveChangedThatSayThatTheyHaveNot) {
  const scratch_directory place("adapter-touched");
  const adapter_directory directory(place.path());
  const auto write = [&](std::uint64_t seed) {
    random_adapter_of(small_config(), {projection::key}, 4, seed).write(place.path() / "sql");
  };
  write(1);
  const auto file = place.path() / "sql" / adapter_tensors_file;
  const auto config = place.path() / "sql" / adapter_config_file;
  const auto of_file = std::filesystem::last_write_time(file), of_config = std::filesystem::last_write_time(config);
  const auto before = *directory.find("sql");
  std::this_thread::sleep_for(std::chrono::milliseconds(50)); // some ticks of the file system's clock
  write(2);
  std::filesystem::last_write_time(file, of_file);
  std::filesystem::last_write_time(config, of_config);
  EXPECT_NE(directory.find("sql")->id, before.id);
}

TEST(AdapterDirectory, OneThatCannotBeReadIsAnErrorThatNamesIt) {
  const scratch_directory place("adapter-unreadable");
  const adapter_directory directory(place.path());
  std::filesystem::create_directories(place.path() / "sql");
  std::ofstream(place.path() / "sql" / adapter_config_file) << "{}";
  try {
    (void)directory.find("sql");
    FAIL();
  } catch (const model_error& error) {
    EXPECT_THAT(error.what(), HasSubstr("adapter_model.safetensors"));
  }
}

// ---- Made-up ones -----------------------------------------------------------------------------------------------

TEST(RandomAdapter, IsOneOfTheModel) {
  const scratch_directory place("adapter-random");
  write_random_adapter(small_config(), 5, 3, place.path() / "a");
  write_random_adapter(small_config(), 5, 3, place.path() / "b");
  write_random_adapter(small_config(), 5, 4, place.path() / "c");
  const adapter_directory directory(place.path());
  const auto a = *directory.find("a");
  EXPECT_EQ(a.id, directory.find("b")->id);
  EXPECT_NE(a.id, directory.find("c")->id);
  const auto read = read_adapter(directory.open(a, 1U << 20U), small_config());
  for (const auto& layer : read.layers)
    for (const auto& update : layer) EXPECT_EQ(update.rank, 5U);
  EXPECT_THROW(write_random_adapter(small_config(), 0, 3, place.path() / "d"), model_error);
  EXPECT_THROW(write_random_adapter(small_config(), 513, 3, place.path() / "d"), model_error);
}

} // namespace
} // namespace godwit::gpu::model::tests
