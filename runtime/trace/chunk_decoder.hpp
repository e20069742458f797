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
  static constexpr std::uint64_t none = ~std::uint64_t{0};
  struct lane {
    std::uint32_t process = 0;
    std::uint32_t thread = 0;
    std::uint64_t series = none; // of the last event, and of the last cause
    std::uint64_t cause_series = none;
    std::uint64_t end = 0;
    std::uint64_t request = 0;
    std::uint64_t first = 0;
  };
  struct series {
    std::uint32_t process = 0;
    std::uint64_t id = 0; // the last one, and the last that was a cause
    std::uint64_t cause = 0;
  };
  // Each reads one record's body; false: it makes no sense.
  [[nodiscard]] bool record(varint::source body);
  [[nodiscard]] bool process(varint::source& body);
  [[nodiscard]] bool definition(varint::source& body, format::record_kind kind);
  [[nodiscard]] bool event(varint::source& body, std::uint8_t kind);
  [[nodiscard]] bool ids(varint::source& body, std::uint32_t flags, lane& at, trace::event& made);
  [[nodiscard]] bool numbers(varint::source& body, std::uint32_t flags, lane& at, trace::event& made);
  [[nodiscard]] bool texts(varint::source& body, std::uint32_t flags, trace::event& made);
  [[nodiscard]] bool actor(varint::source& body, actor_id& made) const;

  recording_builder& to_;
  // What the chunk's numbers mean.
  std::vector<std::uint32_t> processes_;
  std::vector<std::uint32_t> names_;
  std::vector<actor_id> actors_;
  std::vector<lane> lanes_;
  std::vector<series> series_;
  std::uint64_t lane_ = 0;
};

} // namespace godwit::runtime::trace
