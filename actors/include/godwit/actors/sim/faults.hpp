#pragma once

#include <godwit/protocols/expected.hpp>
#include <godwit/protocols/workload/random.hpp>

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

/// What goes wrong in a simulated cluster, and when: a plan, or draws by a seed. Pure; docs/simulation.md has the
/// grammar for people.
namespace godwit::actors::sim {

enum class fault_kind : std::uint8_t {
  crash,  ///< a process is killed; its machine says so to its peers
  vanish, ///< its machine is gone without a word: peers learn by hearing nothing
  cut,    ///< nothing passes between two processes, neither messages nor KV blocks
  freeze, ///< a process stands still, as by SIGSTOP
  slow,   ///< steps of an instance's device take `factor` times as long
};
[[nodiscard]] std::string_view to_string(fault_kind kind) noexcept;

struct fault {
  fault_kind kind = fault_kind::crash;
  std::string target;                            ///< "instance-3", or "head"
  std::string other;                             ///< of a cut: its other end
  double factor = 1;                             ///< of `slow`
  std::chrono::nanoseconds at{0};                ///< since the workload began
  std::optional<std::chrono::nanoseconds> lasts; ///< then it is mended; a crashed process is started anew. None: never
  friend bool operator==(const fault&, const fault&) = default;
};
/// As a plan has it: "crash:instance-3@120s+30s".
[[nodiscard]] std::string to_string(const fault& f);

/// Faults at random, at a rate.
struct random_faults {
  double per_second = 0;
  std::chrono::nanoseconds from{0};
  std::optional<std::chrono::nanoseconds> lasts; ///< none: to the end of the run
  friend bool operator==(const random_faults&, const random_faults&) = default;
};

struct fault_plan {
  std::vector<fault> planned;
  std::vector<random_faults> random; ///< each with draws of its own
  [[nodiscard]] bool empty() const noexcept { return planned.empty() && random.empty(); }
  friend bool operator==(const fault_plan&, const fault_plan&) = default;
};

/// No fault begins later or lasts longer: no run does.
constexpr std::chrono::hours fault_time_max{10'000};

/// A plan for a cluster that begins with so many instances: KIND:TARGET@START[+DURATION] and RATE, joined by commas.
/// The error is one line that names the part that is wrong and how to mend it.
[[nodiscard]] protocols::expected<fault_plan, std::string> parse_faults(std::string_view spec, std::uint32_t instances);

/// The faults of a `random_faults`, one after the other: a function of its arguments.
///
/// Gaps are exponential. Each fault is a crash, a cut, a freeze or a slow device, all alike, of an instance among those
/// of the start, all alike; half of the cuts are from the head, half between two instances. All are mended in time.
class fault_draws {
public:
  /// `number`: which of the plan's; `instances` > 0.
  fault_draws(const random_faults& what, std::uint64_t seed, std::uint64_t number, std::uint32_t instances);
  /// None: there are no more.
  [[nodiscard]] std::optional<fault> next();

private:
  [[nodiscard]] std::uint64_t between(std::uint64_t least, std::uint64_t most);

  random_faults what_;
  protocols::workload::counter_random random_;
  std::uint32_t instances_;
  double at_s_;
};

} // namespace godwit::actors::sim
