// `godwit sim`: KV in the host's memory and on disks.
#include "main/sim_command_support.hpp"

#include <godwit/gpu/sim/profile.hpp>

#include <boost/json.hpp>
#include <gtest/gtest.h>

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <string>

#include <unistd.h>

namespace godwit::main::test {

// Two A10s that are given too much: what preempted requests had computed is there when they go on.
TEST(SimCommand, PreemptedRequestsMayWaitInTheHostsMemory) {
  const std::string line = "--json --profile llama-7b-a10 --policy round_robin --instances 2 --lengths L-L --rate 1 "
                           "--requests 120 --seed 3";
  const auto report = [&](const std::string& more) {
    const auto result = typed(line + more);
    EXPECT_EQ(result.code, 0) << result.err;
    return boost::json::parse(result.out).as_object();
  };
  const auto swapped_in = [](const boost::json::object& r) {
    const auto* count = r.at("preemptions").as_object().if_contains("swapped");
    return count != nullptr ? count->to_number<std::uint64_t>() : 0;
  };
  const auto without = report("");
  EXPECT_GT(without.at("preemptions").at("count").to_number<std::uint64_t>(), 5U);
  EXPECT_EQ(swapped_in(without), 0U);
  const auto with = report(" --swap-bytes 64GiB");
  EXPECT_GT(swapped_in(with), 5U);
  EXPECT_EQ(with, report(" --swap-bytes 64GiB")) << "the same run, byte for byte";
  EXPECT_EQ(swapped_in(report(" --swap-bytes 64GiB --preemption recompute")), 0U);
  const auto text = typed("--profile llama-7b-a10 --policy round_robin --instances 2 --lengths L-L --rate 1 "
                          "--requests 120 --seed 3 --swap-bytes 64GiB");
  EXPECT_NE(text.out.find(" swapped out"), std::string::npos) << text.out;
}

TEST(SimCommand, ASwapSpaceNeedsARateAndRoomForABlock) {
  const scratch folder("mute");
  auto device = *gpu::sim::open_profile("toy");
  device.name = "mute";
  device.link.host_bytes_per_second = 0;
  const auto file = folder.write("mute.json", to_json(device));
  const auto mute = typed("--profile " + file + " --swap-bytes 1GiB");
  EXPECT_EQ(mute.code, 2);
  EXPECT_NE(mute.err.find("mute does not say how fast KV gets to the host's memory; give it a "
                          "link.host_bytes_per_second"),
            std::string::npos)
      << mute.err;
  const auto small = typed("--profile toy --swap-bytes 1000");
  EXPECT_EQ(small.code, 2);
  EXPECT_NE(small.err.find("is less than a block of KV, which has 65536 bytes"), std::string::npos) << small.err;
  EXPECT_EQ(typed("--profile toy --preemption swap").code, 2);
}

// Nine prompts of 4,096 tokens come twice, the second time to the other instance.
TEST(SimCommand, ADiskKeepsWhatTheStoresMemoryHasNoRoomFor) {
  const auto trace = std::filesystem::temp_directory_path() / ("godwit_prompts_" + std::to_string(::getpid()));
  {
    std::ofstream out(trace);
    for (int i = 0; i < 18; ++i) {
      out << R"({"timestamp": )" << i * 5000 << R"(, "input_length": 4096, "output_length": 4, "hash_ids": [)";
      for (int block = 0; block < 8; ++block) out << (block == 0 ? "" : ", ") << i % 9 * 8 + block;
      out << "]}\n";
    }
  }
  const auto report = [&](const std::string& more) {
    const auto result = typed("--json --profile llama-2-70b-128k-h100 --instances 2 --policy round_robin --trace " +
                              trace.string() + " --kv-store-bytes 1GiB" + more);
    EXPECT_EQ(result.code, 0) << result.err;
    return boost::json::parse(result.out).as_object();
  };
  const auto cached = [&](const std::string& more) {
    return report(more).at("cached_tokens").to_number<std::uint64_t>();
  };
  const auto of_store = [](const boost::json::object& from, const char* what) {
    return from.at("kv_store").at(what).to_number<std::uint64_t>();
  };
  const auto without = report(""), with = report(" --kv-store-disk-bytes 100GiB");
  EXPECT_LT(without.at("cached_tokens").to_number<std::uint64_t>(), 9U * 512);
  EXPECT_FALSE(without.at("kv_store").as_object().contains("disk"));
  EXPECT_GT(of_store(without, "evicted_chunks"), 0U);
  EXPECT_GT(with.at("cached_tokens").to_number<std::uint64_t>(), 9U * 3500);
  EXPECT_EQ(of_store(with, "hit_tokens"), with.at("cached_tokens").to_number<std::uint64_t>()) << "no cache has any";
  EXPECT_GE(of_store(with, "query_tokens"), of_store(with, "hit_tokens"));
  EXPECT_GT(of_store(with, "loaded_chunks"), 0U);
  EXPECT_LE(of_store(with, "loaded_chunks") * 64, of_store(with, "hit_tokens")) << "the last ones are not reported yet";
  EXPECT_GT(with.at("kv_store").at("disk").at("read_chunks").to_number<std::uint64_t>(), 0U);
  EXPECT_LT(cached(" --kv-store-disk-bytes 100GiB --kv-store-disk-rate 1e6"), 9U * 512) << "too slow to be of use";
  std::filesystem::remove(trace);
}

} // namespace godwit::main::test
