#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

/// What was recorded of a run, as tools read it: of one process or merged from several.
///
/// docs/tracing.md says what is recorded and when; docs/formats/trace.md how it lies in a file.
namespace godwit::runtime::trace {

/// Names an event. `number` counts per process, in no order of time; 0: none.
struct event_id {
  std::uint32_t process = 0; ///< index into recording::processes
  std::uint64_t number = 0;
  event_id() = default;
  event_id(std::uint32_t which, std::uint64_t n) noexcept : process(which), number(n) {}
  explicit operator bool() const noexcept { return number != 0; }
  friend auto operator<=>(const event_id&, const event_id&) = default;
};

/// Names an actor. `id` 0: somebody who is no actor (a thread of HTTP, of a device, of the fabric).
struct actor_id {
  std::uint32_t process = 0;
  std::uint64_t id = 0;
  actor_id() = default;
  actor_id(std::uint32_t where, std::uint64_t n) noexcept : process(where), id(n) {}
  explicit operator bool() const noexcept { return id != 0; }
  friend auto operator<=>(const actor_id&, const actor_id&) = default;
};

enum class event_kind : std::uint8_t {
  delivery, ///< an actor handled a message
  sent,     ///< a message left for an actor of another process; its delivery there has this event as its cause
  spawned,  ///< an actor began; `receiver` is the actor, `name` its name
  ended,    ///< an actor's end
  span,     ///< something that took time and is no message: a device step, a transfer, an HTTP request
  note,     ///< something that happened at one moment: a decision, a change of state
  gap       ///< events were lost here, `count` of them: written faster than they were stored
};
inline constexpr std::uint8_t event_kinds = 7;
[[nodiscard]] std::string_view to_string(event_kind kind) noexcept;

/// What a delivery or a sent event carries.
enum class message_kind : std::uint8_t {
  message, ///< nobody waits for an answer
  request,
  answer,
  failure, ///< an answer that is an error
  timer,   ///< the actor's alarm: sleeps and timeouts that are over
  down,    ///< an actor that it watches is gone
  stop     ///< it is told to end
};
inline constexpr std::uint8_t message_kinds = 7;
[[nodiscard]] std::string_view to_string(message_kind kind) noexcept;

/// One named value of a span or a note; all of them text, numbers as decimal digits.
struct attribute {
  std::string name;
  std::string value;
  attribute() = default;
  attribute(std::string n, std::string v) : name(std::move(n)), value(std::move(v)) {}
  friend bool operator==(const attribute&, const attribute&) = default;
};

/// Something that happened. Times are ns of the process's clock (see process::offset_ns).
///
/// Causes form a forest: an event's cause came before it, and there are no cycles.
///   delivery  what was being handled when the message was made; for an answer to a completion from outside (a device,
///   a
///             transfer): what was being handled when the wait for it began
///   sent, spawned, note, span: what was being handled when it happened or began
struct event {
  event_kind kind = event_kind::delivery;
  message_kind message = message_kind::message;
  bool outside = false; ///< made by a thread that was not handling a message: what replay must be told
  bool resumed = false; ///< its handling went on with at least one suspended coroutine
  event_id id;
  event_id cause;
  actor_id sender;            ///< of a message; of a note or span: the actor in whose name it was written
  actor_id receiver;          ///< of a message; the actor that was spawned or ended
  std::uint32_t name = 0;     ///< index into recording::names: the message's type, the span's or note's name
  std::uint32_t thread = 0;   ///< on which it was handled, counted per process
  std::int64_t queued_ns = 0; ///< into the mailbox; for other events as begin_ns
  std::int64_t begin_ns = 0;  ///< of its handling
  std::int64_t end_ns = 0;
  std::uint64_t request = 0; ///< the model request that it is about (protocols::request_id); 0: none, or several
  std::uint64_t wait = 0;    ///< of requests and their answers: the same number, unique for the asking actor
  /// Of a delivery and a spawned event: the numbers of the events made while it was handled are first + 1 .. first +
  /// made
  /// - 1. `first` itself is nobody's; along a thread it rises strictly, which is the order of handling.
  std::uint64_t first = 0;
  std::uint64_t made = 0;
  std::uint64_t count = 0; ///< of a gap
  std::uint32_t bytes = 0; ///< of the message itself, without what it points to; from another process: as serialised
  std::uint32_t depth = 0; ///< messages before it in the mailbox when it was queued
  std::string content;     ///< of a message, where content was recorded: its bytes as between nodes
  std::vector<actor_id> actors;      ///< handles in the content, which refers to them by index
  std::string text;                  ///< of a message, where content was recorded: to be read by people
  std::vector<attribute> attributes; ///< of spans and notes
  friend bool operator==(const event&, const event&) = default;
};

/// Where part of a recording comes from.
struct process {
  std::uint64_t key = 0;            ///< random, chosen at its start; between processes it names this one
  std::string name;                 ///< of the node
  std::int64_t started_unix_ns = 0; ///< wall clock at ns 0 of its clock; 0 in a simulation
  std::int64_t offset_ns = 0;       ///< to be added to its times for those of the first process
  std::vector<attribute> facts;     ///< what else is known of it: version, command, settings, seed, level
  friend bool operator==(const process&, const process&) = default;
};

struct recording {
  std::vector<process> processes;
  std::vector<std::string> names;         ///< [0] is empty
  std::map<actor_id, std::string> actors; ///< names of actors; those without a spawned event may lack
  std::vector<event> events;              ///< by begin_ns (with offset), then id
  bool holed = false; ///< the file was damaged, and what follows the damage is here, too; a remark says where
  std::vector<std::string> remarks; ///< what the reader noticed: a torn end, a gap, a clock that had to be guessed

  [[nodiscard]] std::int64_t at(const event& e) const noexcept {
    return e.begin_ns + processes[e.id.process].offset_ns;
  }
  [[nodiscard]] const std::string& name_of(const event& e) const noexcept { return names[e.name]; }
  [[nodiscard]] std::string_view fact(std::uint32_t which, std::string_view name) const noexcept;
};

} // namespace godwit::runtime::trace
