#include "trace/compression.hpp"

#include <zstd.h>

namespace godwit::runtime::trace {

struct compressor::state {
  ZSTD_CCtx* context = ZSTD_createCCtx();
};

compressor::compressor(int level) : state_(std::make_unique<state>()) {
  if (state_->context == nullptr) return;
  const auto bounds = ZSTD_cParam_getBounds(ZSTD_c_compressionLevel);
  if (level < bounds.lowerBound) level = bounds.lowerBound;
  if (level > bounds.upperBound) level = bounds.upperBound;
  ZSTD_CCtx_setParameter(state_->context, ZSTD_c_compressionLevel, level);
  ZSTD_CCtx_setParameter(state_->context, ZSTD_c_checksumFlag, 1);
}
compressor::~compressor() { ZSTD_freeCCtx(state_->context); }

bool compressor::compress(std::span<const std::uint8_t> from, std::vector<std::uint8_t>& to) {
  if (state_->context == nullptr) return false;
  const auto before = to.size();
  to.resize(before + ZSTD_compressBound(from.size()));
  const auto size = ZSTD_compress2(state_->context, to.data() + before, to.size() - before, from.data(), from.size());
  to.resize(ZSTD_isError(size) ? before : before + size);
  return !ZSTD_isError(size);
}

struct decompressor::state {
  ZSTD_DCtx* context = ZSTD_createDCtx();
};

decompressor::decompressor() : state_(std::make_unique<state>()) {}
decompressor::~decompressor() { ZSTD_freeDCtx(state_->context); }

bool decompressor::decompress(std::span<const std::uint8_t> from, std::span<std::uint8_t> to) {
  if (state_->context == nullptr) return false;
  // what the frame says of its own size is compared before anything is unpacked; one that does not say is refused
  if (ZSTD_getFrameContentSize(from.data(), from.size()) != to.size()) return false;
  if (ZSTD_findFrameCompressedSize(from.data(), from.size()) != from.size()) return false;
  const auto size = ZSTD_decompressDCtx(state_->context, to.data(), to.size(), from.data(), from.size());
  return !ZSTD_isError(size) && size == to.size();
}

} // namespace godwit::runtime::trace
