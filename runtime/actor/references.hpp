#pragma once

#include <godwit/runtime/handle.hpp>

#include <caf/actor_control_block.hpp>

namespace godwit::runtime::detail {

/// Between actor_ref and CAF's pointer to a control block; both count the same references.
inline caf::actor_control_block* block(const actor_ref& ref) noexcept {
  return static_cast<caf::actor_control_block*>(ref.control());
}
inline caf::strong_actor_ptr strong(const actor_ref& ref) { return caf::strong_actor_ptr{block(ref)}; }
inline caf::strong_actor_ptr strong(actor_ref&& ref) {
  return caf::strong_actor_ptr{static_cast<caf::actor_control_block*>(ref.detach()), false};
}
inline actor_ref reference(caf::strong_actor_ptr ptr) noexcept { return actor_ref::adopt(ptr.release()); }

} // namespace godwit::runtime::detail
