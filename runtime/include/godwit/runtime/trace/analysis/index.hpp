#pragma once

#include <godwit/runtime/trace/recording.hpp>

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

/// Questions to a recording. Pure: no clock, file, terminal.
namespace godwit::runtime::trace::analysis {

/// Where an event lies in recording::events.
using position = std::uint32_t;
inline constexpr position nowhere = 0xFFFF'FFFF;

/// Finds events by id, cause, effect and question. Refers to the recording, which must outlive it and stay as it is.
///
/// Costs about 40 bytes an event and O(n log n) once; each question is O(log n) or less.
class index {
public:
  explicit index(const recording& of);

  [[nodiscard]] const recording& source() const noexcept { return *source_; }
  [[nodiscard]] std::size_t size() const noexcept { return source_->events.size(); }
  [[nodiscard]] const event& operator[](position p) const noexcept { return source_->events[p]; }

  [[nodiscard]] position find(event_id id) const noexcept;
  /// `nowhere`: it has none, or the recording lacks it.
  [[nodiscard]] position cause(position p) const noexcept { return causes_[p]; }
  /// By the time of their beginning.
  [[nodiscard]] std::span<const position> effects(position p) const noexcept;
  /// Events without a cause in the recording, by time.
  [[nodiscard]] const std::vector<position>& roots() const noexcept { return roots_; }
  /// How many causes are above it. Of events at the same moment, as a simulation has them, the order in which they
  /// came.
  [[nodiscard]] std::uint32_t depth(position p) const noexcept { return depths_[p]; }
  [[nodiscard]] bool before(position a, position b) const noexcept {
    return begin(a) != begin(b) ? begin(a) < begin(b) : depth(a) != depth(b) ? depth(a) < depth(b) : a < b;
  }
  /// The delivered answer to a delivered request, and the reverse.
  [[nodiscard]] position answer(position request) const noexcept { return partner(request, message_kind::request); }
  [[nodiscard]] position question(position answer) const noexcept;

  /// The model request that an event is about. What a recording does not say follows from the message's other record
  /// (sent and delivered), or from what an answer answers. 0: none, or several.
  [[nodiscard]] std::uint64_t about(position p) const noexcept { return about_[p]; }

  // Times are ns of the first process's clock.
  [[nodiscard]] std::int64_t queued(position p) const noexcept { return on_first(p, (*this)[p].queued_ns); }
  [[nodiscard]] std::int64_t begin(position p) const noexcept { return on_first(p, (*this)[p].begin_ns); }
  [[nodiscard]] std::int64_t end(position p) const noexcept { return on_first(p, (*this)[p].end_ns); }
  [[nodiscard]] std::int64_t first_ns() const noexcept { return first_ns_; } ///< of the whole recording
  [[nodiscard]] std::int64_t last_ns() const noexcept { return last_ns_; }

private:
  [[nodiscard]] std::int64_t on_first(position p, std::int64_t ns) const noexcept {
    return ns + source_->processes[(*this)[p].id.process].offset_ns;
  }
  [[nodiscard]] position partner(position p, message_kind kind) const noexcept;
  void find_causes();
  void find_depths();
  void find_answers();
  void find_about();

  const recording* source_;
  std::vector<position> by_id_;
  std::vector<position> causes_;
  std::vector<std::uint32_t> effects_at_; ///< where an event's effects begin in effects_
  std::vector<position> effects_;
  std::vector<position> roots_;
  std::vector<std::uint32_t> depths_;
  std::vector<std::pair<position, position>> asked_;    ///< request and answer, by request
  std::vector<std::pair<position, position>> answered_; ///< answer and request, by answer
  std::vector<std::uint64_t> about_;
  std::int64_t first_ns_ = 0;
  std::int64_t last_ns_ = 0;
};

} // namespace godwit::runtime::trace::analysis
