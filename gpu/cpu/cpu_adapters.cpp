#include <godwit/gpu/cpu/cpu_adapters.hpp>

#include "cpu/packed_adapter.hpp"
#include "device/resident_adapters.hpp"

#include <mutex>
#include <stdexcept>
#include <utility>

namespace godwit::gpu::cpu {

namespace {

using packed_parts = std::vector<std::shared_ptr<const packed_adapter>>; // by rank

} // namespace

struct cpu_adapters::parts {
  std::shared_ptr<const model::adapter_directory> directory;
  std::function<void(const std::string&)> say; ///< may be empty
  std::mutex mutex;
  std::vector<std::shared_ptr<const packed_model>> shards;
  std::unique_ptr<resident_adapters> resident; // last: its thread uses the others

  [[nodiscard]] resident_adapters::prepared prepare(const protocols::adapter_ref& which, std::uint64_t bytes_max) {
    std::vector<std::shared_ptr<const packed_model>> models;
    {
      const std::lock_guard lock(mutex);
      models = shards;
    }
    if (models.empty()) throw std::runtime_error("the model is not loaded");
    // Twice, since a file of f32 for a model of bf16 is half as large when it is packed.
    const auto files = directory->open(which, 2 * bytes_max);
    const auto read = std::make_shared<const model::adapter>(model::read_adapter(files, models.front()->whole));
    resident_adapters::prepared out;
    for (const auto& model : models) out.bytes += adapter_bytes(*model, *read);
    out.make = [this, models = std::move(models), read, name = which.name, bytes = out.bytes] {
      auto all = std::make_shared<packed_parts>();
      for (const auto& model : models) all->push_back(pack_adapter(*model, *read));
      if (say) say("adapter " + name + " is loaded: rank " + std::to_string(read->rank_max) + ", " + in_words(bytes));
      return std::static_pointer_cast<const void>(std::shared_ptr<const packed_parts>(std::move(all)));
    };
    return out;
  }
};

cpu_adapters::cpu_adapters(std::shared_ptr<const model::adapter_directory> directory, std::uint64_t bytes_max,
                           std::function<void(const std::string& line)> say)
    : parts_(std::make_unique<parts>()) {
  parts_->directory = std::move(directory);
  parts_->say = std::move(say);
  auto prepare = [raw = parts_.get(), bytes_max](const protocols::adapter_ref& which) {
    return raw->prepare(which, bytes_max);
  };
  parts_->resident = std::make_unique<resident_adapters>(bytes_max, std::move(prepare));
}

cpu_adapters::~cpu_adapters() = default;

void cpu_adapters::serve(std::vector<std::shared_ptr<const packed_model>> shards) {
  const std::lock_guard lock(parts_->mutex);
  parts_->shards = std::move(shards);
}

void cpu_adapters::load(const protocols::adapter_ref& which, std::function<void(adapter_outcome)> done) {
  parts_->resident->load(which, std::move(done));
}

adapter_counts cpu_adapters::counts() const { return parts_->resident->counts(); }

std::shared_ptr<const packed_adapter> cpu_adapters::find(std::uint64_t id, std::uint32_t rank) const {
  const auto all = std::static_pointer_cast<const packed_parts>(parts_->resident->find(id));
  return all && rank < all->size() ? (*all)[rank] : nullptr;
}

} // namespace godwit::gpu::cpu
