#include "sim/replayer.hpp"

#include "actor/actor_core.hpp"
#include "actor/engine.hpp"
#include "actor/failures.hpp"
#include "actor/protocol.hpp"
#include "actor/references.hpp"
#include "sim/world_state.hpp"

#include <caf/make_actor.hpp>
#include <caf/monitorable_actor.hpp>
#include <caf/node_id.hpp>
#include <caf/system_messages.hpp>

#include <algorithm>
#include <utility>

namespace godwit::runtime::sim::detail {

using runtime::detail::letter;
using runtime::detail::marked_element;
using runtime::detail::stamp;
using trace::event_kind;
using trace::message_kind;

namespace {

trace::recorder_settings everything() {
  trace::recorder_settings out;
  out.level = trace::level::content;
  out.prompts = true;
  out.events_per_thread = 1024;
  return out;
}

/// Somebody who is no actor here: it asked from outside, or lives in another process.
class stranger final : public caf::monitorable_actor {
public:
  explicit stranger(caf::actor_config& config) : caf::monitorable_actor(config) {}
  void enqueue(caf::mailbox_element_ptr, caf::execution_unit*) override {}
};

/// A node id that no system of this world has.
caf::node_id elsewhere(std::uint32_t process) {
  return *caf::make_node_id(process, "4444444444444444444444444444444444444444");
}

stop_reason reason_of(std::string_view text) {
  for (const auto reason :
       {stop_reason::normal, stop_reason::shutdown, stop_reason::killed, stop_reason::failed, stop_reason::unreachable})
    if (to_string(reason) == text) return reason;
  return stop_reason::shutdown;
}

} // namespace

replayer::replayer(trace::recording recorded, report_function report)
    : recorded_(std::move(recorded)), world_(1),
      recorder_(std::make_shared<trace::recorder>(trace::process{}, everything(), world_.clock())) {
  world_.record_to(recorder_);
  system_settings settings;
  settings.report = std::move(report);
  settings.name = recorded_.processes.front().name.empty() ? "replay" : recorded_.processes.front().name;
  system_ = std::make_unique<sim::system>(world_, std::move(settings));
  system_->engine().tracer->replay = this;
  for (const auto& e : recorded_.events) {
    by_id_.emplace(e.id.number, &e);
    if (e.kind == event_kind::delivery || e.kind == event_kind::spawned) order_.push_back(&e);
    if (e.kind == event_kind::note && recorded_.name_of(e).starts_with("input:")) inputs_[e.cause.number].push_back(&e);
    if (e.kind == event_kind::spawned && e.outside) roots_.push_back(&e);
  }
  std::stable_sort(order_.begin(), order_.end(), [](const event* a, const event* b) {
    return std::tuple{a->begin_ns, a->thread, a->first} < std::tuple{b->begin_ns, b->thread, b->first};
  });
  for (auto& [cause, list] : inputs_)
    std::sort(list.begin(), list.end(), [](const event* a, const event* b) { return a->id.number < b->id.number; });
  std::stable_sort(roots_.begin(), roots_.end(),
                   [](const event* a, const event* b) { return a->queued_ns < b->queued_ns; });
}

replayer::~replayer() {
  trace::detail::source_here = nullptr;
  // What they say when they are dropped is held, and goes with the rest.
  kept_.clear();
  objects_.clear();
  std::exchange(held_, {}).clear();
  std::exchange(held_beside_, {}).clear();
  held_.clear();
  held_beside_.clear();
  system_->engine().tracer->replay = nullptr;
  for (auto& [id, actor] : std::exchange(unborn_, {})) {
    caf::actor_config config{system_->engine().system().dummy_execution_unit()};
    static_cast<runtime::detail::actor_core*>(runtime::detail::block(actor)->get())->launch(config.host, false, false);
  }
  system_.reset();
}

void replayer::know(const std::vector<const message_type*>& types) { system_->engine().register_types(types); }

void replayer::hold(runtime::detail::actor_core& receiver, caf::mailbox_element_ptr message) {
  held one{runtime::detail::reference(caf::strong_actor_ptr{receiver.ctrl()}), std::move(message)};
  const auto* l = letter::of(*one.message);
  if (l && !runtime::detail::is_beside(*one.message, l))
    held_[l->mark.id] = std::move(one);
  else
    held_beside_.push_back(std::move(one));
}

std::uint64_t replayer::actor_id_for(std::uint64_t birth, bool outside) {
  if (outside && !roots_.empty()) {
    const auto* root = roots_.front();
    return root->receiver.id; // `born` takes it off
  }
  const auto found = by_id_.find(birth);
  if (found != by_id_.end() && found->second->kind == event_kind::spawned) return found->second->receiver.id;
  return ++spare_id_;
}

void replayer::born(runtime::detail::actor_core& actor, std::uint64_t birth) {
  if (!roots_.empty() && roots_.front()->receiver.id == actor.id()) {
    birth = roots_.front()->id.number;
    roots_.pop_front();
  }
  unborn_[birth] = runtime::detail::reference(caf::strong_actor_ptr{actor.ctrl()});
}

std::optional<std::string> replayer::take(std::string_view name) {
  if (!now_) return std::nullopt;
  const auto found = inputs_.find(now_->id.number);
  if (found == inputs_.end() || inputs_taken_ >= found->second.size()) return std::nullopt;
  const auto* kept = found->second[inputs_taken_++];
  if (recorded_.name_of(*kept) != "input:" + std::string(name)) return std::nullopt;
  return kept->content;
}

void replayer::run_ready() {
  while (world_.state().run_ready()) {
  }
}

replay_result replayer::run(const replay_limits& limits) {
  trace::detail::source_here = this;
  for (const auto* e : order_) {
    if (limits.stop_before && e->kind == event_kind::delivery && limits.stop_before(*e, recorded_.name_of(*e))) break;
    handle(*e);
    if (!result_.difference.empty()) break;
    ++result_.handled;
    result_.at = e->id;
    if (limits.until && e->id == limits.until) break;
  }
  trace::detail::source_here = nullptr;
  result_.complete = result_.difference.empty() && result_.handled == order_.size();
  return result_;
}

void replayer::handle(const event& e) {
  now_ = &e;
  inputs_taken_ = 0;
  world_.state().timers.advance(std::chrono::nanoseconds(e.begin_ns));
  recorder_->core()->at().book->next = e.first; // so that what is made gets the same numbers
  if (e.kind == event_kind::spawned)
    handle_spawned(e);
  else
    handle_delivery(e);
  if (result_.difference.empty()) compare(e);
  now_ = nullptr;
}

void replayer::handle_spawned(const event& e) {
  const auto found = unborn_.find(e.id.number);
  if (found == unborn_.end())
    return differs("an actor was not made", describe(e, recorded_.name_of(e)), "nobody made it");
  const auto actor = std::move(found->second);
  unborn_.erase(found);
  caf::actor_config config{system_->engine().system().dummy_execution_unit()};
  static_cast<runtime::detail::actor_core*>(runtime::detail::block(actor)->get())->launch(config.host, false, false);
  run_ready();
}

void replayer::handle_delivery(const event& e) {
  held what;
  const auto found = held_.find(e.id.number);
  if (found != held_.end()) {
    what = std::move(found->second);
    held_.erase(found);
  } else if (e.outside || recorded_.name_of(e).empty() || (!e.sender && e.wait != 0)) {
    what.receiver = system_->engine().find(e.receiver.id);
    what.message = e.outside ? from_outside(e) : of_runtime(e);
    if (!result_.difference.empty()) return;
  } else {
    return differs("a message was not sent", describe(e, recorded_.name_of(e)), "nobody sent it");
  }
  if (!what.receiver || what.receiver.id() != e.receiver.id)
    return differs("a message has another receiver", describe(e, recorded_.name_of(e)),
                   what.receiver ? "it went to @" + std::to_string(what.receiver.id()) : "its receiver is gone");
  auto* core = static_cast<runtime::detail::actor_core*>(runtime::detail::block(what.receiver)->get());
  core->take_in(std::move(what.message));
  run_ready();
}

caf::strong_actor_ptr replayer::actor_or_stranger(trace::actor_id who) {
  if (!who) return nullptr;
  if (who.process == 0)
    if (auto known = system_->engine().find(who.id)) return runtime::detail::strong(known);
  auto& there = strangers_[who];
  if (!there) {
    auto& caf_system = system_->engine().system();
    caf::actor_config config{caf_system.dummy_execution_unit()};
    // One of another process is elsewhere, so that what is sent to it takes a number for having left.
    const auto node = who.process == 0 ? caf_system.node() : elsewhere(who.process);
    there = caf::make_actor<stranger, caf::strong_actor_ptr>(who.id, node, &caf_system, config);
  }
  return there;
}

// Who hears of an actor's end depends on what other threads do at that moment. Where the replay has no such message, it
// is made as it was.
caf::mailbox_element_ptr replayer::of_runtime(const event& e) {
  for (auto i = held_beside_.begin(); i != held_beside_.end(); ++i) {
    if (i->receiver.id() != e.receiver.id) continue;
    auto& content = i->message->content();
    bool meant = false;
    auto* const l = letter::of(*i->message);
    if (l) {
      meant = e.wait != 0 && i->message->mid.is_response() && i->message->mid.request_id().integer_value() == e.wait &&
              l->type->name == recorded_.name_of(e);
    } else if (content.match_elements<caf::down_msg>()) {
      const auto* whom = caf::actor_cast<caf::actor_control_block*>(content.get_as<caf::down_msg>(0).source);
      meant = e.message == message_kind::down && whom && whom->id() == e.sender.id;
    } else if (content.match_elements<caf::exit_msg>()) {
      meant = e.message == message_kind::stop;
    } else {
      meant = i->message->mid.is_response() && i->message->mid.request_id().integer_value() == e.wait &&
              e.message == message_kind::failure;
    }
    if (!meant) continue;
    auto out = std::move(i->message);
    held_beside_.erase(i);
    auto* const marked = marked_element::of(*out);
    auto& mark = l ? l->mark : marked->mark;
    mark.id = e.id.number;
    mark.cause = e.cause.number;
    return out;
  }
  return from_outside(e);
}

caf::mailbox_element_ptr replayer::from_outside(const event& e) {
  stamp mark;
  mark.id = e.id.number;
  mark.cause = e.cause.number;
  mark.outside = e.outside;
  auto mid = caf::make_message_id(e.wait);
  if (e.message == message_kind::answer || (e.message == message_kind::failure && e.wait != 0)) mid = mid.response_id();
  auto sender = actor_or_stranger(e.sender);
  const auto& name = recorded_.name_of(e);
  if (!name.empty()) {
    const auto* type = system_->engine().find_type(name);
    std::vector<actor_ref> actors;
    for (const auto& who : e.actors) actors.push_back(runtime::detail::reference(actor_or_stranger(who)));
    if (!type || !type->restore) {
      differs("a message from outside cannot be made again", describe(e, name),
              type ? "its type keeps no content" : "its type is unknown here");
      return nullptr;
    }
    wire_reader in(std::as_bytes(std::span{e.content}), actors);
    runtime::detail::letter_ptr made{letter::make(*type)};
    made->constructed = false;
    type->restore(in, made->payload());
    made->constructed = true;
    if (!in.ok() || in.left() != 0) {
      differs("a message from outside cannot be made again", describe(e, name), "its content cannot be read");
      return nullptr;
    }
    made->sender = std::move(sender);
    made->mid = mid;
    made->mark = mark;
    return caf::mailbox_element_ptr{made.release()};
  }
  caf::message content;
  switch (e.message) {
  case message_kind::timer:
    content = caf::make_message(caf::timeout_msg{caf::atom("godwit"), 0});
    break;
  case message_kind::stop:
    content = caf::make_message(caf::exit_msg{nullptr, runtime::detail::to_caf(reason_of(e.text))});
    break;
  case message_kind::down:
    content = caf::make_message(caf::down_msg{caf::actor_cast<caf::actor_addr>(actor_or_stranger(e.sender)),
                                              runtime::detail::to_caf(reason_of(e.text))});
    sender = nullptr;
    break;
  default:
    content = caf::make_message(caf::make_error(caf::sec::request_receiver_down));
    break;
  }
  auto inner = caf::make_mailbox_element(std::move(sender), mid, {}, std::move(content));
  return caf::mailbox_element_ptr{new marked_element(std::move(inner), mark)};
}

} // namespace godwit::runtime::sim::detail
