#include <godwit/runtime/actor.hpp>

#include "actor/engine.hpp"

namespace godwit::runtime {

actor_host::actor_host(std::unique_ptr<detail::engine> engine) : engine_(std::move(engine)) {}
actor_host::~actor_host() = default;

const runtime::clock& actor_host::clock() const noexcept { return engine_->clock(); }
std::size_t actor_host::alive() const { return engine_->alive(); }
void actor_host::send(const actor_ref& to, detail::draft message) { engine_->send(to, std::move(message)); }
void actor_host::stop_actor(const actor_ref& whom, stop_reason reason) { engine_->stop(whom, reason); }
void actor_host::declare_actor_down(const actor_ref& whom) { engine_->declare_down(whom); }
void actor_host::register_types(const std::vector<const message_type*>& types) { engine_->register_types(types); }

actor_ref actor_host::spawn_with(const detail::actor_factory& make, const std::vector<const message_type*>& types) {
  engine_->register_types(types);
  return engine_->spawn(*this, make);
}

} // namespace godwit::runtime
