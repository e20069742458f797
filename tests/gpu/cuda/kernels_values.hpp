#pragma once

#include "cuda/kernels.hpp"
#include "cuda/simt_numbers.hpp"

#if defined(GODWIT_KERNELS_NATIVE)
#include <cuda_runtime_api.h>
#endif

#include <algorithm>
#include <cstdint>
#include <memory>
#include <new>
#include <random>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace godwit::gpu::cuda::testing {

/// Half a unit in the last place of the type, relative.
[[nodiscard]] inline double half_unit(data_type type) { return type == data_type::bf16 ? 0x1p-8 : 0x1p-11; }

[[nodiscard]] inline std::uint16_t narrow(data_type type, float x) {
  return type == data_type::bf16 ? simt::numbers::to_bf16(x) : simt::numbers::to_f16(x);
}
[[nodiscard]] inline float widen(data_type type, std::uint16_t bits) {
  return type == data_type::bf16 ? simt::numbers::from_bf16(bits) : simt::numbers::from_f16(bits);
}

/// Memory that kernels and tests both see. For a GPU the host's, page-locked: thousands of pieces of managed memory
/// would go to and fro, page fault by page fault. Else exactly as long as asked for, for the address sanitizer.
#if defined(GODWIT_KERNELS_NATIVE)
inline void* allocate(std::size_t bytes) {
  void* memory = nullptr;
  if (bytes == 0) return memory;
  // Behind a kernel that failed it is that kernel's error, not a lack of memory.
  if (const auto status = cudaHostAlloc(&memory, bytes, cudaHostAllocPortable | cudaHostAllocMapped);
      status != cudaSuccess)
    throw std::runtime_error("no page-locked memory of " + std::to_string(bytes) +
                             " bytes: " + cudaGetErrorName(status) + ", " + cudaGetErrorString(status));
  return memory; // unified addresses: the same on both sides
}
inline void release(void* memory) {
  if (memory != nullptr) cudaFreeHost(memory);
}
#else
inline void* allocate(std::size_t bytes) { return ::operator new (bytes, std::align_val_t{256}); }
inline void release(void* memory) { ::operator delete (memory, std::align_val_t{256}); }
#endif

/// Aligned as kernels want it.
template <class Element> class aligned {
public:
  explicit aligned(std::size_t count = 0, Element value = {})
      : data_(static_cast<Element*>(allocate(count * sizeof(Element)))), count_(count) {
    std::uninitialized_fill_n(data_, count, value);
  }
  ~aligned() { release(data_); }
  aligned(const aligned& other) : aligned(other.count_) { std::copy(other.begin(), other.end(), begin()); }
  aligned(aligned&& other) noexcept
      : data_(std::exchange(other.data_, nullptr)), count_(std::exchange(other.count_, 0)) {}
  aligned& operator=(aligned other) noexcept {
    std::swap(data_, other.data_);
    std::swap(count_, other.count_);
    return *this;
  }
  [[nodiscard]] Element* data() { return data_; }
  [[nodiscard]] const Element* data() const { return data_; }
  [[nodiscard]] std::size_t size() const { return count_; }
  [[nodiscard]] Element* begin() { return data_; }
  [[nodiscard]] Element* end() { return data_ + count_; }
  [[nodiscard]] const Element* begin() const { return data_; }
  [[nodiscard]] const Element* end() const { return data_ + count_; }
  Element& operator[](std::size_t i) { return data_[i]; }
  const Element& operator[](std::size_t i) const { return data_[i]; }

private:
  Element* data_;
  std::size_t count_;
};

using random_source = std::mt19937;

[[nodiscard]] inline std::uint32_t below(random_source& random, std::uint32_t bound) { return random() % bound; }

[[nodiscard]] inline aligned<std::uint16_t> random_narrow(random_source& random, data_type type, std::size_t count,
                                                          float scale = 1) {
  std::normal_distribution<float> normal(0, scale);
  aligned<std::uint16_t> result(count);
  for (auto& x : result) x = narrow(type, normal(random));
  return result;
}
[[nodiscard]] inline aligned<float> random_floats(random_source& random, std::size_t count, float scale = 1) {
  std::normal_distribution<float> normal(0, scale);
  aligned<float> result(count);
  for (auto& x : result) x = normal(random);
  return result;
}

} // namespace godwit::gpu::cuda::testing
