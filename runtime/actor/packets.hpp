#pragma once

#include <cstdint>
#include <string_view>

namespace godwit::runtime::detail {

/// What the first bytes of a packet of CAF's (caf/io/basp/header.hpp) say of what follows them.
struct packet_header {
  packet_header() = default;
  /// `bytes`: caf::io::basp::header_size of them.
  explicit packet_header(const char* bytes);
  /// Whether CAF 0.17 may go on with it. It dies of a handshake that says nothing, and of a message that is marked as
  /// one of its streams. Only messages between our actors are large.
  [[nodiscard]] bool is_harmless() const;

  std::uint8_t operation = 0;
  std::uint32_t payload_bytes = 0;
  std::uint64_t data = 0;
};

/// Whether CAF 0.17 may read what follows `header`. It makes whatever types the sender names, and some of them in the
/// size that the sender names, which ends the process or takes all of its memory. True for what systems of godwit send
/// each other: their envelopes and the little that CAF itself says. What an envelope carries is not read here: its
/// bytes take what they are, actors that it names some fifty times theirs, since CAF keeps something of each node.
[[nodiscard]] bool is_harmless(const packet_header& header, std::string_view payload);

} // namespace godwit::runtime::detail
