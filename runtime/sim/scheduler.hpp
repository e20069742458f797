#pragma once

#include "sim/endpoint.hpp"
#include "sim/virtual_clock.hpp"
#include "sim/world_state.hpp"

#include <caf/execution_unit.hpp>
#include <caf/scheduler/abstract_coordinator.hpp>

namespace godwit::runtime::sim::detail {

/// Takes the place of CAF's scheduler: jobs go to the world, which runs them one message at a time.
class scheduler final : public caf::scheduler::abstract_coordinator {
public:
  scheduler(caf::actor_system& system, world_state& world, node& owner);
  ~scheduler() override;
  void enqueue(caf::resumable* job) override { world_.push(node_, job); }
  virtual_clock& clock() noexcept override { return clock_; }
  bool detaches_utility_actors() const override { return false; }
  /// Runs the job for one message; what CAF counts on its references is done here.
  void run(caf::resumable* job);

protected:
  void init(caf::actor_system_config& config) override;
  void start() override;
  void stop() override;

private:
  class unit final : public caf::execution_unit {
  public:
    explicit unit(scheduler& s) : caf::execution_unit(&s.system()), scheduler_(s) {}
    void exec_later(caf::resumable* job) override { scheduler_.enqueue(job); }

  private:
    scheduler& scheduler_;
  };
  world_state& world_;
  node& node_;
  virtual_clock clock_;
  unit unit_;
  sim::detail::endpoint endpoint_;
};

} // namespace godwit::runtime::sim::detail
