#include "runtime/trace/streams.hpp"

#include <godwit/runtime/trace/file_recorder.hpp>

#include <gtest/gtest.h>

#include <chrono>
#include <filesystem>
#include <future>
#include <memory>
#include <random>
#include <string>

namespace godwit::runtime::trace {
namespace {

using namespace std::chrono_literals;

/// What no codec makes smaller than half.
void note_much(recorder& to, std::mt19937_64& random, int times) {
  for (int i = 0; i < times; ++i) {
    std::string text;
    while (text.size() < 64) text += std::to_string(random());
    to.note("much", {{"text", std::move(text)}});
  }
}

file_recorder_settings quick(std::uint64_t bytes_max) {
  file_recorder_settings how;
  how.interval = 1ms;
  how.flush_interval = 1ms;
  how.file.bytes_max = bytes_max;
  how.file.chunk_bytes = 1024;
  return how;
}

TEST(FileRecorder, TellsOnceThatItsFileIsFullAndCountsWhatComesThen) {
  const streams::scratch file("recorder_full");
  const auto from = std::make_shared<recorder>(process{});
  std::promise<file_end> told;
  int times = 0;
  auto how = quick(20'000);
  how.on_end = [&](const file_end& end) {
    if (times++ == 0) told.set_value(end);
  };
  auto made = file_recorder::start(from, file.path(), how);
  ASSERT_TRUE(made);
  std::mt19937_64 random(1);
  note_much(*from, random, 1000);
  auto ended = told.get_future();
  ASSERT_EQ(ended.wait_for(30s), std::future_status::ready);
  const auto end = ended.get();
  EXPECT_EQ(end.error, "");
  EXPECT_LE(end.bytes, 20'000U);
  EXPECT_GT(end.bytes, 15'000U);
  note_much(*from, random, 100);
  EXPECT_TRUE((*made)->stop());
  EXPECT_EQ(times, 1);
  EXPECT_EQ((*made)->events() + (*made)->lost(), 1100U);
  EXPECT_GE((*made)->lost(), 100U);
  EXPECT_LE(std::filesystem::file_size(file.path()), 20'000U);
}

TEST(FileRecorder, NeedsARecorder) {
  const streams::scratch file("recorder_none");
  const auto made = file_recorder::start(nullptr, file.path());
  ASSERT_FALSE(made);
  EXPECT_EQ(made.error().message, "there is no recorder to store the events of");
  EXPECT_FALSE(std::filesystem::exists(file.path()));
}

TEST(FileRecorder, SaysNothingOfAFileThatHasRoom) {
  const streams::scratch file("recorder_room");
  const auto from = std::make_shared<recorder>(process{});
  int times = 0;
  auto how = quick(1'000'000);
  how.on_end = [&](const file_end&) { ++times; };
  auto made = file_recorder::start(from, file.path(), how);
  ASSERT_TRUE(made);
  std::mt19937_64 random(1);
  note_much(*from, random, 100);
  EXPECT_TRUE((*made)->stop());
  EXPECT_EQ(times, 0);
  EXPECT_EQ((*made)->events(), 100U);
}

} // namespace
} // namespace godwit::runtime::trace
