#include <godwit/runtime/log/file_backend.hpp>
#include <godwit/runtime/log/logger.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <filesystem>
#include <fstream>
#include <future>
#include <sstream>
#include <thread>
#include <vector>

#include <csignal>
#include <fcntl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

namespace godwit::runtime::log {
namespace {

using ::testing::HasSubstr;

class FileBackend : public ::testing::Test {
protected:
  FileBackend() {
    auto name = (std::filesystem::temp_directory_path() / "godwit-log-XXXXXX").string();
    folder_ = ::mkdtemp(name.data());
  }
  ~FileBackend() override { std::filesystem::remove_all(folder_); }
  static std::string read(const std::filesystem::path& path) {
    auto in = std::ifstream(path);
    auto text = std::ostringstream();
    text << in.rdbuf();
    return text.str();
  }
  std::filesystem::path folder_;
};

TEST_F(FileBackend, LinesOfManyThreadsArriveWholeAfterAFlush) {
  auto settings = file_settings();
  settings.file = folder_ / "log";
  settings.queue_lines_max = 10000;
  auto opened = open_file(settings);
  ASSERT_TRUE(opened);
  const auto& to = *opened;
  const auto log = logger(to, level_filter(level::info)).component("test");
  auto threads = std::vector<std::thread>();
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&log, t] {
      for (int i = 0; i < 500; ++i) log.info("thread {} line {}", t, i);
    });
  for (auto& t : threads) t.join();
  log.flush();
  const auto text = read(settings.file);
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 2000);
  EXPECT_THAT(text, HasSubstr(" info test: thread 3 line 499\n"));
  EXPECT_EQ(to->dropped(), 0U);
}

TEST_F(FileBackend, ARenamedFileIsLeftWhenItIsOpenedAnew) {
  auto settings = file_settings();
  settings.file = folder_ / "log";
  const auto log = logger(open_file(settings).value(), level_filter(level::info));
  log.info("one");
  log.flush();
  std::filesystem::rename(settings.file, folder_ / "log.1");
  log.info("two");
  log.flush();
  EXPECT_EQ(log.reopen(), "");
  log.info("three");
  log.flush();
  const auto before = read(folder_ / "log.1"), after = read(settings.file);
  EXPECT_THAT(before, HasSubstr("one"));
  EXPECT_THAT(before, HasSubstr("two"));
  EXPECT_EQ(std::count(before.begin(), before.end(), '\n'), 2);
  EXPECT_THAT(after, HasSubstr("three"));
  EXPECT_EQ(std::count(after.begin(), after.end(), '\n'), 1);

  std::filesystem::remove(settings.file);
  std::filesystem::create_directory(settings.file);
  EXPECT_THAT(log.reopen(), HasSubstr("is no regular file"));
  const auto nowhere = logger(open_file({}).value(), level_filter(level::info));
  EXPECT_EQ(nowhere.reopen(), "the log goes to no file");
}

TEST_F(FileBackend, AFileThatCannotBeOpenedIsAnErrorThatNamesIt) {
  auto settings = file_settings();
  settings.file = folder_; // a folder
  const auto opened = open_file(settings);
  ASSERT_FALSE(opened);
  EXPECT_THAT(opened.error().message, HasSubstr(folder_.string()));
}

TEST_F(FileBackend, AWriterGoesOnWhenNobodyTakesItsLinesAndTheLossIsTold) {
  const auto pipe = folder_ / "pipe";
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  const auto reader = ::open(pipe.c_str(), O_RDONLY | O_NONBLOCK);
  ASSERT_GE(reader, 0);
  auto settings = file_settings();
  settings.file = pipe;
  settings.queue_lines_max = 16;
  auto to = open_file(settings).value();
  auto log = logger(to, level_filter(level::info));
  const auto line = std::string(1000, 'x');
  const auto begin = std::chrono::steady_clock::now();
  for (int i = 0; i < 2000; ++i) log.info("{}", line); // 2 MB into a pipe of 64 KiB
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(2));
  EXPECT_GT(to->dropped(), 1000U);

  auto text = std::string();
  ::fcntl(reader, F_SETFL, 0);
  auto drain = std::thread([&] {
    auto buffer = std::array<char, 65536>();
    while (true) {
      const auto n = ::read(reader, buffer.data(), buffer.size());
      if (n <= 0) break;
      text.append(buffer.data(), static_cast<std::size_t>(n));
    }
  });
  log.info("the last line");
  log = logger();
  to.reset(); // writes what is queued and closes the pipe
  drain.join();
  ::close(reader);
  EXPECT_THAT(text, HasSubstr("lines were lost"));
  EXPECT_THAT(text, HasSubstr("the last line"));
}

// A disk that is full, and is not any more.
TEST_F(FileBackend, WhereADiskWasFullLinesAreWholeAgainAndTheLostOnesAreCounted) {
  for (const auto style : {format::text, format::json}) {
    auto settings = file_settings();
    settings.file = folder_ / (style == format::json ? "json" : "text");
    settings.style = style;
    auto to = open_file(settings).value();
    auto log = logger(to, level_filter(level::info)).component("test");
    log.info("before {}", std::string(1000, '.')); // or what is said on stderr would have no room in its file, either
    log.flush();
    rlimit mine{};
    ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &mine), 0);
    auto full = mine;
    full.rlim_cur = std::filesystem::file_size(settings.file) + 10; // room for half a line
    std::signal(SIGXFSZ, SIG_IGN);
    ::testing::internal::CaptureStderr();
    ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &full), 0);
    for (int i = 0; i < 5; ++i) log.info("lost {}", i);
    log.flush();
    ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &mine), 0);
    const auto told = ::testing::internal::GetCapturedStderr();
    EXPECT_EQ(std::count(told.begin(), told.end(), '\n'), 1) << told;
    EXPECT_THAT(told, HasSubstr("lines of the log are lost until there is room for them"));
    for (int i = 0; i < 3; ++i) log.flush();
    EXPECT_EQ(to->dropped(), 5U);
    log.info("after");
    log.flush();
    std::vector<std::string> lines;
    std::istringstream text(read(settings.file));
    for (std::string line; std::getline(text, line);) lines.push_back(line);
    ASSERT_EQ(lines.size(), 4U) << read(settings.file);
    EXPECT_THAT(lines[0], HasSubstr("before"));
    EXPECT_EQ(lines[1].size(), 10U) << "what had room";
    EXPECT_THAT(lines[2], HasSubstr("5 lines were lost, since they could not be written"));
    EXPECT_THAT(lines[3], HasSubstr("after"));
  }
}

// `godwit serve 2>&1 | less`, or a log driver that hangs.
TEST_F(FileBackend, EndsInTimeThoughNobodyEverTakesItsLines) {
  ::signal(SIGPIPE, SIG_IGN); // as godwit does
  const auto pipe = folder_ / "pipe";
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  const auto reader = ::open(pipe.c_str(), O_RDONLY | O_NONBLOCK);
  ASSERT_GE(reader, 0);
  auto settings = file_settings();
  settings.file = pipe;
  settings.queue_lines_max = 1000;
  auto to = open_file(settings).value();
  {
    const auto log = logger(to, level_filter(level::info));
    for (int i = 0; i < 200; ++i) log.info("{}", std::string(1000, 'x')); // into a pipe of 64 KiB
  }
  auto ended = std::promise<void>();
  auto ending = std::thread([&] {
    to.reset();
    ended.set_value();
  });
  EXPECT_EQ(ended.get_future().wait_for(std::chrono::seconds(20)), std::future_status::ready);
  ::close(reader); // which lets the writing thread go
  ending.join();
}

} // namespace
} // namespace godwit::runtime::log
