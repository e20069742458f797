#pragma once

#include "explore/device_timers.hpp"
#include "explore/effects.hpp"
#include "explore/hand.hpp"
#include "explore/shape.hpp"

#include <godwit/actors/cluster.hpp>
#include <godwit/actors/member.hpp>
#include <godwit/runtime/metrics/registry.hpp>
#include <godwit/runtime/sim/world.hpp>
#include <godwit/transport/sim/network.hpp>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace godwit::explore {

/// What of the link between two machines a fault cuts, seen from the first.
struct link_parts {
  bool there = false, back = false; ///< control messages
  bool blocks = false;              ///< both ways
};

/// A cluster of the production actors on several machines of a simulated world, and the means to do bad things to it.
///
/// Machine 0 is the head: front end, scheduler, node and perhaps instances. Others join it over the world's links; what
/// autoscaling orders are further ones. KV blocks go over a network of their own, which is cut together with the links.
class deployment {
public:
  /// `record`, called with the world's clock before the first actor: who records what they say; may be empty.
  using recorder_function = std::function<std::shared_ptr<runtime::trace::recorder>(const runtime::clock&)>;
  deployment(std::uint64_t seed, shape what, runtime::sim::event_log* log, runtime::log::logger logger,
             const recorder_function& record = {});
  deployment(const deployment&) = delete;
  deployment& operator=(const deployment&) = delete;
  ~deployment();

  [[nodiscard]] runtime::sim::world& world() noexcept { return world_; }
  [[nodiscard]] bool head_is_up() const noexcept { return cluster_ != nullptr; }
  /// Its process runs, and does not stand still.
  [[nodiscard]] bool can_answer() const;
  /// Only where the head is up.
  [[nodiscard]] actors::cluster& actors() noexcept { return *cluster_; }
  /// What the operator's hand does at the head of now.
  template <class Order> void order(Order what) {
    if (head_is_up()) machines_.front()->system->tell(hand_, std::move(what));
  }
  [[nodiscard]] const hand_journal& journal() const noexcept { return *journal_; }

  /// Further ones that were there from the start, and the head.
  [[nodiscard]] std::size_t machines() const noexcept { return shape_.machines.size() + 1; }
  /// One of all that there are now: a number beyond them is one of the others than the head, over again.
  [[nodiscard]] std::uint32_t machine_of(std::uint32_t number) const noexcept {
    const auto count = static_cast<std::uint32_t>(machines_.size());
    return number < count || count < 2 ? number : 1 + (number - 1) % (count - 1);
  }
  /// The way to the front end of one of the first machines; null: its process does not run, or it has none.
  [[nodiscard]] std::shared_ptr<actors::frontend_gate> gate(std::uint32_t which) const;
  /// Told when the front end of a machine other than the head has lost the head.
  std::function<void(std::uint16_t home)> on_head_lost;
  // Faults overlap: each that began has to be ended once, by the call that names it, and what several hold is free with
  // the last one's end. Those that give a bool say whether there was anything to strike; what struck nothing is not
  // ended.
  void cut(std::uint32_t a, std::uint32_t b, link_parts what);
  void heal(std::uint32_t a, std::uint32_t b, link_parts what);
  /// The longest delay of a link holds.
  void delay(std::uint32_t a, std::uint32_t b, std::chrono::nanoseconds extra);
  void end_delay(std::uint32_t a, std::uint32_t b, std::chrono::nanoseconds extra);
  [[nodiscard]] bool lose_acknowledgements(std::uint32_t which, std::uint32_t count);
  /// What holds blocks up that come to a machine.
  struct slowness {
    std::chrono::nanoseconds late{0}, open{0}; ///< on their way, and while they are written
    friend bool operator==(const slowness&, const slowness&) = default;
  };
  /// The slowest holds.
  void slow_blocks(std::uint32_t which, slowness by);
  void end_slow_blocks(std::uint32_t which, slowness by);
  /// The next so many landing places and sends of a machine, this one process's.
  [[nodiscard]] bool fail_posts(std::uint32_t which, std::uint64_t count);
  /// The `stretch`-th stretch of layers on this machine from now on ends with an error, also where its process is
  /// started anew meanwhile.
  void fail_step(std::uint32_t which, std::uint64_t stretch) { machines_[which]->step_fails_in = stretch; }
  /// So many of the models that are loaded from now on do not come; 0: none.
  void fail_loads(std::uint64_t count) { loads_fail_ = count; }
  /// Counts the processes that the machine has had: some faults end with the process that they struck.
  [[nodiscard]] std::uint64_t process(std::uint32_t which) const { return machines_[which]->process; }
  [[nodiscard]] bool freeze(std::uint32_t which);
  void thaw(std::uint32_t which, std::uint64_t process);
  [[nodiscard]] bool crash(std::uint32_t which, runtime::sim::crash_kind how);
  /// A crashed machine's process is started anew, as another one; nothing for one that runs.
  void restart(std::uint32_t which);
  [[nodiscard]] bool stop_member(std::uint32_t which);
  /// Where the member has been stopped.
  void restart_member(std::uint32_t which, std::uint64_t process);
  /// The scheduler, or the front end with its requests.
  [[nodiscard]] bool stop_child_of_head(bool scheduler);
  [[nodiscard]] bool jump_clock(std::uint32_t which, std::chrono::nanoseconds forward);
  /// The slowest of a device's paces holds, also when its machine's process is started anew.
  void slow_down(std::uint32_t which, std::uint64_t times);
  void end_slow(std::uint32_t which, std::uint64_t times);
  [[nodiscard]] bool stick(std::uint32_t which, std::chrono::nanoseconds lasts);
  /// The `pass`-th passing of a place in a migration from now on throws, of those that begin so; 0: none.
  void fail_coordinator(std::uint64_t pass, std::string_view where = {}) {
    coordinator_fails_in_ = pass;
    coordinator_fails_at_ = where;
  }
  /// So many of the orders that autoscaling gives from now on come to nothing; 0: none.
  void fail_orders(std::uint64_t count) { orders_fail_ = count; }
  /// The head, which is up, is asked how it is, by the operator's hand: the answer comes with the world's steps, in the
  /// journal.
  void ask_status() {
    journal_->status.reset();
    order(actors::status_query{true});
  }

  /// The machines as they were at the start: everything healed, thawed, started anew.
  void mend();

  /// True where every instance that the head knows takes requests, and machines have brought `instances` at least.
  [[nodiscard]] bool all_ready(std::size_t instances) const;
  /// Instances that the machines bring which have not been released.
  [[nodiscard]] std::size_t instances_expected() const;
  /// What is still held somewhere; empty: nothing. `status` is the head's.
  [[nodiscard]] std::string left_behind(const protocols::cluster_status& status);
  /// Where the scheduler's news of the instances differ from what they say themselves; empty: nowhere.
  [[nodiscard]] std::string scheduler_errs(const protocols::cluster_status& status);
  /// What the runtime complained about.
  [[nodiscard]] const std::vector<std::string>& complaints() const noexcept { return complaints_; }
  /// Every other instance has several devices, where the shape says so.
  [[nodiscard]] bool is_divided(protocols::instance_id id) const noexcept {
    return shape_.devices > 1 && id.value() % 2 == 1;
  }
  /// The layers of the others lie on several devices, where it says that.
  [[nodiscard]] bool is_staged(protocols::instance_id id) const noexcept {
    return shape_.stages > 1 && id.value() % 2 == 0;
  }
  /// Actors on all machines, and how many there should be with so many instances.
  [[nodiscard]] std::string miscounted_actors() const;
  /// Machines that autoscaling has ordered, that run, that bring no instance and are not given back.
  [[nodiscard]] std::string forgotten_machines(const protocols::cluster_status& status) const;
  /// What the cluster did, as far as it is seen from outside of requests.
  [[nodiscard]] effects seen() const;

private:
  struct machine {
    std::string name;
    std::uint32_t instances = 0;
    std::unique_ptr<device_timers> devices; // outlive the executors in the system
    std::unique_ptr<runtime::sim::system> system;
    std::shared_ptr<gpu::sim::sim_adapters> adapters; // of the process that runs, as its executors have them
    runtime::handle<actors::member_interface> member;
    std::shared_ptr<actors::frontend_gate> gate; ///< of its front end; null: it has none
    std::weak_ptr<transport::fabric> fabric;
    bool ordered = false;              ///< by autoscaling
    bool released = false;             ///< and given back
    std::uint64_t process = 0;         ///< number of the one that runs, or ran last
    std::uint32_t freezes = 0;         ///< that hold this process
    bool member_stopped = false;       ///< of this process
    std::vector<std::uint64_t> slow;   ///< paces that hold its devices
    std::vector<slowness> slow_blocks; ///< that hold up what comes to it
    std::uint64_t step_fails_in = 0, posts_fail = 0;
    [[nodiscard]] bool runs() const noexcept {
      return system && system->state() != runtime::sim::system::state_type::crashed;
    }
  };
  class processes;

  using machine_pair = std::pair<std::uint32_t, std::uint32_t>;
  void start_process(machine& m);
  void set_delay(machine_pair ends);
  static void set_pace(machine& m);
  void set_slow_blocks(const machine& m);
  void start_head();
  void start_member(machine& m);
  void bring_frontend(machine& m, actors::member_options& o);
  [[nodiscard]] std::shared_ptr<transport::disk> disk_of(machine& m);
  [[nodiscard]] actors::llumlet_options llumlet_of(machine& m);
  [[nodiscard]] actors::instance_options instance_of(machine& m);
  [[nodiscard]] machine* find(const std::string& name);
  void start_ordered(const std::string& name);
  void release(const std::string& name);
  void pass(std::string_view place);

  runtime::metrics::registry registry_; ///< of all machines; restarts go on counting
  shape shape_;
  actors::model_identity identity_;
  runtime::log::logger log_;
  runtime::sim::world world_;
  transport::sim::network blocks_;
  std::vector<std::string> complaints_;
  std::vector<std::unique_ptr<machine>> machines_; ///< the head first; ordered ones last
  std::unique_ptr<actors::cluster> cluster_;       ///< null: the head is down
  runtime::handle<hand_interface> hand_;
  std::shared_ptr<hand_journal> journal_ = std::make_shared<hand_journal>();
  std::uint64_t keys_ = 0;
  std::uint64_t coordinator_fails_in_ = 0;
  std::string_view coordinator_fails_at_; ///< the beginning of a name
  std::uint64_t orders_fail_ = 0, loads_fail_ = 0;
  std::map<machine_pair, std::uint32_t> ways_cut_;                       ///< from, to: by so many faults
  std::map<machine_pair, std::uint32_t> blocks_cut_;                     ///< the lower number first
  std::map<machine_pair, std::vector<std::chrono::nanoseconds>> delays_; ///< as before
  effects effects_;                                                      ///< that no metric counts
  std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);           ///< for timers of the world
};

} // namespace godwit::explore
