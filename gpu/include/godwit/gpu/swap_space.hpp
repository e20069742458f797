#pragma once

#include <godwit/protocols/messages/ids.hpp>

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace godwit::gpu {

/// A block of an executor's pool and its slot in the host's memory.
struct swap_move {
  protocols::block_id block;
  protocols::swap_slot slot;
};

/// Memory of the host beside an executor's KV pool, in slots of a block each, and the copies between the two: where the
/// KV of preempted requests waits (AdaptiveLLM, spec adaptivellm.md; vLLM's swap space).
///
/// Copies run beside the steps, in any order. The caller sees to it that no step writes a block that is copied, or
/// reads one that is being filled, and that a slot is in one copy at a time. `done("")` is called once for each call,
/// on any thread or within the call, and must only post; another string is one line of what went wrong, and the targets
/// may hold anything. Destroying it tells nothing more and waits until nothing is copied any more, with the patience of
/// a forward (executor.hpp): a copy that does not end keeps both memories. Not thread-safe.
class swap_space {
public:
  using completion = std::function<void(std::string error)>;
  virtual ~swap_space() = default;
  [[nodiscard]] virtual std::uint32_t slots() const noexcept = 0;
  virtual void copy_out(std::vector<swap_move> moves, completion done) = 0;
  virtual void copy_in(std::vector<swap_move> moves, completion done) = 0;
};

} // namespace godwit::gpu
