#include "main/ready_file.hpp"

#include <filesystem>
#include <fstream>
#include <system_error>
#include <utility>

#include <cerrno>
#include <csignal>
#include <unistd.h>

namespace godwit::main {

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
  if (path_.empty()) return true;
  pid_t owner = 0;
  if (std::ifstream file(path_); file >> owner && owner > 0 && owner != ::getpid())
    if (::kill(owner, 0) == 0 || errno == EPERM) return true; // a living process's, which has the same settings
  std::error_code failure;
  std::filesystem::remove(path_, failure);
  return !failure || failed("remove", failure);
}

} // namespace godwit::main
