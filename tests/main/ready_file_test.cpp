#include "main/ready_file.hpp"

#include <gtest/gtest.h>

#include <csignal>
#include <filesystem>
#include <fstream>
#include <string>

#include <sys/wait.h>
#include <unistd.h>

namespace godwit::main {
namespace {

class ReadyFile : public ::testing::Test {
protected:
  void SetUp() override {
    std::string name = ::testing::TempDir() + "godwit-ready-XXXXXX";
    ASSERT_NE(::mkdtemp(name.data()), nullptr);
    folder_ = name;
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }
  [[nodiscard]] std::string path() const { return folder_ / "ready"; }
  [[nodiscard]] bool there() const { return std::filesystem::exists(path()); }
  void write(pid_t owner) const { std::ofstream(path()) << owner << '\n'; }
  std::filesystem::path folder_;
};

TEST_F(ReadyFile, IsThereWhileItIsSet) {
  ready_file file(path(), {});
  EXPECT_FALSE(there());
  file.set(true);
  EXPECT_TRUE(there());
  file.set(false);
  EXPECT_FALSE(there());
}

TEST_F(ReadyFile, WhatFailedIsTriedAgain) {
  std::filesystem::create_directory(path() + ".new"); // in the way
  ready_file file(path(), {});
  file.set(true);
  EXPECT_FALSE(there());
  std::filesystem::remove(path() + ".new");
  file.set(true);
  EXPECT_TRUE(there());
}

TEST_F(ReadyFile, OfALivingProcessOfThisProgramIsLeftAlone) {
  const auto other = ::fork();
  if (other == 0) {
    ::pause();
    ::_exit(0);
  }
  ASSERT_GT(other, 0);
  write(other);
  {
    ready_file file(path(), {});
    file.set(true); // two that were given the same one by mistake
  }
  EXPECT_TRUE(there());
  ::kill(other, SIGKILL);
  ::waitpid(other, nullptr, 0);
  { const ready_file file(path(), {}); }
  EXPECT_FALSE(there()) << "a killed process's";
  write(1); // a number that another program has got
  { const ready_file file(path(), {}); }
  EXPECT_FALSE(there());
}

} // namespace
} // namespace godwit::main
