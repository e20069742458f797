#pragma once

#include <godwit/protocols/expected.hpp>

#include <filesystem>
#include <string>

namespace godwit::runtime {

/// A shared library, loaded for as long as the process lives, with names that nobody else sees.
class shared_library {
public:
  /// `file` is where it lies, and not looked for elsewhere. Otherwise the loader's line.
  [[nodiscard]] static protocols::expected<shared_library, std::string> load(const std::filesystem::path& file);
  /// Null: it has no such function. The caller knows its type.
  template <class Function> [[nodiscard]] Function* function(const char* name) const {
    return reinterpret_cast<Function*>(symbol(name));
  }

private:
  explicit shared_library(void* handle) noexcept : handle_(handle) {}
  [[nodiscard]] void* symbol(const char* name) const;
  void* handle_;
};

} // namespace godwit::runtime
