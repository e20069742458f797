#include "runtime/trace/fuzz_reader.hpp"
#include "runtime/trace/streams.hpp"

#include "trace/chunk_encoder.hpp"
#include "trace/file_format.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <filesystem>

namespace godwit::runtime::trace {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;

std::unique_ptr<file_writer> everyday_writer(const std::string& path, file_settings settings = {}) {
  auto writer = file_writer::create(path, settings);
  EXPECT_TRUE(writer);
  process p;
  p.key = 3;
  p.name = "n";
  (*writer)->add_process(p);
  for (int i = 0; i < 10; ++i) (*writer)->name("n" + std::to_string(i));
  return std::move(*writer);
}

TEST(FileLimits, AFullFileEndsWithAGapThatCountsWhatIsMissing) {
  const streams::scratch file("full");
  file_settings settings;
  settings.bytes_max = 100'000;
  settings.chunk_bytes = 8192;
  auto writer = everyday_writer(file.path(), settings);
  streams::everyday stream(0, 11);
  std::int64_t last_end = 0;
  constexpr std::uint64_t count = 20'000;
  for (std::uint64_t n = 1; n <= count; ++n) {
    const auto& e = stream.next();
    last_end = std::max(last_end, e.end_ns);
    writer->add(e);
    if (n % 1000 != 0) continue;
    ASSERT_TRUE(writer->flush());
    const auto so_far = read_file(file.path()); // as if it were killed now
    ASSERT_TRUE(so_far);
    std::uint64_t events = 0;
    for (const auto& each : so_far->events) events += each.kind == event_kind::gap ? each.count : 1;
    ASSERT_EQ(events, n) << "what is there and what the gap says are all";
    ASSERT_LE(std::filesystem::file_size(file.path()), settings.bytes_max);
  }
  EXPECT_EQ(writer->events() + writer->lost(), count);
  EXPECT_GT(writer->lost(), count / 2);
  EXPECT_GT(writer->events(), 1000U);
  ASSERT_TRUE(writer->close());
  EXPECT_LE(std::filesystem::file_size(file.path()), settings.bytes_max);
  EXPECT_EQ(std::filesystem::file_size(file.path()), writer->bytes());
  const auto read = read_file(file.path());
  ASSERT_TRUE(read);
  EXPECT_EQ(read->remarks, std::vector<std::string>{});
  const auto is_gap = [](const event& e) { return e.kind == event_kind::gap; };
  ASSERT_EQ(std::count_if(read->events.begin(), read->events.end(), is_gap), 1);
  const auto gap = std::find_if(read->events.begin(), read->events.end(), is_gap);
  EXPECT_EQ(gap->count, writer->lost());
  EXPECT_EQ(gap->end_ns, last_end);
}

TEST(FileLimits, AGapThatDoesNotGetIntoTheFileAnyMoreIsInTheLastOne) {
  const streams::scratch file("late");
  file_settings settings;
  settings.bytes_max = 5000;
  settings.chunk_bytes = 1 << 20;
  auto writer = everyday_writer(file.path(), settings);
  streams::everyday stream(0, 11);
  auto unknown = stream.next();
  unknown.name = 99;
  writer->add(unknown);
  for (int n = 0; n < 1000; ++n) writer->add(stream.next());
  ASSERT_TRUE(writer->close());
  EXPECT_EQ(writer->lost(), 1001U);
  const auto read = read_file(file.path());
  ASSERT_TRUE(read);
  ASSERT_EQ(read->events.size(), 1U);
  EXPECT_EQ(read->events[0].count, 1001U);
}

TEST(FileLimits, ADiskThatIsFullIsReportedAndWhatWasWrittenBeforeIsRead) {
  if (!std::filesystem::exists("/dev/full")) GTEST_SKIP() << "no /dev/full here";
  const auto refused = file_writer::create("/dev/full");
  ASSERT_FALSE(refused);
  EXPECT_THAT(refused.error().message, HasSubstr("No space left"));
}

TEST(FileLimits, NoMoreEventsAreReadThanAsked) {
  const streams::scratch file("events");
  auto writer = everyday_writer(file.path());
  streams::everyday stream(0, 11);
  for (int n = 0; n < 1000; ++n) writer->add(stream.next());
  ASSERT_TRUE(writer->close());
  read_limits limits;
  limits.events_max = 1000;
  auto read = read_file(file.path(), limits);
  ASSERT_TRUE(read);
  EXPECT_TRUE(read->remarks.empty());
  limits.events_max = 100;
  read = read_file(file.path(), limits);
  ASSERT_TRUE(read);
  EXPECT_EQ(read->events.size(), 100U);
  EXPECT_THAT(read->remarks, Contains(HasSubstr("only the first 100 events")));
  limits = {};
  limits.file_bytes_max = 2000;
  read = read_file(file.path(), limits);
  ASSERT_TRUE(read);
  EXPECT_THAT(read->remarks, Contains(HasSubstr("only the first 2000 bytes")));
}

// A few kilobytes that unpack to hundreds of megabytes of events.
TEST(FileLimits, WhatIsMadeToFillTheMemoryIsCutOff) {
  dictionary known;
  known.processes.emplace_back();
  chunk_encoder encoder(known);
  event e;
  e.id = {0, 1};
  while (encoder.size() < (std::size_t{8} << 20U)) encoder.event(e);
  const std::vector<std::uint8_t> records(encoder.bytes().begin(), encoder.bytes().end());
  const auto bomb = streams::file_of(std::vector<std::vector<std::uint8_t>>(20, records));
  ASSERT_LT(bomb.size(), 1'000'000U);
  read_limits limits;
  limits.memory_bytes_max = std::uint64_t{64} << 20U;
  const auto begin = std::chrono::steady_clock::now();
  const auto read = read_bytes(bomb, limits);
  ASSERT_TRUE(read);
  EXPECT_LE(read->events.size() * sizeof(event), limits.memory_bytes_max);
  EXPECT_THAT(read->remarks, Contains(HasSubstr("that is the limit")));
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(10));
}

// A few kilobytes that tell one of a thousand facts a million times: each time costs one look, not one at all of them.
TEST(FileLimits, WhatIsToldAgainAndAgainIsReadSoonAndTheLastTimeCounts) {
  constexpr int facts = 1000;
  constexpr std::size_t chunks = 12;
  dictionary known;
  known.processes.emplace_back();
  chunk_encoder encoder(known);
  encoder.process(0);
  const std::string alike(200, 'x');
  const auto tell = [&](int which, std::string value) {
    encoder.fact(0, {alike + std::to_string(facts + which), std::move(value)});
  };
  for (int i = 0; i < facts; ++i) tell(i, "first");
  while (encoder.size() < format::chunk_raw_max - 1000) tell(facts - 1, "again");
  tell(facts - 1, "last");
  tell(facts, "one too many");
  const std::vector<std::uint8_t> records(encoder.bytes().begin(), encoder.bytes().end());
  const auto file = streams::file_of(std::vector<std::vector<std::uint8_t>>(chunks, records));
  const auto begin = std::chrono::steady_clock::now();
  const auto read = read_bytes(file);
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(10));
  ASSERT_TRUE(read);
  EXPECT_EQ(read->processes.front().facts.size(), static_cast<std::size_t>(facts));
  EXPECT_EQ(read->fact(0, alike + std::to_string(facts)), "first");
  EXPECT_EQ(read->fact(0, alike + std::to_string(2 * facts - 1)), "last");
  EXPECT_EQ(read->fact(0, alike + std::to_string(2 * facts)), "");
}

TEST(FileLimits, RecordsThatNobodyKnowsCountAgainstTheMemory) {
  constexpr std::size_t count = 100'000;
  std::vector<std::uint8_t> records;
  for (std::size_t i = 0; i < count; ++i) records.insert(records.end(), {1, 200}); // of a kind to come
  read_limits limits;
  limits.memory_bytes_max = count;
  const auto read = read_bytes(streams::file_of({records}), limits);
  ASSERT_TRUE(read);
  EXPECT_THAT(read->remarks, Contains(HasSubstr("that is the limit")));
  EXPECT_THAT(read->remarks, Contains(HasSubstr(" records are of kinds that a newer godwit wrote")));
  EXPECT_FALSE(std::ranges::any_of(
      read->remarks, [](const auto& remark) { return remark.starts_with(std::to_string(count) + " records"); }));
  limits.memory_bytes_max = 100 * count;
  const auto all = read_bytes(streams::file_of({records}), limits);
  ASSERT_TRUE(all);
  EXPECT_THAT(all->remarks, Contains(HasSubstr(std::to_string(count) + " records are of kinds")));
}

// Headers that fit, one after the other, each of a chunk up to the end of the file.
TEST(FileLimits, AFileOfNothingButHeadersIsGivenUpSoon) {
  std::vector<std::uint8_t> bytes;
  const auto file_header = format::encode_file_header();
  bytes.assign(file_header.begin(), file_header.end());
  for (int i = 0; i < 40'000; ++i) {
    format::chunk_header header;
    header.codec = format::chunk_codec::zstd;
    header.stored = static_cast<std::uint32_t>((40'000 - i - 1) * static_cast<int>(format::chunk_header_bytes));
    header.raw = static_cast<std::uint32_t>(format::chunk_raw_max);
    const auto image = format::encode(header);
    bytes.insert(bytes.end(), image.begin(), image.end());
  }
  const auto begin = std::chrono::steady_clock::now();
  const auto read = read_bytes(std::as_bytes(std::span(bytes)));
  ASSERT_TRUE(read);
  EXPECT_TRUE(read->events.empty());
  EXPECT_LE(read->remarks.size(), 40U);
  EXPECT_THAT(read->remarks, Contains(HasSubstr("too much is damaged")));
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(10));
}

} // namespace
} // namespace godwit::runtime::trace
