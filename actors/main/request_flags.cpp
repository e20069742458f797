#include "main/request_flags.hpp"

#include <godwit/protocols/workload/lengths.hpp>

#include <charconv>
#include <cmath>
#include <map>
#include <string>
#include <string_view>

namespace godwit::main {

namespace {

constexpr auto objective_expected = "expected milliseconds above 0, or a time such as 500ms or 0.5s";

/// In milliseconds.
std::optional<double> parse_objective(std::string_view text) {
  double number = 0;
  const auto* const end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, number);
  const std::string_view unit(stop, static_cast<std::size_t>(end - stop));
  if (error != std::errc{}) return std::nullopt;
  if (unit.empty() || unit == "ms") return number;
  return unit == "s" ? std::optional(1000 * number) : std::nullopt;
}

void add_objective_flag(CLI::App& command, const std::string& name, std::optional<double>& ms, const std::string& doc) {
  command
      .add_option_function<std::string>(
          name,
          [name, &ms](const std::string& text) {
            ms = parse_objective(text);
            if (!ms) throw CLI::ValidationError(name, objective_expected);
          },
          doc)
      ->type_name("MS");
}

} // namespace

void add_server_flags(CLI::App& command, bench_options& options) {
  command.add_option("--url", options.url, "The server")->type_name("URL")->capture_default_str();
  auto* authorities = command
                          .add_option("--tls-ca", options.tls.authorities,
                                      "PEM file of the authorities that an https server's certificate may be of; "
                                      "default: the system's")
                          ->type_name("FILE")
                          ->check(CLI::ExistingFile);
  command
      .add_flag_callback(
          "--insecure", [&options] { options.tls.verify = false; }, "Trust whatever https server answers")
      ->excludes(authorities);
}

void add_seed_flag(CLI::App& command, std::uint64_t& seed, const std::string& doc) {
  command
      .add_option_function<std::string>(
          "--seed",
          [&seed](const std::string& text) { // not CLI11's numbers: it takes what is too large for the largest
            const auto* const end = text.data() + text.size();
            const auto [stop, error] = std::from_chars(text.data(), end, seed);
            if (error != std::errc{} || stop != end)
              throw CLI::ValidationError("--seed", "expected a whole number from 0 to 18446744073709551615");
          },
          doc)
      ->type_name("N")
      ->default_str(std::to_string(seed));
}

void add_objective_flags(CLI::App& command, bench_options& options) {
  add_objective_flag(command, "--slo-ttft", options.ttft_ms, "Objective for goodput: time to the first token");
  add_objective_flag(command, "--slo-tpot", options.tpot_ms, "Objective for goodput: time per token after it");
}

std::optional<std::string> wrong_objective(const bench_options& options) {
  const auto positive = [](const std::optional<double>& x) { return !x || (*x > 0.0 && std::isfinite(*x)); };
  if (!positive(options.ttft_ms)) return std::string("--slo-ttft: ") + objective_expected;
  if (!positive(options.tpot_ms)) return std::string("--slo-tpot: ") + objective_expected;
  return std::nullopt;
}

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
