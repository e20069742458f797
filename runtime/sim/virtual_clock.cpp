#include "sim/virtual_clock.hpp"

#include "sim/node.hpp"

#include <caf/abstract_actor.hpp>
#include <caf/actor_cast.hpp>
#include <caf/group.hpp>
#include <caf/sec.hpp>
#include <caf/system_messages.hpp>

#include <cstdio>
#include <cstdlib>
#include <utility>

namespace godwit::runtime::sim::detail {

namespace {

/// CAF gives its time point 0 a meaning of its own.
constexpr std::chrono::nanoseconds origin{1};

} // namespace

caf::actor_clock::time_point virtual_clock::now() const noexcept { return time_point{node_.now() + origin}; }

std::chrono::nanoseconds virtual_clock::earliest() const noexcept { return due_.earliest() - origin - node_.ahead(); }

void virtual_clock::fire_one(async::counter_random& random) {
  node_.changed();
  const auto count = due_.count_first();
  const auto chosen = due_.first(count > 1 ? random.below(count) : 0);
  if (due_.find(chosen)->kind != kind_type::message) unlink(due_.find(chosen)->to->id(), chosen);
  auto what = due_.take(chosen);
  auto* const to = what.to->get();
  switch (what.kind) {
  case kind_type::ordinary:
  case kind_type::multi:
    to->eq_impl(caf::make_message_id(), what.to, nullptr, caf::timeout_msg{what.type, what.id});
    break;
  case kind_type::request:
    to->eq_impl(caf::message_id{what.id}, what.to, nullptr, caf::sec::request_timeout);
    break;
  case kind_type::message:
    what.to->enqueue(std::move(what.content), nullptr);
    break;
  }
}

virtual_clock::queue::id virtual_clock::add(time_point t, caf::abstract_actor* self, timeout what) {
  what.to = caf::actor_cast<caf::strong_actor_ptr>(self);
  node_.changed();
  auto& head = first_[self->id()];
  what.next = head;
  return head = due_.add(t.time_since_epoch(), std::move(what));
}

void virtual_clock::unlink(caf::actor_id actor, queue::id which) {
  const auto head = first_.find(actor);
  const auto next = due_.find(which)->next;
  if (head->second != which) {
    auto* before = due_.find(head->second);
    while (before->next != which) before = due_.find(before->next);
    before->next = next;
  } else if (next != 0) {
    head->second = next;
  } else {
    first_.erase(head);
  }
}

template <class Predicate> void virtual_clock::cancel(caf::actor_id actor, Predicate is_meant) {
  const auto head = first_.find(actor);
  if (head == first_.end()) return;
  for (auto at = head->second; at != 0;) {
    const auto* const what = due_.find(at);
    if (is_meant(*what)) {
      node_.changed();
      unlink(actor, at);
      const auto gone = due_.take(at); // maybe the last to hold the actor
      return;
    }
    at = what->next;
  }
}

void virtual_clock::set_ordinary_timeout(time_point t, caf::abstract_actor* self, caf::atom_value type,
                                         std::uint64_t id) {
  cancel_ordinary_timeout(self, type); // there is one of each type
  timeout what;
  what.kind = kind_type::ordinary;
  what.type = type;
  what.id = id;
  add(t, self, std::move(what));
}

void virtual_clock::set_multi_timeout(time_point t, caf::abstract_actor* self, caf::atom_value type, std::uint64_t id) {
  timeout what;
  what.kind = kind_type::multi;
  what.type = type;
  what.id = id;
  add(t, self, std::move(what));
}

void virtual_clock::set_request_timeout(time_point t, caf::abstract_actor* self, caf::message_id id) {
  timeout what;
  what.kind = kind_type::request;
  what.id = id.integer_value();
  add(t, self, std::move(what));
}

void virtual_clock::cancel_ordinary_timeout(caf::abstract_actor* self, caf::atom_value type) {
  cancel(self->id(), [type](const timeout& t) { return t.kind == kind_type::ordinary && t.type == type; });
}

void virtual_clock::cancel_request_timeout(caf::abstract_actor* self, caf::message_id id) {
  cancel(self->id(), [id](const timeout& t) { return t.kind == kind_type::request && t.id == id.integer_value(); });
}

void virtual_clock::cancel_timeouts(caf::abstract_actor* self) {
  while (first_.contains(self->id())) cancel(self->id(), [](const timeout&) { return true; });
}

void virtual_clock::schedule_message(time_point t, caf::strong_actor_ptr receiver, caf::mailbox_element_ptr content) {
  timeout what;
  what.kind = kind_type::message;
  what.to = std::move(receiver);
  what.content = std::move(content);
  node_.changed();
  due_.add(t.time_since_epoch(), std::move(what));
}

void virtual_clock::schedule_message(time_point, caf::group, caf::strong_actor_ptr, caf::message) {
  std::fputs("godwit: a simulated actor sent a late message to a group\n", stderr);
  std::abort();
}

void virtual_clock::cancel_all() {
  node_.changed();
  first_.clear();
  const auto gone = std::exchange(due_, {}); // actors that end with it may cancel theirs
}

} // namespace godwit::runtime::sim::detail
