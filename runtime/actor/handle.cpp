#include "actor/references.hpp"

#include <caf/actor_proxy.hpp>

namespace godwit::runtime {

void actor_ref::retain() const noexcept {
  if (control_) caf::intrusive_ptr_add_ref(detail::block(*this));
}

void actor_ref::release() noexcept {
  if (control_) caf::intrusive_ptr_release(detail::block(*this));
}

std::uint64_t actor_ref::id() const noexcept { return control_ ? detail::block(*this)->id() : 0; }

bool actor_ref::before(const actor_ref& a, const actor_ref& b) noexcept {
  if (!a.control_ || !b.control_) return a.control_ < b.control_;
  const auto order = detail::block(a)->nid.compare(detail::block(b)->nid);
  return order != 0 ? order < 0 : a.control_ < b.control_;
}

// Not by the actor's system, which may be gone.
bool actor_ref::remote() const noexcept {
  return control_ && dynamic_cast<const caf::actor_proxy*>(detail::block(*this)->get()) != nullptr;
}

} // namespace godwit::runtime
