#include "main/trace_dumper.hpp"

#include "main/parts.hpp"
#include "main/trace_settings.hpp"
#include "main/tracing.hpp"

#include <godwit/protocols/ensure.hpp>
#include <godwit/runtime/actor.hpp>
#include <godwit/runtime/log/string_backend.hpp>
#include <godwit/runtime/trace/file.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <future>
#include <memory>
#include <random>
#include <string>
#include <thread>

#include <sys/resource.h>
#include <unistd.h>

namespace godwit::main {

namespace trace = runtime::trace;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

namespace {

class TraceDumper : public ::testing::Test {
protected:
  void SetUp() override {
    folder = std::filesystem::path(::testing::TempDir()) / ("godwit_dumper_" + std::to_string(::getpid()));
    std::filesystem::remove_all(folder);
  }
  void TearDown() override { std::filesystem::remove_all(folder); }
  void make(std::uint32_t files_max = 8) {
    recorder = std::make_shared<trace::recorder>(trace::process{});
    dumper =
        std::make_unique<trace_dumper>(recorder, dump_settings{folder.string(), files_max}, runtime::log::logger{});
  }
  actors::dumped_file dump(std::int64_t last_ns = 0) {
    std::promise<actors::dumped_file> answer;
    dumper->dump(actors::dump_order(last_ns), [&](actors::dumped_file file) { answer.set_value(std::move(file)); });
    return answer.get_future().get();
  }
  actors::dump_part part(std::uint64_t number, std::uint64_t offset) {
    std::promise<actors::dump_part> answer;
    dumper->read(actors::dump_part_query(0, number, offset),
                 [&](actors::dump_part piece) { answer.set_value(std::move(piece)); });
    return answer.get_future().get();
  }
  [[nodiscard]] std::vector<std::string> files() const {
    std::vector<std::string> out;
    for (const auto& entry : std::filesystem::directory_iterator(folder)) out.push_back(entry.path().filename());
    std::sort(out.begin(), out.end());
    return out;
  }

  std::filesystem::path folder;
  std::shared_ptr<trace::recorder> recorder;
  std::unique_ptr<trace_dumper> dumper;
};

struct poke {
  poke() noexcept {}
  auto fields() { return std::tie(); }
};
struct careless_interface : runtime::interface<void(poke)> {};
/// Breaks an invariant when it is poked.
class careless final : public runtime::actor<careless_interface> {
public:
  using actor::actor;
  [[nodiscard]] std::string_view name() const noexcept override { return "careless"; }
  [[nodiscard]] runtime::behavior_of<careless_interface> make_behavior() override {
    return {[](poke&) { protocols::ensure(false, "this holds"); }};
  }
};

} // namespace

TEST(DumpPart, IsKeptInRecordingsWithoutTheRecordingThatItBrings) {
  actors::dump_part part;
  part.bytes = std::string(200'000, 'x');
  runtime::wire_writer out;
  trace::recorded_form<actors::dump_part>::write(out, part);
  EXPECT_LT(out.bytes.size(), 64U);
  runtime::wire_reader in(out.bytes, {});
  EXPECT_EQ(trace::recorded_form<actors::dump_part>::read(in).bytes, "");
}

TEST_F(TraceDumper, ADumpIsARecordingOfWhatWasKept) {
  make();
  recorder->note("here", {{"a", "b"}});
  const auto file = dump();
  EXPECT_EQ(file.error, "");
  EXPECT_EQ(file.events, 1U);
  const auto read = trace::read_file(file.path);
  ASSERT_TRUE(read);
  ASSERT_EQ(read->events.size(), 1U);
  EXPECT_EQ(read->name_of(read->events[0]), "here");
  EXPECT_EQ(read->fact(0, "dumped"), "order");
  EXPECT_EQ(std::filesystem::file_size(file.path), file.bytes);
  EXPECT_EQ(std::filesystem::status(file.path).permissions(),
            std::filesystem::perms::owner_read | std::filesystem::perms::owner_write)
      << "it may hold prompts";
}

TEST_F(TraceDumper, AFullFileIsAWarningAndWhatItLacksIsLost) {
  std::filesystem::create_directories(folder);
  serve_settings settings;
  settings.trace.file = (folder / "all.gwt").string();
  settings.trace.file_bytes_max = 20'000;
  settings.trace.dump_dir = folder.string();
  const auto lines = std::make_shared<runtime::log::string_backend>();
  tracing records(settings, {"serve", "head", ""},
                  runtime::log::logger(lines, runtime::log::level_filter(runtime::log::level::warning)));
  ASSERT_FALSE(records.begin());
  std::mt19937_64 random(1);
  for (int i = 0; i < 1000; ++i) {
    std::string text;
    while (text.size() < 2000) text += std::to_string(random());
    records.recorder()->note("much", {{"text", std::move(text)}});
  }
  const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(30);
  while (lines->text().empty() && std::chrono::steady_clock::now() < until)
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  EXPECT_THAT(lines->text(), HasSubstr("all.gwt ends here"));
  EXPECT_THAT(lines->text(), HasSubstr("trace.file_bytes_max; only the flight recorder goes on"));
  while (records.control()->set({}).lost == 0 && std::chrono::steady_clock::now() < until)
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  const auto lost = records.control()->set({}).lost;
  EXPECT_GT(lost, 0U);
  EXPECT_LE(lost, 1000U);
  records.settle();
  EXPECT_EQ(records.end()->error, "");
}

TEST_F(TraceDumper, ItsFilesCanBeFetchedInPartsAndNothingElseCan) {
  make();
  recorder->note("here", {});
  const auto file = dump();
  std::string bytes;
  for (;;) {
    const auto piece = part(file.number, bytes.size());
    ASSERT_EQ(piece.error, "");
    if (piece.bytes.empty()) break;
    bytes += piece.bytes;
  }
  EXPECT_EQ(bytes.size(), file.bytes);
  EXPECT_TRUE(trace::read_bytes(std::as_bytes(std::span(bytes))));
  EXPECT_THAT(part(file.number + 1, 0).error, HasSubstr("no such dump"));
  std::filesystem::remove(file.path);
  EXPECT_THAT(part(file.number, 0).error, HasSubstr("No such file"));
}

TEST_F(TraceDumper, TheOldestDumpsAreRemovedAndNothingElseIs) {
  make(2);
  std::filesystem::create_directories(folder);
  for (const char* name : {"godwit-dump-20200101T000000.000Z-1-1-order.gwt", "mine.gwt", "godwit-dump-notes.txt"})
    std::ofstream(folder / name) << "x";
  const auto age = [](const std::filesystem::path& file) {
    std::filesystem::last_write_time(file, std::filesystem::file_time_type::clock::now() - std::chrono::hours(1));
  };
  age(folder / "godwit-dump-20200101T000000.000Z-1-1-order.gwt");
  const auto first = dump();
  age(first.path);
  const auto second = dump();
  const auto third = dump();
  EXPECT_FALSE(std::filesystem::exists(first.path));
  EXPECT_THAT(files(),
              ElementsAre(std::filesystem::path(second.path).filename().string(),
                          std::filesystem::path(third.path).filename().string(), "godwit-dump-notes.txt", "mine.gwt"));
}

TEST_F(TraceDumper, AReasonThatComesAgainAndAgainMakesOneDump) {
  make();
  for (int i = 0; i < 50; ++i) dumper->dump_because("fault-../../etc/passwd");
  dumper->settle();
  ASSERT_EQ(files().size(), 1U);
  EXPECT_THAT(files()[0], HasSubstr("fault-------etc-passwd.gwt")) << "a name, and no path";
}

TEST_F(TraceDumper, AFolderThatCannotBeWrittenIsAnError) {
  std::filesystem::create_directories(folder);
  std::ofstream(folder / "file") << "x";
  folder /= "file"; // no folder
  make();
  EXPECT_NE(dump().error, "");
  folder = folder.parent_path();
}

// What is there of it would count as a dump, and push out good ones.
TEST_F(TraceDumper, OneThatFindsNoRoomLeavesNothing) {
  make();
  ASSERT_EQ(dump().error, "");
  const auto before = files();
  rlimit room{};
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &room), 0);
  const auto handler = std::signal(SIGXFSZ, SIG_IGN);
  rlimit none = room;
  none.rlim_cur = 16;
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &none), 0);
  const auto failed = dump();
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &room), 0);
  std::signal(SIGXFSZ, handler);
  EXPECT_NE(failed.error, "");
  EXPECT_EQ(files(), before);
}

TEST_F(TraceDumper, SwitchesWhatIsRecordedAndSaysWhatIs) {
  make();
  actors::trace_order order;
  EXPECT_EQ(dumper->set(order).level, "headers");
  order.level = "off";
  EXPECT_EQ(dumper->set(order).level, "off");
  recorder->note("unheard", {});
  order.level = "loud";
  EXPECT_THAT(dumper->set(order).error, HasSubstr("no level is called 'loud'"));
  EXPECT_EQ(recorder->level(), trace::level::off);
  order.level = "content";
  order.replaces = true;
  order.types = {"token_updates"};
  order.sample = 0.5;
  EXPECT_EQ(dumper->set(order).level, "content, of type=token_updates sample=0.5");
  EXPECT_EQ(dumper->set({}).level, "content, of type=token_updates sample=0.5")
      << "what holds is told to who only asks";
  order.sample = 2;
  EXPECT_NE(dumper->set(order).error, "");
  const auto all = recorder->snapshot();
  ASSERT_EQ(all.events.size(), 2U) << "the switches themselves are on record";
  EXPECT_THAT(all.events[0].attributes, ElementsAre(trace::attribute("level", "off")));
  const trace::attribute keeps("keeps", "type=token_updates sample=0.5");
  EXPECT_THAT(all.events[1].attributes, ElementsAre(trace::attribute("level", "content"), keeps));
}

TEST_F(TraceDumper, OnlyWhatIsNotTheDefaultIsNamedInTheFacts) {
  serve_settings settings;
  EXPECT_TRUE(changed_settings(settings).empty());
  settings.instances.count = 3;
  settings.trace.level = trace::level::content;
  EXPECT_THAT(changed_settings(settings), ElementsAre(std::pair<std::string, std::string>("instances.count", "3"),
                                                      std::pair<std::string, std::string>("trace.level", "content")));
  const auto facts = facts_of({"serve", "here", ""}, settings);
  EXPECT_THAT(facts, ::testing::Contains(trace::attribute("setting:instances.count", "3")));
  EXPECT_THAT(facts, ::testing::Contains(trace::attribute("model", "default")));
}

TEST_F(TraceDumper, AnInvariantThatFailsMakesADump) {
  serve_settings settings;
  settings.trace.dump_dir = folder.string();
  tracing records(settings, {"serve", "here", ""}, {});
  {
    runtime::actor_system system(make_system_settings(settings, false, nullptr, {}, &records));
    system.tell(system.spawn<careless>(), poke{});
    for (int i = 0; i < 500 && !std::filesystem::exists(folder); ++i) // 5 s
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    records.settle();
  }
  ASSERT_EQ(files().size(), 1U);
  EXPECT_THAT(files()[0], HasSubstr("-fault-careless.gwt"));
  const auto read = trace::read_file((folder / files()[0]).string());
  ASSERT_TRUE(read);
  EXPECT_EQ(read->fact(0, "command"), "serve");
  EXPECT_TRUE(std::ranges::any_of(read->events, [&](const auto& e) { return read->name_of(e).ends_with("poke"); }))
      << "the message that did it";
}

TEST_F(TraceDumper, WithoutFlightRecorderAndFileThereIsNoRecorder) {
  serve_settings settings;
  settings.trace.flight = false;
  tracing off(settings, {"serve", "here", ""}, {});
  EXPECT_EQ(off.recorder(), nullptr);
  EXPECT_EQ(off.control(), nullptr);
  EXPECT_EQ(off.begin(), std::nullopt);
  EXPECT_EQ(off.end(), std::nullopt);
}

} // namespace godwit::main
