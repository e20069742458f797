#pragma once

#include "main/bench_options.hpp"
#include "main/load_generator.hpp"

#include <cstdint>
#include <ostream>
#include <string>

namespace godwit::main {

/// Shows how far a run is: one line that is written over on a terminal, a line every few seconds elsewhere.
class bench_progress {
public:
  bench_progress(progress_style style, std::string label, std::ostream& out)
      : style_(style), label_(std::move(label)), out_(out) {}

  void show(const load_progress& now);
  /// Ends the line that is written over.
  void finish();

private:
  [[nodiscard]] std::string line(const load_progress& now) const;

  progress_style style_;
  std::string label_;
  std::ostream& out_;
  load_progress last_;
  double tokens_per_s_ = 0.0;
  bool drawn_ = false;
};

} // namespace godwit::main
