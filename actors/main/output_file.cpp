#include "main/output_file.hpp"

#include <filesystem>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

namespace godwit::main {

bool may_be_written(const std::string& path) {
  struct stat about {};
  if (::stat(path.c_str(), &about) == 0) return !S_ISDIR(about.st_mode) && ::access(path.c_str(), W_OK) == 0;
  const auto folder = std::filesystem::path(path).parent_path();
  return ::access(folder.empty() ? "." : folder.c_str(), W_OK | X_OK) == 0;
}

void keep_private(const std::string& path) {
  struct stat about {};
  const bool there = ::stat(path.c_str(), &about) == 0;
  if (there && !S_ISREG(about.st_mode)) return; // a pipe's reader would see it open and close
  const auto descriptor = ::open(path.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
  if (descriptor < 0) return; // whoever writes to it will say so
  (void)::fchmod(descriptor, 0600);
  ::close(descriptor);
}

} // namespace godwit::main
