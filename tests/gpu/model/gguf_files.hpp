#pragma once

#include <godwit/gpu/model/config.hpp>

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace godwit::gpu::model::tests {

/// Writes a GGUF file, of which tests break one thing.
class gguf_builder {
public:
  struct tensor {
    std::string name;
    std::uint32_t type = 0;
    std::vector<std::uint64_t> shape; ///< slowest dimension first
    std::vector<std::byte> bytes;
    std::uint64_t misplaced = 0; ///< added to its offset
  };

  void put_u32(const std::string& key, std::uint32_t value);
  void put_f32(const std::string& key, float value);
  void put_flag(const std::string& key, bool value);
  void put_text(const std::string& key, std::string_view value);
  void put_texts(const std::string& key, const std::vector<std::string>& values);
  void put_i32s(const std::string& key, const std::vector<std::int32_t>& values);
  void put_f32s(const std::string& key, const std::vector<float>& values);
  void put_raw(const std::string& key, std::uint32_t type, std::vector<std::byte> value);
  void remove(const std::string& key) { values_.erase(key); }

  std::vector<tensor> tensors;
  std::uint32_t version = 3;
  std::uint64_t keys_more = 0; ///< than there are, in the header

  /// One of its tensors.
  tensor& find(const std::string& name);
  [[nodiscard]] std::vector<std::byte> build() const;

private:
  std::map<std::string, std::vector<std::byte>> values_; ///< type and value
};

/// A token for each byte, behind three special ones.
struct gguf_tokens {
  std::vector<std::string> texts;
  std::vector<std::int32_t> kinds;
};
gguf_tokens small_gguf_tokens();

/// The keys that say of which sizes a Llama is.
void put_sizes(gguf_builder& to, const config& of);

/// A small Llama in F32 with these tokens, whose weights are all different.
gguf_builder small_gguf();

} // namespace godwit::gpu::model::tests
