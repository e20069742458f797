#pragma once

#include <godwit/runtime/clock.hpp>
#include <godwit/runtime/trace/recording.hpp>
#include <godwit/runtime/wire.hpp>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

/// Recording what actors say to each other, while they do.
namespace godwit::runtime::trace {

enum class level : std::uint8_t {
  off,
  headers, ///< who, whom, which type, when, because of what
  content  ///< the messages themselves too: enough for replay, where prompts are kept
};
[[nodiscard]] std::string_view to_string(level what) noexcept;
[[nodiscard]] std::optional<level> parse_level(std::string_view text) noexcept;

/// Which messages are kept: all four must let them pass, and what is empty lets everything pass. Notes and spans about
/// a model request that does not pass are left out too; others stay.
struct filter {
  std::vector<std::string> actors;     ///< of sender or receiver: `llumlet`, or with its number `llumlet 12`
  std::vector<std::string> types;      ///< parts of type names
  std::vector<std::uint64_t> requests; ///< model requests; messages about none do not pass
  double sample = 1;                   ///< share of model requests whose messages are kept; messages about none are
  [[nodiscard]] bool everything() const noexcept {
    return actors.empty() && types.empty() && requests.empty() && sample >= 1;
  }
};

struct recorder_settings {
  trace::level level = level::headers;
  bool prompts = false; ///< content shows and keeps what clients said
  /// The flight recorder: what a snapshot can look back on. Memory: 128 bytes an event and thread.
  std::size_t events_per_thread = std::size_t{1} << 13;
  std::size_t threads_max = 256;                    ///< of others nothing is kept, but counted
  std::size_t events_beside = std::size_t{1} << 14; ///< spans, notes, spawns, and messages with their content
  std::size_t bytes_beside = std::size_t{64} << 20; ///< of these
  trace::filter keep;
};

namespace detail {
class recorder_core;
struct tapped;
} // namespace detail
class recorder;
class because_of;

/// Sees a message just before its actor handles it, on that actor's thread: it must be quick and must not send in the
/// actor's name. The event has no end yet; its text and content are there at level content. `type`: the message's.
using tap_function = std::function<void(const event& what, std::string_view type)>;

/// Ends with this: after its destructor has returned the function is not called any more.
class tap {
public:
  tap() noexcept = default;
  tap(tap&&) noexcept = default;
  tap& operator=(tap&& other) noexcept;
  ~tap();

private:
  friend class recorder;
  std::shared_ptr<detail::recorder_core> core_;
  std::shared_ptr<detail::tapped> what_;
};

/// A span, for whoever sends something because of it when it may have ended, or on another thread. Empty: no span.
class span_cause {
public:
  span_cause() noexcept = default;

private:
  friend class span;
  friend class because_of;
  std::shared_ptr<detail::recorder_core> core_;
  std::uint64_t number_ = 0;
};

/// Something that takes time and is no message. Ends once, on any thread; destroyed before that, it ends with the
/// attribute `abandoned`. Does nothing where it was made without a recorder, or at level off.
class span {
public:
  span() noexcept = default;
  span(span&& other) noexcept;
  span& operator=(span&& other) noexcept;
  ~span();
  explicit operator bool() const noexcept { return core_ != nullptr; }
  /// To be the cause of others, on this thread or another.
  [[nodiscard]] std::uint64_t number() const noexcept { return number_; }
  [[nodiscard]] span_cause as_cause() const noexcept;
  void add(std::string name, std::string value);
  /// About this model request; the first one counts.
  void about(std::uint64_t request) noexcept;
  void end();

private:
  friend class recorder;
  friend span begin_span(std::string_view name, std::uint64_t request);
  static span start(std::shared_ptr<detail::recorder_core> core, std::string_view name, std::uint64_t request,
                    std::uint64_t cause);
  std::shared_ptr<detail::recorder_core> core_;
  std::uint64_t number_ = 0;
  std::uint64_t cause_ = 0;
  std::uint64_t request_ = 0;
  actor_id actor_;
  std::uint32_t process_ = 0;
  std::int64_t begin_ns_ = 0;
  std::string name_;
  std::vector<attribute> attributes_;
};

/// Keeps the last events of a process in memory, always (the flight recorder), and hands them to whoever stores them.
/// One for an actor_system, or for a whole simulated world.
///
/// Headers of messages wait for nobody: a thread writes into a ring of its own and overwrites the oldest. Spans, notes
/// and contents go into a bounded queue under a lock. What is lost is counted, and shows as a gap.
class recorder {
public:
  /// On the machine's clock.
  explicit recorder(process who, recorder_settings settings = {});
  /// On a clock that must live as long: a simulated world's.
  recorder(process who, recorder_settings settings, const runtime::clock& clock);
  recorder(const recorder&) = delete;
  recorder& operator=(const recorder&) = delete;
  ~recorder();

  /// While it runs, from any thread.
  void set_level(trace::level what) noexcept;
  [[nodiscard]] trace::level level() const noexcept;
  void set_filter(filter keep);

  /// Shows messages that pass the filter to somebody of this process: a test, a monitor, an experiment. Not at level
  /// off. Costs nothing while there is none.
  [[nodiscard]] trace::tap tap(filter chosen, tap_function function);

  /// What happened, because of what the calling thread handles.
  void note(std::string_view name, std::vector<attribute> attributes, std::uint64_t request = 0);
  /// `cause` 0: what the calling thread handles.
  [[nodiscard]] span begin(std::string_view name, std::uint64_t request = 0, std::uint64_t cause = 0);

  /// What is kept, of the last so many ns. For people: other threads go on meanwhile.
  [[nodiscard]] recording snapshot(std::chrono::nanoseconds last = std::chrono::nanoseconds::max()) const;

  /// Everything since the last call, once, in no strict order; `take` gets the event and the name for its `name` index,
  /// which is 0. One thread at a time.
  using taker = std::function<void(event&, std::string_view name)>;
  void drain(const taker& take);
  /// Its processes so far; their order is that of indices in events.
  [[nodiscard]] std::vector<process> processes() const;
  /// Actors that live now, as `spawned` events with their names.
  [[nodiscard]] std::vector<std::pair<event, std::string>> living() const;

  /// Lost since the start, by overwriting before they were drained (where somebody drains) or for want of room.
  [[nodiscard]] std::uint64_t lost() const noexcept;
  /// Its time, which is the time of events.
  [[nodiscard]] const runtime::clock& clock() const noexcept;

  /// @private
  [[nodiscard]] const std::shared_ptr<detail::recorder_core>& core() const noexcept { return core_; }

private:
  std::shared_ptr<detail::recorder_core> core_;
};

/// For what is called out of an actor's handler without being given a recorder: notes of what the thread handles.
/// Nothing happens where it handles nothing, or nobody records.
void note(std::string_view name, std::vector<attribute> attributes, std::uint64_t request = 0);
[[nodiscard]] span begin_span(std::string_view name, std::uint64_t request = 0);
/// True where a note would be kept: asked before costly attributes are made.
[[nodiscard]] bool recording_here() noexcept;

/// What a replay gives back instead of asking the world. One per thread that replays; everybody else has none.
class replay_source {
public:
  /// The value that was kept under this name at this point; nothing: the recording has none.
  [[nodiscard]] virtual std::optional<std::string> take(std::string_view name) = 0;
  /// Objects that messages name by a number of the recorded process; empty at first.
  [[nodiscard]] virtual std::shared_ptr<void>& object(std::uint64_t number) = 0;
  /// Until the end of the replay: functions to be called back, which must neither be called nor dropped before.
  virtual void keep(std::shared_ptr<void> what) = 0;

protected:
  ~replay_source() = default;
};
/// Null where the calling thread does not replay.
[[nodiscard]] replay_source* replaying() noexcept;

namespace detail {
[[nodiscard]] bool keeps_inputs() noexcept;
void keep_input(std::string_view name, std::string bytes);
[[noreturn]] void input_is_missing(std::string_view name);
} // namespace detail

/// A value that an actor gets while it handles a message, otherwise than by a message: from a device, a client, another
/// thread. `get` asks for it. Kept where contents are; in a replay `get` is not called, and what was kept comes back.
/// Errors: throws std::runtime_error in a replay whose recording has no such value.
template <class T, class Get> T input(std::string_view name, Get&& get) {
  if (auto* source = replaying()) {
    auto bytes = source->take(name);
    if (!bytes) detail::input_is_missing(name);
    wire_reader in(std::as_bytes(std::span{*bytes}), {});
    T value{};
    wire_read(in, value);
    detail::keep_input(name, std::move(*bytes));
    return value;
  }
  T value = std::forward<Get>(get)();
  if (detail::keeps_inputs()) {
    wire_writer out;
    wire_write(out, value);
    detail::keep_input(name, std::string(reinterpret_cast<const char*>(out.bytes.data()), out.bytes.size()));
  }
  return value;
}

/// While it lives, what this thread sends comes from outside, though a handler runs: around a handler's calls of code
/// that a replay leaves out, as clients' sinks, since the replay cannot make these messages again.
class foreign_call {
public:
  foreign_call() noexcept;
  foreign_call(const foreign_call&) = delete;
  foreign_call& operator=(const foreign_call&) = delete;
  ~foreign_call();

private:
  bool before_;
};

/// While it lives, what this thread sends has that span as its cause. For threads that are no actor's.
class because_of {
public:
  explicit because_of(const span& cause) noexcept : because_of(cause.as_cause()) {}
  explicit because_of(const span_cause& cause) noexcept;
  because_of(const because_of&) = delete;
  because_of& operator=(const because_of&) = delete;
  ~because_of();

private:
  std::shared_ptr<detail::recorder_core> core_;
  std::uint64_t before_ = 0;
};

} // namespace godwit::runtime::trace
