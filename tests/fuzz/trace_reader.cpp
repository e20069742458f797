// Recordings: whatever is read keeps what the reader promises. The input is a file; or, where its first byte is even,
// the records of a file whose checksums are right.
#include "runtime/trace/fuzz_reader.hpp"

#include <cstdlib>

namespace streams = godwit::runtime::trace::streams;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const auto* first = data + 1;
  const auto length = size - 1;
  if (data[0] % 2 == 0) {
    const auto file = streams::file_of({{first, first + length / 2}, {first + length / 2, first + length}});
    if (!streams::fuzz_reader(file).sound) std::abort();
    return 0;
  }
  const std::span<const std::byte> bytes(reinterpret_cast<const std::byte*>(first), length);
  if (!streams::fuzz_reader(bytes).sound) std::abort();
  return 0;
}
