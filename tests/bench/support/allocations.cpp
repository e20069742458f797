#include "support/allocations.hpp"

#include <atomic>
#include <cstdlib>
#include <new>

namespace {
std::atomic<std::uint64_t> count{0};
} // namespace

namespace godwit::bench {
std::uint64_t allocations() noexcept { return count.load(); }
} // namespace godwit::bench

// In a file of its own: inlined next to `delete`, g++ takes the pair for a mismatch.
void* operator new(std::size_t size) {
  count.fetch_add(1, std::memory_order_relaxed);
  if (void* memory = std::malloc(size)) return memory;
  throw std::bad_alloc();
}
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }
