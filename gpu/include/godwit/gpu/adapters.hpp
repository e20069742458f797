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
  bool passes = false; ///< the error is of the moment: another try may do
};

struct adapter_counts {
  std::uint64_t bytes = 0;     ///< of those that are there
  std::uint64_t bytes_max = 0; ///< that they may have
  std::uint64_t adapters = 0;
  std::uint64_t loads_total = 0;
  std::uint64_t failures_total = 0;  ///< loads that came to nothing
  std::uint64_t evictions_total = 0; ///< taken away for others
};

/// The low-rank adapters on the devices of one process, which all instances there share.
///
/// Problem: there are more adapters than fit, and which are wanted is known when a request comes (S-LoRA; spec
/// decoding.md). Contract: an adapter is brought when it is first asked for, and stays while somebody holds it; of
/// those that nobody holds, whoever was held longest ago makes room for others. A step may name an adapter
/// (protocols::step_slice::adapter) only while it is held. Who is served when: protocols::adapter_orders.
class adapter_store {
public:
  virtual ~adapter_store() = default;
  /// `done` is called at most once, from any thread or within this call, and must only post. Never once `asker` has
  /// gone, which is how one gives up; how long an adapter may take is not bounded here.
  virtual void load(const protocols::adapter_ref& which, std::weak_ptr<const void> asker,
                    std::function<void(adapter_outcome)> done) = 0;
  [[nodiscard]] virtual adapter_counts counts() const = 0;
};

} // namespace godwit::gpu
