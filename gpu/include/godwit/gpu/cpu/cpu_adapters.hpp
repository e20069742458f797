#pragma once

#include <godwit/gpu/adapters.hpp>
#include <godwit/gpu/cpu/packed_model.hpp>
#include <godwit/gpu/model/adapter.hpp>

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace godwit::gpu::cpu {

class packed_adapter;
/// One of each device that the model is divided among, in the order of the ranks or stages.
using adapter_parts = std::vector<std::shared_ptr<const packed_adapter>>;

/// The adapters of a process whose instances run on the CPU: read out of a directory when they are first asked for, and
/// packed beside the model's weights, which all instances share.
class cpu_adapters final : public adapter_store {
public:
  /// `bytes_max`: that all of them may take, packed. `say`: gets a line for each that comes, on a thread of the
  /// store's; may be empty.
  cpu_adapters(std::shared_ptr<const model::adapter_directory> directory, std::uint64_t bytes_max,
               std::function<void(const std::string& line)> say = {});
  ~cpu_adapters() override;

  /// The model that they are adapters of, one part a device. Before the first load; not again.
  void serve(std::vector<std::shared_ptr<const packed_model>> shards);

  void load(const protocols::adapter_ref& which, std::weak_ptr<const void> asker,
            std::function<void(adapter_outcome)> done) override;
  [[nodiscard]] adapter_counts counts() const override;
  /// One that somebody holds, which then stays as long as this does. Null where it is not here.
  [[nodiscard]] std::shared_ptr<const adapter_parts> find(std::uint64_t id) const;

private:
  struct parts;
  std::unique_ptr<parts> parts_;
};

} // namespace godwit::gpu::cpu
