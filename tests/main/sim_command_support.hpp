#pragma once

#include "main/sim_command.hpp"
#include "main/simulate.hpp"
#include "main/trace_command.hpp"
#include "main/usage_error.hpp"

#include <boost/json.hpp>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <sstream>
#include <string>

#include <unistd.h>

/// What tests of `godwit sim` run, and how they read what comes of it.
namespace godwit::main::test {

struct sim_outcome {
  int code = 0;
  std::string out;
  std::string err;
};

inline sim_outcome simulate(const sim_options& options) {
  std::ostringstream out, err;
  const auto code = run_sim(options, out, err);
  return {code, out.str(), err.str()};
}

/// The command as it is typed.
inline sim_outcome typed(const std::string& line, const std::string& command_name = "sim") {
  CLI::App app("godwit", "godwit");
  command_result command;
  add_sim_command(app, command);
  add_trace_command(app, command);
  try {
    app.parse(command_name + " " + line);
  } catch (const CLI::ParseError& wrong) {
    return {2, "", explain(app, wrong) + "\n"};
  }
  std::ostringstream out, err;
  auto* const screen = std::cout.rdbuf(out.rdbuf());
  auto* const errors = std::cerr.rdbuf(err.rdbuf());
  const auto code = command.run();
  std::cout.rdbuf(screen);
  std::cerr.rdbuf(errors);
  return {code, out.str(), err.str()};
}

inline sim_options options_of(const std::string& lengths, double rate, std::size_t requests) {
  sim_options o;
  o.settings = sim_defaults();
  o.instances = 4;
  o.load.lengths = lengths;
  o.load.rate = rate;
  o.load.requests = requests;
  o.load.seed = 1;
  o.json = true;
  return o;
}

inline boost::json::object parse(const sim_outcome& result) {
  EXPECT_EQ(std::count(result.out.begin(), result.out.end(), '\n'), 1) << result.out << result.err;
  return boost::json::parse(result.out).as_object();
}

inline double figure(const boost::json::object& report, const char* what, const char* of) {
  return report.at(what).at(of).to_number<double>();
}

/// A folder that is gone at the end.
struct scratch {
  std::filesystem::path path;
  explicit scratch(const std::string& name)
      : path(std::filesystem::path(::testing::TempDir()) / ("godwit_sim_" + std::to_string(::getpid()) + "_" + name)) {
    std::filesystem::remove_all(path);
    std::filesystem::create_directories(path);
  }
  ~scratch() { std::filesystem::remove_all(path); }
  [[nodiscard]] std::string write(const std::string& name, const std::string& text) const {
    std::ofstream(path / name) << text;
    return (path / name).string();
  }
};

inline std::string read(const std::filesystem::path& path) {
  std::ostringstream text;
  text << std::ifstream(path).rdbuf();
  return text.str();
}

} // namespace godwit::main::test
