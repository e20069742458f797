#pragma once

#include <godwit/runtime/trace/analysis/index.hpp>

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace godwit::runtime::trace::analysis {

/// An arrow from one actor to another, or something that one of them did.
struct sequence_step {
  position what = nowhere;
  std::size_t from = 0; ///< index into sequence::participants
  std::size_t to = 0;   ///< the same as `from` for what an actor did by itself
  std::string name;     ///< harmless
  std::string text;     ///< and what there is to say of it
  bool answer = false;
  bool failed = false; ///< an answer that is an error
  bool lost = false;   ///< sent to another process, and its delivery is not recorded
  bool note = false;   ///< a note, a span, a timer: no arrow
  /// This many steps before it were repeated so many more times, which are left out; it says no more than that.
  std::size_t repeated_steps = 0;
  std::size_t repeats = 0;
  std::int64_t queued_ns = 0; ///< since the recording began
  std::int64_t queue_ns = 0;
  std::int64_t handling_ns = 0; ///< or a span's time
};

struct sequence {
  std::vector<std::string> participants; ///< in order of appearance, harmless
  std::vector<sequence_step> steps;      ///< by time
  std::size_t left_out = 0;              ///< steps beyond the limit
};

struct sequence_options {
  std::size_t steps_max = 200;
  bool fold = true; ///< what is repeated, like the steps of a decoding request, is shown once and counted
};

/// Of these events (see `select`).
[[nodiscard]] sequence make_sequence(const index& of, const std::vector<position>& events,
                                     const sequence_options& options = {});

/// Mermaid's `sequenceDiagram`.
[[nodiscard]] std::string to_mermaid(const sequence& s);
/// PlantUML, `@startuml` to `@enduml`.
[[nodiscard]] std::string to_plantuml(const sequence& s);
/// Lines for a terminal: one column a participant, and what was said beside it.
[[nodiscard]] std::string to_text(const sequence& s);

} // namespace godwit::runtime::trace::analysis
