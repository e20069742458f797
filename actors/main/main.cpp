#include "main/batch_command.hpp"
#include "main/bench_command.hpp"
#include "main/command.hpp"
#include "main/command_words.hpp"
#include "main/demo_command.hpp"
#include "main/device_hold.hpp"
#include "main/drain_command.hpp"
#include "main/frontend_command.hpp"
#include "main/migrate_command.hpp"
#include "main/model_command.hpp"
#include "main/node_command.hpp"
#include "main/output_file.hpp"
#include "main/plan_command.hpp"
#include "main/policy_command.hpp"
#include "main/profile_command.hpp"
#include "main/role_command.hpp"
#include "main/serve_command.hpp"
#include "main/sim_command.hpp"
#include "main/status_command.hpp"
#include "main/trace_command.hpp"
#include "main/usage_error.hpp"

#include <CLI/CLI.hpp>

#include <algorithm>
#include <cstdio>
#include <exception>
#include <iostream>
#include <string>
#include <utility>
#include <vector>

#include <unistd.h>

#if defined(__GLIBC__)
#include <malloc.h>
#endif

namespace {

int run(int count, char** arguments) {
  CLI::App app("godwit: serves large language models and moves requests between instances while they decode", "godwit");
  app.set_version_flag("--version", std::string("godwit ") + GODWIT_VERSION);
  app.require_subcommand(1);
  app.get_formatter()->column_width(44);
  godwit::main::command_result command;
  godwit::main::add_demo_command(app, command);
  godwit::main::add_serve_command(app, command);
  godwit::main::add_node_command(app, command);
  godwit::main::add_frontend_command(app, command);
  godwit::main::add_bench_command(app, command);
  godwit::main::add_batch_command(app, command);
  godwit::main::add_status_command(app, command);
  godwit::main::add_migrate_command(app, command);
  godwit::main::add_policy_command(app, command);
  godwit::main::add_drain_command(app, command);
  godwit::main::add_role_command(app, command);
  godwit::main::add_model_command(app, command);
  godwit::main::add_profile_command(app, command);
  godwit::main::add_sim_command(app, command);
  godwit::main::add_plan_command(app, command);
  godwit::main::add_trace_command(app, command);
  godwit::main::add_settings_command(app, command);
  auto words = godwit::main::with_empty_values(app, {arguments + 1, arguments + std::max(count, 1)});
  std::reverse(words.begin(), words.end()); // as CLI11 takes them
  try {
    app.parse(std::move(words));
  } catch (const CLI::CallForHelp&) {
    for (const auto* chosen : app.get_subcommands())
      if (const auto deeper = chosen->get_subcommands(); !deeper.empty())
        return std::cout << deeper.front()->help("godwit " + chosen->get_name()), godwit::main::all_written(0);
    const auto chosen = app.get_subcommands();
    if (auto unknown = app.remaining(); chosen.empty() && !unknown.empty()) {
      std::cerr << "godwit: " << godwit::main::explain(app, CLI::ExtrasError("godwit", std::move(unknown))) << '\n';
      return 2;
    }
    std::cout << (chosen.empty() ? app.help() : chosen.front()->help("godwit"));
    return godwit::main::all_written(0);
  } catch (const CLI::CallForVersion&) {
    std::cout << app.version() << '\n';
    return godwit::main::all_written(0);
  } catch (const CLI::ParseError& error) {
    std::cerr << "godwit: " << godwit::main::explain(app, error) << '\n';
    return 2;
  }
  const auto code = command.run();
  // What these print is no result, and whoever waited for "ready" may have gone since.
  for (const auto* lasting : {"serve", "node", "frontend"})
    if (app.got_subcommand(lasting)) return code;
  return godwit::main::all_written(code);
}

} // namespace

int main(int count, char** arguments) {
#if defined(__GLIBC__)
  // Otherwise the first body of megabytes teaches malloc to keep all that follow.
  mallopt(M_MMAP_THRESHOLD, 1 << 20);
#endif
  int code = 1;
  try {
    code = run(count, arguments);
  } catch (const std::exception& failure) {
    std::cerr << "godwit: " << failure.what() << '\n';
  }
  if (!godwit::main::device_hold::any()) return code;
  std::cout.flush();
  std::fflush(nullptr);
  ::_exit(code);
}
