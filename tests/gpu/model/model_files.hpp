#pragma once

#include <godwit/gpu/model/model_directory.hpp>
#include <godwit/gpu/model/random_model.hpp>

#include <cstddef>
#include <cstring>
#include <filesystem>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <unistd.h>

namespace godwit::gpu::model::tests {

using file_map = std::map<std::string, std::vector<std::byte>, std::less<>>;

inline std::vector<std::byte> bytes_of_text(std::string_view text) {
  std::vector<std::byte> bytes(text.size());
  std::memcpy(bytes.data(), text.data(), text.size());
  return bytes;
}

inline std::string text_of_bytes(const std::vector<std::byte>& bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

/// A directory of this test alone, gone with the object.
class scratch_directory {
public:
  explicit scratch_directory(const std::string& name)
      : path_(std::filesystem::temp_directory_path() / ("godwit-" + name + "-" + std::to_string(::getpid()))) {
    std::filesystem::remove_all(path_);
    std::filesystem::create_directories(path_);
  }
  scratch_directory(const scratch_directory&) = delete;
  scratch_directory& operator=(const scratch_directory&) = delete;
  ~scratch_directory() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  [[nodiscard]] const std::filesystem::path& path() const { return path_; }

private:
  std::filesystem::path path_;
};

/// A small valid Llama in memory, in plain text, so that tests can break one thing.
file_map small_model();

/// A model directory of tests/gpu/model/golden.
file_map golden_files(const std::string& name);

/// A safetensors file: header as written, then `data_bytes` zeros.
std::vector<std::byte> safetensors_file(std::string_view header, std::size_t data_bytes);

/// Replaces the one place where `from` stands.
void replace(file_map& files, const std::string& file, std::string_view from, std::string_view to);

/// The error of opening, or "" where it opens.
std::string error_of(file_map files);

} // namespace godwit::gpu::model::tests
