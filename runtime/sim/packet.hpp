#pragma once

#include <caf/error.hpp>
#include <caf/message_id.hpp>

#include <cstdint>
#include <vector>

namespace godwit::runtime::sim::detail {

/// What goes between nodes, after CAF's BASP.
struct packet {
  enum class kind_type : std::uint8_t {
    message, ///< sender, forwarding stack and content as bytes
    monitor, ///< `from` has made a proxy of the actor
    down,    ///< the actor of `from` has ended
    accept,  ///< the answer to an attempt to connect
    close,   ///< the last of a direction
  };
  kind_type kind = kind_type::message;
  std::uint32_t from = 0; ///< node
  std::uint32_t to = 0;   ///< node, maybe by way of others
  std::uint64_t actor = 0;
  caf::message_id mid = caf::make_message_id();
  std::vector<char> bytes;
  caf::error reason;
  std::uint64_t attempt = 0;
};

} // namespace godwit::runtime::sim::detail
