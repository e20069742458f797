#include "main/ready_file.hpp"

#include <filesystem>
#include <fstream>
#include <string>
#include <system_error>
#include <utility>

#include <unistd.h>

namespace godwit::main {

namespace {

/// Whether a living process runs this program: another one may have got the number of one that was killed.
bool is_one_of_us(pid_t process) {
  std::error_code ignored;
  const auto program = std::filesystem::read_symlink("/proc/" + std::to_string(process) + "/exe", ignored);
  return !program.empty() && program == std::filesystem::read_symlink("/proc/self/exe", ignored);
}

/// Whether it is another process's that lives.
bool is_anothers(const std::string& path) {
  pid_t owner = 0;
  std::ifstream file(path);
  return file >> owner && owner != ::getpid() && is_one_of_us(owner);
}

} // namespace

ready_file::ready_file(std::string path, runtime::log::logger log) : path_(std::move(path)), log_(std::move(log)) {
  (void)remove();
}

ready_file::~ready_file() { set(false); }

void ready_file::set(bool ready) {
  if (ready_ == ready || !(ready ? write() : remove())) return; // what failed is tried again
  ready_ = ready;
  told_ = false;
}

bool ready_file::failed(const char* doing, const std::error_code& failure) {
  if (!std::exchange(told_, true)) log_.warning("cannot {} the ready file {}: {}", doing, path_, failure.message());
  return false;
}

bool ready_file::write() {
  if (path_.empty()) return true;
  if (is_anothers(path_)) return failed("write", std::make_error_code(std::errc::file_exists));
  const auto beside = path_ + ".new";
  std::error_code failure;
  {
    std::ofstream file(beside, std::ios::trunc);
    file << ::getpid() << '\n';
    if (!file.flush()) failure = std::make_error_code(std::errc::io_error);
  }
  if (!failure) std::filesystem::rename(beside, path_, failure);
  return !failure || failed("write", failure);
}

bool ready_file::remove() {
  if (path_.empty() || is_anothers(path_)) return true;
  std::error_code failure;
  std::filesystem::remove(path_, failure);
  return !failure || failed("remove", failure);
}

} // namespace godwit::main
