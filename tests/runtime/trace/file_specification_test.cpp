#include "runtime/trace/streams.hpp"

#include <gtest/gtest.h>

#include <array>
#include <cstdio>
#include <memory>
#include <sstream>

#include <sys/wait.h>

namespace godwit::runtime::trace {
namespace {

std::string hex(std::string_view text) {
  std::string made;
  for (const auto c : text) {
    constexpr std::string_view digits = "0123456789abcdef";
    made += digits[static_cast<unsigned char>(c) >> 4U];
    made += digits[static_cast<unsigned char>(c) & 15U];
  }
  return made;
}

template <class Id> std::string pair(const Id& id, std::uint64_t number) {
  return "(" + std::to_string(id.process) + " " + std::to_string(number) + ")";
}

template <class List, class Show> std::string list(const List& of, Show show) {
  std::string made = "(";
  for (const auto& each : of) made += (made.size() > 1 ? " " : "") + show(each);
  return made + ")";
}

/// As reader.py prints it.
std::string show(const recording& of) {
  std::ostringstream out;
  const auto show_attribute = [](const attribute& a) { return "(" + hex(a.name) + " " + hex(a.value) + ")"; };
  for (const auto& p : of.processes)
    out << "(process " << p.key << ' ' << hex(p.name) << ' ' << p.started_unix_ns << ' ' << p.offset_ns << ' '
        << list(p.facts, show_attribute) << ")\n";
  const auto show_actor = [](const actor_id& a) { return pair(a, a.id); };
  for (const auto& e : of.events)
    out << '(' << to_string(e.kind) << ' ' << to_string(e.message) << ' ' << e.outside << ' ' << e.resumed << ' '
        << pair(e.id, e.id.number) << ' ' << pair(e.cause, e.cause.number) << ' ' << show_actor(e.sender) << ' '
        << show_actor(e.receiver) << ' ' << hex(of.name_of(e)) << ' ' << e.thread << ' ' << e.queued_ns << ' '
        << e.begin_ns << ' ' << e.end_ns << ' ' << e.request << ' ' << e.wait << ' ' << e.first << ' ' << e.made << ' '
        << e.bytes << ' ' << e.depth << ' ' << e.count << ' ' << hex(e.content) << ' ' << list(e.actors, show_actor)
        << ' ' << hex(e.text) << ' ' << list(e.attributes, show_attribute) << ")\n";
  return out.str() + "end\n";
}

// The page is enough to write a reader: here is one in another language, which knows nothing of this one.
TEST(FileSpecification, AReaderWrittenFromThePageReadsTheSame) {
  const streams::scratch file("specification");
  auto writer = file_writer::create(file.path(), {1, 4096, 0});
  ASSERT_TRUE(writer);
  for (std::uint64_t i = 1; i <= 3; ++i) {
    process p;
    p.key = i << 60U;
    p.name = "node " + std::to_string(i);
    p.started_unix_ns = static_cast<std::int64_t>(i) * 1'000'000'007;
    p.offset_ns = static_cast<std::int64_t>(i) * -70;
    p.facts = {{"version", "1"}, {"seed", std::to_string(i)}};
    (*writer)->add_process(p);
  }
  for (int i = 1; i < 10; ++i) (*writer)->name("name " + std::to_string(i));
  streams::anything draw(21, 3, 10);
  streams::everyday stream(1, 10);
  for (int i = 0; i < 1000; ++i) {
    (*writer)->add(draw.next());
    (*writer)->add(stream.next());
  }
  ASSERT_TRUE((*writer)->close());
  const auto read = read_file(file.path());
  ASSERT_TRUE(read);

  const auto command = "python3 '" GODWIT_SOURCE_DIR "/tests/runtime/trace/reader.py' '" + file.path() + "' 2>&1";
  std::string said;
  auto* const reader = ::popen(command.c_str(), "r");
  ASSERT_NE(reader, nullptr);
  std::array<char, 65536> buffer{};
  while (const auto got = std::fread(buffer.data(), 1, buffer.size(), reader)) said.append(buffer.data(), got);
  const auto status = ::pclose(reader);
  const auto code = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  if (code == 127 || code == 77) GTEST_SKIP() << "needs python3 and libzstd: " << said;
  ASSERT_EQ(code, 0) << said;
  std::istringstream expected(show(*read));
  std::istringstream got(said);
  std::string line;
  std::string other;
  std::size_t number = 0;
  while (std::getline(expected, line)) {
    ASSERT_TRUE(std::getline(got, other)) << "the reader ended at line " << number;
    ASSERT_EQ(other, line) << "line " << number;
    ++number;
  }
  EXPECT_FALSE(std::getline(got, other)) << other;
  EXPECT_EQ(number, 3U + 2000U + 1U);
}

} // namespace
} // namespace godwit::runtime::trace
