#pragma once

#include "model/text_map.hpp"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace godwit::gpu::model {

/// A tensor of a GGUF file.
struct gguf_tensor {
  std::uint32_t type = 0;           ///< ggml's number for it
  std::vector<std::uint64_t> shape; ///< slowest dimension first, as Hugging Face has it; the file has it the other way
  std::span<const std::byte> bytes;
};

/// The header of a GGUF file, llama.cpp's: what it says of the model, and where its tensors lie.
///
/// Reads versions 2 and 3, little-endian (ggml's own page of the format), and checks every number: that texts, arrays
/// and tensors lie within the file, that their sizes go with their types, that tensors are aligned. Throws model_error,
/// which names the file and the key. Valid while `bytes` is.
class gguf_file {
public:
  gguf_file(std::span<const std::byte> bytes, std::string name);

  [[nodiscard]] const std::string& name() const noexcept { return name_; }
  [[nodiscard]] bool has(std::string_view key) const noexcept { return values_.contains(key); }
  [[nodiscard]] bool is_array(std::string_view key) const noexcept;
  /// An integer of whatever width; absent: there is no such key.
  [[nodiscard]] std::optional<std::int64_t> integer(std::string_view key) const;
  [[nodiscard]] std::optional<double> number(std::string_view key) const;
  [[nodiscard]] std::optional<bool> flag(std::string_view key) const;
  [[nodiscard]] std::optional<std::string_view> text(std::string_view key) const;
  /// Of arrays with at most `entries_max` entries.
  static constexpr std::uint64_t entries_max = 1U << 22U;
  [[nodiscard]] std::optional<std::vector<std::string_view>> texts(std::string_view key) const;
  [[nodiscard]] std::optional<std::vector<double>> numbers(std::string_view key) const;

  [[nodiscard]] const text_map<gguf_tensor>& tensors() const noexcept { return tensors_; }
  [[nodiscard]] const gguf_tensor* find(std::string_view tensor) const noexcept;

  [[noreturn]] void fail(std::string_view key, const std::string& reason) const;

private:
  struct value {
    std::uint32_t type = 0;
    std::span<const std::byte> bytes; ///< of a text: what it says; of an array: its elements
    std::uint32_t element = 0;        ///< of an array
    std::uint64_t count = 0;          ///< likewise
  };
  [[nodiscard]] const value* lookup(std::string_view key) const noexcept;
  void check_count(std::string_view key, const value& of) const;
  [[nodiscard]] value read_value(class gguf_cursor& at, std::string_view key) const;
  void read_tensors(class gguf_cursor& at, std::uint64_t count, std::span<const std::byte> file);

  std::string name_;
  text_map<value> values_;
  text_map<gguf_tensor> tensors_;
};

} // namespace godwit::gpu::model
