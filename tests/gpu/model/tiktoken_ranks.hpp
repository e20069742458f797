#pragma once

#include <string>
#include <vector>

namespace godwit::gpu::model::tests {

/// The lines of a file that tiktoken.mjs has written.
[[nodiscard]] std::vector<std::string> lines_of(const std::string& file);

/// What a line of base64 stands for; empty for what is none.
[[nodiscard]] std::string from_base64(const std::string& text);

/// A tokenizer.json with the vocabulary of tiktoken's ranks (tokens' bytes in order of rank) and one Split pattern. A
/// token's merge is that of the two parts that the lower ranks make of it, so the ids are tiktoken's.
[[nodiscard]] std::string tokenizer_json_of(const std::vector<std::string>& ranks, const std::string& pattern);

/// The same, of the files that tiktoken.mjs leaves in a directory.
[[nodiscard]] std::string tokenizer_json_of_tiktoken(const std::string& directory);

} // namespace godwit::gpu::model::tests
