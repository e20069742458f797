#include "ucx/mapped_file.hpp"

#include <utility>

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace godwit::transport::ucx {

namespace {

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

} // namespace

std::optional<mapped_file> mapped_file::of_process(std::uint64_t pid, std::int32_t file, std::uint64_t bytes) {
  // glibc 2.36 declares both for C alone.
  const descriptor process(static_cast<int>(::syscall(SYS_pidfd_open, static_cast<pid_t>(pid), 0)));
  if (process.number() < 0) return std::nullopt;
  const descriptor opened(static_cast<int>(::syscall(SYS_pidfd_getfd, process.number(), file, 0)));
  if (opened.number() < 0) return std::nullopt;
  const int seals = ::fcntl(opened.number(), F_GET_SEALS);
  struct stat state {};
  if (seals < 0 || (seals & F_SEAL_SHRINK) == 0 || ::fstat(opened.number(), &state) != 0 || bytes == 0 ||
      static_cast<std::uint64_t>(state.st_size) != bytes)
    return std::nullopt;
  void* const mapped = ::mmap(nullptr, bytes, PROT_READ, MAP_SHARED, opened.number(), 0);
  if (mapped == MAP_FAILED) return std::nullopt;
  return mapped_file(static_cast<const std::byte*>(mapped), bytes);
}

mapped_file::mapped_file(mapped_file&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)), bytes_(std::exchange(other.bytes_, 0)) {}

mapped_file& mapped_file::operator=(mapped_file&& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(bytes_, other.bytes_);
  return *this;
}

mapped_file::~mapped_file() {
  if (data_ != nullptr) ::munmap(const_cast<std::byte*>(data_), bytes_);
}

} // namespace godwit::transport::ucx
