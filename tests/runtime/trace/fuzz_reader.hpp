#pragma once

#include <godwit/runtime/trace/file.hpp>

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

/// Reads bytes that anybody may have written and walks through what comes of it; sanitizers and its own checks
/// complain. For the tests, and for libFuzzer's LLVMFuzzerTestOneInput.
namespace godwit::runtime::trace::streams {

struct fuzzed {
  bool read = false;
  std::size_t events = 0;
  bool sound = true; ///< whatever was read keeps what read_bytes promises
};
[[nodiscard]] fuzzed fuzz_reader(std::span<const std::byte> bytes);

/// A file of these chunks' records, whole but for what they say: what checksums would keep from a reader gets through.
[[nodiscard]] std::vector<std::byte> file_of(const std::vector<std::vector<std::uint8_t>>& chunks);

} // namespace godwit::runtime::trace::streams
