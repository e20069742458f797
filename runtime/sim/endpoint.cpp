#include "sim/endpoint.hpp"

#include "actor/engine.hpp"
#include "sim/network_state.hpp"

#include <caf/actor_registry.hpp>
#include <caf/all.hpp>
#include <caf/binary_deserializer.hpp>
#include <caf/binary_serializer.hpp>
#include <caf/detail/sync_request_bouncer.hpp>

#include <utility>

namespace godwit::runtime::sim::detail {

namespace {

/// An actor of another node, after caf::forwarding_actor_proxy.
class proxy final : public caf::actor_proxy {
public:
  proxy(caf::actor_config& config, detail::node& here) : caf::actor_proxy(config), here_(here) {}

  void enqueue(caf::mailbox_element_ptr message, caf::execution_unit*) override {
    if (dead_ || here_.dead() || !here_.endpoint) return; // as there: without a word
    if (message->content().match_elements<caf::exit_msg>())
      unlink_from(message->content().get_as<caf::exit_msg>(0).source);
    here_.endpoint->send(*message, *ctrl());
  }
  bool add_backlink(caf::abstract_actor* x) override {
    if (!monitorable_actor::add_backlink(x)) return false;
    tell(caf::make_message(caf::link_atom::value, caf::strong_actor_ptr{x->ctrl()}));
    return true;
  }
  bool remove_backlink(caf::abstract_actor* x) override {
    if (!monitorable_actor::remove_backlink(x)) return false;
    tell(caf::make_message(caf::unlink_atom::value, caf::strong_actor_ptr{x->ctrl()}));
    return true;
  }
  void kill_proxy(caf::execution_unit* where, caf::error reason) override {
    dead_ = true;
    cleanup(std::move(reason), where);
  }
  const char* name() const override { return "godwit.proxy"; }

private:
  // Later: CAF holds the other actor's lock, which writing its address takes.
  void tell(caf::message content) {
    here_.timers.call_after(std::chrono::nanoseconds{0}, [self = caf::strong_actor_ptr{ctrl()}, content] {
      self->enqueue(nullptr, caf::make_message_id(), content, nullptr);
    });
  }
  detail::node& here_;
  bool dead_ = false;
};

} // namespace

endpoint::endpoint(caf::actor_system& system, caf::execution_unit& unit, network_state& network, node& owner)
    : system_(system), unit_(unit), network_(network), node_(owner), proxies_(system, *this) {}

caf::strong_actor_ptr endpoint::make_proxy(caf::node_id id, caf::actor_id actor) {
  auto* there = network_.find(id);
  if (!there || there == &node_ || actor == 0) return nullptr;
  // a node that names an actor of a third one knows a way there
  if (last_hop_ && last_hop_ != there) node_.indirect[there->number].insert(last_hop_->number);
  if (!network_.hop(node_, there->number)) return nullptr;
  caf::actor_config config{&unit_};
  auto made = caf::make_actor<proxy, caf::strong_actor_ptr>(actor, id, &system_, config, node_);
  const auto* which = static_cast<caf::actor_proxy*>(made->get());
  // Not by way of `this`: the proxy may be held for longer. A node is there for as long as the world.
  made->get()->attach_functor([n = &node_, id, actor, which](const caf::error&) {
    if (n->endpoint) n->endpoint->proxy_ended(id, actor, which);
  });
  packet watch;
  watch.kind = packet::kind_type::monitor;
  watch.from = node_.number;
  watch.to = there->number;
  watch.actor = actor;
  network_.transmit(node_, std::move(watch));
  return made;
}

// One that was declared down leaves the registry, so that a handle that comes later is a new one. Later, since CAF
// holds a lock while it erases.
void endpoint::proxy_ended(const caf::node_id& id, caf::actor_id actor, const caf::actor_proxy* which) {
  if (erasing_) return;
  node_.timers.call_after(std::chrono::nanoseconds{0}, [n = &node_, id, actor, which] {
    if (!n->endpoint) return;
    auto& registry = n->endpoint->proxies();
    if (const auto known = registry.get(id, actor); known && known->get() == which) registry.erase(id, actor);
  });
}

void endpoint::lost(const node& peer) {
  erasing_ = true;
  proxies_.erase(peer.id);
  erasing_ = false;
}

void endpoint::clear() {
  erasing_ = true;
  proxies_.clear();
  erasing_ = false;
}

void endpoint::send(caf::mailbox_element& message, caf::actor_control_block& to) {
  const auto* there = network_.find(to.nid);
  packet p;
  p.from = node_.number;
  p.to = there->number;
  p.actor = to.aid;
  p.mid = message.mid;
  auto content = message.move_content_to_message();
  caf::binary_serializer out{&unit_, p.bytes};
  if (auto failure = out(message.sender, message.stages, content)) {
    if (node_.engine) node_.engine->report("network", "cannot write a message: " + system_.render(failure));
    return;
  }
  if (network_.transmit(node_, std::move(p))) return;
  caf::detail::sync_request_bouncer bounce{caf::exit_reason::remote_link_unreachable};
  bounce(message.sender, message.mid);
}

void endpoint::take(packet p, node& peer) {
  last_hop_ = &peer;
  switch (p.kind) {
  case packet::kind_type::message:
    take_message(p);
    break;
  case packet::kind_type::monitor:
    announce(p);
    break;
  case packet::kind_type::down:
    if (const auto* from = network_.at(p.from)) {
      erasing_ = true;
      proxies_.erase(from->id, p.actor, std::move(p.reason));
      erasing_ = false;
    }
    break;
  case packet::kind_type::accept:
  case packet::kind_type::close:
    break;
  }
  last_hop_ = nullptr;
}

void endpoint::take_message(packet& p) {
  const auto to = system_.registry().get(p.actor);
  if (!to && !p.mid.is_request()) return;
  caf::strong_actor_ptr sender;
  caf::mailbox_element::forwarding_stack stages;
  caf::message content;
  caf::binary_deserializer in{&unit_, p.bytes};
  if (auto failure = in(sender, stages, content)) {
    if (node_.engine) node_.engine->report("network", "cannot read a message: " + system_.render(failure));
    return;
  }
  if (!to) {
    caf::detail::sync_request_bouncer bounce{caf::exit_reason::remote_link_unreachable};
    return bounce(sender, p.mid);
  }
  if (content.match_elements<caf::link_atom, caf::strong_actor_ptr>()) {
    if (const auto& other = content.get_as<caf::strong_actor_ptr>(1))
      static_cast<caf::actor_proxy*>(other->get())->add_link(to->get());
    return;
  }
  if (content.match_elements<caf::unlink_atom, caf::strong_actor_ptr>()) {
    if (const auto& other = content.get_as<caf::strong_actor_ptr>(1))
      static_cast<caf::actor_proxy*>(other->get())->remove_link(to->get());
    return;
  }
  to->enqueue(caf::make_mailbox_element(std::move(sender), p.mid, std::move(stages), std::move(content)), &unit_);
}

// As BASP has it: who asked is told of the end, by whatever way.
void endpoint::announce(const packet& p) {
  packet down;
  down.kind = packet::kind_type::down;
  down.from = node_.number;
  down.to = p.from;
  down.actor = p.actor;
  const auto whom = system_.registry().get(p.actor);
  if (!whom) {
    down.reason = caf::exit_reason::unknown;
    network_.transmit(node_, std::move(down));
    return;
  }
  whom->get()->attach_functor([network = &network_, n = &node_, down](const caf::error& why) mutable {
    down.reason = why;
    network->transmit(*n, down);
  });
}

} // namespace godwit::runtime::sim::detail
