#pragma once

#include "main/simulate.hpp"

#include <godwit/runtime/config/registry.hpp>

#include <CLI/CLI.hpp>

namespace godwit::main {

/// Everything between the flags and a run. Lives until the command has run.
struct sim_flags {
  sim_options options;
  runtime::config::registry registry;
  runtime::config::problems problems;

  sim_flags() {
    options.settings = sim_defaults();
    options.load.requests = 1000;
  }
  [[nodiscard]] bool gather();
};

/// The flags that say what is simulated: instances, policy, profile, workload and settings. `flags` lives until the
/// command has run.
void add_simulation_flags(CLI::App& command, sim_flags& flags);
/// What is left to do when they have been read: whether somebody said a policy, and how much of a trace is played.
void note_given(const CLI::App& command, sim_flags& flags);

} // namespace godwit::main
