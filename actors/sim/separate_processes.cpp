#include <godwit/actors/sim/simulated_cluster.hpp>

#include "sim/simulated_process.hpp"

#include <godwit/actors/member.hpp>

#include <algorithm>
#include <stdexcept>
#include <utility>

// Instances as processes of their own, and what can happen to them.
namespace godwit::actors::sim {

namespace {

/// From the end of a member that was released to that of its process.
constexpr std::chrono::milliseconds process_end_time{50};

} // namespace

void simulated_cluster::open_links() {
  world_.network().set_links(options_.processes.links);
  world_.network().set_detection(options_.processes.detection);
  if (!system_->publish(cluster_->node(), head_name, head_port)) throw std::logic_error("the head's port is taken");
}

// Members first: they say good-bye to a head that is there.
void simulated_cluster::end_processes() {
  system_->thaw();
  for (auto p = separate_.rbegin(); p != separate_.rend(); ++p)
    if (p->second->runs() && p->second->system->state() == runtime::sim::system::state_type::running)
      p->second->system->shutdown();
  separate_.clear();
}

void simulated_cluster::start_separate(const std::string& name) {
  auto& process = separate_[name];
  process = std::make_unique<simulated_process>();
  process->name = name;
  run_member(*process);
}

void simulated_cluster::run_member(simulated_process& process) {
  const auto& name = process.name;
  process.member = {};
  process.instance.reset();
  process.system.reset(); // of an earlier process on this machine nothing stays
  network_.thaw(name);
  process.system = make_system(name);
  process.devices = std::make_unique<device_timers>(process.system->timers(), process.times);
  auto o = member_of(name);
  o.find_head = [system = process.system.get()](const std::function<void(found_head)>& done) {
    system->find<node_interface>(head_name, head_port, std::chrono::seconds(1), done);
  };
  o.rejoin_max = options_.processes.rejoin_max;
  o.rejoin_min = std::min(o.rejoin_min, o.rejoin_max);
  o.instance = made_of_.instance;
  o.llumlet.migration.fabric = network_.make_fabric(name, process.system->timers());
  o.llumlet.store.disk = make_disk(process.system->timers());
  o.instance.make_executor = [&process, make = factory_on(*process.devices, process.system->timers(),
                                                          std::make_shared<bool>(false), o.llumlet.migration.fabric)](
                                 protocols::instance_id which, std::function<void(executor_outcome)> done) {
    process.instance = which;
    make(which, std::move(done));
  };
  process.member = process.system->spawn<member>(std::move(o));
}

void simulated_cluster::stop_separate(const std::string& name) {
  auto* const process = find(name);
  if (process == nullptr || process->released) return;
  count_times();
  --wanted_;
  process->released = true;
  if (process->runs()) process->system->tell(process->member, retire{});
  world_.timers().call_after(process_end_time, [this, alive = alive_, name] {
    if (!*alive) return;
    const auto found = separate_.find(name);
    if (found == separate_.end() || !found->second->released) return;
    if (found->second->runs()) found->second->system->crash(runtime::sim::crash_kind::reset);
    separate_.erase(found);
  });
}

simulated_process* simulated_cluster::find(const std::string& name) const {
  const auto found = separate_.find(name);
  return found == separate_.end() ? nullptr : found->second.get();
}

bool simulated_cluster::knows(const std::string& process) const {
  const auto* const found = find(process);
  return process == head_name || (found != nullptr && !found->released);
}

bool simulated_cluster::runs(const std::string& process) const {
  return process == head_name || (knows(process) && find(process)->runs());
}

void simulated_cluster::crash(const std::string& process, runtime::sim::crash_kind how) {
  auto* const found = find(process);
  if (found == nullptr || !found->runs()) return;
  found->system->crash(how);
  network_.freeze(process); // its fabric goes with it
  if (!found->instance) return;
  settle();
  gone_.insert(*found->instance);
  count_present();
}

void simulated_cluster::restart(const std::string& process) {
  auto* const found = find(process);
  if (found != nullptr && !found->released && !found->runs()) run_member(*found);
}

void simulated_cluster::cut(const std::string& a, const std::string& b) {
  world_.network().cut(a, b);
  network_.cut(a, b);
}

void simulated_cluster::heal(const std::string& a, const std::string& b) {
  world_.network().heal(a, b);
  network_.heal(a, b);
}

void simulated_cluster::freeze(const std::string& process) {
  if (!runs(process)) return;
  stand_still(process, true);
  network_.freeze(process);
}

void simulated_cluster::thaw(const std::string& process) {
  if (!runs(process)) return;
  stand_still(process, false);
  network_.thaw(process);
}

void simulated_cluster::stand_still(const std::string& process, bool frozen) {
  const bool head = process == head_name;
  auto& system = head ? *system_ : *find(process)->system;
  if (frozen)
    system.freeze();
  else
    system.thaw();
  if (!head) return;
  count_times();
  head_frozen_ = frozen;
}

void simulated_cluster::slow_down(const std::string& process, double times) {
  auto* const found = find(process);
  if (found == nullptr) return;
  found->times = times;
  found->devices->slow_down(times);
}

} // namespace godwit::actors::sim
