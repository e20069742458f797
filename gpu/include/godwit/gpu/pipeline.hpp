#pragma once

#include <godwit/gpu/executor.hpp>
#include <godwit/gpu/memory_pool.hpp>

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <vector>

/// One model on several devices, each with some of its layers (docs/design/pipeline.md).
namespace godwit::gpu::pipeline {

/// A device's layers, one behind the other; all stages together have each layer once, in order. The first one looks up
/// the tokens' embeddings, the last one draws.
struct stage {
  std::uint32_t index = 0;
  std::uint32_t stages = 1;
  std::uint32_t first = 0;  ///< layer
  std::uint32_t layers = 0; ///< 0: all that the model has; only where it is one stage
  [[nodiscard]] bool begins() const noexcept { return index == 0; }
  [[nodiscard]] bool ends() const noexcept { return index + 1 == stages; }
  /// The layers of a model with `all` of them that are this stage's.
  [[nodiscard]] std::uint32_t layers_of(std::uint32_t all) const noexcept { return layers == 0 ? all : layers; }
  friend bool operator==(const stage&, const stage&) = default;
};

/// The most stages that an instance may have.
inline constexpr std::uint32_t stages_max = 64;

/// One line that says why a model of so many layers cannot be cut into `stages`, with the layers of each, or evenly
/// where `layers` is empty. Empty: it can.
[[nodiscard]] std::string refuse_stages(std::uint32_t all, std::uint32_t stages, std::span<const std::uint32_t> layers);
/// What was not refused. Evenly: they differ by one layer, and the first ones, which do not compute the logits, have
/// more.
[[nodiscard]] std::vector<stage> cut_layers(std::uint32_t all, std::uint32_t stages,
                                            std::span<const std::uint32_t> layers = {});

/// The residual stream of one part of a step, on its way from a stage to the next one.
struct hidden_rows {
  allocation memory;      ///< f32, at least [rows][hidden]
  std::uint64_t size = 0; ///< of it, in bytes, as it was asked for
  std::uint64_t step = 0;
  std::uint32_t rows = 0;
  [[nodiscard]] float* data() const noexcept { return reinterpret_cast<float*>(memory.data()); }
};

/// Where a stage leaves rows and the next one finds them, in their order. Thread-safe.
///
/// Buffers are of powers of two and used again, as long as all together take no more than twice the most that was out
/// at once, which has room for the sizes of short and long steps side by side; others are given back.
class stage_link : public std::enable_shared_from_this<stage_link> {
public:
  /// Makes memory that both stages' devices can copy from and to. Throws out_of_memory.
  using allocator = std::function<allocation(std::uint64_t bytes)>;
  explicit stage_link(allocator from) : from_(std::move(from)) {}

  /// A buffer with room for so many bytes; it comes back when nobody has it any more. Throws out_of_memory, and
  /// std::runtime_error where more wait than may (protocols::stage_schedule).
  [[nodiscard]] std::shared_ptr<hidden_rows> empty(std::uint64_t bytes);
  void put(std::shared_ptr<hidden_rows> rows);
  /// The oldest. Throws std::runtime_error where there are none, or others than those of that step and so many.
  [[nodiscard]] std::shared_ptr<hidden_rows> take(std::uint64_t step, std::uint32_t rows);

private:
  void give_back(std::unique_ptr<hidden_rows> rows);

  allocator from_;
  std::mutex mutex_;
  std::deque<std::shared_ptr<hidden_rows>> waiting_;
  std::vector<std::unique_ptr<hidden_rows>> free_;
  std::size_t out_ = 0;
  std::uint64_t free_bytes_ = 0, out_bytes_ = 0, out_bytes_max_ = 0;
};

/// Which layers each stage of a running executor has (BanaServe's migration of layers;
/// ../../../docs/design/pipeline.md).
class layer_division {
public:
  virtual ~layer_division() = default;
  /// How many each stage has, in their order.
  [[nodiscard]] virtual std::vector<std::uint32_t> layers() const = 0;
  /// What each stage does for a row whose logits are computed, beside its layers: in layers for a row, about; 0 for
  /// most. The last one has the logits.
  [[nodiscard]] virtual std::vector<double> beside() const = 0;
  /// Gives the stages others. Between steps: no stage has a forward, and none is begun before `done`, which only posts.
  /// No bit of any answer changes, and a block's KV stays where it is to whoever reads or writes it (key_region). After
  /// an error, one line, the stages have what they had. Throws std::invalid_argument for layers that are not all of the
  /// model's, and for a stage without one.
  virtual void move(const std::vector<std::uint32_t>& layers, completion done) = 0;
};

/// The stages of one instance as one executor. `whole` is what it says of itself. Each of `stages` has its layers' part
/// of every block under the same id; the last one draws the tokens.
///
/// Its steps run on one stage after the other. Whoever has a thread of control for each (actors::instance) runs parts
/// of a step (protocols/batching/step_parts.hpp) on `stages()` instead, so that several compute at once. After a step
/// that failed or was abandoned none can be begun. `division`: of these stages, whose KV regions are those of the
/// layers that each has now, whatever moves later; null: layers stay.
[[nodiscard]] std::unique_ptr<executor> join_stages(executor_info whole, std::vector<std::shared_ptr<executor>> stages,
                                                    std::shared_ptr<layer_division> division = nullptr);

} // namespace godwit::gpu::pipeline
