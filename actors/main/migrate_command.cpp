#include "main/migrate_command.hpp"

#include "main/control_connection.hpp"
#include "main/migration_json.hpp"
#include "main/request_argument.hpp"

#include <boost/json.hpp>
#include <spdlog/fmt/fmt.h>

#include <chrono>
#include <iostream>
#include <memory>
#include <string>

namespace godwit::main {

namespace {

struct migrate_options {
  control_place control;
  std::string request;
  std::uint32_t to = 0;
  bool json = false;
};

/// What whoever ordered it can do about it.
std::string explain(const protocols::migration_report& r, const std::string& request) {
  using protocols::migration_reason;
  const auto to = r.destination.value();
  switch (r.reason) {
  case migration_reason::request_unknown:
    return fmt::format("no running request is called '{}'; 'godwit status --requests' lists them", request);
  case migration_reason::request_ambiguous:
    return fmt::format("several requests go by '{}'; name one by its number: 'godwit status --requests'", request);
  case migration_reason::no_fabric:
    return fmt::format("instance {} or the request's own has no fabric to move blocks (fabric.backend none)", to);
  case migration_reason::request_finished:
    return "its answer was complete first";
  case migration_reason::request_cancelled:
    return "its client went away, or its home had the whole answer first";
  case migration_reason::request_preempted:
    return "its instance took its blocks for others; it waits to be computed again";
  case migration_reason::request_busy:
    return "it is being migrated already";
  case migration_reason::transfer_failed:
    return fmt::format("its blocks could not be brought to instance {}; the log says why; it runs where it was", to);
  case migration_reason::timed_out:
    return "one of the two sides did not answer in time; 'godwit status --requests' says where it runs";
  case migration_reason::peer_lost:
    return r.outcome == protocols::migration_outcome::lost
               ? std::string("an instance died, and the request was dispatched anew")
               : std::string("an instance died or was cut off; 'godwit status --requests' says where the request runs");
  case migration_reason::destination_not_ready:
    return fmt::format("there is no instance {} that takes requests; 'godwit status' lists them", to);
  case migration_reason::same_instance:
    return fmt::format("request {} is on instance {} already", request, to);
  case migration_reason::destination_full:
    return fmt::format("instance {} has no room for it; try again later or another one", to);
  case migration_reason::source_busy:
    return "its instance has as many migrations as migration.out_max allows; try again";
  case migration_reason::destination_busy:
    return fmt::format("instance {} has as many migrations as migration.in_max allows; try again", to);
  case migration_reason::incompatible:
    return fmt::format("instance {} keeps its KV in another layout", to);
  default:
    return fmt::format("{} ({})", to_string(r.outcome), to_string(r.reason));
  }
}

int migrate(const migrate_options& options) {
  control_connection head(options.control);
  const auto whom = parse_request(options.request);
  const auto order = actors::migrate_request{whom.number, whom.client_id, protocols::instance_id{options.to}};
  const auto report =
      head.ask(order, std::chrono::hours(12)); // the head gives up earlier, even with the largest migration.* limits
  if (!report) return head.exit_code();
  if (options.json) {
    std::cout << boost::json::serialize(migration_json(*report)) << std::endl;
  } else if (report->committed()) {
    std::cout << fmt::format("request {} moved from instance {} to {}: {} stages, {:.1f} MiB, stall {:.2f} ms, {:.1f} "
                             "ms in all\n",
                             report->request.value(), report->source.value(), report->destination.value(),
                             report->stages, static_cast<double>(report->bytes) / (1 << 20),
                             static_cast<double>(report->stall_ns) / 1e6,
                             static_cast<double>(report->duration_ns) / 1e6);
  } else {
    std::cerr << "godwit: not moved: " << explain(*report, options.request) << '\n';
  }
  return report->committed() ? 0 : 1;
}

} // namespace

void add_migrate_command(CLI::App& app, command_result& result) {
  auto options = std::make_shared<migrate_options>();
  auto* command = app.add_subcommand("migrate", "Move a running request to another instance");
  command
      ->add_option(
          "request", options->request,
          "The answer's id as its client sees it (cmpl-..., chatcmpl-..., resp_..., msg_...), or the number that "
          "'godwit status --requests' shows")
      ->type_name("REQUEST_ID")
      ->required();
  command->add_option("--to", options->to, "The instance to move it to")->type_name("INSTANCE")->required();
  control_connection::add_option(*command, options->control);
  command->add_flag("--json", options->json, "One JSON object on stdout and nothing else");
  command->callback([options, &result] { result.run = [options] { return migrate(*options); }; });
}

} // namespace godwit::main
