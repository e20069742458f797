#pragma once

#include "actors/support/waiting_sink.hpp"

#include <godwit/actors/cluster.hpp>
#include <godwit/actors/member.hpp>
#include <godwit/runtime/actor_system.hpp>

#include <gtest/gtest.h>

#include <atomic>
#include <charconv>
#include <chrono>
#include <csignal>
#include <cstdint>
#include <fstream>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

/// Two instances with fabrics of their own, or one fabric, in one process or in two, and requests that go back and
/// forth between them all the time.
namespace godwit::test {

using namespace std::chrono_literals;

enum class place {
  one_fabric, ///< both instances are of one process, which has one fabric: a copy from device to device
  cross_memory,
  streams,
  messages,
  two_processes,
  remote_reads ///< UCX reads what is to be sent
};
[[nodiscard]] inline const char* to_string(place where) {
  const char* const names[] = {"one_fabric", "cross_memory", "streams", "messages", "two_processes", "remote_reads"};
  return names[static_cast<int>(where)];
}

/// What an instance runs with.
struct kv_host {
  actors::executor_factory factory;
  actors::llumlet_options llumlet; ///< with the fabric
};
using host_maker = std::function<kv_host(place)>;

[[nodiscard]] inline actors::model_identity test_identity() { return {"test", "of the device", 0, 512}; }

[[nodiscard]] inline std::unique_ptr<runtime::actor_system> make_system(bool network) {
  runtime::actor_system_settings settings;
  settings.network = network;
  settings.connection_timeout = 20s;
  return std::make_unique<runtime::actor_system>(settings);
}

[[nodiscard]] inline actors::member_options member_of(const kv_host& host, actors::head_finder find_head) {
  actors::member_options out;
  out.version = "test";
  out.address = "member";
  out.key = 1;
  out.instances = 1;
  out.model = test_identity();
  out.find_head = std::move(find_head);
  out.instance.make_executor = host.factory;
  out.llumlet = host.llumlet;
  return out;
}

/// Turns this program into a member of its parent's head where it was started as one, once everything static is there.
/// Give one to AddGlobalTestEnvironment.
class second_process final : public ::testing::Environment {
public:
  static constexpr std::string_view argument = "--as-member-of=";
  explicit second_process(host_maker make) : make_(std::move(make)) {}
  void SetUp() override {
    std::ifstream file("/proc/self/cmdline", std::ios::binary);
    std::string word;
    std::uint16_t port = 0;
    while (std::getline(file, word, '\0'))
      if (word.starts_with(argument) &&
          std::from_chars(word.data() + argument.size(), word.data() + word.size(), port).ec == std::errc{})
        serve(port);
  }

private:
  [[noreturn]] void serve(std::uint16_t port) {
    const auto host = make_(place::two_processes);
    const auto system = make_system(true);
    const auto find = [&system, port](std::function<void(actors::found_head)> done) {
      std::thread([&system, port, done = std::move(done)] {
        done(system->remote<actors::node_interface>("127.0.0.1", port, 20s));
      }).detach();
    };
    const auto member = system->spawn<actors::member>(member_of(host, find));
    for (;;) ::pause(); // until the parent's end, which is ours
  }
  host_maker make_;
};

class child_process {
public:
  explicit child_process(std::uint16_t port) {
    const auto word = std::string(second_process::argument) + std::to_string(port);
    pid_ = ::fork();
    if (pid_ != 0) return;
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    ::dup2(STDERR_FILENO, STDOUT_FILENO);
    ::execl("/proc/self/exe", "member", word.c_str(), static_cast<char*>(nullptr));
    ::_exit(127);
  }
  child_process(const child_process&) = delete;
  child_process& operator=(const child_process&) = delete;
  ~child_process() {
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
  }

private:
  pid_t pid_;
};

struct run_outcome {
  std::vector<std::vector<protocols::token_id>> tokens;
  std::uint32_t there = 0, back = 0; ///< migrations
};

/// Every request to the other instance, again and again, until it is over.
inline void move_all(actors::cluster& cluster, const std::atomic<bool>& over, run_outcome& out) {
  while (!over) {
    const auto status = cluster.status(true);
    if (!status || status->instances.size() != 2) continue;
    for (const auto& instance : status->instances)
      for (const auto& request : instance.requests) {
        if (over) return;
        const bool there = instance.instance == status->instances[0].instance;
        const auto report = cluster.migrate(request.request, status->instances[there ? 1 : 0].instance);
        if (report && report->committed()) ++(there ? out.there : out.back);
      }
  }
}

inline run_outcome run_requests(actors::cluster& cluster, const std::vector<protocols::generate_request>& requests,
                                bool moving) {
  run_outcome out;
  const auto all = std::make_shared<waiting_sink::group>();
  std::vector<std::shared_ptr<waiting_sink>> sinks;
  for (const auto& request : requests) {
    auto one = std::make_shared<actors::submission>();
    one->request = request;
    one->seeded = true;
    sinks.push_back(std::make_shared<waiting_sink>(all));
    one->sink = sinks.back();
    EXPECT_TRUE(cluster.gate()->submit({std::move(one)}));
  }
  std::atomic<bool> over{false};
  std::thread mover([&] {
    if (moving) move_all(cluster, over, out);
  });
  {
    std::unique_lock lock(all->mutex);
    EXPECT_TRUE(all->changed.wait_for(lock, 90s, [&] { return all->ended == sinks.size(); }));
  }
  over = true;
  mover.join();
  const std::lock_guard lock(all->mutex);
  for (const auto& sink : sinks) {
    EXPECT_FALSE(sink->record.failed) << sink->record.failed->message;
    out.tokens.push_back(sink->record.tokens);
  }
  return out;
}

inline void expect_nothing_left(actors::cluster& cluster) {
  const auto deadline = std::chrono::steady_clock::now() + 10s;
  std::uint32_t used = 1;
  while (used != 0 && std::chrono::steady_clock::now() < deadline) {
    const auto status = cluster.status();
    if (!status) continue;
    used = 0;
    for (const auto& instance : status->instances) used += instance.load.blocks_used;
  }
  EXPECT_EQ(used, 0U) << "blocks that nobody gave back";
}

/// The requests undisturbed, and then moved all the time, `migrations` each way at least: the same tokens.
/// The program needs a `second_process` that makes the same hosts.
inline void expect_moves_change_nothing(place where, const host_maker& make,
                                        const std::vector<protocols::generate_request>& requests,
                                        std::uint32_t migrations) {
  const auto first = make(where);
  const bool apart = where != place::one_fabric && where != place::two_processes;
  const auto second = apart ? make(where) : kv_host{};
  const auto system = make_system(where == place::two_processes);
  const std::uint32_t own = where == place::one_fabric ? 2 : 1;
  actors::node_options o;
  o.version = "test";
  o.model = "default";
  o.identity = test_identity();
  o.instances = own;
  o.instance.make_executor = first.factory;
  o.llumlet = first.llumlet;
  o.scheduler.policies.migration = protocols::migration_policy::none;
  actors::cluster cluster(*system, std::move(o));
  ASSERT_TRUE(cluster.gate()->wait_ready(own, 30s));
  std::unique_ptr<child_process> other;
  if (where == place::two_processes) {
    const auto port = system->publish(cluster.node(), "127.0.0.1", 0);
    ASSERT_TRUE(port);
    other = std::make_unique<child_process>(*port);
  } else if (apart) {
    (void)system->spawn<actors::member>(member_of(
        second, [node = cluster.node()](const std::function<void(actors::found_head)>& done) { done(node); }));
  }
  ASSERT_TRUE(cluster.gate()->wait_ready(2, 60s));
  const auto calm = run_requests(cluster, requests, false);
  std::uint32_t there = 0, back = 0;
  for (int round = 0; round < 20 && (there < migrations || back < migrations); ++round) {
    const auto moved = run_requests(cluster, requests, true);
    ASSERT_EQ(moved.tokens, calm.tokens);
    there += moved.there;
    back += moved.back;
  }
  EXPECT_GE(there, migrations);
  EXPECT_GE(back, migrations);
  expect_nothing_left(cluster);
}

} // namespace godwit::test
