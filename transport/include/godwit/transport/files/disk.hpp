#pragma once

#include <godwit/transport/disk.hpp>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

namespace godwit::transport::files {

struct disk_settings {
  std::string directory;   ///< of a file system with room for all slots, which are taken at once where it can do so
  std::uint32_t slots = 0; ///< above 0
  std::size_t slot_bytes = 0;
  std::uint32_t threads = 4; ///< each does one read or write at a time
};

/// A file without a name: gone with its process, however that ends. Past the page cache where the file system can do
/// so and slots are multiples of `disk::alignment`. Each slot has a checksum in memory, by which damage is an error of
/// the read.
///
/// Of memory it takes 16 bytes a slot. Throws std::system_error, whose text says what the file system lacks, or lets
/// nobody do.
[[nodiscard]] std::shared_ptr<disk> make_disk(const disk_settings& settings);

} // namespace godwit::transport::files
