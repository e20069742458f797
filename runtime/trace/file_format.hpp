#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <span>

/// What docs/formats/trace.md fixes about files of recordings: numbers, and the headers of file and chunks.
namespace godwit::runtime::trace::format {

inline constexpr std::uint16_t version = 1;  ///< raised when an older reader would misread
inline constexpr std::uint16_t revision = 0; ///< raised when something was added that an older reader skips
inline constexpr std::array<std::uint8_t, 8> magic = {0x89, 'G', 'W', 'T', '\r', '\n', 0x1a, '\n'};
inline constexpr std::array<std::uint8_t, 4> chunk_marker = {0x9e, 'g', 'w', 'c'};
inline constexpr std::size_t file_header_bytes = 16;
inline constexpr std::size_t chunk_header_bytes = 28;

inline constexpr std::size_t event_bytes_max = std::size_t{16} << 20; ///< content, text and attributes of one event
inline constexpr std::size_t chunk_raw_max = std::size_t{32} << 20;   ///< of the records of one chunk
inline constexpr std::int64_t time_max = std::int64_t{1} << 61;       ///< of times and offsets: less than this

/// The time in range that is nearest to it.
[[nodiscard]] constexpr std::int64_t bounded(std::int64_t time) noexcept {
  return time >= time_max ? time_max - 1 : time <= -time_max ? 1 - time_max : time;
}
[[nodiscard]] constexpr bool in_range(std::int64_t time) noexcept { return time > -time_max && time < time_max; }

enum class chunk_kind : std::uint8_t { records = 1, end = 2 };
enum class chunk_codec : std::uint8_t { none = 0, zstd = 1 };

/// A record's first byte. Events: `event` + event_kind.
enum class record_kind : std::uint8_t {
  process = 1,
  name = 2,
  actor = 3,
  lane = 4,
  series = 5,
  fact = 6,
  actor_name = 7,
  event = 16
};

/// Which fields an event's record has; more bits may come, their fields after all of these.
enum event_flag : std::uint32_t {
  flag_outside = 1U << 0U,
  flag_resumed = 1U << 1U,
  flag_lane = 1U << 2U,
  flag_series = 1U << 3U,
  flag_cause = 1U << 4U,
  flag_cause_series = 1U << 5U,
  flag_message = 1U << 6U,
  flag_queued = 1U << 7U,
  flag_request = 1U << 8U,
  flag_wait = 1U << 9U,
  flag_made = 1U << 10U,
  flag_bytes = 1U << 11U,
  flag_depth = 1U << 12U,
  flag_count = 1U << 13U,
  flag_content = 1U << 14U,
  flag_actors = 1U << 15U,
  flag_text = 1U << 16U,
  flag_attributes = 1U << 17U,
};
inline constexpr std::uint32_t flags_known = (1U << 18U) - 1;

/// Events of one process whose numbers agree above this bit are a series: numbers of one thread, mostly.
inline constexpr unsigned series_bit = 40;

template <class Unsigned> void store(std::uint8_t* to, Unsigned value) noexcept {
  for (std::size_t i = 0; i < sizeof value; ++i) to[i] = static_cast<std::uint8_t>(value >> (8 * i));
}
template <class Unsigned> [[nodiscard]] Unsigned load(const std::uint8_t* from) noexcept {
  Unsigned value = 0;
  for (std::size_t i = 0; i < sizeof value; ++i) value = static_cast<Unsigned>(value | Unsigned{from[i]} << (8 * i));
  return value;
}

struct chunk_header {
  chunk_kind kind = chunk_kind::records;
  chunk_codec codec = chunk_codec::none;
  std::uint32_t sequence = 0;
  std::uint32_t stored = 0; ///< bytes that follow
  std::uint32_t raw = 0;    ///< of them before compression
  std::uint32_t events = 0; ///< in it; in the end chunk of all before it, modulo 2^32
};

/// FNV-1a, 32 bits: against damage, not against malice.
[[nodiscard]] inline std::uint32_t checksum(std::span<const std::uint8_t> bytes,
                                            std::uint32_t hash = 2166136261U) noexcept {
  for (const auto byte : bytes) hash = (hash ^ byte) * 16777619U;
  return hash;
}

using chunk_header_image = std::array<std::uint8_t, chunk_header_bytes>;
[[nodiscard]] inline chunk_header_image encode(const chunk_header& header) noexcept {
  chunk_header_image image{};
  std::memcpy(image.data(), chunk_marker.data(), chunk_marker.size());
  image[4] = static_cast<std::uint8_t>(header.kind);
  image[5] = static_cast<std::uint8_t>(header.codec);
  store(image.data() + 8, header.sequence);
  store(image.data() + 12, header.stored);
  store(image.data() + 16, header.raw);
  store(image.data() + 20, header.events);
  store(image.data() + 24, checksum(std::span(image).first(24)));
  return image;
}

/// Nothing where these bytes are no header, or a damaged one.
[[nodiscard]] inline std::optional<chunk_header> decode_chunk_header(std::span<const std::uint8_t> bytes) noexcept {
  if (bytes.size() < chunk_header_bytes || std::memcmp(bytes.data(), chunk_marker.data(), chunk_marker.size()) != 0)
    return std::nullopt;
  if (load<std::uint32_t>(bytes.data() + 24) != checksum(bytes.first(24))) return std::nullopt;
  chunk_header header;
  header.kind = static_cast<chunk_kind>(bytes[4]);
  header.codec = static_cast<chunk_codec>(bytes[5]);
  header.sequence = load<std::uint32_t>(bytes.data() + 8);
  header.stored = load<std::uint32_t>(bytes.data() + 12);
  header.raw = load<std::uint32_t>(bytes.data() + 16);
  header.events = load<std::uint32_t>(bytes.data() + 20);
  return header;
}

[[nodiscard]] inline std::array<std::uint8_t, file_header_bytes> encode_file_header() noexcept {
  std::array<std::uint8_t, file_header_bytes> image{};
  std::memcpy(image.data(), magic.data(), magic.size());
  store(image.data() + 8, version);
  store(image.data() + 10, revision);
  return image;
}

} // namespace godwit::runtime::trace::format
