#pragma once

#include <godwit/protocols/messages/shared_memory.hpp>

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <stdexcept>

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

namespace godwit::testing {

/// Memory that another process can map, of a test's own.
class shared_pages : public std::enable_shared_from_this<shared_pages> {
public:
  /// Zeroed. `sealed`: it cannot shrink.
  [[nodiscard]] std::shared_ptr<std::byte> allocate(std::size_t bytes, bool sealed = true) {
    const auto size = (bytes + 4095) / 4096 * 4096;
    const int file = ::memfd_create("a test", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (file < 0 || ::ftruncate(file, static_cast<off_t>(size)) != 0 ||
        (sealed && ::fcntl(file, F_ADD_SEALS, F_SEAL_SHRINK) != 0))
      throw std::runtime_error("no memory to share");
    void* const mapped = ::mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    if (mapped == MAP_FAILED) throw std::runtime_error("no address space");
    auto* const address = static_cast<std::byte*>(mapped);
    const std::lock_guard lock{mutex_};
    pieces_[address] = {++last_id_, file, address, size};
    return {address, [self = shared_from_this()](std::byte* back) { self->release(back); }};
  }
  [[nodiscard]] std::optional<protocols::shared_memory> find(const std::byte* address) {
    const std::lock_guard lock{mutex_};
    auto after = pieces_.upper_bound(address);
    if (after == pieces_.begin()) return std::nullopt;
    const auto& piece = std::prev(after)->second;
    if (address >= piece.address + piece.bytes) return std::nullopt;
    return piece;
  }

private:
  void release(const std::byte* address) {
    protocols::shared_memory piece;
    {
      const std::lock_guard lock{mutex_};
      piece = pieces_.at(address);
      pieces_.erase(address);
    }
    ::munmap(piece.address, piece.bytes);
    ::close(piece.file);
  }
  std::mutex mutex_;
  std::map<const std::byte*, protocols::shared_memory> pieces_; ///< by where they begin
  std::uint64_t last_id_ = 0;
};

} // namespace godwit::testing
