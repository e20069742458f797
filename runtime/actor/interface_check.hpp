#pragma once

#include "actor/protocol.hpp"

#include <godwit/runtime/async/expected.hpp>

#include <algorithm>
#include <optional>
#include <string>
#include <vector>

namespace godwit::runtime::detail {

/// Why an actor of another node cannot be had as what somebody wants it for; nothing where it can. `types` begins with
/// so many messages that it must understand.
inline std::optional<async::error> check_interface(const async::expected<interface_description>& known,
                                                   const std::vector<const message_type*>& types, std::size_t messages,
                                                   const std::string& place) {
  if (!known) return known.error();
  for (std::size_t i = 0; i < messages; ++i)
    if (std::find(known->messages.begin(), known->messages.end(), types[i]->id) == known->messages.end())
      return async::error{async::error_code::unsupported,
                          "the actor at " + place + " does not understand " + std::string(types[i]->name)};
  return std::nullopt;
}

} // namespace godwit::runtime::detail
