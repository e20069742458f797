#include "main/status_command.hpp"

#include "main/control_connection.hpp"
#include "main/request_argument.hpp"
#include "main/request_story.hpp"
#include "main/signals.hpp"
#include "main/status_json.hpp"
#include "main/status_table.hpp"

#include <chrono>
#include <iostream>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>

#include <unistd.h>

namespace godwit::main {

namespace {

using std::chrono::milliseconds;

struct status_options {
  control_place control;
  std::string request;
  bool requests = false;
  bool watch = false;
  bool json = false;
};

int explain(control_connection& head, const status_options& options) {
  const auto whom = parse_request(options.request);
  const auto history = head.ask(actors::history_query{whom.number, whom.client_id});
  if (!history) return head.exit_code();
  if (!history->found) {
    std::cerr << "godwit: no request is called '" << options.request
              << "', nor did one of the last that ended; 'godwit status --requests' lists the open ones\n";
    return 1;
  }
  std::cout << (options.json ? request_story_json(*history) + "\n" : request_story(*history)) << std::flush;
  return 0;
}

int show(const status_options& options) {
  std::optional<signals> stop;
  if (options.watch) stop.emplace(); // before any thread; without it Ctrl-C ends the command as usual
  std::optional<control_connection> head(std::in_place, options.control);
  if (!options.request.empty()) return explain(*head, options);
  const actors::status_query query{options.requests};
  const bool clears = options.watch && !options.json && ::isatty(STDOUT_FILENO) == 1;
  bool told = false; // once, so that another answer is worth a second attempt
  do {
    auto status = head->ask(query, std::chrono::seconds(10), told);
    if (!status && told && !stop->received()) { // this command stood still, or the head did
      head.emplace(options.control);
      status = head->ask(query);
    }
    if (!status) return head->exit_code();
    told = options.watch;
    if (clears) std::cout << "\x1b[H\x1b[2J";
    std::cout << (options.json ? status_json(*status, options.requests) + "\n" : status_table(*status)) << std::flush;
    for (int i = 0; options.watch && i < 20; ++i) {
      if (stop->received()) return 0;
      std::this_thread::sleep_for(milliseconds(50));
    }
  } while (options.watch && std::cout); // who read it may have gone
  return 0;
}

} // namespace

void add_status_command(CLI::App& app, command_result& result) {
  auto options = std::make_shared<status_options>();
  auto* command = app.add_subcommand("status", "Show instances, load and requests of a running godwit");
  control_connection::add_option(*command, options->control);
  auto* requests = command->add_flag("--requests", options->requests, "List the requests too");
  auto* watch = command->add_flag("--watch", options->watch, "Show it again every second");
  command
      ->add_option(
          "--request", options->request,
          "Tell where this request was dispatched and why, and each migration's reason: the answer's id as its "
          "client sees it (cmpl-..., chatcmpl-..., resp_..., msg_...), or its number")
      ->type_name("REQUEST_ID")
      ->check([](const std::string& id) { return id.empty() ? "it names no request" : std::string(); })
      ->excludes(requests)
      ->excludes(watch);
  command->add_flag("--json", options->json, "One JSON object (with --watch: one a line)");
  command->callback([options, &result] { result.run = [options] { return show(*options); }; });
}

} // namespace godwit::main
