#pragma once

#include <cstdint>
#include <list>
#include <optional>
#include <unordered_map>
#include <vector>

namespace godwit::protocols {

/// Which adapters lie in a memory of so many bytes, and who goes when another one comes.
///
/// Problem: there may be thousands of adapters for one model, and room for a few (S-LoRA, Sheng et al. 2023, section 5;
/// spec decoding.md). Contract: those that requests use stay; of the others whoever was used longest ago goes first.
/// Neither loads nor frees: the caller does what it says, and is one at a time.
class adapter_shelf {
public:
  explicit adapter_shelf(std::uint64_t bytes_max) : bytes_max_(bytes_max) {}

  [[nodiscard]] bool has(std::uint64_t id) const { return lying_.contains(id); }
  /// Somebody more uses an adapter that lies here, and one less.
  void use(std::uint64_t id);
  void release(std::uint64_t id);

  /// Takes as many away as it takes for one more of `bytes`, and names them, first who goes first. Absent, and nothing
  /// changed: not before others are released; never where `bytes` is more than there is.
  [[nodiscard]] std::optional<std::vector<std::uint64_t>> make_room(std::uint64_t bytes);
  /// One that is not here, and for which there is room. Nobody uses it yet.
  void put(std::uint64_t id, std::uint64_t bytes);
  /// Takes one away that nobody uses.
  void drop(std::uint64_t id);

  [[nodiscard]] std::uint64_t bytes_max() const noexcept { return bytes_max_; }
  [[nodiscard]] std::uint64_t bytes() const noexcept { return bytes_; }
  [[nodiscard]] std::size_t count() const noexcept { return lying_.size(); }

private:
  struct entry {
    std::uint64_t bytes = 0;
    std::uint64_t users = 0;
    std::list<std::uint64_t>::iterator place; ///< in unused_, where there are no users
  };
  std::uint64_t bytes_max_;
  std::uint64_t bytes_ = 0;
  std::uint64_t idle_bytes_ = 0; ///< of those in unused_
  std::unordered_map<std::uint64_t, entry> lying_;
  std::list<std::uint64_t> unused_; ///< who was used longest ago first
};

} // namespace godwit::protocols
