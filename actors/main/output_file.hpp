#pragma once

#include <optional>
#include <string>

/// What commands write for their users.
namespace godwit::main {

/// Why the file cannot be written, in some words; nothing where it can. Better before the work than after it. What is
/// there is not touched, and nothing is left where nothing was.
[[nodiscard]] std::optional<std::string> why_not_writable(const std::string& path);

/// Whether one would overwrite the other, also where a link leads from one to the other, there or not. Of devices and
/// pipes nobody expects otherwise, so they are not.
[[nodiscard]] bool same_file(const std::string& a, const std::string& b);

/// Whether standard output goes to this very file. To a pipe or a terminal it may go along with others.
[[nodiscard]] bool is_standard_output(const std::string& path);

/// Makes the file, or takes it from others than its owner: a recording may hold prompts, and so does what is made of
/// it.
void keep_private(const std::string& path);

/// Says in one line on standard error what went wrong. Gives the code back.
int fail(const std::string& line, int code);

/// `code`, or 1 and a line on standard error where what was printed could not all be written.
[[nodiscard]] int all_written(int code);

} // namespace godwit::main
