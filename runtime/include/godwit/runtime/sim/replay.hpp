#pragma once

#include <godwit/runtime/host.hpp>
#include <godwit/runtime/trace/recorder.hpp>
#include <godwit/runtime/trace/recording.hpp>

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace godwit::runtime::sim {

namespace detail {
class replayer;
}

/// Where a replay stops before the recording's end.
struct replay_limits {
  trace::event_id until; ///< after this event; 0: none
  /// Asked before each delivery; true: stop there. A debugger may stand in it.
  std::function<bool(const trace::event&, const std::string& type)> stop_before;
};

struct replay_result {
  std::uint64_t handled = 0; ///< deliveries and beginnings of actors
  std::uint64_t notes = 0;   ///< decisions, changes of state and the like that came again
  bool complete = false;     ///< all of the recording, and everything came again as it was
  trace::event_id at;        ///< the last event that was handled
  std::string difference;    ///< the first; empty: none
  std::string recorded;      ///< what the recording has there, in words
  std::string replayed;      ///< what came instead
};

/// Runs the actors of a recorded process again: the same actors get the same messages in the same order, at the same
/// times, and what they do is compared with what they did.
///
/// The recording must hold contents and prompts from the process's start, without gaps. The actors that the process
/// began with are made by the caller, in the same order and with the same options:
///
///     auto again = sim::replay::make(std::move(recording));    // expected: why it cannot be replayed
///     (*again)->host().spawn<actors::node>(options);
///     auto result = (*again)->run({});
///
/// What a device, a client or the clock said comes out of the recording (trace::input, messages from outside). So the
/// actors' surroundings are doubles that do nothing; they must keep the functions that they are given to call back, and
/// never call them.
class replay {
public:
  /// Errors: unsupported, where the recording cannot be replayed, with the reason.
  static async::expected<std::unique_ptr<replay>> make(trace::recording recorded, report_function report = {});
  replay(const replay&) = delete;
  replay& operator=(const replay&) = delete;
  ~replay();

  [[nodiscard]] actor_host& host() noexcept;
  /// Messages that came from outside the actors and are in no interface, for example results of `callback`.
  void know(const std::vector<const message_type*>& types);
  /// Once.
  replay_result run(const replay_limits& limits);

private:
  explicit replay(std::unique_ptr<detail::replayer> made);
  std::unique_ptr<detail::replayer> replayer_;
};

} // namespace godwit::runtime::sim
