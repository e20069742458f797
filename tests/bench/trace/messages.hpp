#pragma once

#include <cstdint>
#include <memory>

namespace godwit::runtime::trace {
class recorder;
}

namespace godwit::bench {

/// The two programs of support/ring.hpp on one worker thread, again and again in short slices.
class message_load {
public:
  /// `recorder` may be null.
  explicit message_load(std::shared_ptr<runtime::trace::recorder> recorder);
  message_load(const message_load&) = delete;
  message_load& operator=(const message_load&) = delete;
  ~message_load();

  /// A slice of a token that goes round a ring of actors: ns of the worker's processor time a message.
  [[nodiscard]] double tell();
  /// A slice of pairs of which one asks the other, again and again.
  [[nodiscard]] double ask();

private:
  struct parts;
  std::unique_ptr<parts> parts_;
};

/// A slice for each line of the standard input, "tell" or "ask"; prints what it took. Until the input ends, or a line
/// says something else.
void answer_slices(message_load& load);

} // namespace godwit::bench
