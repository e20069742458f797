#pragma once

#include <godwit/runtime/trace/file.hpp>

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include <unistd.h>

/// Recordings for tests: anything at all, and what an everyday server would write.
namespace godwit::runtime::trace::streams {

/// A file's path that is gone with it.
class scratch {
public:
  explicit scratch(const std::string& name)
      : path_(std::filesystem::temp_directory_path() /
              ("godwit_trace_" + std::to_string(::getpid()) + "_" + std::to_string(next()) + "_" + name)) {}
  scratch(const scratch&) = delete;
  scratch& operator=(const scratch&) = delete;
  ~scratch() {
    std::error_code ignored;
    std::filesystem::remove(path_, ignored);
  }
  [[nodiscard]] std::string path() const { return path_.string(); }

private:
  static int next() {
    static int count = 0;
    return ++count;
  }
  std::filesystem::path path_;
};

inline std::vector<std::byte> bytes_of(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  std::vector<std::byte> bytes(text.size());
  for (std::size_t i = 0; i < text.size(); ++i) bytes[i] = static_cast<std::byte>(text[i]);
  return bytes;
}

/// Events of all kinds with anything in their fields, small or large, in processes 0 .. processes - 1.
class anything {
public:
  anything(std::uint64_t seed, std::uint32_t processes, std::uint32_t names)
      : random_(seed), processes_(processes), names_(names) {}

  event next() {
    event e;
    e.kind = static_cast<event_kind>(below(event_kinds));
    e.message = static_cast<message_kind>(below(message_kinds));
    e.outside = below(4) == 0;
    e.resumed = below(4) == 0;
    e.id = {static_cast<std::uint32_t>(below(processes_)), e.kind == event_kind::gap ? 0 : 1 + any() % (~0ULL - 1)};
    if (below(4) != 0) e.cause = {static_cast<std::uint32_t>(below(processes_)), any() | 1U};
    e.sender = actor();
    e.receiver = actor();
    e.name = static_cast<std::uint32_t>(below(names_));
    e.thread = static_cast<std::uint32_t>(below(8) == 0 ? any() : below(3));
    e.queued_ns = time();
    e.begin_ns = time();
    e.end_ns = time();
    e.request = below(2) * any();
    e.wait = below(2) * any();
    e.first = below(2) * any();
    e.made = below(2) * any();
    e.count = e.kind == event_kind::gap ? any() : 0;
    e.bytes = static_cast<std::uint32_t>(any());
    e.depth = static_cast<std::uint32_t>(below(3) * any());
    if (below(4) == 0) e.content = text(300);
    for (auto n = below(8) == 0 ? below(5) : 0; n != 0; --n) e.actors.push_back(actor());
    if (below(4) == 0) e.text = text(40);
    for (auto n = below(4) == 0 ? below(4) : 0; n != 0; --n) e.attributes.emplace_back(text(10), text(20));
    return e;
  }
  std::uint64_t below(std::uint64_t bound) { return random_() % bound; }
  std::string text(std::uint64_t size_max) {
    std::string made(below(size_max), ' ');
    for (auto& c : made) c = static_cast<char>(below(256));
    return made;
  }

private:
  std::uint64_t any() { return random_() >> below(64); }
  std::int64_t time() {
    const auto t = static_cast<std::int64_t>(random_() >> (3 + below(60)));
    return below(8) == 0 ? -t : t;
  }
  actor_id actor() {
    return below(6) == 0 ? actor_id{} : actor_id{static_cast<std::uint32_t>(below(processes_)), any()};
  }
  std::mt19937_64 random_;
  std::uint32_t processes_;
  std::uint32_t names_;
};

/// What a server's actors do all day: two threads, four dozen actors, requests and their answers, tokens on their way
/// home. Events have no content. Numbers as a recorder gives them: each thread counts from its own start.
class everyday {
public:
  everyday(std::uint32_t process, std::uint32_t names) : process_(process), names_(names) {}

  const event& next() {
    const auto thread = random_() % threads;
    auto& now = now_[thread];
    auto& number = number_[thread];
    now += 200 + static_cast<std::int64_t>(random_() % 3000);
    auto& last = recent_[random_() % recent_.size()]; // somebody's message, a moment ago
    event_.thread = static_cast<std::uint32_t>(thread);
    event_.message = static_cast<message_kind>(random_() % 4);
    event_.resumed = event_.message == message_kind::answer;
    event_.cause = {process_, last.cause};
    event_.id = {process_, last.id != 0 ? last.id : number++};
    event_.sender = {process_, 1 + random_() % 48};
    event_.receiver = {process_, 1 + random_() % 48};
    event_.name = 1 + static_cast<std::uint32_t>(random_() % (names_ - 1));
    event_.begin_ns = now;
    event_.queued_ns = now - static_cast<std::int64_t>(random_() % 20'000);
    now += static_cast<std::int64_t>(300 + random_() % 10'000);
    event_.end_ns = now;
    event_.request = random_() % 4 == 0 ? 0 : (1ULL << 48U) + 1000 + static_cast<std::uint64_t>(now / 10'000'000);
    event_.request += event_.request == 0 ? 0 : random_() % 8;
    event_.wait = event_.message == message_kind::message ? 0 : 20'000 + random_() % 1000;
    event_.made = random_() % 3;
    event_.first = number;
    event_.bytes = static_cast<std::uint32_t>(40 + random_() % 400);
    event_.depth = random_() % 3 == 0 ? static_cast<std::uint32_t>(random_() % 5) : 0;
    number += event_.made;
    last = {event_.made == 0 ? 0 : event_.first, event_.made == 0 ? 0 : event_.id.number};
    return event_;
  }

private:
  static constexpr std::size_t threads = 2;
  struct made {
    std::uint64_t id = 0;
    std::uint64_t cause = 0;
  };
  std::mt19937_64 random_{7};
  std::uint32_t process_;
  std::uint32_t names_;
  std::int64_t now_[threads] = {3'000'000'000, 3'000'000'000};
  std::uint64_t number_[threads] = {(1ULL << 40U) + 1, (2ULL << 40U) + 1};
  std::vector<made> recent_ = std::vector<made>(32);
  event event_;
};

} // namespace godwit::runtime::trace::streams
