#pragma once

#include <caf/node_id.hpp>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_set>
#include <vector>

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

/// An envelope's actors; the topology has one for each instance, and two. CAF takes some 2 KB for each.
constexpr std::size_t envelope_actors_max = std::size_t{16} << 10U;

/// Whether CAF 0.17 may read what follows `header`: the nodes that it names, one for each mention, which lie in
/// `payload`; none where CAF must not. It makes whatever types the sender names, and some of them in the size that the
/// sender names, which ends the process or takes all of its memory; so only what systems of godwit send each other may
/// pass: their envelopes, with a bounded number of actors, and the little that CAF itself says. An envelope's bytes are
/// not looked into.
[[nodiscard]] std::optional<std::vector<std::string_view>> nodes_of_harmless(const packet_header& header,
                                                                             std::string_view payload);

/// The nodes of which one connection has spoken. CAF keeps some 2 KB of each: a way there, and an actor that says so to
/// that node.
class nodes_heard_of {
public:
  /// At once, of which a second gives one back: four times the members that a head takes, each of which is a node that
  /// may be another one after a restart.
  static constexpr std::size_t max = 4096;

  /// `open`: how long the connection has been. False: they are too many.
  [[nodiscard]] bool admit(const std::vector<std::string_view>& nodes, std::chrono::seconds open);
  [[nodiscard]] const std::unordered_set<std::string>& known() const noexcept { return known_; }

private:
  std::unordered_set<std::string> known_;
  std::size_t left_ = max;
  std::chrono::seconds counted_{0}; ///< when `left_` was brought up to date, by `open`
};

/// `bytes`: as nodes_of_harmless gives them.
[[nodiscard]] caf::node_id node_of(std::string_view bytes);

} // namespace godwit::runtime::detail
