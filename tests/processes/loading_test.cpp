// Processes that are told to end while they still load their model.
#include "processes/support/godwit_processes.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <boost/json.hpp>

#include <csignal>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

namespace godwit::test {

using namespace std::chrono_literals;
using ::testing::HasSubstr;
using ::testing::Not;

namespace fs = std::filesystem;
namespace json = boost::json;

namespace {

/// Makes of a tiny model one of a gigabyte, whose weights are a hole in their file: packing them takes a thread
/// seconds, and the disk nothing.
void enlarge(const fs::path& model) {
  constexpr std::uint64_t hidden = 2048, wide = 8192, layers = 8, heads = 16;
  std::stringstream before;
  before << std::ifstream(model / "config.json").rdbuf();
  auto config = json::parse(before.str()).as_object();
  const auto words = config.at("vocab_size").to_number<std::uint64_t>();
  config["hidden_size"] = hidden;
  config["intermediate_size"] = wide;
  config["num_hidden_layers"] = layers;
  for (const char* kind : {"num_attention_heads", "num_key_value_heads"}) config[kind] = heads;
  config["head_dim"] = hidden / heads;
  std::ofstream(model / "config.json") << json::serialize(config);

  json::object tensors;
  std::uint64_t end = 0;
  const auto add = [&](const std::string& name, std::vector<std::uint64_t> shape) {
    const auto begin = end;
    end += 2 * shape[0] * (shape.size() > 1 ? shape[1] : 1);
    tensors[name] = json::object{{"dtype", "BF16"}, {"shape", json::value_from(shape)}, {"data_offsets", {begin, end}}};
  };
  add("model.embed_tokens.weight", {words, hidden});
  for (std::uint64_t i = 0; i < layers; ++i) {
    const auto layer = "model.layers." + std::to_string(i) + ".";
    for (const char* norm : {"input_layernorm", "post_attention_layernorm"}) add(layer + norm + ".weight", {hidden});
    for (const char* of : {"q", "k", "v", "o"}) add(layer + "self_attn." + of + "_proj.weight", {hidden, hidden});
    for (const char* of : {"gate", "up"}) add(layer + "mlp." + of + "_proj.weight", {wide, hidden});
    add(layer + "mlp.down_proj.weight", {hidden, wide});
  }
  add("model.norm.weight", {hidden});
  add("lm_head.weight", {words, hidden});

  const auto header = json::serialize(tensors);
  const std::uint64_t length = header.size(); // little-endian, as the file wants it
  const auto weights = model / "model.safetensors";
  {
    std::ofstream file(weights, std::ios::binary | std::ios::trunc);
    file.write(reinterpret_cast<const char*>(&length), sizeof length);
    file << header;
  }
  fs::resize_file(weights, sizeof length + length + end);
}

/// Of the processes that were waited for.
double cpu_seconds() {
  rusage used{};
  ::getrusage(RUSAGE_CHILDREN, &used);
  const auto seconds = [](const timeval& t) {
    return static_cast<double>(t.tv_sec) + 1e-6 * static_cast<double>(t.tv_usec);
  };
  return seconds(used.ru_utime) + seconds(used.ru_stime);
}

class Loading : public ::testing::Test {
protected:
  void SetUp() override {
    folder = fs::path(::testing::TempDir()) / ("godwit_loading_" + std::to_string(::getpid()));
    fs::create_directories(folder);
    child_process write(godwit_program(), {"model", "random", "--config", "tiny", "--out", model()});
    ASSERT_EQ(write.wait_exit(20s), 0) << write.err();
    ASSERT_NO_FATAL_FAILURE(enlarge(model()));
    std::ofstream(ready_file()) << "of an earlier one\n";
  }
  void TearDown() override { fs::remove_all(folder); }
  [[nodiscard]] std::string model() const { return folder / "model"; }
  [[nodiscard]] std::string ready_file() const { return folder / "ready"; }
  [[nodiscard]] std::vector<std::string> arguments() const {
    return patient({model(), "--instances", "1", "--threads", "1", "--ready-file", ready_file()});
  }
  /// When the process has said that it is there.
  void end(child_process& process) const {
    EXPECT_FALSE(fs::exists(ready_file())) << "it takes no requests yet";
    process.signal(SIGTERM);
    EXPECT_EQ(process.wait_exit(20s), 0) << process.err();
    EXPECT_THAT(process.out(), Not(HasSubstr("ready"))) << "it has loaded first";
    EXPECT_FALSE(fs::exists(ready_file()));
  }
  fs::path folder;
};

// Of the four and more that loading takes; of wall-clock time a busy machine may take any.
constexpr double cpu_seconds_max = 3;

} // namespace

TEST_F(Loading, AServerToldToEndMeanwhileEndsWithoutLoadingToTheEnd) {
  const auto before = cpu_seconds();
  served head(arguments());
  ASSERT_TRUE(head.process.wait_line("listening on ", 20s)) << head.process.err();
  end(head.process);
  EXPECT_LT(cpu_seconds() - before, cpu_seconds_max);
}

// As a driver or a mount does that never answers.
TEST_F(Loading, WhatIsWaitedForAtTheStartHoldsNobodyWhoInsists) {
  const auto silent = (folder / "pipe").string();
  ASSERT_EQ(::mkfifo(silent.c_str(), 0600), 0);
  child_process head(godwit_program(),
                     {"serve", model(), "--listen", "127.0.0.1:0", "--control", "", "--api-key-file", silent});
  child_process member(godwit_program(), {"node", model(), "--join", "127.0.0.1:1", "--cluster-tls-cert", silent,
                                          "--cluster-tls-key", silent, "--cluster-tls-ca", silent});
  for (auto* process : {&head, &member}) {
    EXPECT_FALSE(process->wait_exit(500ms));
    process->signal(SIGTERM);
    EXPECT_FALSE(process->wait_exit(500ms)) << "one is for the end of what it is at";
    process->signal(SIGTERM);
    EXPECT_EQ(process->wait_exit(20s), 128 + SIGTERM) << process->err();
  }
}

TEST_F(Loading, AMemberToldToEndMeanwhileLeavesItsHeadWithoutLoadingToTheEnd) {
  served head(patient({model(), "--instances", "0"}));
  ASSERT_TRUE(head.wait_ready()) << head.process.err();
  const auto before = cpu_seconds();
  joined member(head.control(), arguments());
  ASSERT_TRUE(member.process.wait_line("joined ", 20s)) << member.process.err();
  end(member.process);
  EXPECT_LT(cpu_seconds() - before, cpu_seconds_max);
  EXPECT_TRUE(head.process.wait_log("it leaves", 20s)) << head.process.err();
}

} // namespace godwit::test
