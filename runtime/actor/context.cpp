#include "actor/actor_core.hpp"
#include "actor/engine.hpp"
#include "actor/protocol.hpp"
#include "actor/references.hpp"

#include <caf/actor_cast.hpp>

namespace godwit::runtime {

namespace detail {

void* new_letter(const message_type& type) { return letter::make(type)->payload(); }

void free_letter(void* payload, bool constructed) noexcept {
  auto* l = letter::of_payload(payload);
  l->constructed = constructed;
  delete l;
}

void reply_to::deliver(draft message) { core_->reply(source_, std::exchange(request_, 0), std::move(message)); }

void reply_to::fail(const async::error& why) {
  if (request_ != 0) deliver(draft::of(async::error{why}));
}

void reply_to::abandon() noexcept {
  deliver(draft::of(async::error{async::error_code::down, "ended before it had answered"}));
}

namespace {
void post_answer(const actor_ref& actor, async::wait_id wait, draft message) {
  auto* l = letter::of_payload(message.release());
  l->mid = request_id_of(wait).response_id();
  block(actor)->enqueue(caf::mailbox_element_ptr{l}, nullptr);
}
} // namespace

void post(const actor_ref& actor, async::wait_id wait, draft message) { post_answer(actor, wait, std::move(message)); }

void post_failure(const actor_ref& actor, async::wait_id wait, const async::error& why) {
  post_answer(actor, wait, draft::of(async::error{why}));
}

} // namespace detail

actor_host& actor_context::host() const noexcept { return core_->host(); }
const runtime::clock& actor_context::clock() const noexcept { return core_->runtime().clock(); }
actor_ref actor_context::self() const noexcept { return detail::reference(caf::strong_actor_ptr{core_->ctrl()}); }
std::uint64_t actor_context::id() const noexcept { return core_->id(); }
async::scope& actor_context::frames() const noexcept { return core_->frames(); }

void actor_context::send(const actor_ref& to, detail::draft message) const { core_->send(to, std::move(message)); }
void actor_context::send_after(std::chrono::nanoseconds delay, const actor_ref& to, detail::draft message) const {
  core_->send_after(delay, to, std::move(message));
}
void actor_context::stop(const actor_ref& whom, stop_reason reason) const { core_->runtime().stop(whom, reason); }
void actor_context::quit(stop_reason reason) const { core_->end(reason); }
std::uint64_t actor_context::monitor(const actor_ref& whom, down_function on_down) const {
  return core_->watch(whom, std::move(on_down));
}
void actor_context::demonitor(std::uint64_t id) const { core_->unwatch(id); }
void actor_context::link(const actor_ref& whom) const {
  if (whom) core_->link_to(detail::strong(whom));
}
void actor_context::fault(const std::exception_ptr& failure, std::string_view where) const noexcept {
  core_->fault(failure, where);
}
void actor_context::report(std::string_view text) const noexcept { core_->report(text); }

async::wait_id actor_context::request(async::parked& waiter, const actor_ref& to, std::chrono::nanoseconds timeout,
                                      detail::draft message, async::error& failure) const {
  return core_->request(waiter, to, timeout, std::move(message), failure);
}
async::wait_id actor_context::park(async::parked& waiter, std::chrono::nanoseconds timeout) const {
  return core_->park(waiter, timeout);
}
void actor_context::forget(async::wait_id wait) const noexcept { core_->forget(wait); }

} // namespace godwit::runtime
