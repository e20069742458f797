#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

namespace godwit::transport::ucx {

/// A file of another process that is mapped here, to be read. Movable.
class mapped_file {
public:
  /// The file behind the descriptor `file` of `pid`. Nothing where the kernel does not let us have it, it is no memory
  /// that cannot shrink (reading beyond its end would be the end of this process) or has not `bytes`.
  [[nodiscard]] static std::optional<mapped_file> of_process(std::uint64_t pid, std::int32_t file, std::uint64_t bytes);
  mapped_file(mapped_file&& other) noexcept;
  mapped_file& operator=(mapped_file&& other) noexcept;
  ~mapped_file();
  [[nodiscard]] const std::byte* data() const { return data_; }
  [[nodiscard]] std::size_t bytes() const { return bytes_; }

private:
  mapped_file(void* base, std::size_t reserved, const std::byte* data, std::size_t bytes)
      : base_(base), reserved_(reserved), data_(data), bytes_(bytes) {}
  void* base_; ///< of the place in the address space; null: moved from
  std::size_t reserved_;
  const std::byte* data_;
  std::size_t bytes_;
};

} // namespace godwit::transport::ucx
