#pragma once

#include <cstdint>
#include <memory>

namespace godwit::runtime::trace {
class recorder;
}

namespace godwit::bench {

struct message_costs {
  double tell_ns = 0; ///< of the worker's processor time a message: a token that goes round a ring of actors
  double ask_ns = 0;  ///< a message: pairs of which one asks the other, again and again
  std::uint64_t messages = 0;
};

/// On one worker thread. `recorder` may be null.
[[nodiscard]] message_costs measure_messages(std::shared_ptr<runtime::trace::recorder> recorder);

} // namespace godwit::bench
