#pragma once

#include "main/settings.hpp"
#include "main/start_error.hpp"
#include "main/trace_dumper.hpp"

#include <godwit/actors/openai_edge.hpp>
#include <godwit/runtime/log/logger.hpp>
#include <godwit/runtime/trace/file_recorder.hpp>
#include <godwit/runtime/trace/recorder.hpp>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace godwit::main {

/// What a recording says of the process that made it, so that it can be told apart and run again.
struct recorded_process {
  std::string command; ///< of godwit: "serve", "node", "demo"
  std::string name;    ///< of the process in its cluster
  std::string model;   ///< the model directory as it was named; empty: the built-in one
};

/// Facts of a process: version, command, model, level, `argument:N` of the command line and `setting:NAME` of what is
/// not the default.
[[nodiscard]] std::vector<runtime::trace::attribute> facts_of(const recorded_process& what,
                                                              const serve_settings& settings);

/// What a process records of its messages: the last ones in memory, and all of them in a file where one is asked for.
class tracing {
public:
  tracing(const serve_settings& settings, const recorded_process& what, runtime::log::logger log);
  tracing(const tracing&) = delete;
  tracing& operator=(const tracing&) = delete;
  ~tracing();

  /// For actor_system_settings; null where nothing is to be recorded.
  [[nodiscard]] const std::shared_ptr<runtime::trace::recorder>& recorder() const noexcept { return recorder_; }

  /// Opens the file, if there is to be one. Once, when the actor system is there: it gives the process its key.
  [[nodiscard]] std::optional<start_error> begin();

  struct stored {
    std::string path;
    std::uint64_t events = 0;
    std::uint64_t lost = 0;
    std::uint64_t bytes = 0;
    std::string error; ///< of writing; empty: none
  };
  /// For node_options and member_options; null where nothing is recorded. Give no orders after `settle`.
  [[nodiscard]] std::shared_ptr<actors::trace_control> control() const { return dumper_; }
  /// When the actors are gone, before their system is: nobody is answered any more.
  void settle();
  /// An actor failed: a dump, unless there was one just now. From any thread.
  void failed(std::string_view actor) noexcept;
  /// A request has ended: a dump, where it was slow, unless there was one just now. From any thread.
  void ended(const actors::ended_request& request);

  /// Writes what is left, when the actor system is gone. Nothing where there is no file.
  std::optional<stored> end();

private:
  [[nodiscard]] std::optional<start_error> why_no_dumps() const;
  serve_settings settings_;
  runtime::log::logger log_;
  std::shared_ptr<runtime::trace::recorder> recorder_;
  std::unique_ptr<runtime::trace::file_recorder> file_;
  std::shared_ptr<trace_dumper> dumper_;
};

/// For the last line of a command: "recorded 1234 messages in t.gwt (0.5 MiB); godwit trace list t.gwt".
[[nodiscard]] std::string describe(const tracing::stored& file);

/// Host name and process id: what a process that has no better name is called.
[[nodiscard]] std::string host_and_pid();

} // namespace godwit::main
