#pragma once

#include "main/demo_client.hpp"
#include "main/demo_mover.hpp"

#include <cstdint>
#include <string>
#include <vector>

namespace godwit::main {

/// The same requests, once more.
struct demo_play {
  const char* title;
  const char* key; ///< in JSON
  double seconds = 0;
  std::vector<demo_answer> answers;
};

/// What happened in a demo.
struct demo_report {
  std::string model;
  std::uint32_t instances = 0;
  moves moved; ///< by all disturbed rounds
  std::uint32_t killed_instance = 0;
  std::uint64_t redispatched = 0; ///< requests that changed owner because the instance was killed
  std::uint64_t restarts = 0;     ///< of instances, while the demo ran
  demo_play calm{"undisturbed", "undisturbed", 0, {}};
  demo_play migrated{"migrating all the time", "migrated", 0, {}};
  demo_play killed{"... and an instance killed", "killed", 0, {}};

  [[nodiscard]] std::size_t complete(const demo_play& round) const; ///< answers that came whole
  [[nodiscard]] std::size_t equal(const demo_play& round) const;    ///< of these, equal to the undisturbed ones
  /// Every answer of every disturbed round is whole and equal to the undisturbed one.
  [[nodiscard]] bool identical() const;
  /// ... and requests did move, and the kill did hit running ones.
  [[nodiscard]] bool passed() const;
};

[[nodiscard]] std::string demo_table(const demo_report& report);
[[nodiscard]] std::string demo_json(const demo_report& report);

} // namespace godwit::main
