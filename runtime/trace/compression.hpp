#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

/// zstd frames with a checksum of their content. The only place that knows zstd.
namespace godwit::runtime::trace {

class compressor {
public:
  explicit compressor(int level);
  compressor(const compressor&) = delete;
  compressor& operator=(const compressor&) = delete;
  ~compressor();
  /// Appends one frame to `to`. False, and `to` as it was: no memory.
  [[nodiscard]] bool compress(std::span<const std::uint8_t> from, std::vector<std::uint8_t>& to);

private:
  struct state;
  std::unique_ptr<state> state_;
};

class decompressor {
public:
  decompressor();
  decompressor(const decompressor&) = delete;
  decompressor& operator=(const decompressor&) = delete;
  ~decompressor();
  /// Fills `to` from exactly one frame whose content is exactly that long. False: damaged.
  [[nodiscard]] bool decompress(std::span<const std::uint8_t> from, std::span<std::uint8_t> to);

private:
  struct state;
  std::unique_ptr<state> state_;
};

} // namespace godwit::runtime::trace
