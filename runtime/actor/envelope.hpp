#pragma once

#include "actor/letter.hpp"

#include <caf/actor_control_block.hpp>
#include <caf/meta/type_name.hpp>

#include <cstdint>
#include <string>
#include <vector>

namespace godwit::runtime::detail {

/// A message between nodes: the only type that CAF serialises. Bytes by wire.hpp; actor handles apart, since CAF makes
/// proxies of them.
struct envelope {
  std::uint64_t type = 0;
  std::uint64_t process = 0; ///< where it was recorded, if it was, and the event's number there (trace/recording.hpp)
  std::uint64_t cause = 0;
  std::uint64_t request = 0; ///< the model request that it is about; 0: none, or several
  std::string bytes;
  std::vector<caf::strong_actor_ptr> actors;
};

template <class Inspector> typename Inspector::result_type inspect(Inspector& f, envelope& x) {
  return f(caf::meta::type_name("godwit.envelope"), x.type, x.process, x.cause, x.request, x.bytes, x.actors);
}

class engine;
/// The message inside; null where its type is unknown here or the bytes make none.
[[nodiscard]] letter_ptr open_envelope(const engine& e, const envelope& x);

} // namespace godwit::runtime::detail
