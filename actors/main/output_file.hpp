#pragma once

#include <string>

/// Files that commands write for their users.
namespace godwit::main {

/// Whether it looks as if the file could be written, without touching it: better before the work than after it.
[[nodiscard]] bool may_be_written(const std::string& path);

/// Makes the file, or takes it from others than its owner: a recording may hold prompts, and so does what is made of
/// it.
void keep_private(const std::string& path);

} // namespace godwit::main
