#include "actor/actor_core.hpp"

#include "actor/engine.hpp"
#include "actor/failures.hpp"
#include "actor/protocol.hpp"
#include "actor/references.hpp"

#include <caf/actor_cast.hpp>

#include <algorithm>

// What an actor asks of its core: sending, waiting, watching.
namespace godwit::runtime::detail {

namespace {

/// The letter in a draft, addressed.
caf::mailbox_element_ptr seal(draft message, caf::strong_actor_ptr sender, caf::message_id id) {
  auto* l = letter::of_payload(message.release());
  l->sender = std::move(sender);
  l->mid = id;
  return caf::mailbox_element_ptr{l};
}

} // namespace

bool actor_core::may_leave(const letter& message, const actor_ref& to) noexcept {
  if (message.type->write || !elsewhere(to)) return true;
  report("cannot leave this node: " + std::string(message.type->name));
  return false;
}

void actor_core::send(const actor_ref& to, draft message) {
  if (!to) return;
  auto sealed = seal(std::move(message), ctrl(), caf::make_message_id());
  if (may_leave(static_cast<letter&>(*sealed), to)) post(to, std::move(sealed));
}

void actor_core::post(const actor_ref& to, caf::mailbox_element_ptr sealed) {
  if (auto* t = recorded(); t && t->on() && elsewhere(to))
    t->leaves(static_cast<letter&>(*sealed), ctrl(), *block_of(to));
  block(to)->enqueue(std::move(sealed), context());
}

void actor_core::send_after(std::chrono::nanoseconds delay, const actor_ref& to, draft message) {
  if (!to) return;
  auto sealed = seal(std::move(message), ctrl(), caf::make_message_id());
  if (!may_leave(static_cast<letter&>(*sealed), to)) return;
  if (auto* t = recorded(); t && t->on()) {
    if (elsewhere(to))
      t->leaves(static_cast<letter&>(*sealed), ctrl(), *block_of(to));
    else
      t->made(static_cast<letter&>(*sealed).mark);
  }
  if (replayed()) return block(to)->enqueue(std::move(sealed), context());
  clock().schedule_message(clock().now() + async::bounded_wait(delay), strong(to), std::move(sealed));
}

void actor_core::reply(const actor_ref& to, std::uint64_t request, draft message) {
  auto sealed = seal(std::move(message), ctrl(), caf::message_id{request}.response_id());
  if (elsewhere(to) && !static_cast<letter&>(*sealed).type->write) {
    const auto name = std::string(static_cast<letter&>(*sealed).type->name);
    sealed = seal(draft::of(async::error{async::error_code::unsupported, "cannot leave its node: " + name}), ctrl(),
                  caf::message_id{request}.response_id());
  }
  post(to, std::move(sealed));
}

async::wait_id actor_core::request(async::parked& waiter, const actor_ref& to, std::chrono::nanoseconds timeout,
                                   draft message, async::error& failure) {
  using async::error_code;
  if (!to) {
    failure = async::error{error_code::down, "no such actor"};
    return {};
  }
  if (frames_.waits() >= slots_max - 1) {
    failure = async::error{error_code::refused, "too many waits in one actor"};
    return {};
  }
  const bool far = elsewhere(to);
  auto sealed = seal(std::move(message), ctrl(), {});
  if (far && !static_cast<letter&>(*sealed).type->write) {
    failure = async::error{error_code::unsupported,
                           "cannot leave this node: " + std::string(static_cast<letter&>(*sealed).type->name)};
    return {};
  }
  const auto wait = park(waiter, std::max(timeout, std::chrono::nanoseconds{1}));
  sealed->mid = request_id_of(wait);
  // A local actor that dies answers all that it was asked; another node may just fall silent.
  if (far) watch_ask(to, wait);
  post(to, std::move(sealed));
  return wait;
}

async::wait_id actor_core::park(async::parked& waiter, std::chrono::nanoseconds timeout) {
  const auto wait = frames_.park(waiter);
  if (const auto* t = recorded()) {
    const auto now = t->on() ? trace::detail::here.current : 0;
    if (parked_by_.size() <= wait.slot && now != 0) parked_by_.resize(wait.slot + 1);
    if (wait.slot < parked_by_.size()) parked_by_[wait.slot] = now;
  }
  if (timeout.count() > 0) deadlines_.add(wait, moment() + async::bounded_wait(timeout));
  return wait;
}

void actor_core::forget(async::wait_id wait) noexcept {
  deadlines_.remove(wait);
  frames_.forget(wait);
}

actor_core::watched& actor_core::watch_entry(const actor_ref& whom) {
  auto& entry = watched_[whom.control()];
  if (!entry.whom) {
    entry.whom = whom;
    monitor(block(whom)->get(), caf::message_priority::normal);
  }
  return entry;
}

std::uint64_t actor_core::watch(const actor_ref& whom, actor_context::down_function on_down) {
  if (!whom) return 0;
  const auto watch_id = ++last_watch_;
  watch_ids_.emplace(watch_id, whom.control());
  watch_entry(whom).callbacks.emplace_back(watch_id, std::move(on_down));
  return watch_id;
}

void actor_core::unwatch(std::uint64_t watch_id) {
  const auto found = watch_ids_.find(watch_id);
  if (found == watch_ids_.end()) return;
  const auto entry = watched_.find(found->second);
  watch_ids_.erase(found);
  if (entry == watched_.end()) return;
  std::erase_if(entry->second.callbacks, [&](const auto& callback) { return callback.first == watch_id; });
  if (!entry->second.callbacks.empty() || !entry->second.asks.empty()) return;
  demonitor(caf::actor_cast<caf::actor_addr>(strong(entry->second.whom)));
  watched_.erase(entry);
}

void actor_core::watch_ask(const actor_ref& to, async::wait_id wait) {
  auto& asks = watch_entry(to).asks;
  // answered asks are swept out when the list would grow, so it stays within twice the number under way
  if (asks.size() == asks.capacity()) std::erase_if(asks, [&](async::wait_id id) { return !frames_.waiting(id); });
  asks.push_back(wait);
}

void actor_core::went_down(const caf::actor_addr& source, const caf::error& reason) {
  const auto found = watched_.find(caf::actor_cast<caf::actor_control_block*>(source));
  if (found == watched_.end()) return;
  auto entry = std::move(found->second);
  watched_.erase(found);
  for (const auto wait : entry.asks) {
    async::error failure{async::error_code::down, "the actor's node is gone, or the actor"};
    answer value;
    value.failure = &failure;
    wake(wait, value);
  }
  for (auto& [watch_id, on_down] : entry.callbacks) {
    if (watch_ids_.erase(watch_id) == 0) continue; // given up by an earlier one
    try {
      on_down(to_reason(reason));
    } catch (...) {
      fault(std::current_exception(), "monitor");
    }
  }
}

void actor_core::fault(const std::exception_ptr& failure, std::string_view where) noexcept {
  if (!user_) return;
  try {
    user_->on_fault(failure, where);
  } catch (...) {
    report("on_fault: " + describe(std::current_exception()).message);
  }
}

void actor_core::report(std::string_view text) noexcept { engine_.report(user_ ? user_->name() : "actor", text); }

void actor_core::report_stray(std::string_view text) noexcept {
  engine_.report_stray(user_ ? user_->name() : "actor", text);
}

void actor_core::end(stop_reason reason) { quit(to_caf(reason)); }

} // namespace godwit::runtime::detail
