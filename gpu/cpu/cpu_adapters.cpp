#include <godwit/gpu/cpu/cpu_adapters.hpp>

#include "cpu/packed_adapter.hpp"
#include "device/resident_adapters.hpp"

#include <mutex>
#include <string>
#include <utility>

namespace godwit::gpu::cpu {

struct cpu_adapters::parts {
  std::shared_ptr<const model::adapter_directory> directory;
  std::function<void(const std::string&)> say; ///< may be empty
  std::mutex mutex;
  std::vector<std::shared_ptr<const packed_model>> shards;
  std::uint64_t bytes_max = 0;
  std::unique_ptr<resident_adapters> resident; // last: its thread uses the others

  [[nodiscard]] std::vector<std::shared_ptr<const packed_model>> models() {
    const std::lock_guard lock(mutex);
    if (shards.empty()) throw adapter_not_now("the model is not loaded");
    return shards;
  }
  /// A file of f32 for a model of bf16 is half as large when it is packed.
  [[nodiscard]] std::uint64_t file_bytes_max() const noexcept { return 2 * bytes_max; }

  [[nodiscard]] std::uint64_t measure(const protocols::adapter_ref& which) {
    const auto all = models();
    const auto read = model::read_adapter(directory->peek(which, file_bytes_max()), all.front()->whole);
    std::uint64_t bytes = 0;
    for (const auto& model : all) bytes += adapter_bytes(*model, read);
    return bytes;
  }
  [[nodiscard]] std::shared_ptr<const void> make(const protocols::adapter_ref& which) {
    const auto all = models();
    const auto read = model::read_adapter(directory->open(which, file_bytes_max()), all.front()->whole);
    auto packed = std::make_shared<adapter_parts>();
    std::uint64_t bytes = 0;
    try {
      for (const auto& model : all) {
        packed->push_back(pack_adapter(*model, read));
        bytes += packed->back()->bytes;
      }
    } catch (const out_of_memory& failure) {
      throw adapter_not_now(failure.what());
    }
    if (say)
      say("adapter " + which.name + " is loaded: rank " + std::to_string(read.rank_max) + ", " + in_words(bytes));
    return packed;
  }
};

cpu_adapters::cpu_adapters(std::shared_ptr<const model::adapter_directory> directory, std::uint64_t bytes_max,
                           std::function<void(const std::string& line)> say)
    : parts_(std::make_unique<parts>()) {
  parts_->directory = std::move(directory);
  parts_->say = std::move(say);
  parts_->bytes_max = bytes_max;
  resident_adapters::source from;
  from.measure = [raw = parts_.get()](const protocols::adapter_ref& which) { return raw->measure(which); };
  from.make = [raw = parts_.get()](const protocols::adapter_ref& which) { return raw->make(which); };
  parts_->resident = std::make_unique<resident_adapters>(bytes_max, std::move(from));
}

cpu_adapters::~cpu_adapters() = default;

void cpu_adapters::serve(std::vector<std::shared_ptr<const packed_model>> shards) {
  const std::lock_guard lock(parts_->mutex);
  parts_->shards = std::move(shards);
}

void cpu_adapters::load(const protocols::adapter_ref& which, std::weak_ptr<const void> asker,
                        std::function<void(adapter_outcome)> done) {
  parts_->resident->load(which, std::move(asker), std::move(done));
}

adapter_counts cpu_adapters::counts() const { return parts_->resident->counts(); }

std::shared_ptr<const adapter_parts> cpu_adapters::find(std::uint64_t id) const {
  return std::static_pointer_cast<const adapter_parts>(parts_->resident->find(id));
}

} // namespace godwit::gpu::cpu
