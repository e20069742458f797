#include "main/trace_command.hpp"

#include "main/trace_control_command.hpp"
#include "main/trace_ui_command.hpp"

namespace godwit::main {

void add_trace_command(CLI::App& app, command_result& result) {
  auto* trace = app.add_subcommand("trace", "Look into recordings of messages: list, follow, draw, compare, export");
  trace->require_subcommand(1);
  add_trace_list_command(*trace, result);
  add_trace_show_command(*trace, result);
  add_trace_follow_command(*trace, result);
  add_trace_sequence_command(*trace, result);
  add_trace_stats_command(*trace, result);
  add_trace_slow_command(*trace, result);
  add_trace_diff_command(*trace, result);
  add_trace_export_command(*trace, result);
  add_trace_replay_command(*trace, result);
  add_trace_ui_command(*trace, result);
  add_trace_level_command(*trace, result);
  add_trace_dump_command(*trace, result);
}

} // namespace godwit::main
