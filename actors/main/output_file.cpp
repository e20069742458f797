#include "main/output_file.hpp"

#include <cerrno>
#include <filesystem>
#include <iostream>
#include <system_error>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

namespace godwit::main {

namespace {

std::string in_words(int error) { return std::generic_category().message(error); }

/// Where links lead, though what they name may not be there.
std::filesystem::path target_of(std::filesystem::path path) {
  constexpr int links_max = 40; // as Linux follows
  std::error_code failure;
  for (int i = 0; i < links_max && std::filesystem::is_symlink(path, failure); ++i) {
    const auto next = std::filesystem::read_symlink(path, failure);
    if (failure) break;
    path = path.parent_path() / next;
  }
  return path;
}

} // namespace

std::optional<std::string> why_not_writable(const std::string& path) {
  struct stat about {};
  if (::stat(path.c_str(), &about) == 0) {
    if (S_ISDIR(about.st_mode)) return "it is a folder";
    if (::access(path.c_str(), W_OK) != 0) return in_words(errno);
    return std::nullopt;
  }
  if (errno != ENOENT) return in_words(errno);
  const auto target = target_of(path);
  const auto folder = target.parent_path();
  if (!folder.empty() && ::stat(folder.c_str(), &about) != 0 && errno == ENOENT)
    return "there is no folder " + folder.string();
  // By another name: somebody may wait for this one. A short one: this one may be as long as names can be.
  const auto beside = (folder / (".godwit-" + std::to_string(::getpid()))).string();
  const int made = ::open(beside.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
  if (made < 0 && errno == EEXIST) return std::nullopt; // another one is looking, or was killed as it did
  if (made < 0) return in_words(errno);
  ::close(made);
  ::unlink(beside.c_str());
  return std::nullopt;
}

bool same_file(const std::string& a, const std::string& b) {
  std::error_code failure;
  if (a.empty() || b.empty()) return false;
  const auto there = std::filesystem::status(a, failure);
  if (std::filesystem::exists(there) && !std::filesystem::is_regular_file(there)) return false;
  if (std::filesystem::equivalent(a, b, failure)) return true;
  const auto whole = [&](const std::string& path) {
    return std::filesystem::weakly_canonical(std::filesystem::absolute(target_of(path)), failure);
  };
  const auto full = whole(a);
  return !failure && full == whole(b) && !failure;
}

bool is_standard_output(const std::string& path) {
  struct stat file {
  }, output{};
  return !path.empty() && ::stat(path.c_str(), &file) == 0 && ::fstat(STDOUT_FILENO, &output) == 0 &&
         S_ISREG(file.st_mode) && file.st_dev == output.st_dev && file.st_ino == output.st_ino;
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

int fail(const std::string& line, int code) {
  std::cerr << "godwit: " << line << '\n';
  return code;
}

int all_written(int code) {
  if (std::cout.flush() || code != 0) return code;
  std::cerr << "godwit: cannot write all of the output\n";
  return 1;
}

} // namespace godwit::main
