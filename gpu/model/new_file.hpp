#pragma once

#include <godwit/gpu/model/error.hpp>

#include "model/json_reader.hpp"

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <string>
#include <system_error>
#include <utility>

namespace godwit::gpu::model {

/// A file that appears under its name only when it is whole.
class new_file {
public:
  explicit new_file(std::filesystem::path path) : path_(std::move(path)), unfinished_(path_.string() + ".part") {
    out_.open(unfinished_, std::ios::binary | std::ios::trunc);
    check();
  }
  void write(const void* data, std::size_t bytes) {
    out_.write(static_cast<const char*>(data), static_cast<std::streamsize>(bytes));
    check();
    bytes_ += bytes;
  }
  std::uint64_t finish() {
    out_.close();
    check();
    std::filesystem::rename(unfinished_, path_);
    return bytes_;
  }
  new_file(const new_file&) = delete;
  new_file& operator=(const new_file&) = delete;
  ~new_file() {
    std::error_code ignored;
    std::filesystem::remove(unfinished_, ignored);
  }

private:
  void check() const {
    if (!out_) throw model_error(in_quotes(path_.string()), "cannot be written; is the disk full?");
  }
  std::filesystem::path path_;
  std::filesystem::path unfinished_;
  std::ofstream out_;
  std::uint64_t bytes_ = 0;
};

/// Creates a directory where there is none. Throws model_error.
inline void make_directory(const std::filesystem::path& directory) {
  std::error_code error;
  std::filesystem::create_directories(directory, error);
  if (error) throw model_error(in_quotes(directory.string()), "cannot be created: " + error.message());
}

inline std::uint64_t write_text(const std::filesystem::path& path, const std::string& text) {
  new_file file(path);
  file.write(text.data(), text.size());
  return file.finish();
}

} // namespace godwit::gpu::model
