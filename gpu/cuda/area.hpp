#pragma once

#include "cuda/driver.hpp"

#include <cstdint>
#include <initializer_list>
#include <span>
#include <string>
#include <vector>

namespace godwit::gpu::cuda {

/// Device memory in sections, each at least as large as the largest wish so far; with `twin`, pinned memory of the same
/// layout besides, to be filled and copied at once. Twins are small, so a section that grows takes twice what it had;
/// device memory grows by eighths.
///
/// Sections keep their addresses until one has to grow: what has addresses baked in (a graph) is then void.
class area {
public:
  enum class kind : std::uint8_t { device, twin };
  /// `keeps`: what was outgrown is given back with the area and not before, and all sections double. For devices that
  /// work together: giving memory back may wait for another device, which waits for this one.
  area(driver& from, kind which, std::string purpose, bool keeps = false)
      : driver_(from), twin_(which == kind::twin), keeps_(keeps), purpose_(std::move(purpose)) {}

  /// True when the sections moved; their contents are then lost. Nothing may be under way that uses them. Throws
  /// out_of_memory; the sections are empty then.
  bool reserve(std::span<const std::uint64_t> bytes);
  bool reserve(std::initializer_list<std::uint64_t> bytes) { return reserve(std::span(bytes.begin(), bytes.size())); }

  /// How often the sections lost their places: whatever has one of them baked in is good for one number.
  [[nodiscard]] std::uint64_t moves() const noexcept { return moves_; }

  template <class Value> [[nodiscard]] Value* device(std::size_t section) const noexcept {
    return reinterpret_cast<Value*>(device_.data() + sections_[section].at);
  }
  template <class Value> [[nodiscard]] Value* host(std::size_t section) const noexcept {
    return reinterpret_cast<Value*>(host_.data() + sections_[section].at);
  }
  /// Everything up to `bytes` of section `last`.
  void upload(driver_stream& stream, std::size_t last, std::uint64_t bytes) const;
  /// `bytes` of one section.
  void upload_section(driver_stream& stream, std::size_t section, std::uint64_t bytes) const;
  void download_section(driver_stream& stream, std::size_t section, std::uint64_t bytes) const;

private:
  struct place {
    std::uint64_t at = 0;
    std::uint64_t bytes = 0;
  };
  driver& driver_;
  bool twin_, keeps_;
  std::string purpose_;
  std::uint64_t moves_ = 0;
  std::vector<place> sections_;
  allocation device_;
  allocation host_;
  std::vector<allocation> outgrown_;
};

} // namespace godwit::gpu::cuda
