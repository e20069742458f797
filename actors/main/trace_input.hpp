#pragma once

#include <godwit/runtime/trace/analysis/requests.hpp>
#include <godwit/runtime/trace/analysis/selection.hpp>
#include <godwit/runtime/trace/recording.hpp>

#include <CLI/CLI.hpp>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

/// What the subcommands of `godwit trace` share on their way in. What is wrong is said on standard error.
namespace godwit::main {

/// Reads files and merges them, if there are several. Nothing: one of them could not be read.
[[nodiscard]] std::optional<runtime::trace::recording> read_recordings(const std::vector<std::string>& files);

/// Whether `output` would be written over one of them.
[[nodiscard]] bool overwrites(const std::vector<std::string>& files, const std::string& output);

/// The FILE arguments, of which there is at least one.
void add_recordings(CLI::App& command, std::vector<std::string>& files);

/// `250us`, `1.5s`: with a unit of ns, us, ms, s, min. In ns; nothing: it is none.
[[nodiscard]] std::optional<std::int64_t> parse_time(std::string_view text);

/// The flags that choose events.
class selection_flags {
public:
  void add_to(CLI::App& command);
  /// Nothing: there is no such request.
  [[nodiscard]] std::optional<runtime::trace::analysis::selection>
  resolve(const runtime::trace::analysis::index& of) const;

private:
  std::string request_;
  std::string from_;
  std::string to_;
  std::string queue_min_;
  std::string handling_min_;
  std::vector<std::string> kinds_;
  runtime::trace::analysis::selection wanted_;
};

/// The model request that somebody means, or nothing.
[[nodiscard]] std::optional<runtime::trace::analysis::model_request>
request_named(const std::vector<runtime::trace::analysis::model_request>& all, const std::string& text);

inline constexpr const char* request_help = "Number or client's id (cmpl-...) of a model request, last or slowest";

} // namespace godwit::main
