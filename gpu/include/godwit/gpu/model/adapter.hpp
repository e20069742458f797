#pragma once

#include <godwit/gpu/model/config.hpp>
#include <godwit/gpu/model/error.hpp>
#include <godwit/gpu/model/file_source.hpp>
#include <godwit/gpu/model/weights.hpp>
#include <godwit/protocols/messages/adapter.hpp>

#include <array>
#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

/// Low-rank adapters (LoRA, Hu et al. 2021) as PEFT writes them: adapter_config.json and adapter_model.safetensors.
namespace godwit::gpu::model {

/// The matrices of a layer that an adapter may add to.
enum class projection : std::uint8_t { query, key, value, output, gate, up, down };
inline constexpr std::size_t projections = 7;

/// W x becomes W x + scale * b (a x). a: [rank][inputs], b: [outputs][rank].
struct low_rank_update {
  tensor_view a;
  tensor_view b;
  std::uint32_t rank = 0; ///< 0: this matrix stays as it is
  float scale = 0;
};

struct adapter {
  std::vector<std::array<low_rank_update, projections>> layers; ///< as many as the model has
  std::uint32_t rank_max = 0;                                   ///< of all of them
  std::shared_ptr<const file_source> files;                     ///< what the tensors lie in
};

/// Rank that no adapter may exceed.
inline constexpr std::uint32_t adapter_rank_max = 512;

/// Reads and checks an adapter for a model of this configuration. Throws model_error, which names the file and what
/// would do: a kind of adapter that is none of these (DoRA, biases, modules that are saved whole, embeddings), a tensor
/// of another shape or type, a layer or projection that the model does not have.
[[nodiscard]] adapter read_adapter(std::shared_ptr<const file_source> files, const config& configuration);

/// The adapters below one directory, each in a directory that has its name. They may come and go at any time: what a
/// name stands for is looked up each time, and its content read again when a file has changed. Thread-safe.
///
/// Adapters are told apart by a fingerprint, a hash of both files' content. Equal on every machine; against somebody
/// who forges it no help.
///
/// Names have 1 to 200 bytes, no slash and no control characters, and do not begin with a dot: others are never found.
class adapter_directory {
public:
  explicit adapter_directory(std::filesystem::path path) : path_(std::move(path)) {}

  [[nodiscard]] const std::filesystem::path& path() const noexcept { return path_; }
  /// Of all that look like adapters, sorted; at most `most`. Reads no tensors.
  [[nodiscard]] std::vector<std::string> names(std::size_t most) const;
  /// Absent where there is none of this name. Throws model_error where there is one that cannot be read. Reads its
  /// files where it has not seen them, or they have changed; `is_new` tells whether it would.
  [[nodiscard]] std::optional<protocols::adapter_ref> find(std::string_view name) const;
  [[nodiscard]] bool is_new(std::string_view name) const noexcept;
  /// Its files, read into memory: whoever writes to them meanwhile does no harm. Throws model_error: they are not
  /// there, cannot be read, have more than `bytes_max`, or are not those that `which` names.
  [[nodiscard]] std::shared_ptr<const file_source> open(const protocols::adapter_ref& which,
                                                        std::uint64_t bytes_max) const;
  /// The same, of the tensors their header only: to learn shapes. Whose files they are is not looked at.
  [[nodiscard]] std::shared_ptr<const file_source> peek(const protocols::adapter_ref& which,
                                                        std::uint64_t bytes_max) const;

private:
  /// Of both files: which ones they are, how long, and when they were written last.
  using stamp = std::array<std::uint64_t, 10>;

  std::filesystem::path path_;
  mutable std::mutex mutex_;
  mutable std::map<std::string, std::pair<stamp, std::uint64_t>, std::less<>> known_; ///< with their fingerprints
};

/// Writes a made-up adapter for a model: as PEFT would have, for all seven projections of every layer, in bf16. Both of
/// its matrices are random, so that it changes answers. The same arguments give the same bytes everywhere. Creates the
/// directory.
/// Throws model_error: a rank of 0 or beyond adapter_rank_max, what the disk says.
void write_random_adapter(const config& configuration, std::uint32_t rank, std::uint64_t seed,
                          const std::filesystem::path& directory);

} // namespace godwit::gpu::model
