#include "transport/http/short_memory.hpp"

#include <atomic>
#include <cerrno>
#include <cstddef>
#include <cstdlib>
#include <new>

namespace {

thread_local std::int64_t left = -1; // before one fails; less than 0: none does
std::atomic<std::uint32_t> failed{0};

bool fails() noexcept {
  if (left < 0 || left-- > 0) return false;
  failed.fetch_add(1);
  return true;
}

} // namespace

namespace godwit::transport::http::test {
void fail_an_allocation(std::uint32_t after) noexcept { left = after; }
std::uint32_t failed_allocations() noexcept { return failed.load(); }
} // namespace godwit::transport::http::test

// In a file of its own, and compiled alone: inlined next to `delete`, g++ takes the pair for a mismatch.
void* operator new(std::size_t size) {
  if (!fails())
    if (void* memory = std::malloc(size)) return memory;
  throw std::bad_alloc();
}
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }

// Where Asio has the memory of coroutines and operations from.
extern "C" void* aligned_alloc(std::size_t alignment, std::size_t size) noexcept {
  void* memory = nullptr;
  if (!fails() && ::posix_memalign(&memory, alignment, size) == 0) return memory;
  errno = ENOMEM;
  return nullptr;
}
