#pragma once

#include "main/demo_client.hpp"

#include <cstdint>
#include <string>
#include <vector>

namespace godwit::main {

/// What happened in a demo.
struct demo_report {
  std::string model;
  std::uint32_t instances = 0;
  std::uint32_t killed_instance = 0;
  std::uint64_t redispatched = 0; ///< requests that changed owner because the instance was killed
  std::uint64_t restarts = 0;     ///< of instances, while the demo ran
  double calm_seconds = 0;
  double disturbed_seconds = 0;
  std::vector<demo_answer> calm;
  std::vector<demo_answer> disturbed;

  [[nodiscard]] std::size_t complete() const; ///< answers of the disturbed round that came whole
  [[nodiscard]] std::size_t equal() const;    ///< of these, equal to those of the undisturbed one
  /// The kill hit running requests, every client got its whole answer, and each equals the undisturbed one.
  [[nodiscard]] bool passed() const;
};

[[nodiscard]] std::string demo_table(const demo_report& report);
[[nodiscard]] std::string demo_json(const demo_report& report);

} // namespace godwit::main
