#include "runtime/trace/streams.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>

namespace godwit::runtime::trace {
namespace {

process some_process(std::uint64_t key, std::int64_t offset) {
  process p;
  p.key = key;
  p.name = "node " + std::to_string(key);
  p.started_unix_ns = 1'700'000'000'000'000'000 + static_cast<std::int64_t>(key);
  p.offset_ns = offset;
  p.facts = {{"version", "1"}, {"command", "godwit serve --number " + std::to_string(key)}};
  return p;
}

void sort_as_read(std::vector<event>& events, const recording& in) {
  std::stable_sort(events.begin(), events.end(),
                   [&](const auto& a, const auto& b) { return std::pair(in.at(a), a.id) < std::pair(in.at(b), b.id); });
}

class FileOfAnything : public ::testing::TestWithParam<std::uint64_t> {};

TEST_P(FileOfAnything, IsReadAsItWasWritten) {
  streams::anything draw(GetParam(), 4, 30);
  const streams::scratch file("any");
  file_settings settings;
  settings.chunk_bytes = std::size_t{1024} << draw.below(6);
  settings.compression = static_cast<int>(draw.below(4));
  auto writer = file_writer::create(file.path(), settings);
  ASSERT_TRUE(writer) << writer.error().message;

  recording written;
  for (std::uint64_t i = 0; i < 4; ++i) {
    written.processes.push_back(some_process(1000 + i, static_cast<std::int64_t>(draw.below(1000)) - 500));
    EXPECT_EQ((*writer)->add_process(written.processes.back()), i);
  }
  written.names.emplace_back();
  for (std::uint32_t i = 1; i < 30; ++i) {
    written.names.push_back("name " + draw.text(40) + std::to_string(i));
    EXPECT_EQ((*writer)->name(written.names.back()), i);
    EXPECT_EQ((*writer)->name(written.names.back()), i) << "the same text has the same number";
  }
  EXPECT_EQ((*writer)->name(""), 0U);
  (*writer)->name_actor({2, 77}, "llumlet 77");
  for (int i = 0; i < 1500; ++i) {
    written.events.push_back(draw.next());
    (*writer)->add(written.events.back());
    if (draw.below(200) == 0) {
      ASSERT_TRUE((*writer)->flush());
    }
  }
  EXPECT_EQ((*writer)->events(), written.events.size());
  EXPECT_EQ((*writer)->lost(), 0U);
  ASSERT_TRUE((*writer)->close());
  EXPECT_EQ((*writer)->bytes(), std::filesystem::file_size(file.path()));

  const auto read = read_file(file.path());
  ASSERT_TRUE(read) << read.error().message;
  EXPECT_EQ(read->remarks, std::vector<std::string>{});
  EXPECT_EQ(read->processes, written.processes);
  EXPECT_EQ(read->actors.at({2, 77}), "llumlet 77");
  sort_as_read(written.events, written);
  ASSERT_EQ(read->events.size(), written.events.size());
  for (std::size_t i = 0; i < written.events.size(); ++i) {
    auto expected = written.events[i];
    const auto& got = read->events[i];
    ASSERT_EQ(read->names[got.name], written.names[expected.name]) << i;
    expected.name = got.name; // numbers of names are the recording's own
    ASSERT_EQ(got, expected) << i;
    if (expected.kind == event_kind::spawned && expected.receiver && expected.name != 0) {
      ASSERT_TRUE(read->actors.contains(expected.receiver));
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Seeds, FileOfAnything, ::testing::Range<std::uint64_t>(0, 25));

TEST(FileWriter, KnowsAProcessByItsKeyAndTakesWhatIsSaidLater) {
  const streams::scratch file("process");
  auto writer = file_writer::create(file.path());
  ASSERT_TRUE(writer);
  process peer;
  peer.key = 42;
  EXPECT_EQ((*writer)->add_process(some_process(1, 0)), 0U);
  EXPECT_EQ((*writer)->add_process(peer), 1U);
  event e;
  e.id = {1, 5};
  (*writer)->add(e);
  EXPECT_EQ((*writer)->add_process(some_process(42, 7)), 1U);
  ASSERT_TRUE((*writer)->close());
  const auto read = read_file(file.path());
  ASSERT_TRUE(read);
  ASSERT_EQ(read->processes.size(), 2U);
  EXPECT_EQ(read->processes[1], some_process(42, 7));
}

// Who starts a server twice must not lose what the first one records; and nobody else may read it.
TEST(FileWriter, LeavesAFileAloneThatAnotherOneWritesTo) {
  const streams::scratch file("twice");
  std::ofstream(file.path()) << "something older, which others may read";
  auto first = file_writer::create(file.path());
  ASSERT_TRUE(first);
  EXPECT_EQ(std::filesystem::status(file.path()).permissions(),
            std::filesystem::perms::owner_read | std::filesystem::perms::owner_write);
  (*first)->add_process(some_process(1, 0));
  ASSERT_TRUE((*first)->flush());
  const auto second = file_writer::create(file.path());
  ASSERT_FALSE(second);
  EXPECT_NE(second.error().message.find("another process is recording"), std::string::npos) << second.error().message;
  ASSERT_TRUE((*first)->close());
  const auto read = read_file(file.path());
  ASSERT_TRUE(read);
  EXPECT_EQ(read->processes.size(), 1U);
}

TEST(FileWriter, TellsOfProcessesAndFactsEvenWithoutEvents) {
  const streams::scratch file("quiet");
  {
    auto writer = file_writer::create(file.path());
    ASSERT_TRUE(writer);
    (*writer)->add_process(some_process(9, 0));
  } // the destructor closes
  const auto read = read_file(file.path());
  ASSERT_TRUE(read);
  ASSERT_EQ(read->processes.size(), 1U);
  EXPECT_EQ(read->fact(0, "version"), "1");
  EXPECT_TRUE(read->remarks.empty());
}

TEST(FileWriter, SaysWhyItCannotWrite) {
  const auto nowhere = file_writer::create("/nonexistent/directory/file.gwt");
  ASSERT_FALSE(nowhere);
  EXPECT_NE(nowhere.error().message.find("No such file"), std::string::npos) << nowhere.error().message;
}

TEST(FileWriter, KeepsRecordingsForTheirOwner) {
  const streams::scratch file("mode");
  ASSERT_TRUE(file_writer::create(file.path()));
  EXPECT_EQ(std::filesystem::status(file.path()).permissions(),
            std::filesystem::perms::owner_read | std::filesystem::perms::owner_write);
}

TEST(FileWriter, LeavesOutContentThatIsTooLargeAndSaysSo) {
  const streams::scratch file("large");
  auto writer = file_writer::create(file.path());
  ASSERT_TRUE(writer);
  (*writer)->add_process(some_process(1, 0));
  event large;
  large.id = {0, 1};
  large.content.assign(std::size_t{17} << 20U, 'x');
  (*writer)->add(large);
  large.id = {0, 2};
  large.content.resize(std::size_t{15} << 20U);
  (*writer)->add(large);
  ASSERT_TRUE((*writer)->close());
  const auto read = read_file(file.path());
  ASSERT_TRUE(read);
  ASSERT_EQ(read->events.size(), 2U);
  EXPECT_TRUE(read->events[0].content.empty());
  EXPECT_NE(read->events[0].text.find("left out"), std::string::npos);
  EXPECT_EQ(read->events[1].content, large.content);
}

TEST(FileWriter, CountsEventsThatNameWhatItDoesNotKnowAsAGap) {
  const streams::scratch file("unknown");
  auto writer = file_writer::create(file.path());
  ASSERT_TRUE(writer);
  (*writer)->add_process(some_process(1, 0));
  event good;
  good.id = {0, 1};
  good.begin_ns = good.queued_ns = good.end_ns = 100;
  (*writer)->add(good);
  auto bad = good;
  bad.id.process = 3;
  (*writer)->add(bad);
  bad = good;
  bad.name = 17;
  (*writer)->add(bad);
  bad = good;
  bad.receiver = {9, 9};
  (*writer)->add(bad);
  bad = good;
  bad.end_ns = std::int64_t{1} << 61U;
  (*writer)->add(bad);
  EXPECT_EQ((*writer)->lost(), 4U);
  ASSERT_TRUE((*writer)->close());
  const auto read = read_file(file.path());
  ASSERT_TRUE(read);
  ASSERT_EQ(read->events.size(), 2U);
  const auto gap =
      std::find_if(read->events.begin(), read->events.end(), [](const auto& e) { return e.kind == event_kind::gap; });
  ASSERT_NE(gap, read->events.end());
  EXPECT_EQ(gap->count, 4U);
  EXPECT_EQ(gap->begin_ns, 100);
}

TEST(WriteFile, KeepsAWholeRecording) {
  streams::anything draw(3, 3, 12);
  recording whole;
  for (std::uint64_t i = 0; i < 3; ++i) whole.processes.push_back(some_process(10 + i, static_cast<std::int64_t>(i)));
  whole.names.emplace_back();
  for (int i = 1; i < 12; ++i) whole.names.push_back("n" + std::to_string(i));
  for (int i = 0; i < 200; ++i) whole.events.push_back(draw.next());
  sort_as_read(whole.events, whole);
  whole.actors[{1, 5}] = "somebody";
  const streams::scratch file("whole");
  ASSERT_TRUE(write_file(file.path(), whole));
  auto read = read_file(file.path());
  ASSERT_TRUE(read);
  EXPECT_EQ(read->processes, whole.processes);
  EXPECT_EQ(read->actors.at({1, 5}), "somebody");
  ASSERT_EQ(read->events.size(), whole.events.size());
  for (std::size_t i = 0; i < whole.events.size(); ++i) {
    EXPECT_EQ(read->names[read->events[i].name], whole.names[whole.events[i].name]);
    read->events[i].name = whole.events[i].name;
    EXPECT_EQ(read->events[i], whole.events[i]);
  }
}

} // namespace
} // namespace godwit::runtime::trace
