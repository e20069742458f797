#pragma once

#include <cstdint>
#include <string>
#include <tuple>
#include <utility>

namespace godwit::protocols {

/// A low-rank adapter (LoRA) of the served model, as requests name it: where its files are found, by its name, and
/// which ones they have to be, by a fingerprint of their content. A default one is none: the model as it is.
struct adapter_ref {
  std::string name;
  std::uint64_t id = 0; ///< the fingerprint; 0: no adapter

  adapter_ref() = default;
  adapter_ref(std::string called, std::uint64_t fingerprint) : name(std::move(called)), id(fingerprint) {}
  explicit operator bool() const noexcept { return id != 0; }
  friend bool operator==(const adapter_ref&, const adapter_ref&) = default;
  auto fields() { return std::tie(name, id); }
};

} // namespace godwit::protocols
