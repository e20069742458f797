#pragma once

#include "actors/support/catalogue.hpp"
#include "actors/support/mover.hpp"

#include <cstdint>
#include <map>
#include <string>

namespace godwit::test {

/// A cluster of random shape under a random load, whose requests migrate at random moments; and what goes wrong
/// meanwhile. All of it follows from the seed.
struct storm {
  std::uint64_t seed = 1;
  bool kills = false;        ///< instances
  bool coordinators = false; ///< exceptions at the places that migrations pass, which end their coordinators
  bool links = false;        ///< cut, frozen, without acknowledgements
  bool withdrawals = false;  ///< clients that go away
  bool frontends = false;    ///< the home of all requests is killed
  bool memory_pressure = false;
  /// Chance of each pass to fail, in thousandths; `only`: of the places that begin so.
  std::uint32_t fault_permille = 20;
  std::string only = {};
};

struct storm_outcome {
  std::map<std::string, std::uint32_t> ends; ///< migrations by outcome and reason
  std::map<std::string, std::uint32_t> hits; ///< failpoints passed
  std::uint64_t preemptions = 0;
  std::uint64_t redispatches = 0;
  std::uint64_t moves = 0;
  std::uint64_t events = 0;
  std::uint64_t hash = 0; ///< of every message and its time

  void add(const storm_outcome& other);
  [[nodiscard]] std::uint32_t with_outcome(const std::string& outcome) const;
};

/// Runs it and expects that every answer is the calm one (or, where homes die and clients leave, a beginning of it)
/// and that nothing is left behind.
storm_outcome run_storm(const storm& s);

/// The storms of the seeds from 1 to `count` (GODWIT_TEST_SEEDS=20: twenty times as many), until one fails. Prints what
/// came of all migrations.
storm_outcome run_storms(storm s, std::uint64_t count);

} // namespace godwit::test
