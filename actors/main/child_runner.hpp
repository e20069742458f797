#pragma once

#include <chrono>
#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace godwit::main {

/// A program to run as a child of this process.
struct child_order {
  std::string name;                      ///< by which it can be stopped
  std::string program;                   ///< its path; empty: the first argument
  std::vector<std::string> arguments;    ///< the first is what it is called
  std::vector<std::string> environment;  ///< all of it: NAME=VALUE
  std::chrono::milliseconds time_max{0}; ///< then it is killed; 0: it may run for ever
  bool drops_output = false;             ///< of its standard output, where its standard error says it all
  /// Called once, on the runner's thread; must only post or store. Empty: it ended with exit code 0. Otherwise one line
  /// that says how it ended, or why it never began.
  std::function<void(std::string how)> ended;
};

/// Starts children, waits for them and ends them, on one thread of its own: no caller blocks, no child stays a zombie,
/// and none outlives the runner. What a child has started itself gets its signals too, but may outlive a child that
/// ended by itself: so a command can start something and return.
///
/// Children have this process's standard error as their output, no input, and none of its files and sockets: a port
/// that a child had inherited would stay open after its parent's death.
class child_runner {
public:
  /// Who has not ended so long after SIGTERM is killed.
  explicit child_runner(std::chrono::milliseconds patience = std::chrono::seconds(5));
  child_runner(const child_runner&) = delete;
  child_runner& operator=(const child_runner&) = delete;
  ~child_runner();

  void start(child_order order);
  /// Asks it to end (SIGTERM). An unknown name is of no consequence.
  void stop(const std::string& name);
  /// Ends all and waits until they have; further orders are refused. Takes the patience at most, and a moment.
  void stop_all();
  [[nodiscard]] std::size_t running() const;

private:
  class impl;
  std::unique_ptr<impl> impl_;
};

} // namespace godwit::main
