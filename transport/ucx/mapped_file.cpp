#include "ucx/mapped_file.hpp"

#include <string>
#include <utility>

#include <fcntl.h>
#include <linux/magic.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

namespace godwit::transport::ucx {

namespace {

constexpr std::size_t huge_page = std::size_t{2} << 20;

class descriptor {
public:
  explicit descriptor(int number) : number_(number) {}
  descriptor(const descriptor&) = delete;
  descriptor& operator=(const descriptor&) = delete;
  ~descriptor() {
    if (number_ >= 0) ::close(number_);
  }
  [[nodiscard]] int number() const { return number_; }

private:
  int number_;
};

/// To be read. By way of its path, since `pidfd_getfd` is forbidden in most containers; and looked at before it is
/// opened, which can do things to what is no file.
int open_memory(std::uint64_t pid, std::int32_t file) {
  const descriptor seen(
      ::open(("/proc/" + std::to_string(pid) + "/fd/" + std::to_string(file)).c_str(), O_PATH | O_CLOEXEC));
  struct stat state {};
  struct statfs system {};
  if (seen.number() < 0 || ::fstat(seen.number(), &state) != 0 || !S_ISREG(state.st_mode) ||
      ::fstatfs(seen.number(), &system) != 0 || system.f_type != TMPFS_MAGIC)
    return -1;
  return ::open(("/proc/self/fd/" + std::to_string(seen.number())).c_str(), O_RDONLY | O_CLOEXEC);
}

} // namespace

std::optional<mapped_file> mapped_file::of_process(std::uint64_t pid, std::int32_t file, std::uint64_t bytes) {
  const descriptor opened(open_memory(pid, file));
  const int seals = opened.number() < 0 ? -1 : ::fcntl(opened.number(), F_GET_SEALS);
  struct stat state {};
  if (seals < 0 || (seals & F_SEAL_SHRINK) == 0 || ::fstat(opened.number(), &state) != 0 || bytes == 0 ||
      static_cast<std::uint64_t>(state.st_size) != bytes)
    return std::nullopt;
  // Huge pages of the file are mapped as such where they begin at a multiple of their size here, too.
  const auto reserved = static_cast<std::size_t>(bytes) + huge_page;
  void* const base = ::mmap(nullptr, reserved, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (base == MAP_FAILED) return std::nullopt;
  auto* const start = static_cast<std::byte*>(base) + (huge_page - reinterpret_cast<std::uintptr_t>(base) % huge_page);
  mapped_file made(base, reserved, start, static_cast<std::size_t>(bytes));
  if (::mmap(start, made.bytes_, PROT_READ, MAP_SHARED | MAP_FIXED, opened.number(), 0) ==
      static_cast<void*>(MAP_FAILED))
    return std::nullopt;
  (void)::madvise(start, made.bytes_, MADV_DONTDUMP); // a core of ours is not to have what is theirs
  return made;
}

mapped_file::mapped_file(mapped_file&& other) noexcept
    : base_(std::exchange(other.base_, nullptr)), reserved_(other.reserved_), data_(other.data_), bytes_(other.bytes_) {
}

mapped_file& mapped_file::operator=(mapped_file&& other) noexcept {
  std::swap(base_, other.base_);
  std::swap(reserved_, other.reserved_);
  std::swap(data_, other.data_);
  std::swap(bytes_, other.bytes_);
  return *this;
}

mapped_file::~mapped_file() {
  if (base_ != nullptr) ::munmap(base_, reserved_);
}

} // namespace godwit::transport::ucx
