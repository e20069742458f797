#include "main/batch_command.hpp"

#include "main/batch_file.hpp"
#include "main/batch_run.hpp"
#include "main/bench_progress.hpp"
#include "main/bench_server.hpp"
#include "main/output_file.hpp"
#include "main/request_flags.hpp"
#include "main/signals.hpp"

#include <boost/json.hpp>
#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <memory>
#include <optional>
#include <unordered_set>
#include <utility>

#include <unistd.h>

namespace godwit::main {

namespace {

std::string summary(const batch_counts& counts, std::uint64_t requests, std::uint64_t before) {
  auto out = fmt::format("{} of {} requests answered", counts.answered + before, requests);
  if (before > 0) out += fmt::format(" ({} before)", before);
  if (counts.failed > 0) out += fmt::format(", {} failed", counts.failed);
  if (counts.unfinished > 0) out += fmt::format(", {} broken off", counts.unfinished);
  out += fmt::format("; {} prompt and {} answer tokens in {:.1f} s", counts.prompt_tokens, counts.answer_tokens,
                     counts.duration_s);
  if (counts.duration_s > 0)
    out += fmt::format(" ({:.0f} answer tokens/s)", static_cast<double>(counts.answer_tokens) / counts.duration_s);
  if (counts.retries > 0) out += fmt::format("; {} retries", counts.retries);
  return out + "\n";
}

std::string to_json(const batch_counts& counts, std::uint64_t requests, std::uint64_t before) {
  return boost::json::serialize(
             boost::json::object{{"requests", requests},
                                 {"answered_before", before},
                                 {"answered", counts.answered},
                                 {"failed", counts.failed},
                                 {"left", requests - std::min(requests, before + counts.answered + counts.failed)},
                                 {"retries", counts.retries},
                                 {"prompt_tokens", counts.prompt_tokens},
                                 {"answer_tokens", counts.answer_tokens},
                                 {"duration_s", counts.duration_s}}) +
         "\n";
}

batch_settings settings_for(const batch_options& options, const bench_server& server) {
  batch_settings out;
  out.base = server.base;
  out.api_key = options.server.api_key; // also where the list of models wants none
  out.concurrency = options.concurrency;
  out.retries = options.retries;
  const auto timeout = std::chrono::milliseconds(std::llround(options.server.timeout_s * 1000.0));
  out.client.total_timeout = timeout;
  out.client.idle_timeout = timeout; // an answer without a stream is silent until it is there
  out.client.tls = options.server.tls;
  out.client.idle_connections_max = options.concurrency;
  return out;
}

} // namespace

int run_batch_command(const batch_options& options, std::ostream& out, std::ostream& progress,
                      const std::function<bool()>& stopped) {
  const auto give_up = [&progress](int code, const std::string& why) {
    progress << "godwit: " << why << '\n';
    return code;
  };
  if (!(options.server.timeout_s >= 0.0 && options.server.timeout_s <= 86'400.0))
    return give_up(2, "--timeout: expected seconds from 0 (none) to 86400");
  bool told_to_stop = false;
  const auto asked = [&] { return told_to_stop = told_to_stop || (stopped && stopped()); };
  const auto contents = check_batch(options.input, asked);
  if (!contents) return give_up(told_to_stop ? 1 : 2, contents.error());
  if (same_file(options.input, options.output))
    return give_up(2, "--output names the file of the requests, " + options.input);
  if (options.output == "-" || is_standard_output(options.output))
    return give_up(2, "--output names standard output, where the summary goes; name a file");
  std::error_code error;
  const auto kind = std::filesystem::status(options.output, error).type();
  const bool is_file = kind == std::filesystem::file_type::regular;
  if (!is_file && kind != std::filesystem::file_type::not_found &&
      (options.resume || kind != std::filesystem::file_type::character))
    return give_up(2, "--output: " + options.output + " is no file");
  const bool there = is_file && std::filesystem::file_size(options.output, error) > 0;
  if (there && !options.resume && !options.overwrite)
    return give_up(2, options.output + " is there already; --resume asks for what it lacks, --overwrite for all");
  if (const auto why = why_not_writable(options.output))
    return give_up(1,
                   "cannot write " + options.output + ": " + *why + "; give --output a file in a folder that exists");
  allow_many_sockets();
  auto probe = options.server; // a server that lists no models will do where the requests name theirs
  if (probe.model.empty() && contents->names_models) probe.model = contents->model;
  const auto server = find_server(probe);
  if (!server) return give_up(server.error().exit_code, server.error().message);

  const auto taken = "another process writes " + options.output;
  const batch_lock old_file(options.output);
  if (is_file && !old_file.taken()) return give_up(1, taken);
  std::unordered_set<std::string> answered;
  if (options.resume) {
    auto kept = keep_answered(options.output);
    if (!kept) return give_up(1, kept.error());
    answered = std::move(*kept);
  }
  auto to = std::ofstream(options.output, std::ios::binary | std::ios::app); // as long as it may be another's
  if (!to) return give_up(1, "cannot write " + options.output);
  std::optional<batch_lock> new_file;
  if (options.resume || !old_file.taken()) new_file.emplace(options.output); // it is another file, or the first
  if (new_file && !new_file->taken()) return give_up(1, taken);
  if (!options.resume && std::filesystem::is_regular_file(options.output, error)) {
    if (!options.overwrite && std::filesystem::file_size(options.output, error) > 0)
      return give_up(1, options.output + " was written by somebody meanwhile; name another file, or --resume it");
    std::filesystem::resize_file(options.output, 0, error);
    if (error) return give_up(1, "cannot write " + options.output + ": " + error.message());
  }

  // Those of other files do not count.
  std::uint64_t before = 0;
  if (!answered.empty()) {
    batch_reader all(options.input, {}, {});
    while (const auto request = all.next()) before += answered.contains(request->custom_id) ? 1 : 0;
  }
  batch_reader requests(options.input, contents->names_models ? std::string() : server->model, std::move(answered));
  const runtime::steady_clock clock;
  auto shown = bench_progress(options.progress, "batch", progress);
  const auto counts = run_batch(
      settings_for(options, *server), contents->requests - before, [&requests] { return requests.next(); }, to, clock,
      [&](const load_progress& now) {
        shown.show(now);
        return !asked();
      });
  shown.finish();
  to.close();
  out << (options.json ? to_json(counts, contents->requests, before) : summary(counts, contents->requests, before))
      << std::flush;
  if (!counts.written || !to)
    return give_up(1, "could not write all of " + options.output + "; with --resume it goes on from there");
  if (!requests.wrong().empty()) return give_up(1, requests.wrong());
  if (counts.refused)
    return give_up(1, server->base + (options.server.api_key.empty() ? " wants a key" : " does not take this key") +
                          " (HTTP 401); put one that it knows into OPENAI_API_KEY, and --resume");
  const bool all = counts.answered + before == contents->requests;
  if (told_to_stop && !all) return give_up(1, "stopped; with --resume it goes on from there");
  return all ? 0 : 1;
}

void add_batch_command(CLI::App& app, command_result& result) {
  auto options = std::make_shared<batch_options>();
  auto quiet = std::make_shared<bool>(false);
  auto* command = app.add_subcommand("batch", "Have a file of requests answered, in OpenAI's batch format");
  command->add_option("INPUT", options->input, "JSON lines: custom_id, method, url, body")
      ->required()
      ->type_name("FILE");
  command->add_option("-o,--output", options->output, "Gets a line of JSON for each answer, as they come")
      ->required()
      ->type_name("FILE");
  add_server_flags(*command, options->server);
  command->add_option("--model", options->server.model, "For bodies that name none; default: the first of /v1/models")
      ->type_name("NAME");
  command->add_option("--concurrency", options->concurrency, "Requests in flight at most")
      ->type_name("N")
      ->check(CLI::Range(1U, 100'000U))
      ->capture_default_str();
  command
      ->add_option("--retries", options->retries,
                   "Of a request whose server is full, or away; 0.5 s later, then 1 s, ...")
      ->type_name("N")
      ->check(CLI::Range(0U, 1000U))
      ->capture_default_str();
  command->add_option("--timeout", options->server.timeout_s, "Of one request; 0: none")
      ->type_name("SECONDS")
      ->default_val(options->server.timeout_s);
  auto* resume = command->add_flag("--resume", options->resume, "Keep the answers in OUTPUT and ask for the others");
  command->add_flag("--overwrite", options->overwrite, "Ask for all, whatever is in OUTPUT")->excludes(resume);
  command->add_flag("--json", options->json, "The summary as one JSON object on stdout");
  command->add_flag("--no-progress", *quiet, "No progress on stderr");
  command->callback([options, quiet, &result] {
    if (const char* key = std::getenv("OPENAI_API_KEY")) options->server.api_key = key;
    const auto silent = *quiet || (options->json && isatty(STDERR_FILENO) == 0);
    const auto style = isatty(STDERR_FILENO) != 0 ? progress_style::bar : progress_style::lines;
    options->progress = silent ? progress_style::none : style;
    result.run = [options] {
      signals interrupts;
      return run_batch_command(*options, std::cout, std::cerr, [&interrupts] { return interrupts.received(); });
    };
  });
}

} // namespace godwit::main
