#include "actor/actor_core.hpp"

#include "actor/engine.hpp"
#include "actor/envelope.hpp"
#include "actor/failures.hpp"
#include "actor/protocol.hpp"
#include "actor/references.hpp"

#include <caf/actor_cast.hpp>
#include <caf/send.hpp>

#include <algorithm>

namespace godwit::runtime::detail {

namespace {
constexpr auto alarm_type = caf::atom("godwit");

std::uint64_t actor_id_of(const actor_ref& actor) { return actor.id(); }
std::uint64_t actor_id_of(const caf::strong_actor_ptr& actor) { return actor->id(); }
} // namespace

actor_core::actor_core(caf::actor_config& config, engine& e, actor_host& host)
    : caf::event_based_actor(config), engine_(e), host_(host), node_(node()), tracer_(e.tracer) {
  // An error that comes as a message of its own must not end the actor, nor an unknown message be printed.
  set_error_handler([](caf::scheduled_actor*, caf::error&) {});
  set_default_handler(caf::drop);
  set_exception_handler([this](std::exception_ptr& failure) -> caf::error {
    report("ended by an exception: " + describe(failure).message);
    return caf::exit_reason::unhandled_exception;
  });
}

actor_core::~actor_core() = default;

caf::behavior actor_core::make_behavior() {
  comes_after(this);
  if (birth_) begin_recorded();
  handlers_ = user_->make_handlers();
  frames_.run_ready();
  set_alarm(); // for coroutines that it started
  if (birth_) began_recorded();
  // CAF keeps an actor only while it has a behavior, which it looks at after each message. `consume` leaves nothing for
  // it, so one does for all, and is in the caches.
  static const caf::behavior nothing{[](const envelope&) {}};
  comes_before(this);
  return nothing;
}

void actor_core::enqueue(caf::mailbox_element_ptr message, caf::execution_unit* where) {
  // Not by the engine, which may be gone while somebody still has a handle.
  if (auto* t = recorded(); t && t->on()) {
    message = t->queued(std::move(message), queued_, handled_);
    if (t->replay) return t->replay->hold(*this, std::move(message));
  }
  comes_before(message.get());
  caf::event_based_actor::enqueue(std::move(message), where);
}

std::string actor_core::what_came() {
  std::string what = "its start";
  if (auto* const first = peek_at_next_mailbox_element()) {
    const auto* const l = letter::of(*first);
    what = l ? std::string(l->type->name) : "a word of the runtime's";
  }
  return std::string(user_ ? user_->name() : "actor") + " got " + what;
}

caf::resumable::resume_result actor_core::resume(caf::execution_unit* where, std::size_t messages_max) {
  auto* t = recorded();
  if (!t) return caf::event_based_actor::resume(where, messages_max);
  if (!t->on()) {
    const auto result = caf::event_based_actor::resume(where, messages_max);
    if (trace::detail::here.handling) t->rest(); // it was switched on meanwhile
    return result;
  }
  const detail::handling run(t);
  return caf::event_based_actor::resume(where, messages_max);
}

caf::invoke_message_result actor_core::consume(caf::mailbox_element& x) {
  comes_after(&x);
  comes_after(this);
  if (auto* t = recorded(); t && (t->on() || trace::detail::here.handling))
    handle_recorded(*t, x);
  else
    handle(x, letter::of(x));
  comes_before(this); // whichever thread has the next
  return caf::invoke_message_result::consumed;
}

void actor_core::handle(caf::mailbox_element& x, letter* l) {
  if (engine_.place.log) log(x, l);
  if (!l) {
    consume_foreign(x);
  } else if (x.mid.is_response()) {
    wake(wait_of(x.mid), *l->type, l->payload());
  } else {
    dispatch(*l->type, l->payload(), x);
  }
  frames_.run_ready();
  set_alarm();
}

void actor_core::dispatch(const message_type& type, void* payload, caf::mailbox_element& x) {
  auto reply = reply_for(x);
  for (const auto& handler : handlers_)
    if (handler->type == &type) return handler->run(actor_context{this}, payload, std::move(reply));
  if (&type == &message_type_of<interface_query>) {
    interface_description known;
    for (const auto& handler : handlers_) known.messages.push_back(handler->type->id);
    return reply.answer(std::move(known));
  }
  if (reply.wanted())
    reply.fail(async::error{async::error_code::unsupported, "no handler for " + std::string(type.name)});
  else
    report_stray("no handler for " + std::string(type.name));
}

reply_to actor_core::reply_for(caf::mailbox_element& x) {
  if (!x.mid.is_request() || !x.sender) return {};
  return {this, reference(std::move(x.sender)), x.mid.integer_value()};
}

void actor_core::wake(async::wait_id wait, answer value) {
  deadlines_.remove(wait);
  if (auto* waiter = take(wait)) waiter->wake(&value);
}

void actor_core::wake(async::wait_id wait, const message_type& type, void* payload) {
  answer value;
  if (&type == &message_type_of<async::error>)
    value.failure = static_cast<async::error*>(payload);
  else {
    value.type = &type;
    value.payload = payload;
  }
  wake(wait, value);
}

void actor_core::consume_foreign(caf::mailbox_element& x) {
  auto& content = x.content();
  if (content.match_elements<envelope>()) return open(content.get_as<envelope>(0), x);
  if (x.mid.is_response()) {
    auto failure = content.match_elements<caf::error>()
                       ? to_error(content.get_as<caf::error>(0))
                       : async::error{async::error_code::unsupported, "an answer that is no message of ours"};
    answer value;
    value.failure = &failure;
    return wake(wait_of(x.mid), value);
  }
  if (content.match_elements<caf::timeout_msg>() && content.get_as<caf::timeout_msg>(0).type == alarm_type)
    return fire_deadlines();
  if (content.match_elements<caf::down_msg>()) {
    const auto& down = content.get_as<caf::down_msg>(0);
    return went_down(down.source, down.reason);
  }
  caf::event_based_actor::consume(x); // exit messages, and what CAF asks of every actor
}

void actor_core::open(const envelope& e, caf::mailbox_element& x) {
  const auto box = open_envelope(engine_, e);
  if (x.mid.is_response()) {
    if (box) return wake(wait_of(x.mid), *box->type, box->payload());
    async::error failure{async::error_code::unsupported, "an answer that cannot be read"};
    answer value;
    value.failure = &failure;
    return wake(wait_of(x.mid), value);
  }
  if (box) return dispatch(*box->type, box->payload(), x);
  if (auto reply = reply_for(x); reply.wanted())
    reply.fail(async::error{async::error_code::unsupported, "a message that cannot be read"});
  else
    report_stray("a message from another node cannot be read");
}

void actor_core::fire_deadlines() {
  alarm_.reset();
  const auto now = moment();
  while (!deadlines_.empty() && deadlines_.earliest() <= now) {
    const auto wait = deadlines_.pop();
    async::error failure{async::error_code::timeout, "no answer in time"};
    answer value;
    value.failure = &failure;
    if (auto* waiter = take(wait)) waiter->wake(&value);
  }
}

// An alarm that has become too early costs one idle wake-up, which is cheaper than telling CAF's clock about every ask
// that was answered. A simulation wants it exact: virtual time must not pass for waits that are over.
void actor_core::set_alarm() {
  if (replayed()) return; // alarms come out of the recording
  if (deadlines_.empty()) {
    if (alarm_ && engine_.exact_alarms) {
      clock().cancel_ordinary_timeout(this, alarm_type);
      alarm_.reset();
    }
    return;
  }
  const auto wanted = deadlines_.earliest();
  if (alarm_ && (*alarm_ == wanted || (*alarm_ < wanted && !engine_.exact_alarms))) return;
  alarm_ = wanted;
  clock().set_ordinary_timeout(wanted, this, alarm_type, 0);
}

void actor_core::on_exit() {
  if (user_) {
    try {
      user_->on_stop();
    } catch (...) {
      report("on_stop: " + describe(std::current_exception()).message);
    }
  }
  frames_.destroy_all();
  handlers_.clear();
  user_.reset();
  // Those who live longer would remember every short-lived actor that ever asked them.
  for (const auto& [control, entry] : watched_) demonitor(caf::actor_cast<caf::actor_addr>(strong(entry.whom)));
  watched_.clear();
  watch_ids_.clear();
  if (alarm_) clock().cancel_ordinary_timeout(this, alarm_type); // it holds a reference
  alarm_.reset();
  caf::event_based_actor::on_exit();
}

bool actor_core::cleanup(caf::error&& reason, caf::execution_unit* where) {
  const bool first = caf::event_based_actor::cleanup(std::move(reason), where);
  if (first) {
    if (recorded()) ended_recorded();
    engine_.ended(id());
  }
  return first;
}

void actor_core::log(caf::mailbox_element& x, const letter* l) {
  using kind = sim::event::kind_type;
  const auto& place = engine_.place;
  sim::event e;
  e.time = place.world->now();
  e.receiver = id();
  e.receiver_node = e.sender_node = place.number;
  const auto from = [&](const caf::actor_control_block* who) {
    e.sender = who->id();
    if (who->nid != node_) e.sender_node = place.number_of(who->nid);
  };
  if (x.sender) from(x.sender.get());
  auto& content = x.content();
  const auto kind_of_letter = [&](const message_type& type) {
    e.type = type.name;
    e.kind = x.mid.is_request() ? kind::request : x.mid.is_response() ? kind::answer : kind::message;
    if (&type == &message_type_of<async::error>) e.kind = kind::failure;
  };
  // the same number for a message whether it came from this node or another
  const auto hash = [](wire_writer& out, const auto& actors) {
    for (const auto& actor : actors) wire_write(out, actor ? actor_id_of(actor) : std::uint64_t{0});
    return fnv1a({reinterpret_cast<const char*>(out.bytes.data()), out.bytes.size()});
  };
  if (l) {
    kind_of_letter(*l->type);
    if (l->type->write) {
      wire_writer out;
      l->type->write(out, l->payload());
      e.content = hash(out, out.actors);
    }
  } else if (content.match_elements<envelope>()) {
    const auto& outside = content.get_as<envelope>(0);
    if (const auto* type = engine_.find_type(outside.type)) kind_of_letter(*type);
    wire_writer out;
    out.raw(outside.bytes.data(), outside.bytes.size());
    e.content = hash(out, outside.actors);
  } else if (content.match_elements<caf::timeout_msg>()) {
    e.kind = kind::timer;
  } else if (content.match_elements<caf::down_msg>()) {
    e.kind = kind::down;
    from(caf::actor_cast<caf::actor_control_block*>(content.get_as<caf::down_msg>(0).source));
  } else if (x.mid.is_response()) {
    e.kind = kind::failure;
  } else {
    e.kind = kind::stop;
  }
  place.log->add(e);
}

} // namespace godwit::runtime::detail
