#pragma once

#include <godwit/runtime/trace/text.hpp>

#include <cstdint>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

/// What is said about recording: by operators to the head, and by the head to the processes of its members.
namespace godwit::actors {

/// From now on this is recorded. All empty asks what is.
struct trace_order {
  std::string level;     ///< "off", "headers", "content"; empty: as it is
  bool replaces = false; ///< what follows replaces what was chosen before (runtime::trace::filter)
  std::vector<std::string> actors;
  std::vector<std::string> types;
  std::vector<std::uint64_t> requests;
  double sample = 1;

  trace_order() = default;
  auto fields() { return std::tie(level, replaces, actors, types, requests, sample); }
};

/// How a process records.
struct trace_state {
  std::string process; ///< its name
  std::string error;   ///< why it did not do as it was told, in one line; empty: it did
  std::string level;
  std::uint64_t lost = 0; ///< events, those that its file has no room for included

  trace_state() = default;
  trace_state(std::string who, std::string why_not) : process(std::move(who)), error(std::move(why_not)) {}
  auto fields() { return std::tie(process, error, level, lost); }
};
struct trace_answer {
  std::vector<trace_state> processes; ///< the head's first
  trace_answer() = default;
  auto fields() { return std::tie(processes); }
};

/// Every process writes its flight recorder into a file of its own.
struct dump_order {
  std::int64_t last_ns = 0; ///< events that ended in this time; 0: all that there are
  dump_order() = default;
  explicit dump_order(std::int64_t last) : last_ns(last) {}
  auto fields() { return std::tie(last_ns); }
};
struct dumped_file {
  std::string process;      ///< its name
  std::string error;        ///< empty: the file is there
  std::uint64_t key = 0;    ///< of the member in its cluster, and...
  std::uint64_t number = 0; ///< ... of the file in its process: what dump_part_query is told
  std::string path;         ///< in the file system of that process
  std::uint64_t events = 0;
  std::uint64_t bytes = 0;

  dumped_file() = default;
  dumped_file(std::string who, std::string why_not) : process(std::move(who)), error(std::move(why_not)) {}
  auto fields() { return std::tie(process, error, key, number, path, events, bytes); }
};
struct dump_answer {
  std::vector<dumped_file> files;
  dump_answer() = default;
  auto fields() { return std::tie(files); }
};

/// A piece of such a file. Only files that the process has dumped itself are given, while they are there.
struct dump_part_query {
  static constexpr std::uint64_t bytes_max = 256 * 1024;
  std::uint64_t key = 0;
  std::uint64_t number = 0;
  std::uint64_t offset = 0;
  dump_part_query() = default;
  dump_part_query(std::uint64_t member, std::uint64_t file, std::uint64_t from)
      : key(member), number(file), offset(from) {}
  auto fields() { return std::tie(key, number, offset); }
};
struct dump_part {
  std::string error;
  std::string bytes; ///< at most bytes_max; empty: the file's end
  dump_part() = default;
  explicit dump_part(std::string why_not) : error(std::move(why_not)) {}
  auto fields() { return std::tie(error, bytes); }
};

} // namespace godwit::actors

// What it brings is a recording: kept in one, each would be twice as long as the one before.
template <> struct godwit::runtime::trace::recorded_form<godwit::actors::dump_part> {
  static void write(wire_writer& out, const actors::dump_part& x);
  static actors::dump_part read(wire_reader& in);
};
