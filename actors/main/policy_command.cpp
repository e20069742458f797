#include "main/policy_command.hpp"

#include "main/control_connection.hpp"

#include <godwit/protocols/policy/dispatch.hpp>

#include <boost/json.hpp>
#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <iostream>
#include <memory>
#include <string_view>

namespace godwit::main {

using protocols::scaling_mode;
using protocols::unexpected;

namespace {

struct policy_options {
  control_place control;
  std::vector<std::string> changes;
  bool json = false;
};

/// One thing that can be switched.
struct switchable {
  std::string_view name;
  std::string actors::policy_order::*field;
  std::vector<std::string_view> values;
};

std::vector<switchable> all_switches() {
  std::vector<std::string_view> scaling;
  for (const auto mode : {scaling_mode::off, scaling_mode::dry_run, scaling_mode::on})
    scaling.push_back(to_string(mode));
  return {{"dispatch", &actors::policy_order::dispatch, protocols::dispatcher_names()},
          {"migration", &actors::policy_order::migration, protocols::migration_policy_names()},
          {"scaling", &actors::policy_order::scaling, std::move(scaling)},
          {"roles", &actors::policy_order::roles, protocols::role_policy_names()}};
}

std::string list(const std::vector<std::string_view>& names) {
  std::string out;
  for (const auto name : names) out += (out.empty() ? "" : ", ") + std::string(name);
  return out;
}

std::string json_of(const actors::scheduling_policies& now) {
  return boost::json::serialize(boost::json::object{{"dispatch", now.dispatch},
                                                    {"migration", std::string(to_string(now.migration))},
                                                    {"migration_paused", now.migration_paused},
                                                    {"scaling", std::string(to_string(now.scaling))},
                                                    {"roles", std::string(to_string(now.roles))}});
}

std::string table_of(const actors::scheduling_policies& now) {
  return fmt::format("dispatch   {}\nmigration  {}{}\nscaling    {}\nroles      {}\n", now.dispatch,
                     to_string(now.migration), now.migration_paused ? " (paused)" : "", to_string(now.scaling),
                     to_string(now.roles));
}

int order(const policy_options& options, const actors::policy_order& wish) {
  control_connection head(options.control);
  const auto answer = head.ask(wish);
  if (!answer) return head.exit_code();
  if (!answer->error.empty()) {
    std::cerr << "godwit: " << answer->error << '\n';
    return 1;
  }
  std::cout << (options.json ? json_of(answer->now) + "\n" : table_of(answer->now)) << std::flush;
  return 0;
}

int set(const policy_options& options) {
  const auto wish = parse_policies(options.changes);
  if (wish) return order(options, *wish);
  std::cerr << "godwit: " << wish.error() << '\n';
  return 2;
}

int pause(const policy_options& options, const char* paused) {
  actors::policy_order wish;
  wish.paused = paused;
  return order(options, wish);
}

} // namespace

protocols::expected<actors::policy_order, std::string> parse_policies(const std::vector<std::string>& changes) {
  actors::policy_order out;
  for (const auto& change : changes) {
    const auto sign = change.find('=');
    const auto name = change.substr(0, sign);
    const auto switches = all_switches();
    const auto found = std::find_if(switches.begin(), switches.end(), [&](const auto& s) { return s.name == name; });
    if (sign == std::string::npos || found == switches.end())
      return unexpected("'" + change + "' is none of dispatch=NAME, migration=NAME, scaling=MODE, roles=NAME");
    const auto value = change.substr(sign + 1);
    const bool may_be_its_own = name == "dispatch" && !value.empty(); // of a plug-in that the head has
    if (!may_be_its_own && std::find(found->values.begin(), found->values.end(), value) == found->values.end())
      return unexpected("no " + (name == "roles" ? "role" : name) + (name == "scaling" ? " mode" : " policy") +
                        " is called '" + value + "'; there are " + list(found->values));
    if (!(out.*found->field).empty()) return unexpected("'" + name + "' is given twice");
    out.*found->field = value;
  }
  return out;
}

void add_policy_command(CLI::App& app, command_result& result) {
  auto options = std::make_shared<policy_options>();
  auto* command = app.add_subcommand("policy", "Show or switch the scheduler's policies while it runs");
  control_connection::add_option(*command, options->control);
  command->add_flag("--json", options->json, "One JSON object on stdout and nothing else");
  command->require_subcommand(0, 1);
  command->fallthrough(); // --control and --json may come last
  command->add_subcommand("show", "Show them (what happens without a word)")->fallthrough();
  auto* set_command = command->add_subcommand("set", "Switch some of them")->fallthrough();
  std::string known;
  for (const auto& one : all_switches())
    known += fmt::format("{}{}=({})", known.empty() ? "" : " ", one.name, list(one.values));
  set_command->add_option("changes", options->changes, known)->type_name("NAME=VALUE")->required();
  auto* pause_command = command->add_subcommand("pause", "Migrate nothing by policy until 'resume'")->fallthrough();
  auto* resume_command = command->add_subcommand("resume", "Migrate by policy again")->fallthrough();
  command->callback([=, &result] {
    result.run = [=] {
      if (set_command->parsed()) return set(*options);
      if (pause_command->parsed()) return pause(*options, "yes");
      if (resume_command->parsed()) return pause(*options, "no");
      return order(*options, {});
    };
  });
}

} // namespace godwit::main
