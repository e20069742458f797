#include "main/http_files.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <memory>
#include <new>
#include <string>
#include <thread>

#include <sys/resource.h>
#include <unistd.h>

namespace godwit::main {

using namespace std::chrono_literals;

namespace {

/// Has no memory for so many of the lines that say how many keys there are.
class scarce_log final : public runtime::log::backend {
public:
  [[nodiscard]] std::chrono::nanoseconds now() override { return {}; }
  void write(const runtime::log::record& r) override {
    if (r.message.starts_with("std::bad_alloc; the API keys")) ++told;
    if (r.message.starts_with("cannot read the API keys")) ++unread;
    if (r.message.find("asks for ") == std::string_view::npos || short_for == 0) return;
    --short_for;
    throw std::bad_alloc();
  }
  void flush() override {}
  [[nodiscard]] std::uint64_t dropped() const override { return 0; }
  std::atomic<int> short_for{0};
  std::atomic<int> told{0};
  std::atomic<int> unread{0};
};

} // namespace

TEST(HttpFiles, WhatCannotBeReadForWantOfMemoryIsReadAgainAndSaidOnce) {
  const auto path = ::testing::TempDir() + "godwit_http_files_" + std::to_string(::getpid());
  const auto write = [&path](const std::string& key) {
    std::ofstream(path + ".new") << key << "\n";
    std::filesystem::permissions(path + ".new", std::filesystem::perms::owner_all);
    std::filesystem::rename(path + ".new", path);
  };
  write("one");
  const auto log = std::make_shared<scarce_log>();
  actors::http_gate gate([](auto&&...) {}, {});
  transport::http::server server({}, [](auto&&...) {});
  serve_settings settings;
  settings.http.api_key_file = path;
  http_files files(settings, gate, server, runtime::log::logger(log, runtime::log::level_filter()));
  ASSERT_FALSE(files.start(1ms));
  transport::http::request asks;
  asks.target = "/v1/models";
  asks.fields.add("Authorization", "Bearer two");
  EXPECT_TRUE(gate.refuse_head(asks));
  log->short_for = 3;
  write("two");
  for (int look = 0; look < 5000 && gate.refuse_head(asks); ++look) std::this_thread::sleep_for(2ms);
  EXPECT_FALSE(gate.refuse_head(asks));
  EXPECT_EQ(log->short_for, 0);
  EXPECT_EQ(log->told, 1);
  std::filesystem::remove(path);
}

TEST(HttpFiles, WhatCouldNotBeReadOnceIsReadThoughItDoesNotChange) {
  const auto path = ::testing::TempDir() + "godwit_unread_" + std::to_string(::getpid());
  const auto write = [&path](const std::string& key) {
    std::ofstream(path + ".new") << key << "\n";
    std::filesystem::permissions(path + ".new", std::filesystem::perms::owner_all);
    std::filesystem::rename(path + ".new", path);
  };
  write("one");
  actors::http_gate gate([](auto&&...) {}, {});
  transport::http::server server({}, [](auto&&...) {});
  serve_settings settings;
  settings.http.api_key_file = path;
  const auto lines = std::make_shared<scarce_log>();
  http_files files(settings, gate, server, runtime::log::logger(lines, runtime::log::level_filter()));
  ASSERT_FALSE(files.start(1ms));
  transport::http::request asks;
  asks.target = "/v1/models";
  asks.fields.add("Authorization", "Bearer two");
  std::ofstream(path + ".new") << "two\n";
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &before), 0);
  const rlimit none{0, before.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &none), 0);
  const bool renamed = ::rename((path + ".new").c_str(), path.c_str()) == 0;
  for (int look = 0; look < 5000 && lines->unread == 0; ++look) std::this_thread::sleep_for(2ms);
  std::this_thread::sleep_for(20ms); // some looks more
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &before), 0);
  ASSERT_TRUE(renamed);
  EXPECT_EQ(lines->unread, 1) << "it is said once";
  for (int look = 0; look < 5000 && gate.refuse_head(asks); ++look) std::this_thread::sleep_for(2ms);
  EXPECT_FALSE(gate.refuse_head(asks));
  std::filesystem::remove(path);
}

} // namespace godwit::main
