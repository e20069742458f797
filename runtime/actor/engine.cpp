#include "actor/engine.hpp"

#include "actor/actor_core.hpp"
#include "actor/envelope.hpp"
#include "actor/failures.hpp"
#include "actor/protocol.hpp"
#include "actor/references.hpp"

#include <caf/actor_proxy.hpp>
#include <caf/exit_reason.hpp>
#include <caf/make_actor.hpp>
#include <caf/scheduler/abstract_coordinator.hpp>
#include <caf/send.hpp>

#include <algorithm>
#include <cstdio>

namespace godwit::runtime::detail {

namespace {

void print(std::string_view actor, std::string_view text) {
  std::fprintf(stderr, "%.*s: %.*s\n", static_cast<int>(actor.size()), actor.data(), static_cast<int>(text.size()),
               text.data());
}

} // namespace

engine::engine(const configure_function& configure, std::unique_ptr<runtime::clock> own_clock,
               const runtime::clock* clock, report_function report)
    : own_clock_(std::move(own_clock)), clock_(clock ? clock : own_clock_.get()),
      report_(report ? std::move(report) : report_function{print}) {
  config_.add_message_type<envelope>("godwit.envelope");
  configure(config_);
  register_types({&message_type_of<async::error>, &message_type_of<done>, &message_type_of<interface_query>,
                  &message_type_of<interface_description>});
  system_ = std::make_unique<caf::actor_system>(config_);
  // Bounded: whoever destroys a host has stopped the actors, or has waited long enough.
  system_->await_actors_before_shutdown(false);
}

engine::~engine() {
  { // actors that would not end go down with the system
    std::unordered_map<std::uint64_t, actor_ref> left;
    const std::lock_guard lock{mutex_};
    left.swap(alive_);
  }
  system_.reset();
}

// Not by the actor's own system, which may be gone.
bool engine::elsewhere(const actor_ref& whom) const noexcept { return block(whom)->nid != system_->node(); }

void engine::report(std::string_view actor, std::string_view text) const noexcept {
  try {
    report_(actor, text);
  } catch (...) {
  } // there is nobody left to tell
}

void engine::report_stray(std::string_view actor, std::string_view text) noexcept {
  try {
    std::optional<std::string> more;
    {
      const std::lock_guard lock{mutex_};
      more = strays_.tell(clock_->now());
    }
    if (more) report(actor, std::string(text) + *more);
  } catch (...) {
  } // no memory: there are more where it came from
}

actor_ref engine::spawn(actor_host& host, const actor_factory& make) {
  caf::actor_config config{system_->dummy_execution_unit()};
  trace::event birth;
  if (tracer) birth = tracer->birth();
  auto* const replay = tracer ? tracer->replay : nullptr;
  const auto id = replay ? replay->actor_id_for(birth.id.number, birth.outside) : system_->next_actor_id();
  auto ptr =
      caf::make_actor<actor_core, caf::strong_actor_ptr>(id, system_->node(), system_.get(), config, *this, host);
  auto* core = static_cast<actor_core*>(ptr->get());
  if (tracer) core->born(birth);
  core->adopt(make(actor_context{core}));
  auto ref = reference(std::move(ptr));
  {
    const std::lock_guard lock{mutex_};
    alive_.emplace(ref.id(), ref);
  }
  if (replay)
    replay->born(*core, birth.id.number);
  else
    core->launch(config.host, false, false);
  return ref;
}

actor_ref engine::find(std::uint64_t id) const {
  const std::lock_guard lock{mutex_};
  const auto found = alive_.find(id);
  return found == alive_.end() ? actor_ref{} : found->second;
}

void engine::send(const actor_ref& to, draft message) {
  if (!to) return;
  letter_ptr l{letter::of_payload(message.release())};
  if (!l->type->write && elsewhere(to))
    return report("outside", "cannot leave this node: " + std::string(l->type->name));
  if (tracer && tracer->on() && elsewhere(to)) tracer->leaves(*l, nullptr, *block(to));
  block(to)->enqueue(caf::mailbox_element_ptr{l.release()}, nullptr);
}

void engine::stop(const actor_ref& whom, stop_reason reason) {
  if (!whom) return;
  const auto why = reason == stop_reason::normal ? stop_reason::shutdown : reason;
  // a kill does not wait behind what is in the mailbox
  const auto priority = why == stop_reason::killed ? caf::message_priority::high : caf::message_priority::normal;
  block(whom)->get()->eq_impl(caf::make_message_id(priority), nullptr, nullptr, caf::exit_msg{nullptr, to_caf(why)});
}

void engine::stop_all(stop_reason reason) {
  std::vector<actor_ref> all;
  {
    const std::lock_guard lock{mutex_};
    for (const auto& [id, ref] : alive_) all.push_back(ref);
  }
  std::sort(all.begin(), all.end());
  for (const auto& ref : all) stop(ref, reason);
}

// CAF tells those who watch an actor's proxy when the connection to its node breaks. Where the node is reached through
// another one, there is no such connection.
void engine::declare_down(const actor_ref& whom) {
  if (!whom || !elsewhere(whom)) return;
  if (auto* proxy = dynamic_cast<caf::actor_proxy*>(block(whom)->get()))
    proxy->kill_proxy(system_->dummy_execution_unit(), caf::exit_reason::remote_link_unreachable);
}

std::size_t engine::alive() const {
  const std::lock_guard lock{mutex_};
  return alive_.size();
}

bool engine::wait_until_empty(std::chrono::milliseconds timeout) {
  std::unique_lock lock{mutex_};
  return empty_.wait_for(lock, async::bounded_wait(timeout), [&] { return alive_.empty(); });
}

void engine::ended(std::uint64_t id) noexcept {
  actor_ref last; // released after the lock
  const std::lock_guard lock{mutex_};
  const auto found = alive_.find(id);
  if (found == alive_.end()) return;
  last = std::move(found->second);
  alive_.erase(found);
  if (alive_.empty()) empty_.notify_all();
}

void engine::record(std::shared_ptr<trace::detail::recorder_core> with, std::string name) {
  if (own_clock_) { // not simulated: one clock for actors and recorder
    standing_ = std::make_unique<standing_clock>(with);
    clock_ = standing_.get();
    caf_zero_ = system_->scheduler().clock().now() - with->clock().now();
  }
  tracer = std::make_shared<detail::tracing>(std::move(with), system_->node(), std::move(name));
}

void engine::register_types(const std::vector<const message_type*>& types) {
  std::vector<const message_type*> doubled;
  {
    const std::lock_guard lock{mutex_};
    for (const auto* type : types) {
      const auto* const known = types_.emplace(type->id, type).first->second;
      if ((known->record || type->record) && two_types(*known, *type) && doubled_.insert(type->id).second)
        doubled.push_back(type);
    }
  }
  for (const auto* type : doubled)
    report("messages", "two message types are called " + std::string(type->name) +
                           "; what comes from other nodes is taken for the first: give each a namespace with a name");
}

const message_type* engine::find_type(std::string_view name) const { return find_type(fnv1a(name)); }

const message_type* engine::find_type(std::uint64_t id) const {
  const std::lock_guard lock{mutex_};
  const auto found = types_.find(id);
  return found == types_.end() ? nullptr : found->second;
}

} // namespace godwit::runtime::detail
