#include "main/request_flags.hpp"

#include <godwit/protocols/workload/lengths.hpp>

#include <map>
#include <string>

namespace godwit::main {

void add_request_flags(CLI::App& command, bench_options& options) {
  command
      .add_option("--lengths", options.lengths,
                  "Lengths of prompts and answers (default: short, or the trace's): " +
                      std::string(protocols::workload::length_names()))
      ->type_name("NAME");
  command.add_option("--trace", options.trace, "Play an Azure or BurstGPT CSV file, or Mooncake JSON lines")
      ->type_name("FILE");
  static const std::map<std::string, bench_arrivals> arrivals{
      {"trace", bench_arrivals::trace}, {"poisson", bench_arrivals::poisson}, {"gamma", bench_arrivals::gamma}};
  command
      .add_option_function<std::string>(
          "--arrivals", [&options](const std::string& name) { options.arrivals = arrivals.at(name); },
          "trace: as recorded, the default with --trace; poisson, gamma (with --cv): drawn at --rate, or at the "
          "trace's")
      ->check(CLI::IsMember({"trace", "poisson", "gamma"}))
      ->type_name("NAME");
  command.add_option("--rate", options.rate, "Arrivals; 0 or inf: all at once (the default without a trace)")
      ->type_name("REQUESTS/S");
  command.add_option("--cv", options.cv, "Variation of the gaps between drawn arrivals; 1: Poisson, more: bursts")
      ->type_name("CV");
}

} // namespace godwit::main
