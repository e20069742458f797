#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <godwit/runtime/async/expected.hpp>
#include <godwit/runtime/trace/recording.hpp>

/// Recordings as files: writing one event by event, reading, merging. docs/formats/trace.md specifies the bytes.
namespace godwit::runtime::trace {

struct file_settings {
  int compression = 1;                  ///< zstd's level
  std::size_t chunk_bytes = 256 * 1024; ///< compressed and written together, counted before compression
  std::uint64_t bytes_max = 0;          ///< of the file; what comes later is dropped and counted as a gap; 0: no limit
};

/// Writes a recording while it happens.
///
/// Whoever records hands over millions of events a second, and the process may be killed at any moment. So an event is
/// encoded where it lies, without allocating, into a chunk that can be read by itself; what was flushed stays readable
/// whatever happens to the process (not to the machine: nothing is synchronised to the disk).
/// A file is for its owner's eyes only (mode 0600), since it may hold prompts.
///
/// Used by one thread at a time. Errors of writing come up in the next flush() or close(); what is added after one is
/// dropped and counted. The destructor closes.
class file_writer {
public:
  /// Makes the file, empty if there was one.
  /// Errors: failed, with the operating system's reason.
  static async::expected<std::unique_ptr<file_writer>> create(const std::string& path, file_settings settings = {});
  file_writer(const file_writer&) = delete;
  file_writer& operator=(const file_writer&) = delete;
  ~file_writer();

  /// The index for event_id::process and actor_id::process. A key that is known already (0 is no key) gives the index
  /// that it has; name, start and facts then replace those of before where they say something.
  std::uint32_t add_process(const process& added);

  /// The index for event::name, which names events by numbers of its own: always the same for the same text, 0 for "".
  std::uint32_t name(std::string_view text);

  /// Says what an actor is called whose `spawned` event is not in this file.
  void name_actor(actor_id actor, std::string_view text);

  /// Adds an event, in any order of times; mostly rising ones, and numbers that are near each other, take less room.
  /// Dropped and counted as lost: events that name a process or name never added, or times beyond 2^61 ns. Of one with
  /// more than 16 MiB of content, text and attributes these are left out, and `text` says so.
  void add(const event& added);

  /// After it what was added is in the file, readable even if this process is killed.
  /// Errors: failed, with the operating system's reason, for ever after the first one.
  async::expected<void> flush();

  /// Flushes and marks the end, which tells readers that nothing is missing. Nothing can be added later.
  async::expected<void> close();

  [[nodiscard]] std::uint64_t events() const noexcept;    ///< added and not lost
  [[nodiscard]] std::uint64_t lost() const noexcept;      ///< see add() and file_settings::bytes_max
  [[nodiscard]] bool full() const noexcept;               ///< file_settings::bytes_max is reached
  [[nodiscard]] std::uint64_t bytes() const noexcept;     ///< of the file
  [[nodiscard]] std::uint64_t raw_bytes() const noexcept; ///< before zstd, of the chunks at hand and in the file

private:
  struct state;
  explicit file_writer(std::unique_ptr<state> made);
  std::unique_ptr<state> state_;
};

/// What a reader gives up at. The rest is left out, and a remark says so.
struct read_limits {
  std::uint64_t events_max = 50'000'000;
  std::uint64_t file_bytes_max = std::uint64_t{16} << 30;
  std::uint64_t memory_bytes_max = std::uint64_t{24} << 30; ///< roughly, of the recording
};

/// Reads what can be read. A torn end, damaged chunks and unknown kinds of records become remarks; every index in the
/// recording is valid, and times can be added to offsets and subtracted from each other without overflow, whatever the
/// bytes were.
/// Errors: failed (no such file, no recording), unsupported (of a newer version, or what every reader must understand).
async::expected<recording> read_file(const std::string& path, read_limits limits = {});
async::expected<recording> read_bytes(std::span<const std::byte> bytes, read_limits limits = {});

/// Writes a whole recording, for example a merged one. Remarks are not kept.
async::expected<void> write_file(const std::string& path, const recording& written, file_settings settings = {});

/// Makes one recording of several processes' recordings.
///
/// Processes with the same key are one; ids, names and processes are mapped; an event that is in two parts is kept
/// once. Clocks of parts are brought together by pairs of `sent` events and the deliveries they caused: the least
/// difference in each direction bounds the offset from both sides, and the middle is taken. Where messages went one way
/// only, or none, wall clocks are believed as far as causality allows, with a remark. Processes whose events are in one
/// part share its clock. Clocks that drift bend times afterwards, with a remark: no delivery begins before what caused
/// it was sent.
recording merge(std::vector<recording> parts);

} // namespace godwit::runtime::trace
