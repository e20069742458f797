#pragma once

#include <godwit/actors/sim/faults.hpp>
#include <godwit/actors/sim/simulated_cluster.hpp>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <list>
#include <map>
#include <string>
#include <utility>
#include <vector>

namespace godwit::actors::sim {

/// What became of a fault.
struct fault_record {
  fault what;
  std::string why_not; ///< empty: it struck; otherwise why it could not
  friend bool operator==(const fault_record&, const fault_record&) = default;
};

struct fault_books {
  std::vector<fault_record> records;           ///< the first `records_max`, in the order of their times
  std::map<std::string, std::uint64_t> struck; ///< all, by kind
  std::uint64_t missed = 0;                    ///< all that found nothing to strike
  std::uint64_t early_end = 0;                 ///< planned ones that the run's end came before
  static constexpr std::size_t records_max = 10'000;
  friend bool operator==(const fault_books&, const fault_books&) = default;
};

/// Carries out a plan in a cluster of separate processes, on the world's time.
///
/// Faults of one kind and one target may overlap: a link is whole again, and a process goes on, when the last of them
/// is over; of slow devices the slowest counts. A process that is down can be neither crashed nor frozen. A restart
/// ends what froze the process before.
class fault_injector {
public:
  /// `instances`: of the start; random faults are theirs. The cluster's timers must not fire any more when this is
  /// gone.
  fault_injector(simulated_cluster& cluster, fault_plan plan, std::uint64_t seed, std::uint32_t instances);
  fault_injector(const fault_injector&) = delete;
  fault_injector& operator=(const fault_injector&) = delete;

  /// Times of the plan count from now.
  void begin();
  /// Nothing more happens, and nothing is mended any more.
  void stop() noexcept { over_ = true; }
  [[nodiscard]] const fault_books& books() const noexcept { return books_; }

private:
  struct target {
    std::uint64_t process = 0; ///< counts restarts
    std::uint32_t freezes = 0;
    std::vector<double> slow;
  };
  void draw_next(fault_draws& draws);
  void at(std::chrono::nanoseconds time, std::function<void()> what);
  void strike(const fault& f);
  /// Empty: it could be done.
  [[nodiscard]] std::string inflict(const fault& f);
  [[nodiscard]] std::string why_not(const std::string& process) const;
  /// When it is over.
  void mend_later(const fault& f, std::function<void()> how);
  void slow_down(const std::string& name);

  simulated_cluster& cluster_;
  fault_plan plan_;
  std::list<fault_draws> draws_;
  std::chrono::nanoseconds began_{0};
  std::map<std::string, target> targets_;
  std::map<std::pair<std::string, std::string>, std::uint32_t> cuts_;
  fault_books books_;
  bool over_ = false;
};

} // namespace godwit::actors::sim
