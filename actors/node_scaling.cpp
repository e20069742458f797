#include <godwit/actors/node.hpp>
#include <godwit/protocols/policy/dispatch.hpp>
#include <godwit/protocols/policy/pairing.hpp>
#include <godwit/protocols/policy/scaling.hpp>

#include <algorithm>
#include <utility>

// Policies by name, drains, and what autoscaling wants.
namespace godwit::actors {

using runtime::async::task;
using std::chrono::nanoseconds;

namespace {

std::int64_t milliseconds_of(nanoseconds t) { return std::chrono::duration_cast<std::chrono::milliseconds>(t).count(); }

template <class Names> std::string unknown(const char* what, const std::string& name, const Names& known) {
  std::string list;
  for (const std::string_view one : known) list.append(list.empty() ? "" : ", ").append(one);
  return std::string("no ") + what + " is called '" + name + "'; known are " + list;
}

std::string numbered(protocols::instance_id id) { return "instance " + std::to_string(id.value()); }

} // namespace

// --- policies

// All of an order or nothing.
policy_answer node::set_policies(const policy_order& order) {
  policy_answer answer;
  auto& current = options_.scheduler.policies;
  answer.now = current;
  auto wanted = current;
  const auto refuse = [&](std::string why) {
    answer.error = std::move(why);
    return answer;
  };
  if (!order.dispatch.empty()) {
    const auto known = protocols::dispatcher_names();
    if (std::find(known.begin(), known.end(), order.dispatch) == known.end())
      return refuse(unknown("dispatch policy", order.dispatch, known));
    wanted.dispatch = order.dispatch;
  }
  if (!order.migration.empty()) {
    const auto policy = protocols::parse_migration_policy(order.migration);
    if (!policy) return refuse(unknown("migration policy", order.migration, protocols::migration_policy_names()));
    wanted.migration = *policy;
  }
  if (!order.paused.empty()) {
    if (order.paused != "yes" && order.paused != "no")
      return refuse("migration is paused (yes) or not (no), and not '" + order.paused + "'");
    wanted.migration_paused = order.paused == "yes";
  }
  if (!order.scaling.empty()) {
    const auto mode = protocols::parse_scaling_mode(order.scaling);
    if (!mode) return refuse(unknown("scaling mode", order.scaling, protocols::scaling_mode_names()));
    wanted.scaling = *mode;
  }
  if (wanted == current) return answer;
  current = wanted; // a restarted scheduler begins with them
  answer.now = wanted;
  options_.log.info("policies: dispatch {}, migration {}{}, scaling {}", wanted.dispatch, to_string(wanted.migration),
                    wanted.migration_paused ? " (paused)" : "", to_string(wanted.scaling));
  if (scheduler_) tell(scheduler_, wanted);
  return answer;
}

task<protocols::request_history> node::history(history_query query) {
  if (!frontend_) co_return protocols::request_history{};
  auto found = co_await ask(frontend_, options_.frontend.ask_timeout, std::move(query));
  co_return found ? std::move(*found) : protocols::request_history{};
}

// --- drains

std::string node::why_not_drain(protocols::instance_id id) const {
  const auto* p = find_pair(id);
  if (p == nullptr) return "there is no " + numbered(id);
  if (p->stopped && is_news(id, *p)) return numbered(id) + " is stopped";
  if (p->stopped || !p->ready || !p->llumlet) return numbered(id) + " is not ready";
  const auto all = view();
  const bool others = std::any_of(all.instances.begin(), all.instances.end(),
                                  [id](const auto& entry) { return entry.instance != id && entry.takes_requests(); });
  return others ? std::string() : numbered(id) + " is the last one that takes requests";
}

drain_answer node::drain(const drain_instance& order) {
  const auto* p = find_pair(order.instance);
  if (p == nullptr) return drain_answer{"there is no " + numbered(order.instance)};
  const bool stopped = p->stopped && is_news(order.instance, *p);
  const bool draining = !stopped && drains(order.instance, *p);
  if (!order.drains) {
    if (!draining && !stopped) return drain_answer{numbered(order.instance) + " is not being drained"};
    end_drain(order.instance);
    return {};
  }
  if (draining) {
    drains_[order.instance].by_hand = true; // autoscaling does not take it back any more
    return {};
  }
  if (auto why = why_not_drain(order.instance); !why.empty()) return drain_answer{std::move(why)};
  begin_drain(order.instance, true);
  return {};
}

void node::begin_drain(protocols::instance_id id, bool by_hand) {
  drains_[id].by_hand = by_hand;
  announce();
  tell_drain(id, true);
}

void node::tell_drain(protocols::instance_id id, bool drains) {
  tell(keeper_of(id)->member, drain_instance{id, drains, ordered_[id] = ++order_numbers_});
}

void node::tell_start(protocols::instance_id id) {
  tell(keeper_of(id)->member, activate_instance{id, ordered_[id] = ++order_numbers_});
}

bool node::is_news(protocols::instance_id id, const pair_entry& said) const {
  const auto last = ordered_.find(id);
  return last == ordered_.end() || said.order >= last->second;
}

bool node::drains(protocols::instance_id id, const pair_entry& said) const {
  return drains_.contains(id) || (said.draining && is_news(id, said));
}

// Or starts it again, where it has stopped.
void node::end_drain(protocols::instance_id id) {
  drains_.erase(id);
  announce();
  tell_drain(id, false);
}

// --- autoscaling

void node::carry_out(scaling_wish wish) {
  scaling_last_ = wish.why;
  scaling_failure_.clear();
  switch (wish.what) {
  case protocols::scaling_decision::kind::out:
    scale_out();
    return;
  case protocols::scaling_decision::kind::keep: {
    const auto record = drains_.find(wish.instance);
    const auto* p = find_pair(wish.instance);
    if (record != drains_.end() && !record->second.by_hand && p != nullptr && !p->stopped) end_drain(wish.instance);
    return;
  }
  case protocols::scaling_decision::kind::in:
    if (drains_.contains(wish.instance)) return;
    if (const auto why = why_not_drain(wish.instance); !why.empty())
      scaling_failed("cannot scale in: " + why);
    else
      begin_drain(wish.instance, false);
    return;
  }
}

// For the log, and for who asks how it stands.
void node::scaling_failed(std::string what) {
  options_.log.warning("{}", what);
  scaling_failure_ = std::move(what);
}

// One that an operator has stopped is not touched.
std::optional<protocols::instance_id> node::find_spare() const {
  for (const auto& m : members_) {
    if (!m.member) continue;
    for (std::uint32_t i = 0; i < m.instances; ++i) {
      const auto id = protocols::instance_id{m.first.value() + i};
      const auto drained = drains_.find(id);
      const bool taken = drained != drains_.end() && (drained->second.by_hand || drained->second.released);
      const bool ordered =
          std::any_of(orders_.begin(), orders_.end(), [id](const auto& o) { return o.node.empty() && o.spare == id; });
      // News of a member that has just joined are still on their way.
      const bool stopped = m.news > 0 && m.pairs[i].stopped && is_news(id, m.pairs[i]);
      if (stopped && !taken && !ordered) return id;
    }
  }
  return std::nullopt;
}

void node::scale_out() {
  constexpr std::size_t orders_max = 64; // autoscaling orders one at a time
  const auto spare = find_spare();
  if (orders_.size() >= orders_max || (!spare && !options_.provisioner && !options_.provision_here)) {
    scaling_failed(orders_.size() >= orders_max
                       ? "cannot scale out: too many instances are ordered already"
                       : "cannot scale out: no instance is stopped, and nobody provides others");
    return;
  }
  provision_order order;
  order.number = ++orders_total_;
  order.at = now();
  if (spare)
    order.spare = *spare;
  else
    order.node = "scaled-" + std::to_string(order.number);
  if (!spare && !options_.provisioner) order.key = ~order.number; // other processes draw theirs at random
  orders_.push_back(order);
  options_.log.info("scaling out: {} {}", spare ? "starting" : "ordering", spare ? numbered(*spare) : order.node);
  if (spare) drains_.erase(*spare);
  announce();
  start(spare ? await_spare(std::move(order)) : await_process(std::move(order)));
}

task<void> node::await_spare(provision_order order) {
  tell_start(order.spare);
  co_await sleep_for(nanoseconds(options_.scheduler.scaling.provision_timeout_ns));
  give_up(order.number, "it is not ready in time");
}

task<void> node::await_process(provision_order order) {
  const auto patience = nanoseconds(options_.scheduler.scaling.provision_timeout_ns);
  const auto begin = [this, &order](runtime::completer<std::string> failed) {
    if (order.key != 0) return order_here(order);
    options_.provisioner->order(order.node, [failed](std::string reason) { failed(std::move(reason)); });
  };
  const auto failure = co_await callback<std::string>(patience, begin);
  if (!failure && failure.error().code == runtime::async::error_code::aborted) // nothing went wrong; is it there?
    co_await sleep_for(std::max(nanoseconds{1}, patience - (now() - order.at)));
  give_up(order.number, failure ? std::string_view{*failure} : "it is not there in time");
}

node::provision_order* node::find_order(protocols::instance_id spare) {
  for (auto& order : orders_)
    if (order.node.empty() && order.spare == spare) return &order;
  return nullptr;
}

node::provision_order* node::find_order(const member_record& m) {
  for (auto& order : orders_)
    if (!order.node.empty() && (order.key != 0 ? order.key == m.key : m.key != own_key && order.node == m.address))
      return &order;
  return nullptr;
}

void node::order_here(const provision_order& order) {
  auto o = options_of_member();
  o.key = order.key;
  const auto key = order.key;
  const auto whom = spawn<member>(std::move(o));
  further_members_[key] = whom;
  monitor(whom, [this, key](runtime::stop_reason) { further_members_.erase(key); });
}

void node::release(std::uint64_t key, const std::string& process, std::optional<protocols::instance_id> instance) {
  if (const auto further = further_members_.find(key); further != further_members_.end())
    stop(further->second); // which leaves
  else if (options_.provisioner && key != own_key)
    options_.provisioner->release(process, instance);
}

void node::give_up(std::uint64_t number, std::string_view why) {
  const auto found = std::find_if(orders_.begin(), orders_.end(), [&](const auto& o) { return o.number == number; });
  if (found == orders_.end()) return; // it came
  const auto order = *found;
  orders_.erase(found);
  scaling_failed("gave up " + (order.node.empty() ? numbered(order.spare) : order.node) + " after " +
                 std::to_string(milliseconds_of(now() - order.at)) + " ms: " + std::string(why));
  if (order.key != 0)
    release(order.key, order.node, std::nullopt);
  else if (!order.node.empty())
    options_.provisioner->release(order.node, std::nullopt);
  else if (keeper_of(order.spare) != nullptr)
    tell_drain(order.spare, true); // stops at once what is not ready
  announce();
}

void node::note_arrival(const member_record& m) {
  if (auto* order = find_order(m)) order->there = true;
}

void node::note_pair(const member_record& m, protocols::instance_id id, const pair_entry& before,
                     const pair_entry& now_is) {
  if (auto* order = find_order(id)) order->there = !now_is.stopped;
  const bool became_ready = now_is.ready && !(before.ready && before.generation == now_is.generation);
  if (became_ready && !orders_.empty()) {
    auto* order = find_order(id);
    if (order == nullptr) order = find_order(m);
    if (order == nullptr && m.key != own_key) // a command may have started it under another name
      for (auto& o : orders_)
        if (order == nullptr && !o.node.empty() && o.key == 0 && !o.there && m.joined >= o.at) order = &o;
    if (order != nullptr) {
      options_.log.info("scaled out: {} takes requests {} ms after it was ordered", numbered(id),
                        milliseconds_of(now() - order->at));
      ++scaled_out_;
      orders_.erase(orders_.begin() + (order - orders_.data()));
    }
  }
  const auto drained = drains_.find(id);
  if (drained == drains_.end() || !now_is.stopped || drained->second.by_hand) return;
  if (!is_news(id, now_is) || std::exchange(drained->second.stopped, true)) return;
  ++scaled_in_;
  options_.log.info("scaled in: {} is stopped", numbered(id));
  const bool empty = std::all_of(m.pairs.begin(), m.pairs.end(), [](const auto& p) { return p.stopped; });
  if (m.key == own_key || !empty || (!options_.provisioner && !further_members_.contains(m.key))) return;
  for (std::uint32_t i = 0; i < m.instances; ++i) drains_[protocols::instance_id{m.first.value() + i}].released = true;
  release(m.key, m.address, id);
}

// It comes back, if at all, as it was at its start.
void node::note_departure(const member_record& m) {
  for (std::uint32_t i = 0; i < m.instances; ++i) {
    const auto id = protocols::instance_id{m.first.value() + i};
    drains_.erase(id);
    ordered_.erase(id);
    std::erase_if(orders_, [id](const auto& o) { return o.node.empty() && o.spare == id; });
  }
  if (const auto* order = find_order(m); order != nullptr && order->there)
    give_up(order->number, "its process is gone");
}

} // namespace godwit::actors
