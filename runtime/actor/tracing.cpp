#include "actor/tracing.hpp"

#include "actor/actor_core.hpp"
#include "actor/engine.hpp"
#include "actor/envelope.hpp"
#include "actor/failures.hpp"
#include "actor/references.hpp"

#include <caf/actor_cast.hpp>
#include <caf/system_messages.hpp>

#include <utility>

namespace godwit::runtime::detail {

namespace {

using trace::message_kind;

message_kind kind_of(const message_type& type, caf::message_id mid) {
  if (&type == &message_type_of<async::error>) return message_kind::failure;
  if (mid.is_response()) return message_kind::answer;
  return mid.is_request() ? message_kind::request : message_kind::message;
}

} // namespace

bool is_beside(caf::mailbox_element& message, const letter* as_letter) {
  if (as_letter) return !message.sender && message.mid.is_response();
  return !message.content().match_elements<envelope>();
}

std::uint64_t key_of(const caf::node_id& node) { return fnv1a(caf::to_string(node)) | 1U; }

tracing::tracing(std::shared_ptr<trace::detail::recorder_core> core, const caf::node_id& node, std::string name)
    : core_(std::move(core)), here_(node), key_(key_of(node)) {
  // the first system of a recorder is its first process
  const auto known = core_->processes();
  if (known.front().key == 0) {
    core_->name_process(0, key_, std::move(name));
  } else {
    process_ = core_->process_by_key(key_, true);
    core_->name_process(process_, key_, std::move(name));
  }
}

std::uint16_t tracing::process_of(const caf::node_id& node) {
  if (node == here_) return process_;
  const std::lock_guard lock(mutex_);
  const auto found = known_.find(node);
  if (found != known_.end()) return found->second;
  const auto place = core_->process_by_key(key_of(node), false);
  if (place != core_->others()) known_[node] = place; // as many as there are places; another may get one later
  return place;
}

void tracing::made(stamp& mark) {
  auto& m = core_->at();
  if (!m.book) return;
  m.now.process = m.handling ? m.now.process : process_;
  mark.id = core_->new_number(m);
  mark.cause = m.current;
  mark.cause_process = process_;
  mark.outside = !m.handling || m.foreign;
}

trace::event tracing::birth() {
  trace::event out;
  out.kind = trace::event_kind::spawned;
  out.id = out.cause = {process_, 0};
  out.queued_ns = core_->now_ns();
  if (!core_->on()) return out;
  stamp mark;
  made(mark);
  out.id.number = mark.id;
  if (mark.cause != 0) out.cause = {mark.cause_process, mark.cause};
  out.outside = mark.outside;
  return out;
}

caf::mailbox_element_ptr tracing::queued(caf::mailbox_element_ptr message, std::atomic<std::uint32_t>& in,
                                         const std::atomic<std::uint32_t>& out) {
  stamp* mark = nullptr;
  auto* l = letter::of(*message);
  if (l) {
    mark = &l->mark;
  } else if (auto* marked = marked_element::of(*message)) {
    mark = &marked->mark;
  } else {
    auto* fresh = new marked_element(std::move(message), stamp{});
    message.reset(fresh);
    mark = &fresh->mark;
  }
  if (mark->id == 0) {
    made(*mark);
    // That somebody is gone, or will not answer, is said by whoever comes first to the end of an actor: it depends on
    // other threads, and must not shift the numbers of what its handler makes.
    // So it is with results of callbacks, which a device may give at once where it is stopped.
    auto& m = core_->at();
    if (mark->id != 0 && !m.foreign && is_beside(*message, l)) {
      auto* book = m.book;
      --book->next;
      mark->id = book->next_beside++;
    }
  }
  if (mark->id == 0) return message;
  mark->queued = core_->whole() ? ~core_->now_ns() : core_->ticks(); // as `begin` is taken
  mark->counted = true;
  // A message that was handled after recording was switched off is not counted out, and shows from then on.
  const auto gone = out.load(std::memory_order_relaxed);
  mark->depth = in.fetch_add(1, std::memory_order_relaxed) - gone;
  return message;
}

void tracing::leaves(letter& message, caf::actor_control_block* sender, const caf::actor_control_block& receiver) {
  auto& m = core_->at();
  if (message.mark.id == 0) made(message.mark);
  message.mark.queued = static_cast<std::int64_t>(key_);
  if (!m.book || message.mark.id == 0) return;
  trace::detail::slot s;
  s.kind = static_cast<std::uint8_t>(trace::event_kind::sent);
  s.message = static_cast<std::uint8_t>(kind_of(*message.type, message.mid));
  s.outside = message.mark.outside;
  s.process = s.cause_process = s.sender_process = process_;
  s.id = message.mark.id;
  s.cause = message.mark.cause;
  s.sender = sender ? sender->id() : 0;
  s.receiver = receiver.id();
  s.receiver_process = process_of(receiver.node());
  s.type = message.type;
  s.begin = s.end = core_->ticks();
  s.request = message.type->request(message.payload());
  s.wait = message.mid.request_id().integer_value();
  s.bytes = static_cast<std::uint32_t>(message.type->size);
  if (core_->keeps(m, s, [] { return std::string_view{}; })) m.book->last.put(s);
}

void tracing::describe(trace::detail::slot& s, caf::mailbox_element& x, const letter* l, const stamp& mark,
                       const actor_core& receiver, engine& e) {
  s = {};
  s.kind = static_cast<std::uint8_t>(trace::event_kind::delivery);
  s.id = mark.id;
  s.cause = mark.cause;
  s.cause_process = mark.cause_process;
  s.process = s.receiver_process = s.sender_process = process_;
  s.receiver = receiver.id();
  s.queued = mark.queued;
  s.depth = mark.depth;
  s.outside = mark.outside;
  const auto* from = !l && x.content().match_elements<envelope>() ? &x.content().get_as<envelope>(0) : nullptr;
  // Whoever says a cause records: it has its place before it is looked up as the sender.
  if (from && from->cause != 0) {
    s.cause = from->cause;
    s.cause_process = core_->process_by_key(from->process, true);
  }
  if (x.sender) {
    s.sender = x.sender->id();
    if (x.sender->node() != here_) s.sender_process = process_of(x.sender->node());
  }
  if (l) {
    s.message = static_cast<std::uint8_t>(kind_of(*l->type, x.mid));
    s.type = l->type;
    s.bytes = static_cast<std::uint32_t>(l->type->size);
    s.request = l->type->request(l->payload());
    s.wait = x.mid.request_id().integer_value();
    return;
  }
  auto& content = x.content();
  auto kind = message_kind::stop;
  if (from) {
    s.type = e.find_type(from->type);
    kind = s.type ? kind_of(*s.type, x.mid) : message_kind::message;
    s.bytes = static_cast<std::uint32_t>(from->bytes.size());
    s.wait = x.mid.request_id().integer_value();
    s.request = from->request;
  } else if (content.match_elements<caf::timeout_msg>()) {
    kind = message_kind::timer;
  } else if (content.match_elements<caf::down_msg>()) {
    kind = message_kind::down;
    const auto& down = content.get_as<caf::down_msg>(0);
    if (const auto* who = caf::actor_cast<caf::actor_control_block*>(down.source)) {
      s.sender = who->id();
      s.sender_process = process_of(who->node());
    }
  } else if (x.mid.is_response()) {
    kind = message_kind::failure;
    s.wait = x.mid.request_id().integer_value();
  }
  s.message = static_cast<std::uint8_t>(kind);
}

void tracing::keep_content(trace::event& out, caf::mailbox_element& x, const letter* l, engine& e) {
  out = {};
  letter_ptr opened;
  auto& content = x.content();
  if (!l) {
    if (content.match_elements<envelope>()) {
      opened = open_envelope(e, content.get_as<envelope>(0));
      l = opened.get();
    } else if (content.match_elements<caf::down_msg>()) {
      out.text = std::string(to_string(to_reason(content.get_as<caf::down_msg>(0).reason)));
    } else if (content.match_elements<caf::exit_msg>()) {
      out.text = std::string(to_string(to_reason(content.get_as<caf::exit_msg>(0).reason)));
    } else if (content.match_elements<caf::error>()) {
      out.text = to_error(content.get_as<caf::error>(0)).message;
    }
  }
  if (!l) return;
  if (l->type->print) {
    trace::text_writer text(core_->prompts());
    l->type->print(text, l->payload());
    out.text = std::move(text).take();
  }
  if (!core_->prompts() || !l->type->record) return;
  wire_writer bytes;
  l->type->record(bytes, l->payload());
  out.content.assign(reinterpret_cast<const char*>(bytes.bytes.data()), bytes.bytes.size());
  for (const auto& actor : bytes.actors)
    out.actors.push_back(actor ? trace::actor_id{process_of(block(actor)->node()), actor.id()} : trace::actor_id{});
}

void tracing::rest() noexcept {
  auto& m = trace::detail::here;
  if (m.core != core_.get()) return;
  core_->finish(m);
  m.current = 0;
  m.last_end = 0;
  m.handling = false;
  m.frozen_ns = -1;
}

handling::handling(tracing* t) : recorder_(t) {
  auto& m = trace::detail::here;
  if (!m.handling) return;
  before_ = std::make_unique<trace::detail::moment>(m);
  if (m.book) whole_ = std::exchange(m.book->whole, {});
  m = {};
}

handling::~handling() {
  recorder_->rest();
  if (!before_) return;
  trace::detail::here = *before_;
  if (before_->book) before_->book->whole = std::move(whole_);
}

} // namespace godwit::runtime::detail
