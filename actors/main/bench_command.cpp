#include "main/bench_command.hpp"

#include "main/bench_progress.hpp"
#include "main/bench_prompt.hpp"
#include "main/bench_report.hpp"
#include "main/bench_server.hpp"
#include "main/bench_workload.hpp"
#include "main/load_generator.hpp"
#include "main/output_file.hpp"
#include "main/request_flags.hpp"
#include "main/signals.hpp"

#include <godwit/protocols/workload/workload.hpp>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <fstream>
#include <iostream>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include <unistd.h>

namespace godwit::main {

namespace workload = protocols::workload;

namespace {

int give_up(std::ostream& to, const bench_error& error) {
  to << "godwit: " << error.message << '\n';
  return error.exit_code;
}

std::optional<bench_error> check(const bench_options& options) {
  if (auto wrong = wrong_objective(options)) return bench_error{2, std::move(*wrong)};
  if (!(options.temperature >= 0.0 && options.temperature <= 2.0))
    return bench_error{2, "--temperature: expected a number from 0 to 2"};
  // A day, so that milliseconds fit anywhere.
  if (!(options.timeout_s >= 0.0 && options.timeout_s <= 86'400.0))
    return bench_error{2, "--timeout: expected seconds from 0 (none) to 86400"};
  if (options.context == 1) return bench_error{2, "--context: expected at least 2 tokens, or 0 for the server's own"};
  return std::nullopt;
}

load_generator::settings generator_settings(const bench_options& options, const bench_server& server) {
  auto out = load_generator::settings{};
  out.url = server.base + (options.endpoint == bench_endpoint::chat ? "/v1/chat/completions" : "/v1/completions");
  out.concurrency = options.concurrency;
  out.api_key = server.api_key;
  const auto timeout = std::chrono::milliseconds(std::llround(options.timeout_s * 1000.0));
  out.client.total_timeout = timeout;
  out.client.tls = options.tls;
  out.client.idle_timeout = timeout; // a queued request is silent for as long as it waits
  out.client.idle_connections_max = options.concurrency > 0 ? options.concurrency : 1024;
  return out;
}

prompt_writer make_prompts(const bench_options& options, const bench_server& server, const bench_workload& plan,
                           std::uint64_t seed) {
  return prompt_writer({server.model, options.endpoint, options.vocabulary, seed, options.temperature,
                        options.ignore_eos, plan.priority});
}

/// Requests before the counted ones, a few at a time. False if the run was stopped.
protocols::expected<bool, bench_error> warm_up(const bench_options& options, const bench_server& server,
                                               const bench_workload& plan, std::ostream& progress,
                                               const std::function<bool()>& stopped) {
  auto some = std::vector<workload::workload_request>(
      plan.requests.begin(),
      plan.requests.begin() + static_cast<std::ptrdiff_t>(std::min(options.warmup, plan.requests.size())));
  for (auto& r : some) r.arrival_ns = 0;
  auto settings = generator_settings(options, server);
  settings.concurrency = 4;
  const auto clock = runtime::steady_clock{};
  // Prompts of their own: a prefix cache must not know the counted ones already.
  auto generator = load_generator(settings, make_prompts(options, server, plan, ~options.seed), clock);
  auto shown = bench_progress(options.progress, "warm-up", progress);
  const auto records = generator.run(some, [&](const load_progress& now) { return shown.show(now), !stopped(); });
  shown.finish();
  if (stopped()) return false;
  for (const auto& r : records)
    if (r.outcome == bench_outcome::failed)
      return protocols::unexpected(
          bench_error{1, "a warm-up request failed: " + r.error_kind + ": " + r.error_message});
  return true;
}

bool save(std::ofstream& to, std::span<const request_record> records) {
  for (const auto& r : records) to << to_json(r) << '\n';
  return static_cast<bool>(to.flush());
}

} // namespace

int run_bench(const bench_options& options, std::ostream& out, std::ostream& progress,
              const std::function<bool()>& stopped) {
  // A signal is reported once, and several loops ask.
  const auto asked =
      std::function<bool()>([&stopped, heard = false]() mutable { return heard = heard || (stopped && stopped()); });
  if (const auto wrong = check(options)) return give_up(progress, *wrong);
  if (same_file(options.save, options.trace))
    return give_up(progress, {2, "--trace and --save name the same file, " + options.save});
  auto plan = plan_workload(options);
  if (!plan) return give_up(progress, plan.error());
  allow_many_sockets();
  const auto server = find_server(options);
  if (!server) return give_up(progress, server.error());
  auto saved = std::ofstream{};
  if (!options.save.empty()) { // not before: what is there is lost
    saved.open(options.save);
    if (!saved)
      return give_up(progress, {1, "cannot write " + options.save + "; give --save a file in a folder that exists"});
  }

  auto setup = bench_setup{};
  const auto context = options.context > 0 ? options.context : server->context;
  if (context >= 2) setup.shortened = workload::clamp_to_context(plan->requests, context);
  setup.skipped = plan->skipped;
  setup.missing = plan->missing;
  setup.url = server->base;
  setup.model = server->model;
  setup.endpoint = options.endpoint;
  setup.workload = plan->name;
  setup.arrivals = plan->arrivals;
  setup.open_loop = plan->scheduled || options.concurrency == 0;
  setup.seed = options.seed;
  setup.priority = plan->priority;
  setup.ttft_ms = options.ttft_ms;
  setup.tpot_ms = options.tpot_ms;

  if (options.warmup > 0) {
    const auto warm = warm_up(options, *server, *plan, progress, asked);
    if (!warm) return give_up(progress, warm.error());
    if (!*warm) return give_up(progress, {1, "stopped during the warm-up"});
  }
  const auto clock = runtime::steady_clock{};
  auto generator =
      load_generator(generator_settings(options, *server), make_prompts(options, *server, *plan, options.seed), clock);
  auto shown = bench_progress(options.progress, "bench", progress);
  const auto records =
      generator.run(plan->requests, [&](const load_progress& now) { return shown.show(now), !asked(); });
  shown.finish();

  const auto report = make_report(setup, records);
  out << (options.json ? to_json(setup, report) + "\n" : to_table(setup, report)) << std::flush;
  if (saved.is_open() && !save(saved, records)) return give_up(progress, {1, "could not write all of " + options.save});
  return report.answered == report.requests ? 0 : 1;
}

void add_bench_command(CLI::App& app, command_result& result) {
  auto options = std::make_shared<bench_options>();
  auto quiet = std::make_shared<bool>(false);
  auto* command =
      app.add_subcommand("bench", "Put load on an OpenAI-style server: TTFT, TPOT, throughput, percentiles");
  const auto& defaults = *options;
  add_server_flags(*command, *options);
  command->add_option("--model", options->model, "Model to ask for; default: the first of /v1/models")
      ->type_name("NAME");
  command
      ->add_option_function<std::string>(
          "--endpoint",
          [options](const std::string& name) {
            options->endpoint = name == "chat" ? bench_endpoint::chat : bench_endpoint::completions;
          },
          "completions (prompts of token ids) or chat (of words)")
      ->check(CLI::IsMember({"completions", "chat"}))
      ->default_str("completions")
      ->type_name("NAME");
  command->add_option("--requests", options->requests, "How many; default: 100, or the whole trace")
      ->type_name("N")
      ->check(CLI::Range(std::size_t{1}, std::size_t{10'000'000}));
  add_request_flags(*command, *options);
  command->add_option("--scale", options->scale, "Play a trace this many times as fast")
      ->type_name("FACTOR")
      ->capture_default_str();
  command->add_option("--concurrency", options->concurrency, "Requests in flight at most; 0: no bound")
      ->type_name("N")
      ->capture_default_str();
  command->add_option("--context", options->context, "Cut lengths to this; default: what the server says")
      ->type_name("TOKENS");
  command->add_option("--vocabulary", options->vocabulary, "Prompt ids lie below this; default: ids 10 to 249")
      ->type_name("IDS");
  add_seed_flag(*command, options->seed, "Of arrivals, lengths and prompts");
  command
      ->add_option("--priority-share", options->priority_share,
                   "This share of the requests, at random, asks for this execution priority and goes first (extensions "
                   "of the API)")
      ->type_name("NAME=SHARE");
  command->add_option("--temperature", options->temperature, "Of sampling; 0: greedy")
      ->type_name("T")
      ->capture_default_str();
  command->add_flag("--ignore-eos,!--no-ignore-eos", options->ignore_eos,
                    "Answers run to their full length (default; an extension of the API)");
  add_objective_flags(*command, *options);
  command->add_option("--warmup", options->warmup, "Requests before the counted ones")
      ->type_name("N")
      ->capture_default_str();
  command->add_option("--timeout", options->timeout_s, "Of one request; 0: none")
      ->type_name("SECONDS")
      ->default_val(defaults.timeout_s);
  command->add_option("--save", options->save, "Write one JSON line per request")->type_name("FILE");
  command->add_flag("--json", options->json, "One JSON object on stdout and nothing else there");
  command->add_flag("--no-progress", *quiet, "No progress on stderr");
  command->callback([options, quiet, &result] {
    const auto silent = *quiet || (options->json && isatty(STDERR_FILENO) == 0);
    if (const char* key = std::getenv("OPENAI_API_KEY")) options->api_key = key; // as vLLM's bench has it
    const auto style = isatty(STDERR_FILENO) != 0 ? progress_style::bar : progress_style::lines;
    options->progress = silent ? progress_style::none : style;
    result.run = [options] {
      signals interrupts;
      return run_bench(*options, std::cout, std::cerr, [&interrupts] { return interrupts.received(); });
    };
  });
}

} // namespace godwit::main
