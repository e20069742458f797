#include "cpu/shared_memory.hpp"

#include <godwit/gpu/shared_memory.hpp>

#include <fstream>
#include <map>
#include <mutex>

#if defined(__linux__)
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>
#endif

namespace godwit::gpu {

namespace {

using mappings = std::map<const std::byte*, protocols::shared_memory>; ///< by where they begin
struct table {
  std::mutex mutex;
  mappings made;
  std::uint64_t last_id = 0;
};

// Never destroyed: what is allocated may outlive the objects of this file.
table& all() {
  static auto* one = new table;
  return *one;
}

} // namespace

std::optional<protocols::shared_memory> find_shared_memory(const std::byte* address) {
  auto& known = all();
  const std::lock_guard lock{known.mutex};
  auto after = known.made.upper_bound(address);
  if (after == known.made.begin()) return std::nullopt;
  const auto& piece = std::prev(after)->second;
  return address < piece.address + piece.bytes ? std::optional{piece} : std::nullopt;
}

namespace cpu {

#if defined(__linux__)

namespace {

/// A place in the address space.
std::byte* reserve(std::uint64_t bytes, std::uint64_t alignment) noexcept {
  void* base = ::mmap(nullptr, bytes + alignment, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (base == MAP_FAILED) return nullptr;
  auto* first = static_cast<std::byte*>(base);
  auto* start =
      reinterpret_cast<std::byte*>((reinterpret_cast<std::uintptr_t>(first) + alignment - 1) / alignment * alignment);
  const auto before = static_cast<std::size_t>(start - first);
  if (before != 0) ::munmap(first, before);
  ::munmap(start + bytes, alignment - before);
  return start;
}

#ifndef MFD_NOEXEC_SEAL
#define MFD_NOEXEC_SEAL 0x8U
#endif
#ifndef MADV_COLLAPSE
#define MADV_COLLAPSE 25
#endif

/// Whether pages are on account before they are touched, as private ones are: only then too little is an error and not
/// the end of the process.
bool is_on_account() {
  std::ifstream file("/proc/sys/vm/overcommit_memory");
  int mode = 0;
  return file >> mode && mode == 2;
}

/// So many bytes that they cannot become fewer under whoever has mapped them; -1: there is no such file to be had.
int make_file(std::uint64_t bytes) noexcept {
  int file = ::memfd_create("godwit", MFD_CLOEXEC | MFD_ALLOW_SEALING | MFD_NOEXEC_SEAL);
  if (file < 0) file = ::memfd_create("godwit", MFD_CLOEXEC | MFD_ALLOW_SEALING); // before Linux 6.3
  if (file < 0) return -1;
  if (::ftruncate(file, static_cast<off_t>(bytes)) == 0 &&
      ::fcntl(file, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) == 0)
    return file;
  ::close(file);
  return -1;
}

/// Huge pages, where the kernel makes them of what it shares only when it is told to (`shmem_enabled` "never", as most
/// systems have it): Linux 6.1 and later do, of places that are not quite empty. It takes the memory.
void make_huge(std::byte* start, std::uint64_t bytes, std::uint64_t page) {
  for (std::uint64_t at = 0; at < bytes; at += page) *static_cast<volatile std::byte*>(start + at) = std::byte{};
  (void)::madvise(start, bytes, MADV_COLLAPSE);
}

} // namespace

std::byte* map_shared(std::uint64_t bytes, std::uint64_t alignment) {
  if (is_on_account()) return nullptr;
  mappings fresh;
  auto entry = fresh.extract(fresh.try_emplace(nullptr).first); // what can throw comes before what would be lost then
  auto* start = reserve(bytes, alignment);
  if (start == nullptr) return nullptr;
  const int file = make_file(bytes);
  if (file < 0 ||
      ::mmap(start, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, file, 0) == static_cast<void*>(MAP_FAILED)) {
    if (file >= 0) ::close(file);
    ::munmap(start, bytes);
    return nullptr;
  }
  if (::madvise(start, bytes, MADV_HUGEPAGE) == 0 && alignment > 4096) make_huge(start, bytes, alignment);
  auto& known = all();
  const std::lock_guard lock{known.mutex};
  entry.key() = start;
  entry.mapped() = {++known.last_id, file, start, static_cast<std::size_t>(bytes)};
  known.made.insert(std::move(entry));
  return start;
}

void unmap_shared(std::byte* address) noexcept {
  auto& known = all();
  protocols::shared_memory piece;
  {
    const std::lock_guard lock{known.mutex};
    const auto found = known.made.find(address);
    if (found == known.made.end()) return;
    piece = found->second;
    known.made.erase(found);
  }
  (void)::fallocate(piece.file, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, static_cast<off_t>(piece.bytes));
  ::munmap(piece.address, piece.bytes);
  ::close(piece.file);
}

#else

std::byte* map_shared(std::uint64_t, std::uint64_t) { return nullptr; }
void unmap_shared(std::byte*) noexcept {}

#endif

} // namespace cpu

} // namespace godwit::gpu
