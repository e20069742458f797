#pragma once

#include <godwit/protocols/messages/adapter.hpp>

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

namespace godwit::gpu {

/// An adapter on its devices, or one line that says why it is not.
struct adapter_outcome {
  std::shared_ptr<const void> held; ///< while it lives the adapter stays
  std::string error;
};

struct adapter_counts {
  std::uint64_t bytes = 0;     ///< of those that are there
  std::uint64_t bytes_max = 0; ///< that they may have
  std::uint64_t adapters = 0;
  std::uint64_t loads_total = 0;
  std::uint64_t failures_total = 0;  ///< loads that came to nothing
  std::uint64_t evictions_total = 0; ///< taken away for others
};

/// The low-rank adapters on the devices of one process, which all instances of it share.
///
/// Problem: there are more adapters than fit, and which are wanted is known when a request comes (S-LoRA; spec
/// decoding.md). Contract: an adapter is brought when it is first asked for, and stays while somebody holds it; of
/// those that nobody holds, whoever was held longest ago makes room for others. A step may name an adapter
/// (protocols::step_slice::adapter) only while it is held.
class adapter_store {
public:
  virtual ~adapter_store() = default;
  /// `done` is called once, from any thread or within this call, and must only post. Loads are begun in the order in
  /// which they are asked for; one that lacks room waits for holders to let go. Bounded is how many wait, not how long:
  /// whoever has waited enough lets go of what then comes.
  virtual void load(const protocols::adapter_ref& which, std::function<void(adapter_outcome)> done) = 0;
  [[nodiscard]] virtual adapter_counts counts() const = 0;
};

} // namespace godwit::gpu
