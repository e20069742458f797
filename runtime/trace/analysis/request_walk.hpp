#pragma once

#include <godwit/runtime/trace/analysis/requests.hpp>

#include <set>
#include <unordered_map>
#include <vector>

namespace godwit::runtime::trace::analysis {

/// Whether it is a step of a device.
[[nodiscard]] bool is_step(const index& of, position p);
/// Whether a step says that it was for others alone. It names those it was for, the first 1,024.
[[nodiscard]] bool is_for_others(const index& of, position step, std::uint64_t request);

/// Finds the messages by which a model request got its last token.
///
/// Causes alone do not lead there: a step of a device that serves several requests is caused by the step before it, and
/// so by whoever woke the engine; a decision for several requests is caused by the first one; a migration by a timer of
/// the scheduler. So the walk goes up along causes until before the request had come to where it is, or to such a
/// timer, and goes over to the message that brought it there, or to the last step that was for it there.
class request_walk {
public:
  request_walk(const index& of, const model_request& request);
  /// From the beginning, or from where causes are missing, to the last token.
  [[nodiscard]] const std::vector<position>& events() const noexcept { return events_; }
  /// Of these, what its actor handled later than it had got the request, and for another reason.
  [[nodiscard]] bool held_until(position p) const { return held_.contains(p); }
  [[nodiscard]] bool whole() const noexcept { return whole_; }

private:
  /// How far a climb along causes came.
  struct climbed {
    bool done = false;          ///< to the beginning
    std::size_t last = 0;       ///< of the path: the message that was held...
    position arrived = nowhere; ///< ... since this one brought the request to its actor
  };

  enum class whose : std::uint8_t { nobodys, ours, others };

  void look();
  void look_below(position root);
  [[nodiscard]] bool ours(position p) const { return of_.about(p) == request_.id; }
  [[nodiscard]] bool is(position p, std::string_view type) const;
  [[nodiscard]] position last_message() const;
  [[nodiscard]] position latest(const std::vector<position>& among, position at) const;
  [[nodiscard]] bool shared_timer(position p) const;
  [[nodiscard]] climbed climb(position from, std::vector<position>& path) const;
  [[nodiscard]] climbed guess(std::size_t from, const std::vector<position>& path) const;
  [[nodiscard]] whose step_of(position cause);
  [[nodiscard]] bool came_of_its_step(position p);
  [[nodiscard]] position progress(position arrived, position held);
  void walk(position last);

  const index& of_;
  const model_request& request_;
  std::vector<position> arrivals_;            ///< messages that brought the request to an actor, by time
  std::vector<position> about_;               ///< all deliveries about it, by time
  std::unordered_map<position, whose> steps_; ///< what step_of() found
  position said_ = nowhere;                   ///< the message upon which its home said how it ended
  std::vector<position> events_;
  std::set<position> held_;
  bool whole_ = false;
};

} // namespace godwit::runtime::trace::analysis
