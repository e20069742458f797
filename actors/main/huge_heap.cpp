#include "main/huge_heap.hpp"

#include <climits>
#include <cstdint>
#include <cstdlib>

#if defined(__GLIBC__)
#include <malloc.h>
#include <sys/mman.h>
#include <unistd.h>
#endif

namespace godwit::main {

std::size_t use_huge_pages(std::size_t bytes) noexcept {
#if defined(__GLIBC__) && defined(MADV_HUGEPAGE)
  constexpr std::size_t page = std::size_t{2} << 20, piece = std::size_t{16} << 10;
  constexpr int usual_pad = 128 << 10;                                   // glibc's, of both
  bytes = bytes < INT_MAX ? bytes & ~(page - 1) : INT_MAX & ~(page - 1); // what mallopt takes
  auto* const before = static_cast<std::byte*>(sbrk(0));
  const auto as_usual = [] {
    (void)mallopt(M_TOP_PAD, usual_pad);
    (void)mallopt(M_TRIM_THRESHOLD, usual_pad);
    return std::size_t{0};
  };
  // The next time the heap grows, it grows by all of it, and never shrinks.
  if (bytes == 0) return 0;
  if (mallopt(M_TRIM_THRESHOLD, INT_MAX) == 0 || mallopt(M_TOP_PAD, static_cast<int>(bytes)) == 0) return as_usual();
  void* filled[1024] = {}; // what is left of the heap's top is used up first
  for (auto& one : filled) {
    one = std::malloc(piece);
    if (one == nullptr || sbrk(0) != before) break;
  }
  for (auto* one : filled) std::free(one);
  (void)mallopt(M_TOP_PAD, usual_pad);
  auto* const after = static_cast<std::byte*>(sbrk(0));
  const auto begin = (reinterpret_cast<std::uintptr_t>(before) + page - 1) & ~(page - 1);
  const auto end = reinterpret_cast<std::uintptr_t>(after) & ~(page - 1);
  if (end <= begin || madvise(reinterpret_cast<void*>(begin), end - begin, MADV_HUGEPAGE) != 0)
    return as_usual(); // the next `free` gives the range back
  return end - begin;
#else
  (void)bytes;
  return 0;
#endif
}

} // namespace godwit::main
