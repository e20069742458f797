#pragma once

#include "trace/file_format.hpp"
#include "trace/recording_builder.hpp"
#include "trace/varint.hpp"

#include <cstdint>
#include <span>
#include <vector>

namespace godwit::runtime::trace {

/// Reads the records of chunks, which nobody vouches for, into a recording.
class chunk_decoder {
public:
  explicit chunk_decoder(recording_builder& to) : to_(to) {}
  /// False: a record makes no sense; those before it were taken.
  [[nodiscard]] bool decode(std::span<const std::uint8_t> records);

private:
  struct lane {
    std::uint32_t process = 0;
    std::uint32_t thread = 0;
    std::uint64_t id = 0;
    std::uint64_t end = 0;
    std::uint64_t request = 0;
    std::uint64_t first = 0;
  };
  // Each reads one record's body; false: it makes no sense.
  [[nodiscard]] bool record(varint::source body);
  [[nodiscard]] bool process(varint::source& body);
  [[nodiscard]] bool event(varint::source& body, std::uint8_t kind);
  [[nodiscard]] bool numbers(varint::source& body, std::uint32_t flags, lane& at, trace::event& made);
  [[nodiscard]] bool texts(varint::source& body, std::uint32_t flags, trace::event& made);
  [[nodiscard]] bool actor(varint::source& body, actor_id& made) const;

  recording_builder& to_;
  // What the chunk's numbers mean.
  std::vector<std::uint32_t> processes_;
  std::vector<std::uint32_t> names_;
  std::vector<actor_id> actors_;
  std::vector<lane> lanes_;
  std::uint64_t lane_ = 0;
};

} // namespace godwit::runtime::trace
