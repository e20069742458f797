#include "runtime/trace/fuzz_reader.hpp"
#include "runtime/trace/streams.hpp"

#include "trace/chunk_encoder.hpp"
#include "trace/file_format.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <map>
#include <span>

#include <csignal>
#include <sys/wait.h>

namespace godwit::runtime::trace {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;
using bytes = std::vector<std::byte>;

/// A file in several flushes, and how many events it holds up to which byte.
struct flushed_file {
  bytes content;
  std::map<std::size_t, std::uint64_t> events; // by the file's size at the time

  explicit flushed_file(std::uint64_t seed, int flushes, int events_each) {
    const streams::scratch file("flushed");
    auto writer = file_writer::create(file.path());
    process p;
    p.key = seed + 1;
    p.name = "n";
    (*writer)->add_process(p);
    streams::anything draw(seed, 1, 2);
    (*writer)->name("message");
    for (int i = 0; i < flushes; ++i) {
      for (int k = 0; k < events_each; ++k) (*writer)->add(draw.next());
      EXPECT_TRUE((*writer)->flush());
      events[(*writer)->bytes()] = (*writer)->events();
    }
    EXPECT_TRUE((*writer)->close());
    content = streams::bytes_of(file.path());
  }
};

TEST(FileReader, ReadsWhatWasFlushedWhereverTheFileIsTorn) {
  const flushed_file whole(5, 5, 6);
  for (std::size_t size = 0; size < whole.content.size(); ++size) {
    const auto read = read_bytes(std::span(whole.content).first(size));
    ASSERT_EQ(read.has_value(), size >= format::file_header_bytes) << size;
    if (!read) continue;
    const auto after = whole.events.upper_bound(size);
    const auto expected = after == whole.events.begin() ? 0 : std::prev(after)->second;
    ASSERT_EQ(read->events.size(), expected) << size;
    ASSERT_THAT(read->remarks, Contains(HasSubstr("no end mark"))) << size;
  }
  const auto read = read_bytes(whole.content);
  ASSERT_TRUE(read);
  EXPECT_EQ(read->remarks.size(), 0U);
}

TEST(FileReader, GoesOnBehindADamagedChunkAndSaysSo) {
  const flushed_file whole(6, 4, 10);
  auto damaged = whole.content;
  const auto begin = std::next(whole.events.begin(), 1)->first; // of the third chunk
  damaged[begin + format::chunk_header_bytes + 10] ^= std::byte{0x40};
  const auto read = read_bytes(damaged);
  ASSERT_TRUE(read);
  EXPECT_EQ(read->events.size(), 30U);
  EXPECT_THAT(read->remarks, Contains(HasSubstr("damaged at byte " + std::to_string(begin))));
  EXPECT_THAT(read->remarks, Contains(HasSubstr("chunks are missing")));
  EXPECT_TRUE(read->holed);
  damaged.resize(begin + 20);
  EXPECT_FALSE(read_bytes(damaged)->holed) << "nothing follows what is missing";
  EXPECT_EQ(read->name_of(read->events.back()).empty(), read->events.back().name == 0);
}

TEST(FileReader, NoticesAChunkThatWasCutOut) {
  const flushed_file whole(7, 3, 10);
  auto cut = whole.content;
  const auto first = whole.events.begin()->first;
  const auto second = std::next(whole.events.begin())->first;
  cut.erase(cut.begin() + static_cast<std::ptrdiff_t>(first), cut.begin() + static_cast<std::ptrdiff_t>(second));
  const auto read = read_bytes(cut);
  ASSERT_TRUE(read);
  EXPECT_EQ(read->events.size(), 20U);
  EXPECT_THAT(read->remarks, Contains(HasSubstr("number 1 expected, 2 found")));
}

TEST(FileReader, RefusesWhatIsNoRecordingAndNewerVersionsWithAdvice) {
  const auto nothing = read_bytes({});
  ASSERT_FALSE(nothing);
  const bytes text(100, std::byte{'x'});
  ASSERT_FALSE(read_bytes(text));
  auto newer = flushed_file(1, 1, 1).content;
  newer[8] = std::byte{2};
  const auto refused = read_bytes(newer);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, async::error_code::unsupported);
  EXPECT_THAT(refused.error().message, HasSubstr("version 2"));
  EXPECT_THAT(refused.error().message, HasSubstr("newer"));
  newer[8] = std::byte{1};
  newer[10] = std::byte{200}; // a newer revision only adds
  EXPECT_TRUE(read_bytes(newer));
  const auto missing = read_file("/nonexistent.gwt");
  ASSERT_FALSE(missing);
  EXPECT_THAT(missing.error().message, HasSubstr("No such file"));
  EXPECT_FALSE(read_file("/")) << "a directory";
}

TEST(FileReader, DoesNotReadToTheEndWhatIsNoRecording) {
  const auto read = read_file("/dev/zero"); // there is none
  ASSERT_FALSE(read);
  EXPECT_THAT(read.error().message, HasSubstr("/dev/zero"));
}

TEST(FileReader, ReadsWhatAKilledWriterHadFlushed) {
  const streams::scratch file("killed");
  int pipe_ends[2];
  ASSERT_EQ(::pipe(pipe_ends), 0);
  const auto child = ::fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    file_settings settings;
    settings.chunk_bytes = 4096;
    auto writer = file_writer::create(file.path(), settings);
    if (!writer) ::_exit(1);
    (*writer)->add_process({});
    for (int i = 0; i < 10; ++i) (*writer)->name("n" + std::to_string(i));
    streams::everyday stream(0, 11);
    for (std::uint64_t n = 1;; ++n) {
      (*writer)->add(stream.next());
      if (n % 100 != 0) continue;
      if (!(*writer)->flush() || ::write(pipe_ends[1], &n, sizeof n) != sizeof n) ::_exit(1);
    }
  }
  std::uint64_t told = 0;
  for (int i = 0; i < 200; ++i) ASSERT_EQ(::read(pipe_ends[0], &told, sizeof told), static_cast<ssize_t>(sizeof told));
  ASSERT_EQ(::kill(child, SIGKILL), 0);
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFSIGNALED(status));
  ::close(pipe_ends[0]);
  ::close(pipe_ends[1]);
  const auto read = read_file(file.path());
  ASSERT_TRUE(read) << read.error().message;
  EXPECT_GE(read->events.size(), told);
  EXPECT_THAT(read->remarks, Contains(HasSubstr("no end mark")));
}

/// Changes a few bytes: overwrites, cuts, repeats, inserts.
template <class Byte> void mutate(std::vector<Byte>& of, streams::anything& draw) {
  for (auto n = 1 + draw.below(4); n != 0 && !of.empty(); --n) {
    const auto from = of.begin() + static_cast<std::ptrdiff_t>(draw.below(of.size()));
    const auto size = static_cast<std::ptrdiff_t>(
        std::min<std::uint64_t>(draw.below(12), static_cast<std::uint64_t>(of.end() - from)));
    switch (draw.below(5)) {
    case 0:
      *from = static_cast<Byte>(static_cast<unsigned>(*from) ^ (1U << draw.below(8)));
      break;
    case 1:
      *from = static_cast<Byte>(draw.below(3) == 0 ? 0xff : draw.below(256));
      break;
    case 2:
      of.erase(from, from + size);
      break;
    case 3: {
      const std::vector<Byte> again(from, from + size);
      of.insert(from, again.begin(), again.end());
      break;
    }
    default:
      std::fill(from, from + size, static_cast<Byte>(draw.below(2) * 0xff));
    }
  }
}

TEST(FileReader, SurvivesDamageOfAnyKind) {
  const flushed_file whole(8, 6, 12);
  streams::anything draw(11, 1, 1);
  const auto begin = std::chrono::steady_clock::now();
  std::size_t read = 0;
  for (int i = 0; i < 4000; ++i) {
    auto damaged = whole.content;
    mutate(damaged, draw);
    const auto result = streams::fuzz_reader(damaged);
    ASSERT_TRUE(result.sound) << i;
    ASSERT_LE(result.events, 2 * 72U);
    read += result.events;
  }
  EXPECT_GT(read, 4000U * 36) << "most of each file is still read";
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(60));
}

TEST(FileReader, SurvivesBytesThatMeanNothing) {
  streams::anything draw(12, 1, 1);
  for (int i = 0; i < 2000; ++i) {
    const auto noise = draw.text(2000);
    auto file = bytes{};
    const auto header = format::encode_file_header();
    const auto image = std::as_bytes(std::span(header));
    if (i % 2 == 0) file.assign(image.begin(), image.end());
    const auto more = std::as_bytes(std::span(noise));
    file.insert(file.end(), more.begin(), more.end());
    const auto result = streams::fuzz_reader(file);
    ASSERT_TRUE(result.sound);
    ASSERT_EQ(result.events, 0U);
  }
}

std::vector<std::uint8_t> some_records(std::uint64_t seed, int events) {
  dictionary known;
  for (std::uint64_t i = 1; i <= 3; ++i) {
    known.processes.emplace_back();
    known.processes.back().key = i;
  }
  known.names = {"", "one", "two"};
  chunk_encoder encoder(known);
  streams::anything draw(seed, 3, 3);
  encoder.fact(1, {"fact", "value"});
  encoder.actor_name({2, 5}, "actor");
  for (int i = 0; i < events; ++i) encoder.event(draw.next());
  const auto records = encoder.bytes();
  return {records.begin(), records.end()};
}

// A checksum is easily made to fit: what somebody wrote on purpose gets as far as the records.
TEST(FileReader, SurvivesRecordsMadeToHarmIt) {
  streams::anything draw(13, 1, 1);
  const auto begin = std::chrono::steady_clock::now();
  std::size_t read = 0;
  for (std::uint64_t i = 0; i < 6000; ++i) {
    auto first = some_records(i % 50, 12);
    auto second = some_records(i % 50 + 1, 12);
    mutate(first, draw);
    const auto result = streams::fuzz_reader(streams::file_of({first, second}));
    ASSERT_TRUE(result.read);
    ASSERT_TRUE(result.sound) << i;
    read += result.events;
  }
  EXPECT_GT(read, 6000U * 12) << "the second chunk is read whatever the first one says";
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(60));
}

TEST(FileReader, SurvivesRecordsOfNoise) {
  streams::anything draw(14, 1, 1);
  for (int i = 0; i < 2000; ++i) {
    const auto noise = draw.text(600);
    ASSERT_TRUE(streams::fuzz_reader(streams::file_of({{noise.begin(), noise.end()}})).sound);
  }
}

TEST(FileReader, SkipsKindsOfRecordsAndFieldsThatItDoesNotKnow) {
  dictionary known;
  known.processes.emplace_back();
  chunk_encoder encoder(known);
  event e;
  e.id = {0, 1};
  encoder.event(e);
  auto records = std::vector<std::uint8_t>(encoder.bytes().begin(), encoder.bytes().end());
  const auto last = records.size();
  e.id = {0, 2};
  encoder.event(e);
  records.assign(encoder.bytes().begin(), encoder.bytes().end());
  // the second event: one flag and one field more
  auto event_record = std::vector<std::uint8_t>(records.begin() + static_cast<std::ptrdiff_t>(last), records.end());
  ASSERT_LT(event_record[2], 0x80);
  event_record[2] |= 0x80;
  event_record.insert(event_record.begin() + 3, {0x80, 0x80, 0x01}); // a bit beyond those that are known
  event_record.push_back(99);
  event_record[0] = static_cast<std::uint8_t>(event_record.size() - 1);
  records.resize(last);
  records.insert(records.end(), event_record.begin(), event_record.end());
  records.insert(records.end(), {3, 15, 1, 2}); // a definition of a kind to come
  records.insert(records.end(), {2, 200, 1});   // an event of a kind to come
  const auto read = read_bytes(streams::file_of({records}));
  ASSERT_TRUE(read);
  ASSERT_EQ(read->events.size(), 2U);
  EXPECT_EQ(read->events[1].id.number, 2U);
  EXPECT_THAT(read->remarks, Contains(HasSubstr("2 records are of kinds that a newer godwit wrote")));
}

} // namespace
} // namespace godwit::runtime::trace
