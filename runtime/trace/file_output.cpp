#include "trace/file_output.hpp"

#include <cerrno>
#include <system_error>

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

namespace godwit::runtime::trace {

async::error file_output::failure(int number) const {
  return async::error{async::error_code::failed, path_ + ": " + std::generic_category().message(number)};
}

async::expected<std::unique_ptr<file_output>> file_output::create(const std::string& path) {
  // only its owner: a recording may hold prompts
  const auto descriptor = ::open(path.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
  std::unique_ptr<file_output> made(new file_output(path, descriptor));
  if (descriptor < 0) return made->failure(errno);
  struct stat about {};
  if (::fstat(descriptor, &about) != 0 || !S_ISREG(about.st_mode)) return made;
  // Emptied only when nobody else writes to it: who starts a server twice must not lose what the first one records.
  if (::flock(descriptor, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK)
    return async::error{async::error_code::failed, path + ": another process is recording to it"};
  (void)::fchmod(descriptor, 0600); // where it was there
  if (::ftruncate(descriptor, 0) != 0) return made->failure(errno);
  return made;
}

file_output::~file_output() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

async::expected<void> file_output::replace_from(std::uint64_t offset, std::span<const std::uint8_t> bytes) {
  auto at = static_cast<off_t>(offset);
  while (!bytes.empty()) {
    const auto written = ::pwrite(descriptor_, bytes.data(), bytes.size(), at);
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) {
      const auto why = written < 0 ? errno : ENOSPC;
      // half a chunk would be read as damage
      if (::ftruncate(descriptor_, static_cast<off_t>(offset)) == 0) size_ = offset;
      return failure(why);
    }
    at += written;
    bytes = bytes.subspan(static_cast<std::size_t>(written));
  }
  const auto end = static_cast<std::uint64_t>(at);
  if (end < size_ && ::ftruncate(descriptor_, at) != 0) return failure(errno);
  size_ = end;
  return {};
}

} // namespace godwit::runtime::trace
