#pragma once

#include <godwit/runtime/async/expected.hpp>

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>

namespace godwit::runtime::trace {

/// A file that grows at its end, and whose last part can be written again.
class file_output {
public:
  static async::expected<std::unique_ptr<file_output>> create(const std::string& path);
  file_output(const file_output&) = delete;
  file_output& operator=(const file_output&) = delete;
  ~file_output();

  [[nodiscard]] std::uint64_t size() const noexcept { return size_; }
  async::expected<void> append(std::span<const std::uint8_t> bytes) { return replace_from(size_, bytes); }
  /// What lies at and after `offset` becomes these bytes. After an error the file ends at `offset`, if that can be had.
  async::expected<void> replace_from(std::uint64_t offset, std::span<const std::uint8_t> bytes);

private:
  file_output(std::string path, int descriptor) : path_(std::move(path)), descriptor_(descriptor) {}
  [[nodiscard]] async::error failure(int number) const;
  std::string path_;
  int descriptor_;
  std::uint64_t size_ = 0;
};

} // namespace godwit::runtime::trace
