#include "main/drain_command.hpp"

#include "main/control_connection.hpp"
#include "main/output_file.hpp"
#include "main/trace_input.hpp"

#include <boost/json.hpp>

#include <chrono>
#include <cstdint>
#include <iostream>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <thread>

namespace godwit::main {

namespace {

using clock = std::chrono::steady_clock;
using protocols::instance_state;

constexpr std::chrono::milliseconds between_looks{250};
constexpr std::chrono::seconds until_settled{2};

struct drain_options {
  control_place control;
  std::uint32_t instance = 0;
  bool undo = false;
  std::string wait; ///< empty: not at all; "true": for as long as it takes; or a time
  bool json = false;
};

struct standing {
  std::string_view state = "gone"; ///< as `status` calls it; gone: with its process
  std::uint64_t requests = 0;
};

std::optional<standing> look(control_connection& head, std::uint32_t instance) {
  const auto status = head.ask(actors::status_query{});
  if (!status) return std::nullopt;
  for (const auto* list : {&status->instances, &status->stopped})
    for (const auto& one : *list)
      if (one.instance.value() == instance) return standing{to_string(one.state), one.load.running + one.load.waiting};
  return standing{};
}

/// Whether waiting is over, and what went otherwise than it should.
struct verdict {
  bool over = false;
  std::string wrong; ///< empty: nothing
};

/// `settled`: the order was long enough ago that what is seen comes after it.
verdict judge(const drain_options& options, const standing& now, bool settled) {
  const auto wanted = options.undo ? instance_state::ready : instance_state::stopped;
  if (now.state == to_string(wanted)) return {true, {}};
  if (now.state == "gone") return {true, "is gone with its process, which may come back and serve"};
  const auto opposite = options.undo ? instance_state::draining : instance_state::ready;
  if (settled && now.state == to_string(opposite))
    return {true, options.undo ? "is drained again" : "takes requests: its drain was taken back"};
  return {};
}

std::string text_of(const drain_options& options) {
  const auto who = "instance " + std::to_string(options.instance);
  if (!options.wait.empty()) return who + (options.undo ? " is ready" : " has stopped");
  if (options.undo) return who + " takes requests again";
  return who + " drains: it takes no more requests, and stops when it has none; 'godwit status' shows how far it is";
}

int drain(const drain_options& options) {
  std::optional<std::int64_t> patience;
  if (!options.wait.empty() && options.wait != "true") {
    patience = parse_time(options.wait);
    if (!patience || *patience <= 0) return fail("--wait: '" + options.wait + "' is no time, such as 30s or 5min", 2);
  }
  control_connection head(options.control);
  const auto answer = head.ask(actors::drain_instance{protocols::instance_id{options.instance}, !options.undo});
  if (!answer) return head.exit_code();
  if (!answer->error.empty()) return fail(answer->error, 1);
  const auto ordered = clock::now();
  auto now = look(head, options.instance);
  while (now && !options.wait.empty()) {
    const auto seen = judge(options, *now, clock::now() - ordered >= until_settled);
    if (!seen.wrong.empty()) return fail("instance " + std::to_string(options.instance) + ' ' + seen.wrong, 1);
    if (seen.over) break;
    if (patience && clock::now() - ordered >= std::chrono::nanoseconds(*patience))
      return fail("instance " + std::to_string(options.instance) + " is still " + std::string(now->state) + " after " +
                      options.wait + ", with " + std::to_string(now->requests) + " requests; it goes on",
                  1);
    std::this_thread::sleep_for(between_looks);
    now = look(head, options.instance);
  }
  if (!now) return head.exit_code();
  if (options.json)
    std::cout << boost::json::serialize(
        boost::json::object{{"instance", options.instance}, {"state", std::string(now->state)}});
  else
    std::cout << text_of(options);
  std::cout << std::endl;
  return 0;
}

} // namespace

void add_drain_command(CLI::App& app, command_result& result) {
  auto options = std::make_shared<drain_options>();
  auto* command = app.add_subcommand(
      "drain", "Take an instance out: its requests move away, or end there by the migration policy never");
  command->add_option("instance", options->instance, "Its number, as 'godwit status' shows it")
      ->type_name("INSTANCE")
      ->required();
  command->add_flag("--undo", options->undo, "Take it back: the instance takes requests again");
  command
      ->add_flag("--wait", options->wait,
                 "Until it has stopped, or with --undo is ready; --wait=TIME: for so long at most, then exit code 1")
      ->option_text("or --wait=TIME");
  command->add_flag("--json", options->json, "One JSON object on stdout: its number, and its state as in status");
  control_connection::add_option(*command, options->control);
  command->callback([options, &result] { result.run = [options] { return drain(*options); }; });
}

} // namespace godwit::main
