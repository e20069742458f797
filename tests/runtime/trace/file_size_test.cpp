#include "runtime/trace/streams.hpp"

#include <gtest/gtest.h>

namespace godwit::runtime::trace {
namespace {

// Issue 6: at most 40 bytes a message for its headers, before zstd.
TEST(FileSize, AnEverydayMessageTakesAtMostFortyBytesBeforeCompression) {
  constexpr std::uint64_t count = 100'000;
  const streams::scratch file("size");
  auto writer = file_writer::create(file.path());
  ASSERT_TRUE(writer);
  process p;
  p.key = 0x1234567890abcdef;
  p.name = "node";
  (*writer)->add_process(p);
  for (int i = 0; i < 20; ++i) (*writer)->name("godwit::protocols::some_message_" + std::to_string(i));
  streams::everyday stream(0, 21);
  for (std::uint64_t i = 0; i < count; ++i) {
    (*writer)->add(stream.next());
    if (i % 10'000 == 0) {
      ASSERT_TRUE((*writer)->flush());
    }
  }
  ASSERT_TRUE((*writer)->close());
  const auto raw = static_cast<double>((*writer)->raw_bytes()) / count;
  const auto stored = static_cast<double>((*writer)->bytes()) / count;
  RecordProperty("bytes_per_event", std::to_string(raw));
  EXPECT_LE(raw, 40);
  EXPECT_LE(stored, raw);
}

} // namespace
} // namespace godwit::runtime::trace
