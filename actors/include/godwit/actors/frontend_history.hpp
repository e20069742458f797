#pragma once

#include <godwit/protocols/messages/scheduling.hpp>

#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <string_view>
#include <vector>

namespace godwit::actors {

/// What befell one open request, oldest first: the last `events_max` things, and how many there were before.
class request_trail {
public:
  explicit request_trail(std::size_t events_max) : events_max_(events_max) {}
  void add(protocols::request_event event);
  /// The instance refused: the dispatch under this epoch, the last one, never happened.
  void take_back(protocols::epoch epoch);

  [[nodiscard]] const std::vector<protocols::request_event>& events() const noexcept { return events_; }
  [[nodiscard]] std::uint64_t dropped() const noexcept { return dropped_; }

private:
  std::size_t events_max_;
  std::vector<protocols::request_event> events_;
  std::uint64_t dropped_ = 0;
};

/// The histories of the last requests that ended: who asks why an answer was slow asks when it is over.
class ended_requests {
public:
  explicit ended_requests(std::size_t requests_max) : requests_max_(requests_max) {}
  void add(protocols::request_history history);
  /// A report of a migration that came after its request's end. False when the request is not known (any more).
  bool add(protocols::request_id request, protocols::request_event event, std::size_t events_max);

  [[nodiscard]] const protocols::request_history* find(protocols::request_id request) const noexcept;
  /// Of all that go by this name the one with the highest number; its namesakes are filled in, `namesakes_max` of them.
  [[nodiscard]] std::optional<protocols::request_history> find(std::string_view client_id,
                                                               std::size_t namesakes_max) const;
  [[nodiscard]] std::size_t size() const noexcept { return histories_.size(); }

private:
  std::size_t requests_max_;
  std::deque<protocols::request_history> histories_; ///< in the order of their ends
};

} // namespace godwit::actors
