#include "explore/deployment.hpp"

#include "explore/books.hpp"
#include "explore/breakable.hpp"
#include "explore/requests.hpp"
#include "explore/scenario.hpp"

#include <godwit/gpu/drafted_executor.hpp>
#include <godwit/gpu/sim/sim_executor.hpp>
#include <godwit/gpu/sim/sim_stages.hpp>
#include <godwit/gpu/tensor_parallel.hpp>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <stdexcept>
#include <utility>

namespace godwit::explore {

using runtime::sim::system;
using std::chrono::nanoseconds;

namespace {

constexpr std::uint16_t head_port = 7700;
constexpr std::size_t complaints_max = 20;
constexpr std::uint32_t layers = 4;
constexpr std::chrono::milliseconds process_end_time{50};
constexpr double eos_share = 0.01;
constexpr double refrain = 0.5;

/// True where `left` counts down to 0.
bool strikes(std::uint64_t& left) { return left > 0 && --left == 0; }

/// Of the stages' devices: the first one is the fastest.
std::vector<double> uneven(std::uint32_t stages) {
  std::vector<double> out(stages, 1.0);
  out.front() = 2.5;
  return out;
}

/// The same replica on several devices: the first one has tokens and KV, all take the time of a step.
std::shared_ptr<gpu::executor> divided(std::shared_ptr<gpu::executor> first, const gpu::sim::latency_model& latency,
                                       runtime::timer_source& timers, std::shared_ptr<gpu::sim::sim_adapters> adapters,
                                       std::uint32_t degree) {
  const auto info = first->info();
  std::vector<std::shared_ptr<gpu::executor>> ranks{std::move(first)};
  gpu::sim::sim_model silent;
  silent.memory = gpu::sim::sim_memory::none;
  silent.adapters = std::move(adapters);
  if (const auto swap = ranks.front()->swap()) silent.swap.slots = swap->slots();
  while (ranks.size() < degree) ranks.push_back(gpu::sim::make_sim_executor(info, latency, timers, silent));
  return gpu::tensor_parallel::join_ranks(info, std::move(ranks));
}

} // namespace

/// Where autoscaling gets its processes from.
class deployment::processes final : public actors::provisioner {
public:
  explicit processes(deployment& owner) : owner_(owner) {}
  void order(const std::string& node, std::function<void(std::string)> failed) override {
    if (owner_.orders_fail_ > 0) {
      --owner_.orders_fail_;
      owner_.effects_.add(to_string(fault_kind::orders_fail));
      owner_.world_.timers().call_after(owner_.shape_.order_time, [failed = std::move(failed), alive = owner_.alive_] {
        if (*alive) failed("no machine is free");
      });
      return;
    }
    owner_.world_.timers().call_after(owner_.shape_.order_time, [&owner = owner_, alive = owner_.alive_, node] {
      if (*alive) owner.start_ordered(node);
    });
  }
  void release(const std::string& node, std::optional<protocols::instance_id>) override { owner_.release(node); }

private:
  deployment& owner_;
};

deployment::deployment(std::uint64_t seed, shape what, runtime::sim::event_log* log, runtime::log::logger logger,
                       const recorder_function& record)
    : shape_(std::move(what)), identity_{"0123456789abcdef", "f32", block_bytes_of(shape_), context_length},
      log_(std::move(logger)), world_(seed), blocks_(world_.timers(), shape_.fabric) {
  shape_.node.scheduler.metrics = std::make_shared<actors::scheduler_metrics>(registry_);
  shape_.node.frontend.metrics = std::make_shared<actors::frontend_metrics>(registry_);
  shape_.node.frontend.migrations = std::make_shared<actors::migration_metrics>(registry_);
  world_.log_to(log);
  if (record) world_.record_to(record(world_.clock()));
  world_.network().set_links(shape_.links);
  world_.network().set_detection(shape_.detection);
  machines_.push_back(std::make_unique<machine>());
  machines_.front()->name = "head";
  machines_.front()->instances = shape_.head_instances;
  start_process(*machines_.front());
  for (std::size_t i = 0; i < shape_.machines.size(); ++i) {
    auto& m = *machines_.emplace_back(std::make_unique<machine>());
    m.name = "machine-" + std::to_string(i + 1);
    m.instances = shape_.machines[i];
    start_process(m);
  }
}

deployment::~deployment() {
  *alive_ = false;
  world_.log_to(nullptr);
  cluster_.reset();
  // Members first: they say good-bye to a head that is there.
  for (auto m = machines_.rbegin(); m != machines_.rend(); ++m)
    if ((*m)->system && (*m)->system->state() == system::state_type::running) (*m)->system->shutdown();
}

void deployment::start_process(machine& m) {
  m.adapters.reset();
  m.gate.reset();
  m.system.reset(); // of an earlier process on this machine nothing stays
  m.devices.reset();
  blocks_.thaw(m.name);
  blocks_.drop_acknowledgements(m.name, 0);
  runtime::sim::system_settings settings;
  settings.name = m.name;
  settings.report = [this](std::string_view actor, std::string_view text) {
    if (text.find(injected) != std::string_view::npos) return;
    if (complaints_.size() < complaints_max) complaints_.push_back(std::string(actor) + ": " + std::string(text));
  };
  m.system = std::make_unique<system>(world_, std::move(settings));
  m.devices = std::make_unique<device_timers>(m.system->timers());
  auto adapters = shape_.adapters;
  adapters.hit = [this, alive = alive_](const char* what) { // also by those who hold some when all ends
    if (*alive) effects_.add(std::string("adapter ") + what);
  };
  m.adapters = std::make_shared<gpu::sim::sim_adapters>(*m.devices, std::move(adapters));
  ++m.process;
  m.posts_fail = 0;
  m.freezes = 0;
  m.member_stopped = false;
  set_pace(m);
  if (&m == machines_.front().get())
    start_head();
  else
    start_member(m);
}

actors::instance_options deployment::instance_of(machine& m) {
  auto out = shape_.node.instance;
  gpu::executor_info info;
  info.device = "sim";
  info.layers = layers;
  info.vocabulary = vocabulary;
  info.positions_max = context_length;
  info.blocks = shape_.blocks;
  out.on_layers = [this](protocols::instance_id, const std::vector<std::uint32_t>&, bool moved) {
    if (moved) effects_.add("layers moved");
  };
  out.make_executor = [info, latency = shape_.latency, load = shape_.load_time, this, &m, devices = m.devices.get()](
                          protocols::instance_id id, std::function<void(actors::executor_outcome)> done) {
    gpu::sim::sim_model model;
    model.eos = {2};
    model.eos_share = eos_share;
    model.refrain = refrain;
    model.adapters = m.adapters;
    model.swap = shape_.swap;
    if (const auto every = shape_.swap_fails_every; every > 0)
      model.swap.fails = [every, copies = 0U]() mutable { return ++copies % every == 0 ? injected : ""; };
    actors::executor_outcome made;
    if (loads_fail_ > 0) {
      --loads_fail_;
      effects_.add(to_string(fault_kind::load_fails));
      made.error = injected;
      devices->call_after(load, [done = std::move(done), made = std::move(made)] { done(made); });
      return;
    }
    const auto that_may_fail = [&](std::shared_ptr<gpu::executor> device, std::string_view effect) {
      return breakable(std::move(device), *devices, [this, &m, effect] {
        if (!effect.empty()) effects_.add(effect);
        if (!strikes(m.step_fails_in)) return false;
        effects_.add(to_string(fault_kind::step_fails));
        return true;
      });
    };
    const auto device_of = [&](const gpu::sim::latency_model& times, gpu::sim::sim_model says,
                               std::string_view effect) {
      return that_may_fail(gpu::sim::make_sim_executor(info, times, *devices, std::move(says)), effect);
    };
    if (is_staged(id))
      made.made = gpu::sim::make_sim_stages(
          info, latency, *devices, model, gpu::pipeline::cut_layers(layers, shape_.stages),
          {.wrap =
               [&](std::uint32_t stage, std::shared_ptr<gpu::executor> device) {
                 return that_may_fail(std::move(device), stage == 0 ? "a pipeline computed" : "");
               },
           .speeds = uneven(shape_.stages),
           .move_time = shape_.layer_move});
    else
      made.made = device_of(latency, model, {});
    if (is_divided(id)) made.made = divided(std::move(made.made), latency, *devices, m.adapters, shape_.devices);
    if (shape_.draft_right >= 0) {
      auto quicker = latency;
      quicker.base_us /= 10;
      model.right = shape_.draft_right;
      model.adapters = nullptr;
      model.swap.fails = {}; // the model's do
      made.made = gpu::make_drafted_executor(std::move(made.made),
                                             device_of(quicker, std::move(model), "a draft model computed"));
    }
    devices->call_after(load, [done = std::move(done), made = std::move(made)] { done(made); });
  };
  out.log = log_;
  return out;
}

std::shared_ptr<transport::disk> deployment::disk_of(machine& m) {
  if (shape_.disk.slots == 0 || shape_.node.llumlet.store.bytes == 0) return nullptr;
  auto disk = shape_.disk;
  disk.fails = [this, alive = alive_, every = shape_.disk_fails_every, calls = 0U](bool reads, std::uint32_t) mutable {
    if (every > 0 && ++calls % every == 0) return std::string(injected);
    if (*alive) effects_.add(reads ? "KV has come from a disk" : "KV has gone to a disk");
    return std::string();
  };
  return transport::sim::make_disk(std::move(disk), m.system->timers());
}

actors::llumlet_options deployment::llumlet_of(machine& m) {
  auto out = shape_.node.llumlet;
  fabric_hooks hooks;
  hooks.fails = [this, &m] {
    if (m.posts_fail == 0) return false;
    --m.posts_fail;
    effects_.add(to_string(fault_kind::post_fails));
    return true;
  };
  hooks.waited = [this, alive = alive_] { // also called by fabrics that end with us
    if (*alive) effects_.add("waited for a write");
  };
  auto fabric = breakable(blocks_.make_fabric(m.name, m.system->timers()), m.system->timers(), std::move(hooks));
  m.fabric = fabric;
  out.migration.fabric = std::move(fabric);
  out.store.disk = disk_of(m);
  out.migration.transfers = std::make_shared<std::atomic<std::uint64_t>>(0);
  out.migration.hit = [this](std::string_view place) { pass(place); };
  out.migration.log = log_;
  out.on_preempted = [this](protocols::request_id) { effects_.add("preempted"); };
  out.log = log_;
  return out;
}

void deployment::pass(std::string_view place) {
  if (place == "destination.expired") effects_.add("lease expired");
  if (place == "swap.out") effects_.add("swapped out");
  if (place == "swap.in") effects_.add("swapped in");
  if (place == "store.loading") effects_.add("KV is loaded");
  if (place == "store.loaded") effects_.add("KV has come");
  if (place == "store.put") effects_.add("KV has gone to the store");
  if (place == "store.let_go") effects_.add("KV was needed on its way to the store");
  if (coordinator_fails_in_ == 0 || !place.starts_with(coordinator_fails_at_) || --coordinator_fails_in_ > 0) return;
  effects_.add(to_string(fault_kind::coordinator));
  throw std::runtime_error(injected);
}

void deployment::start_head() {
  auto& m = *machines_.front();
  auto o = shape_.node;
  o.version = "explore";
  o.model = "sim";
  o.address = m.name;
  o.instances = shape_.head_instances;
  o.identity = identity_;
  o.instance = instance_of(m);
  o.llumlet = llumlet_of(m);
  o.llumlet.node_address = m.name;
  o.provisioner = std::make_shared<processes>(*this);
  o.log = o.scheduler.log = o.frontend.log = log_;
  cluster_ = std::make_unique<actors::cluster>(*m.system, std::move(o));
  if (!m.system->publish(cluster_->node(), m.name, head_port)) throw std::logic_error("the head's port is taken");
  journal_->open = 0; // what an earlier head was asked died with it
  hand_ = m.system->spawn<hand>(cluster_->node(), journal_);
}

void deployment::start_member(machine& m) {
  actors::member_options o;
  o.version = "explore";
  o.address = m.name;
  o.key = ++keys_;
  o.instances = m.instances;
  if (auto roles = shape_.node.roles; !roles.empty()) {
    const auto number = std::ranges::find(machines_, &m, &std::unique_ptr<machine>::get) - machines_.begin();
    std::ranges::rotate(roles, roles.begin() + number % static_cast<std::ptrdiff_t>(roles.size()));
    o.roles = std::move(roles);
  }
  o.model = identity_;
  o.find_head = [process = m.system.get()](const std::function<void(actors::found_head)>& done) {
    process->find<actors::node_interface>("head", head_port, std::chrono::seconds{1}, done);
  };
  o.rejoin_min = shape_.rejoin_min;
  o.rejoin_max = shape_.rejoin_max;
  o.ask_timeout = std::chrono::seconds{1};
  o.backoff_min = shape_.node.backoff_min;
  o.backoff_max = shape_.node.backoff_max;
  o.settled_after = shape_.node.settled_after;
  o.load_timeout = shape_.node.load_timeout;
  o.instance = instance_of(m);
  o.llumlet = llumlet_of(m);
  o.llumlet.node_address = m.name;
  o.log = log_;
  if (std::find_if(machines_.begin() + 1, machines_.end(), [&](const auto& one) { return one.get() == &m; }) -
          machines_.begin() <=
      static_cast<std::ptrdiff_t>(shape_.fronts))
    bring_frontend(m, o);
  m.member = m.system->spawn<actors::member>(std::move(o));
}

void deployment::bring_frontend(machine& m, actors::member_options& o) {
  o.frontend = shape_.node.frontend;
  o.frontend->log = log_;
  m.gate = std::make_shared<actors::frontend_gate>(*m.system);
  const auto home = static_cast<std::uint16_t>(1 + o.key % (protocols::nobodys_home - 1U)); // what it will choose
  o.on_topology = [this, gate = m.gate, home](const actors::topology& news) {
    const bool had = static_cast<bool>(gate->view().scheduler) || gate->view().instances.size() > 0;
    gate->update(news);
    if (!had || news.scheduler || news.instances.size() > 0) return;
    effects_.add("a front end has lost its head");
    if (on_head_lost) on_head_lost(home);
  };
}

std::shared_ptr<actors::frontend_gate> deployment::gate(std::uint32_t which) const {
  if (which == 0) return cluster_ ? cluster_->gate() : nullptr;
  return machines_[which]->runs() ? machines_[which]->gate : nullptr;
}

deployment::machine* deployment::find(const std::string& name) {
  for (auto& m : machines_)
    if (m->name == name) return m.get();
  return nullptr;
}

void deployment::start_ordered(const std::string& name) {
  if (auto* known = find(name); known != nullptr) {
    if (known->runs() && known->system->alive() > 0) return;
    known->released = false;
    return start_process(*known);
  }
  effects_.add("process ordered");
  auto& m = *machines_.emplace_back(std::make_unique<machine>());
  m.name = name;
  m.instances = 1;
  m.ordered = true;
  start_process(m);
}

void deployment::release(const std::string& name) {
  auto* m = find(name);
  if (m == nullptr || !m->ordered || m->released) return; // not one of ours
  m->released = true;
  effects_.add("process given back");
  if (m->runs()) m->system->tell(m->member, actors::retire{});
  // Then its process ends.
  world_.timers().call_after(process_end_time, [m, alive = alive_] {
    if (*alive && m->runs() && m->released) m->system->crash(runtime::sim::crash_kind::reset);
  });
}

void deployment::cut(std::uint32_t a, std::uint32_t b, link_parts what) {
  const auto &first = machines_[a]->name, &second = machines_[b]->name;
  if (what.there && ways_cut_[{a, b}]++ == 0) world_.network().cut_one_way(first, second);
  if (what.back && ways_cut_[{b, a}]++ == 0) world_.network().cut_one_way(second, first);
  if (what.blocks && blocks_cut_[std::minmax(a, b)]++ == 0) blocks_.cut(first, second);
}

void deployment::heal(std::uint32_t a, std::uint32_t b, link_parts what) {
  const auto &first = machines_[a]->name, &second = machines_[b]->name;
  const bool there = what.there && --ways_cut_[{a, b}] == 0;
  const bool back = what.back && --ways_cut_[{b, a}] == 0;
  if (there || back) { // the network heals both ways
    world_.network().heal(first, second);
    if (ways_cut_[{a, b}] > 0) world_.network().cut_one_way(first, second);
    if (ways_cut_[{b, a}] > 0) world_.network().cut_one_way(second, first);
  }
  if (what.blocks && --blocks_cut_[std::minmax(a, b)] == 0) blocks_.heal(first, second);
}

void deployment::delay(std::uint32_t a, std::uint32_t b, nanoseconds extra) {
  delays_[std::minmax(a, b)].push_back(extra);
  set_delay(std::minmax(a, b));
}

void deployment::end_delay(std::uint32_t a, std::uint32_t b, nanoseconds extra) {
  auto& all = delays_[std::minmax(a, b)];
  if (const auto found = std::find(all.begin(), all.end(), extra); found != all.end()) all.erase(found);
  set_delay(std::minmax(a, b));
}

void deployment::set_delay(machine_pair ends) {
  nanoseconds longest{0};
  for (const auto extra : delays_[ends]) longest = std::max(longest, extra);
  world_.network().delay(machines_[ends.first]->name, machines_[ends.second]->name, longest);
}

bool deployment::lose_acknowledgements(std::uint32_t which, std::uint32_t count) {
  blocks_.drop_acknowledgements(machines_[which]->name, count);
  return machines_[which]->runs();
}

void deployment::slow_blocks(std::uint32_t which, slowness by) {
  machines_[which]->slow_blocks.push_back(by);
  set_slow_blocks(*machines_[which]);
}

void deployment::end_slow_blocks(std::uint32_t which, slowness by) {
  auto& all = machines_[which]->slow_blocks;
  if (const auto found = std::find(all.begin(), all.end(), by); found != all.end()) all.erase(found);
  set_slow_blocks(*machines_[which]);
}

void deployment::set_slow_blocks(const machine& m) {
  slowness slowest;
  for (const auto& one : m.slow_blocks) slowest = {std::max(slowest.late, one.late), std::max(slowest.open, one.open)};
  blocks_.slow_writes(m.name, slowest.late, slowest.open);
}

bool deployment::fail_posts(std::uint32_t which, std::uint64_t count) {
  machines_[which]->posts_fail = count;
  return machines_[which]->runs();
}

bool deployment::freeze(std::uint32_t which) {
  auto& m = *machines_[which];
  if (!m.runs()) return false;
  if (m.freezes++ > 0) return true;
  m.system->freeze();
  blocks_.freeze(m.name);
  return true;
}

void deployment::thaw(std::uint32_t which, std::uint64_t process) {
  auto& m = *machines_[which];
  if (!m.runs() || m.process != process || m.freezes == 0 || --m.freezes > 0) return;
  m.system->thaw();
  blocks_.thaw(m.name);
}

bool deployment::crash(std::uint32_t which, runtime::sim::crash_kind how) {
  auto& m = *machines_[which];
  if (!m.runs()) return false;
  m.system->crash(how);
  blocks_.freeze(m.name);
  if (which == 0) cluster_.reset();
  return true;
}

void deployment::restart(std::uint32_t which) {
  auto& m = *machines_[which];
  if (!m.runs() && !m.released) start_process(m);
}

bool deployment::stop_member(std::uint32_t which) {
  auto& m = *machines_[which];
  if (!m.runs() || !m.member || m.member_stopped) return false;
  m.member_stopped = true;
  m.system->stop(m.member, runtime::stop_reason::killed);
  return true;
}

// Its process ends with it, and is started anew.
void deployment::restart_member(std::uint32_t which, std::uint64_t process) {
  auto& m = *machines_[which];
  if (!m.runs() || m.released || m.process != process || !m.member_stopped) return;
  m.system->crash(runtime::sim::crash_kind::reset);
  start_process(m);
}

bool deployment::stop_child_of_head(bool scheduler) {
  if (!cluster_) return false;
  const auto view = cluster_->gate()->view();
  auto& head = *machines_.front()->system;
  if (scheduler && view.scheduler) head.stop(view.scheduler, runtime::stop_reason::killed);
  if (!scheduler && view.frontend) head.stop(view.frontend, runtime::stop_reason::killed);
  return scheduler ? static_cast<bool>(view.scheduler) : static_cast<bool>(view.frontend);
}

bool deployment::can_answer() const {
  return cluster_ && machines_.front()->system->state() == system::state_type::running;
}

bool deployment::jump_clock(std::uint32_t which, nanoseconds forward) {
  auto& m = *machines_[which];
  if (m.runs()) m.system->jump_clock(forward);
  return m.runs();
}

void deployment::slow_down(std::uint32_t which, std::uint64_t times) {
  machines_[which]->slow.push_back(times);
  set_pace(*machines_[which]);
}

void deployment::end_slow(std::uint32_t which, std::uint64_t times) {
  auto& all = machines_[which]->slow;
  if (const auto found = std::find(all.begin(), all.end(), times); found != all.end()) all.erase(found);
  set_pace(*machines_[which]);
}

void deployment::set_pace(machine& m) {
  std::uint64_t slowest = 1;
  for (const auto times : m.slow) slowest = std::max(slowest, times);
  m.devices->slow_down(slowest);
}

bool deployment::stick(std::uint32_t which, nanoseconds lasts) {
  auto& m = *machines_[which];
  if (m.runs()) m.devices->stick_until(m.devices->now() + lasts);
  return m.runs();
}

void deployment::mend() {
  fail_coordinator(0);
  fail_orders(0);
  fail_loads(0);
  ways_cut_.clear();
  blocks_cut_.clear();
  delays_.clear();
  const auto count = static_cast<std::uint32_t>(machines_.size());
  for (std::uint32_t a = 0; a < count; ++a) {
    for (std::uint32_t b = a + 1; b < count; ++b) {
      world_.network().heal(machines_[a]->name, machines_[b]->name);
      blocks_.heal(machines_[a]->name, machines_[b]->name);
      set_delay({a, b});
    }
    auto& m = *machines_[a];
    blocks_.drop_acknowledgements(m.name, 0);
    m.step_fails_in = m.posts_fail = 0;
    m.slow_blocks.clear();
    set_slow_blocks(m);
    m.slow.clear();
    set_pace(m);
    m.devices->unstick();
    m.freezes = std::min(m.freezes, 1U);
    thaw(a, m.process);
    restart(a);
    restart_member(a, m.process);
  }
}

effects deployment::seen() const {
  auto out = effects_;
  const auto label = [](const runtime::metrics::labels& labels, std::size_t number) { return labels[number].second; };
  shape_.node.scheduler.metrics->scaling.each([&](const auto& labels, const auto& count) {
    out.add((label(labels, 1) == "true" ? "scaling dry " : "scaling ") + label(labels, 0), count.value());
  });
  shape_.node.frontend.metrics->dispatches.each([&](const auto& labels, const auto& count) {
    if (label(labels, 0) == "sibling") out.add("sample beside its sibling", count.value());
  });
  out.add("blocks were there", shape_.node.frontend.migrations->known_blocks.value());
  shape_.node.frontend.migrations->migrations.each([&](const auto& labels, const auto& count) {
    out.add("migration " + label(labels, 0), count.value());
    if (label(labels, 0) == "committed")
      out.add("moved by " + label(labels, 2), count.value());
    else
      out.add("migration " + label(labels, 1), count.value());
  });
  return out;
}

bool deployment::all_ready(std::size_t instances) const {
  if (!cluster_) return false;
  const auto view = cluster_->gate()->view();
  if (!view.frontend || !view.scheduler || view.instances.size() < instances) return false;
  if (view.frontends.size() < shape_.fronts) return false;
  return std::all_of(view.instances.begin(), view.instances.end(),
                     [](const auto& entry) { return entry.takes_requests(); });
}

std::size_t deployment::instances_expected() const {
  std::size_t sum = 0;
  for (std::size_t i = 0; i < machines(); ++i) sum += machines_[i]->instances;
  return sum;
}

std::string deployment::left_behind(const protocols::cluster_status& status) {
  std::string out;
  const auto name = [&out](const char* what, std::uint64_t count, std::uint32_t instance) {
    if (count > 0)
      out += std::string(what) + " " + std::to_string(count) + " at instance " + std::to_string(instance) + "; ";
  };
  for (const auto& instance : status.instances) {
    const auto id = instance.instance.value();
    if (instance.state != protocols::instance_state::ready)
      out += "instance " + std::to_string(id) + " is " + std::string(to_string(instance.state)) + "; ";
    const auto& load = instance.load;
    name("blocks", load.blocks_used, id);
    name("swapped blocks", load.swap_blocks_used, id);
    name("running", load.running, id);
    name("waiting", load.waiting, id);
    name("places kept", load.places_kept, id);
    name("parked", load.migrating, id);
    name("queued blocks", load.queued_blocks, id);
    name("headroom blocks", load.headroom_blocks, id);
    name("outstanding blocks", load.outstanding_blocks, id);
    name("waiting blocks", load.waiting_blocks, id);
    name("migrations", instance.migrations.size(), id);
    name("requests", instance.requests.size(), id);
  }
  if (status.requests_open > 0) out += "open requests " + std::to_string(status.requests_open) + "; ";
  for (const auto& m : machines_)
    if (const auto fabric = m->fabric.lock(); fabric && m->runs()) {
      const auto figures = fabric->figures();
      if (figures.postings_open > 0)
        out += "landing places at " + m->name + " " + std::to_string(figures.postings_open) + "; ";
      if (figures.sends_open > 0) out += "transfers of " + m->name + " " + std::to_string(figures.sends_open) + "; ";
    }
  for (const auto& m : machines_)
    if (m->runs() && m->adapters->holders() > 0)
      out += "adapters held at " + m->name + " " + std::to_string(m->adapters->holders()) + "; ";
  if (journal_->open > 0) out += "orders without an answer " + std::to_string(journal_->open) + "; ";
  return out + forgotten_machines(status) + miscounted_actors();
}

std::string deployment::forgotten_machines(const protocols::cluster_status& status) const {
  std::string out;
  for (const auto& m : machines_) {
    const bool in_use = std::ranges::any_of(status.instances, [&](const auto& i) { return i.node == m->name; });
    if (m->ordered && m->runs() && !m->released && !in_use)
      out += m->name + " runs for nothing and is not given back; ";
  }
  return out;
}

std::string deployment::scheduler_errs(const protocols::cluster_status& status) {
  const auto view = cluster_->gate()->view();
  if (!view.scheduler) return "there is no scheduler";
  const auto known = machines_.front()->system->ask(view.scheduler, std::chrono::seconds(1), actors::status_query{});
  if (!known) return "the scheduler does not answer: " + known.error().message;
  std::vector<protocols::load_report> loads;
  for (const auto& instance : status.instances) {
    const auto& load = instance.load;
    const auto found = std::find_if(known->reports.begin(), known->reports.end(),
                                    [&](const auto& report) { return report.instance == instance.instance; });
    const auto about = "the scheduler's report of instance " + std::to_string(instance.instance.value()) + " ";
    if (found == known->reports.end()) return about + "is missing";
    if (const auto* const told = view.find(instance.instance); told == nullptr || told->role != load.role)
      return "the scheduler's instance " + std::to_string(instance.instance.value()) +
             " has another role than its head says";
    auto same = *found;
    same.sequence = load.sequence;
    loads.push_back(load);
    if (same == load) continue;
    return about + "says " + std::to_string(found->steps_total) + " steps, " + std::to_string(found->blocks_used) +
           " blocks, generation " + std::to_string(found->generation) + "; it says " +
           std::to_string(load.steps_total) + ", " + std::to_string(load.blocks_used) + ", " +
           std::to_string(load.generation);
  }
  for (const auto& load : known->under_way)
    return "the scheduler still counts " + std::to_string(load.requests) + " dispatched requests with " +
           std::to_string(load.blocks) + " blocks and " + std::to_string(load.headroom) + " of headroom for instance " +
           std::to_string(load.instance.value());
  // A scheduler whose news grow stale before the next ones come knows nothing.
  const auto& of_scheduler = shape_.node.scheduler;
  if (of_scheduler.stale_after < 4 * shape_.node.llumlet.report_interval) return {};
  const auto mean = recounted_mean(loads, of_scheduler.scaling);
  if (std::abs(mean - known->scheduling.mean_freeness) > 1e-6)
    return "the scheduler goes by a freeness of " + std::to_string(known->scheduling.mean_freeness) +
           ", that of the instances is " + std::to_string(mean);
  return {};
}

// Node, scheduler, front end, the operator; a member for each machine with instances, and its shard of the KV store
// where they have them; two for each instance that is there, and one for each device of those that have several.
std::string deployment::miscounted_actors() const {
  if (!cluster_) return "no head; ";
  const auto view = cluster_->gate()->view();
  std::size_t expected = 4 + 2 * view.instances.size(), there = 0, members = 0;
  for (const auto& entry : view.instances)
    expected += is_divided(entry.instance) ? shape_.devices : is_staged(entry.instance) ? shape_.stages : 0;
  for (const auto& m : machines_) {
    if (!m->runs()) continue;
    there += m->system->alive();
    if (m->instances > 0 && !m->released) ++members;
    if (m->gate) ++expected;
  }
  const auto shards = shape_.node.llumlet.store.bytes > 0 ? members : 0;
  expected += members + shards;
  if (view.stores.size() != shards)
    return std::to_string(view.stores.size()) + " shards of the KV store are known instead of " +
           std::to_string(shards) + "; ";
  if (there == expected) return {};
  return std::to_string(there) + " actors instead of " + std::to_string(expected) + "; ";
}

} // namespace godwit::explore
