#pragma once

#include "explore/shape.hpp"

#include <array>
#include <chrono>
#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace godwit::explore {

/// What may happen to a cluster. Machine 0 is the head; one beyond those that are there from the start is one of all
/// that are there when the fault strikes, never the head.
enum class fault_kind : std::uint8_t {
  cut,                   ///< of the link between two machines, both ways
  cut_one_way,           ///< control messages from one to the other only
  cut_blocks,            ///< KV transfers between two machines only
  delay,                 ///< every control message between two machines takes `amount` ns longer
  lost_acknowledgements, ///< `amount` messages of KV land without their sender ever hearing of it
  late_blocks,           ///< KV comes to a machine `amount` ns later
  slow_writes,           ///< KV that has come to a machine takes up to `amount` ns to be written
  post_fails,            ///< the next `amount` landing places or sends of a machine come to nothing at once
  freeze,                ///< a machine's process stands still
  crash,                 ///< a machine's process is killed, and started anew after `lasts`
  vanish,                ///< the same without a word: peers learn by hearing nothing
  clock_jump,            ///< a machine's clock goes forward by `amount` ns
  slow_device,           ///< steps on a machine take `amount` times as long
  stuck_device,          ///< no step ends on a machine
  step_fails,            ///< the `amount`-th stretch of layers on a machine from now on ends with an error
  load_fails,            ///< of the models that are loaded from now on, `amount` do not come
  kill_instance,         ///< the `amount`-th of those that are there
  coordinator,    ///< the `amount`-th pass of a place in a migration from now on throws: of those of place `subject`
  stop_scheduler, ///< killed; its node restarts it
  stop_frontend,  ///< ... with all requests
  stop_member,    ///< of a machine; its process is then started anew after `lasts`, as its supervisor would
  orders_fail,    ///< `amount` machines that autoscaling orders do not come, and it is told
  // by people
  client_leaves, ///< that of request `subject`, whatever becomes of it just then
  migrate,       ///< request `subject` to the `amount`-th instance
  drain,         ///< the `amount`-th instance; taken back after `lasts`
  policies,      ///< switched by the bits of `amount`
  role           ///< of the `amount`-th instance
};
[[nodiscard]] std::string_view to_string(fault_kind kind) noexcept;
/// How the names of the places begin of which a coordinator's fault counts the passes: all; a destination's; where
/// blocks have landed there and others may not have.
inline constexpr std::array<std::string_view, 3> coordinator_places{"", "destination.", "destination.landed"};

struct fault {
  fault_kind kind = fault_kind::cut;
  std::chrono::nanoseconds at{0};    ///< since the cluster is up ...
  std::uint32_t steps = 0;           ///< ... and then after so many messages
  std::chrono::nanoseconds lasts{0}; ///< then it is mended
  std::uint32_t machine = 0, other = 0, subject = 0;
  std::uint64_t amount = 0;
};
[[nodiscard]] std::string to_string(const fault& f);
/// By its `subject`.
[[nodiscard]] protocols::instance_role role_given(const fault& f) noexcept;

/// Those of one prompt are samples of it: who comes while an earlier one runs is asked for as another sample.
struct asked_request {
  std::uint32_t kind = 0;
  std::chrono::nanoseconds at{0};
  std::optional<std::uint32_t> goes_after; ///< its client leaves after so many tokens
  std::optional<std::uint32_t> enough;     ///< a stop string is met after so many
  std::uint8_t execution_level = 0;
  std::int32_t priority = 0;
};

/// All of a run: same scenario, same run. Its parts can be left out one by one.
struct scenario {
  std::string name;
  std::uint64_t seed = 0;
  std::uint32_t head_instances = 0;
  std::vector<std::uint32_t> machines;
  bool scales = false;                                ///< autoscaling is on
  std::uint32_t instances_min = 1, instances_max = 6; ///< where it is
  std::uint32_t blocks = 64;                          ///< tight where it is small
  std::string dispatch;
  std::vector<std::pair<std::size_t, fault>> faults; ///< with the numbers by which they are known
  std::vector<std::pair<std::size_t, asked_request>> requests;
  std::vector<std::pair<std::size_t, bool>> settings; ///< indices of knobs, and which of their extremes
  std::vector<std::chrono::nanoseconds> looks;        ///< when the books are compared
  std::chrono::nanoseconds work{0}; ///< that a message takes at most; where it takes none, no timer comes between

  [[nodiscard]] shape cluster() const;
  [[nodiscard]] bool has(fault_kind kind) const;
  /// Some instance may lose requests that it has, other than by live migration.
  [[nodiscard]] bool loses_owners() const;
  /// Some client of the head's front end may hear of an error though all queues are large.
  [[nodiscard]] bool loses_home() const;
};

/// The parts of a scenario to keep, by their numbers; absent: all.
struct selection {
  std::optional<std::set<std::size_t>> faults, requests, settings;
};
/// "0,3-5" or "none".
[[nodiscard]] std::optional<std::set<std::size_t>> parse_numbers(std::string_view text);
[[nodiscard]] std::string to_string(const std::set<std::size_t>& numbers);

struct recipe {
  std::string name;
  std::string text; ///< for people
};
/// The smallest first.
[[nodiscard]] std::vector<recipe> recipes();
/// Throws std::invalid_argument for a name that is not there.
[[nodiscard]] scenario draw(const std::string& recipe, std::uint64_t seed);
[[nodiscard]] scenario select(scenario s, const selection& keep);
/// The command line that runs exactly this again.
[[nodiscard]] std::string replay_line(const scenario& s, const scenario& whole);
/// The longest delay of control messages among its faults.
[[nodiscard]] std::chrono::nanoseconds longest_delay(const scenario& s);
/// Several lines for people: the cluster, its settings, requests and faults in order.
[[nodiscard]] std::string describe(const scenario& s);

} // namespace godwit::explore
