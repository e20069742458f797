#pragma once

#include <cstddef>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace godwit::gpu::model {

/// The files of one model, by name. Thread-safe; the bytes stay valid and in place while the source lives.
class file_source {
public:
  virtual ~file_source() = default;
  /// For people: the directory's path, or "default" for the embedded model.
  [[nodiscard]] virtual const std::string& name() const noexcept = 0;
  /// Absent where there is no such file. Throws model_error where there is one that cannot be read.
  [[nodiscard]] virtual std::optional<std::span<const std::byte>> find(std::string_view file) const = 0;
};

/// A directory on disk; files are memory-mapped (read-only, private) when first asked for. A name with a slash is never
/// found. Truncating a mapped file while it is in use kills the process, as with every memory-mapped model.
[[nodiscard]] std::shared_ptr<const file_source> directory_source(std::filesystem::path directory);

/// Files held in memory.
[[nodiscard]] std::shared_ptr<const file_source>
memory_source(std::string name, std::map<std::string, std::vector<std::byte>, std::less<>> files);

/// The model that is compiled into godwit, named "default". Null in a build without it.
[[nodiscard]] std::shared_ptr<const file_source> embedded_model();

} // namespace godwit::gpu::model
