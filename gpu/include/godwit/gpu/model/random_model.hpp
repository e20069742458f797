#pragma once

#include <godwit/gpu/model/config.hpp>
#include <godwit/gpu/model/error.hpp>
#include <godwit/gpu/model/model_directory.hpp>
#include <godwit/gpu/model/weights.hpp>
#include <godwit/protocols/expected.hpp>

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

/// Models with random weights: realistic shapes for benchmarks, small ones of each family for tests. They load like any
/// model and talk nonsense.
namespace godwit::gpu::model {

struct random_model_shape {
  std::string name;        ///< "1b"
  std::string description; ///< one line for `godwit model random --list`
  config configuration;
};

[[nodiscard]] const std::vector<random_model_shape>& random_model_shapes();
/// Null where there is none.
[[nodiscard]] const random_model_shape* find_random_model(std::string_view name);

/// Writes a Hugging Face directory (bf16): the same name and seed give the same bytes everywhere. Creates the
/// directory; the weights come first under a temporary name, config.json last. Returns the bytes written.
[[nodiscard]] protocols::expected<std::uint64_t, model_error>
write_random_model(std::string_view name, const std::filesystem::path& directory, std::uint64_t seed = 0);

/// The same tensors in memory.
[[nodiscard]] std::shared_ptr<const weights> random_weights(const config& configuration, std::uint64_t seed = 0);
/// The same model, opened, without a disk. Throws model_error for an unknown name.
[[nodiscard]] model_directory random_model(std::string_view name, std::uint64_t seed = 0);

} // namespace godwit::gpu::model
