#include <godwit/actors/node.hpp>

#include <algorithm>
#include <utility>

// Does what protocols::provisioning decides, and tells it what comes of it.
namespace godwit::actors {

using protocols::provisioning;
using runtime::async::task;
using std::chrono::nanoseconds;

protocols::provisioning_settings node::provisioning_of(const node_options& options) {
  protocols::provisioning_settings s;
  s.timeout_ns = options.scheduler.scaling.provision_timeout_ns;
  s.provider = options.provisioner != nullptr;
  s.takes_others = s.provider && options.provisioner->releases_others();
  s.here = options.provision_here;
  s.life = options.life;
  return s;
}

drain_answer node::drain(const drain_instance& order) {
  auto decision = decide(provisioning::drain_wanted{order.instance, order.drains, order.leaves});
  return drain_answer{std::move(decision.refusal), decision.later};
}

void node::carry_out(scaling_wish wish) {
  scaling_last_ = std::move(wish.why);
  decide(provisioning::scaling_wanted{wish.what, wish.instance});
}

node::decided node::decide(const provisioning::event& what) {
  decided out;
  const auto given_up = provisioning_.given_up_total();
  for (auto& effect : provisioning_.step(what, now().count()))
    std::visit([this, &out](auto& e) { perform(e, out); }, effect);
  if (options_.metrics) options_.metrics->orders_given_up.increment(provisioning_.given_up_total() - given_up);
  watch_orders();
  return out;
}

void node::perform(provisioning::tell_all&, decided& out) {
  out.told = true;
  announce();
}

void node::perform(provisioning::drain_instance& e, decided&) {
  if (const auto* m = keeper_of(e.instance)) tell(m->member, drain_instance{e.instance, e.drains, e.number});
}

void node::perform(provisioning::start_instance& e, decided&) {
  if (const auto* m = keeper_of(e.instance)) tell(m->member, activate_instance{e.instance, e.number});
}

void node::perform(provisioning::order_process& e, decided&) {
  if (options_.provisioner) start(order_process(e.order, std::move(e.name)));
}

// Says that it fails, or nothing: whether the process comes is seen by its joining.
task<void> node::order_process(std::uint64_t order, std::string name) {
  const auto begin = [this, &name](runtime::completer<std::string> failed) {
    options_.provisioner->order(name, [failed](std::string why) { failed(std::move(why)); });
  };
  const auto failure =
      co_await callback<std::string>(nanoseconds(options_.scheduler.scaling.provision_timeout_ns), begin);
  if (failure) decide(provisioning::order_failed{order, *failure});
}

void node::perform(provisioning::run_process& e, decided&) {
  auto o = options_of_member();
  o.key = e.key;
  o.llumlet.store.bytes = 0; // the process's is the first member's
  o.roles = {protocols::role_at(options_.roles, options_.roles.size())};
  const auto key = e.key;
  const auto whom = spawn<member>(std::move(o));
  further_members_[key] = whom;
  monitor(whom, [this, key](runtime::stop_reason why) {
    remove(key, to_string(why)); // while it is known as one of this process's
    further_members_.erase(key);
  });
}

void node::perform(provisioning::give_back& e, decided&) {
  if (options_.provisioner) options_.provisioner->release(e.name, e.instance);
}

void node::perform(provisioning::end_process& e, decided&) {
  if (const auto found = further_members_.find(e.key); found != further_members_.end())
    stop(found->second); // which leaves
}

void node::perform(provisioning::refuse& e, decided& out) {
  out.refusal = std::move(e.why);
  out.later = e.later;
}

void node::perform(provisioning::say& e, decided&) {
  options_.log.write(e.warning ? runtime::log::level::warning : runtime::log::level::info, "{}", e.text);
}

void node::watch_orders() {
  const auto next = provisioning_.next_deadline();
  if (!next || (watch_ && *watch_ <= *next)) return;
  start(wake_at(*next));
}

task<void> node::wake_at(std::int64_t when) {
  watch_ = when;
  try {
    co_await sleep_for(nanoseconds(std::max<std::int64_t>(0, when - now().count())));
  } catch (...) { // nobody watches
    watch_.reset();
    throw;
  }
  if (watch_ == when) watch_.reset();
  decide(provisioning::time_passed{});
}

} // namespace godwit::actors
