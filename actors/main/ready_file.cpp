#include "main/ready_file.hpp"

#include <filesystem>
#include <fstream>
#include <system_error>
#include <utility>

#include <unistd.h>

namespace godwit::main {

ready_file::ready_file(std::string path, runtime::log::logger log) : path_(std::move(path)), log_(std::move(log)) {
  remove();
}

ready_file::~ready_file() { set(false); }

void ready_file::set(bool ready) {
  if (std::exchange(ready_, ready) == ready) return;
  if (ready)
    write();
  else
    remove();
}

void ready_file::write() const {
  if (path_.empty()) return;
  const auto beside = path_ + ".new";
  std::error_code failure;
  {
    std::ofstream file(beside, std::ios::trunc);
    file << ::getpid() << '\n';
    if (!file.flush()) failure = std::make_error_code(std::errc::io_error);
  }
  if (!failure) std::filesystem::rename(beside, path_, failure);
  if (failure) log_.warning("cannot write the ready file {}: {}", path_, failure.message());
}

void ready_file::remove() const {
  if (path_.empty()) return;
  std::error_code failure;
  std::filesystem::remove(path_, failure);
  if (failure) log_.warning("cannot remove the ready file {}: {}", path_, failure.message());
}

} // namespace godwit::main
