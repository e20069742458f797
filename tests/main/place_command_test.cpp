#include "main/place_command.hpp"

#include <godwit/gpu/model/model_directory.hpp>

#include <boost/json.hpp>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <sstream>
#include <string>
#include <vector>

namespace godwit::main {
namespace {

using ::testing::HasSubstr;

struct placed_model {
  int code = 0;
  std::string out, errors;
};
placed_model place(std::vector<std::string> devices, std::vector<std::string> links = {}, bool json = false,
                   double device_ms = 0) {
  place_options options;
  options.devices = std::move(devices);
  options.links = std::move(links);
  options.tokens = 64;
  options.json = json;
  options.device_ms = device_ms;
  std::ostringstream out, errors;
  const auto code = place_model(options, out, errors);
  return {code, out.str(), errors.str()};
}

class PlaceCommand : public ::testing::Test {
protected:
  void SetUp() override {
    if (!gpu::model::embedded_model()) GTEST_SKIP() << "no model is compiled in";
  }
};

TEST_F(PlaceCommand, OneDeviceThatHoldsTheModelNeedsNoOther) {
  const auto said = place({"8GiB@100GB/s", "8GiB@100GB/s"});
  EXPECT_EQ(said.code, 0) << said.errors;
  EXPECT_THAT(said.out, HasSubstr("on one device, which needs no flag\nwith these devices, in this order: "
                                  "CUDA_VISIBLE_DEVICES=0\n"));
  const auto json = boost::json::parse(place({"1KB@1TB/s", "8GiB@100GB/s"}, {}, true).out).as_object();
  EXPECT_EQ(json.at("stages").at(0).at("device"), 1);
  EXPECT_EQ(json.at("flags"), "");
}

// The embedded model's table is its head, which a device that has all layers has once.
TEST_F(PlaceCommand, ATableThatIsTheHeadTooCountsOnceOnOneDevice) {
  const auto opened = gpu::model::open_model(gpu::model::embedded_model());
  ASSERT_TRUE(opened);
  if (!opened->configuration.tied_embeddings) GTEST_SKIP() << "this model has both";
  const auto whole = boost::json::parse(place({"8GiB@1GB/s"}, {}, true).out).as_object();
  const auto number = [&](const char* name) { return whole.at(name).to_number<std::uint64_t>(); };
  const auto bytes = (number("layer_bytes") + number("layer_kv_bytes")) *
                         whole.at("stages").at(0).at("layers").to_number<std::uint64_t>() +
                     number("head_bytes");
  EXPECT_EQ(place({std::to_string(bytes) + "@1GB/s"}).code, 0);
  EXPECT_EQ(place({std::to_string(bytes - 1) + "@1GB/s"}).code, 1);
}

// What it prints is what `serve` takes: layers of the model, in the order of the devices.
TEST_F(PlaceCommand, DividesByMemoryAndSpeedAndSaysWhichFlagsDoThat) {
  const auto whole = boost::json::parse(place({"8GiB@100GB/s"}, {}, true).out).as_object();
  const auto layers = whole.at("stages").at(0).at("layers").to_number<std::uint32_t>();
  ASSERT_GE(layers, 2U);
  const auto number = [&](const char* name) { return whole.at(name).to_number<std::uint64_t>(); };
  const auto room = (number("layer_bytes") + number("layer_kv_bytes")) * (layers - 1) + number("head_bytes");
  const auto said = place({"8GiB@10GB/s", std::to_string(room) + "@1TB/s"}, {"0-1=7us"}, true);
  ASSERT_EQ(said.code, 0) << said.errors;
  const auto divided = boost::json::parse(said.out).as_object();
  EXPECT_EQ(divided.at("flags").as_string(), "--pipeline-parallel 2 --pipeline-layers 1," + std::to_string(layers - 1));
  EXPECT_EQ(divided.at("stages").at(1).at("device"), 1);
  EXPECT_DOUBLE_EQ(divided.at("hop_seconds").as_double(), 7e-6);
  const auto table = place({std::to_string(room) + "@1TB/s", "8GiB@10GB/s"});
  EXPECT_THAT(table.out, HasSubstr("with these devices, in this order: CUDA_VISIBLE_DEVICES=1,0"));
  EXPECT_THAT(place({"8GiB@10GB/s", std::to_string(room) + "@1TB/s"}, {}, false, 1e6).out, HasSubstr("on one device"))
      << "a further one saves too little";
}

TEST_F(PlaceCommand, SaysWhatItDoesNotUnderstandAndWhatDoesNotFit) {
  for (const char* device : {"24GiB", "24@", "@5GB/s", "24XB@5GB/s", "0@1", "-1GiB@1GB/s", "nan@1", "1e30GB@1GB/s"}) {
    const auto said = place({device});
    EXPECT_EQ(said.code, 2) << device;
    EXPECT_THAT(said.errors, HasSubstr("is not MEMORY@SPEED, as in 24GiB@600GB/s")) << device;
  }
  for (const char* link : {"0-1", "0-2=5us", "1-1=5us", "0-1=5", "0-1=-5us", "0-1=5us ", "a-1=5us"}) {
    const auto said = place({"8GiB@1GB/s", "8GiB@1GB/s"}, {link});
    EXPECT_EQ(said.code, 2) << link;
    EXPECT_THAT(said.errors, HasSubstr("as in 0-1=20us")) << link;
  }
  EXPECT_EQ(place({"8GiB@1GB/s"}, {}, false, std::nan("")).code, 2);
  EXPECT_EQ(place({"8GiB@1GB/s"}, {}, false, -1).code, 2);
  const auto tiny = place({"1KB@1GB/s"});
  EXPECT_EQ(tiny.code, 1);
  EXPECT_THAT(tiny.errors, HasSubstr("the model does not fit on these devices together"));
  EXPECT_EQ(place(std::vector<std::string>(13, "8GiB@1GB/s")).code, 2);
}

} // namespace
} // namespace godwit::main
