#pragma once

#include "actors/support/cpu_model.hpp"

#include <godwit/gpu/cpu/cpu_adapters.hpp>
#include <godwit/gpu/model/adapter.hpp>

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>

#include <unistd.h>

namespace godwit::test {

/// Two made-up adapters of the embedded model, "one" and "two", and the store of a process that has them.
class adapters_of_default {
public:
  adapters_of_default()
      : path_(std::filesystem::temp_directory_path() / ("godwit-adapters-" + std::to_string(::getpid()))),
        directory(std::make_shared<gpu::model::adapter_directory>(path_)),
        store(std::make_shared<gpu::cpu::cpu_adapters>(directory, std::uint64_t{1} << 28U)) {
    const auto& model = embedded_cpu_model();
    if (!model.packed) return;
    gpu::model::write_random_adapter(model.directory.configuration, 8, 1, path_ / "one");
    gpu::model::write_random_adapter(model.directory.configuration, 20, 2, path_ / "two");
    store->serve({model.packed});
  }
  adapters_of_default(const adapters_of_default&) = delete;
  adapters_of_default& operator=(const adapters_of_default&) = delete;
  ~adapters_of_default() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  [[nodiscard]] protocols::adapter_ref named(const std::string& name) const { return directory->find(name).value(); }

private:
  std::filesystem::path path_;

public:
  std::shared_ptr<const gpu::model::adapter_directory> directory;
  std::shared_ptr<gpu::cpu::cpu_adapters> store;
};

[[nodiscard]] inline const adapters_of_default& made_adapters() {
  static const adapters_of_default all;
  return all;
}

} // namespace godwit::test
