#pragma once

#include <cstddef>

namespace godwit::main {

/// Lets the heap of this process grow in huge pages, up to `bytes` of it; before much was allocated.
///
/// A simulation of a thousand instances comes back to each of them long after the last time: every step finds its
/// memory in no cache, and its address in no TLB either, which in a virtual machine costs as much again. Pages of 2 MiB
/// instead of 4 KiB take that second cost away. Linux gives them where it is asked (`transparent_hugepage/enabled` says
/// "madvise" or "always"); glibc asks for them only by an environment variable
/// (`GLIBC_TUNABLES=glibc.malloc.hugetlb=1`), so the address range is taken beforehand and marked here. It takes no
/// memory until it is used. Where any of it cannot be had, the heap is as it was.
///
/// Returns how many bytes were marked; 0: none. Two GiB at most.
std::size_t use_huge_pages(std::size_t bytes = std::size_t{1} << 30) noexcept;

} // namespace godwit::main
