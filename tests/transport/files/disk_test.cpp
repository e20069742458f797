#include <godwit/transport/files/disk.hpp>

#include <gtest/gtest.h>

#include <fcntl.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <filesystem>
#include <future>
#include <memory>
#include <string>
#include <system_error>
#include <vector>

namespace godwit::transport::testing {
namespace {

namespace fs = std::filesystem;

/// Aligned memory of one slot.
class piece {
public:
  explicit piece(std::size_t bytes)
      : bytes_(bytes), memory_(static_cast<std::byte*>(std::aligned_alloc(
                                   disk::alignment, (bytes / disk::alignment + 1) * disk::alignment)),
                               &std::free) {}
  piece& fill(int value) {
    for (std::size_t i = 0; i < bytes_; ++i) memory_.get()[i] = static_cast<std::byte>(value + i * 7 + i / 251);
    return *this;
  }
  [[nodiscard]] std::byte* data() const { return memory_.get(); }
  [[nodiscard]] std::shared_ptr<void> keep() const { return memory_; }
  friend bool operator==(const piece& a, const piece& b) {
    return a.bytes_ == b.bytes_ && std::equal(a.data(), a.data() + a.bytes_, b.data());
  }

private:
  std::size_t bytes_;
  std::shared_ptr<std::byte> memory_;
};

class FilesDisk : public ::testing::TestWithParam<std::size_t> {
protected:
  FilesDisk() : directory_(fs::temp_directory_path() / ("godwit-disk-" + std::to_string(::getpid()))) {
    fs::create_directory(directory_);
  }
  ~FilesDisk() override {
    std::error_code ignored;
    fs::remove_all(directory_, ignored);
  }
  [[nodiscard]] std::shared_ptr<disk> make(std::uint32_t slots) const {
    disk_settings_.directory = directory_.string();
    disk_settings_.slots = slots;
    disk_settings_.slot_bytes = GetParam();
    return files::make_disk(disk_settings_);
  }
  static std::string write(disk& to, std::uint32_t slot, const piece& what, std::uint64_t tag = 7) {
    std::promise<std::string> ended;
    to.write(slot, tag, what.data(), what.keep(), [&](std::string error) { ended.set_value(std::move(error)); });
    return ended.get_future().get();
  }
  static std::string read(disk& from, std::uint32_t slot, const piece& into, std::uint64_t tag = 7) {
    std::promise<std::string> ended;
    from.read(slot, tag, into.data(), into.keep(), [&](std::string error) { ended.set_value(std::move(error)); });
    return ended.get_future().get();
  }
  /// Of the file that this process has open in the directory, and which has no name.
  [[nodiscard]] std::string path_of_file() const {
    for (const auto& entry : fs::directory_iterator("/proc/self/fd")) {
      std::error_code gone;
      if (fs::read_symlink(entry.path(), gone).string().starts_with(directory_.string())) return entry.path().string();
    }
    return {};
  }

  fs::path directory_;
  mutable files::disk_settings disk_settings_;
};

TEST_P(FilesDisk, GivesBackWhatItGot) {
  const auto made = make(5);
  EXPECT_EQ(made->slots(), 5U);
  EXPECT_EQ(made->slot_bytes(), GetParam());
  piece out(GetParam()), in(GetParam());
  for (std::uint32_t slot = 0; slot < 5; ++slot)
    ASSERT_EQ(write(*made, slot, out.fill(static_cast<int>(slot) + 1)), "") << slot;
  for (const std::uint32_t slot : {4U, 0U, 2U}) {
    ASSERT_EQ(read(*made, slot, in), "") << slot;
    EXPECT_TRUE(in == out.fill(static_cast<int>(slot) + 1)) << slot;
  }
}

TEST_P(FilesDisk, CallsForASlotTakeEffectInTheirOrder) {
  const auto made = make(3);
  constexpr int rounds = 50;
  std::vector<piece> written, read_again;
  std::vector<std::string> errors(rounds, "not called");
  for (int i = 0; i < rounds; ++i) {
    written.emplace_back(GetParam()).fill(i);
    read_again.emplace_back(GetParam());
  }
  std::promise<void> ended;
  for (int i = 0; i < rounds; ++i) {
    const auto at = static_cast<std::size_t>(i);
    made->write(1, 7, written[at].data(), written[at].keep(), [](const std::string&) {});
    made->read(1, 7, read_again[at].data(), read_again[at].keep(), [&errors, &ended, at](std::string error) {
      errors[at] = std::move(error);
      if (at + 1 == rounds) ended.set_value();
    });
  }
  ended.get_future().get();
  for (std::size_t i = 0; i < rounds; ++i) {
    EXPECT_EQ(errors[i], "") << i;
    EXPECT_TRUE(read_again[i] == written[i]) << i;
  }
}

TEST_P(FilesDisk, WhatWasNeverWrittenOrIsDamagedIsAnError) {
  const auto made = make(3);
  piece out(GetParam()), in(GetParam());
  EXPECT_NE(read(*made, 0, in), "");
  ASSERT_EQ(write(*made, 1, out.fill(3)), "");
  ASSERT_EQ(write(*made, 2, out), "");
  const auto path = path_of_file();
  ASSERT_FALSE(path.empty());
  const auto file = ::open(path.c_str(), O_WRONLY | O_CLOEXEC);
  ASSERT_GE(file, 0);
  const char wrong = 'x';
  ASSERT_EQ(::pwrite(file, &wrong, 1, static_cast<off_t>(GetParam() + GetParam() / 2)), 1);
  ASSERT_EQ(::fsync(file), 0);
  ::close(file);
  EXPECT_EQ(read(*made, 1, in), "what was read is not what was written");
  EXPECT_EQ(read(*made, 2, in), "");
  ASSERT_EQ(write(*made, 1, out), "");
  EXPECT_EQ(read(*made, 1, in), "");
}

TEST_P(FilesDisk, WhatWasWrittenAsSomethingElseIsAnError) {
  const auto made = make(1);
  piece out(GetParam()), in(GetParam());
  ASSERT_EQ(write(*made, 0, out.fill(3), 1), "");
  EXPECT_EQ(read(*made, 0, in, 2), "what was read is not what was written");
  EXPECT_EQ(read(*made, 0, in, 1), "");
}

TEST_P(FilesDisk, WhatEndsEarlyOnTheFileIsAnError) {
  const auto made = make(2);
  piece out(GetParam()), in(GetParam());
  ASSERT_EQ(write(*made, 1, out.fill(1)), "");
  ASSERT_EQ(::truncate(path_of_file().c_str(), static_cast<off_t>(GetParam())), 0);
  EXPECT_EQ(read(*made, 1, in), "the file ends before its slots");
}

TEST_P(FilesDisk, LeavesNothingInItsDirectory) {
  const auto made = make(2);
  EXPECT_TRUE(fs::is_empty(directory_)) << "while it is there";
}

TEST_P(FilesDisk, AnswersAllThatIsOpenBeforeItEnds) {
  auto made = make(8);
  piece out(GetParam());
  out.fill(9);
  std::array<int, 64> answers{};
  const std::weak_ptr<void> memory = out.keep();
  for (std::uint32_t i = 0; i < answers.size(); ++i)
    made->write(i % 8, 7, out.data(), out.keep(), [&answers, i](const std::string& error) {
      EXPECT_TRUE(error.empty() || error == "the disk ends") << error;
      ++answers[i];
    });
  made.reset();
  EXPECT_EQ(std::count(answers.begin(), answers.end(), 1), 64);
  EXPECT_EQ(memory.use_count(), 1) << "nothing holds the memory any more";
}

// Beyond the limit the system sends a signal that ends the process.
TEST_P(FilesDisk, ALimitOnFilesIsAnErrorAndNoSignal) {
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &before), 0);
  rlimit less = before;
  less.rlim_cur = 3 * GetParam();
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &less), 0);
  EXPECT_THROW((void)make(4), std::system_error);
  EXPECT_TRUE(make(3));
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &before), 0);
}

TEST_P(FilesDisk, SaysWhatItLacks) {
  const auto error_of = [this](const std::string& directory, std::uint32_t slots) -> std::string {
    try {
      (void)files::make_disk({directory, slots, GetParam() << 30U});
      return {};
    } catch (const std::system_error& failure) {
      return failure.what();
    }
  };
  EXPECT_NE(error_of((directory_ / "missing").string(), 1).find("No such file or directory"), std::string::npos);
  const auto too_large = error_of(directory_.string(), 1U << 28U);
  EXPECT_NE(too_large.find(directory_.string()), std::string::npos) << too_large;
  std::error_code ignored;
  EXPECT_TRUE(fs::is_empty(directory_, ignored)) << "and takes nothing";
}

// Past the page cache, and through it.
INSTANTIATE_TEST_SUITE_P(Sizes, FilesDisk, ::testing::Values(81'920, 1000));

} // namespace
} // namespace godwit::transport::testing
