#pragma once

#include <godwit/actors/interfaces.hpp>
#include <godwit/protocols/policy/dispatch.hpp>
#include <godwit/runtime/actor.hpp>
#include <godwit/runtime/log/logger.hpp>

#include <memory>
#include <string>

namespace godwit::actors {

struct scheduler_options {
  scheduling_policies policies; ///< at the start
  runtime::log::logger log;
};

/// Dispatches new requests by the load reports of the instances (Llumnix section 4.3). Knows no requests, so it may die
/// at any moment: front ends go on by a simple rule, and its successor rebuilds everything from the next reports.
class global_scheduler final : public runtime::actor<scheduler_interface> {
public:
  global_scheduler(runtime::actor_context context, scheduler_options options);
  [[nodiscard]] std::string_view name() const noexcept override { return "global_scheduler"; }
  [[nodiscard]] runtime::behavior_of<scheduler_interface> make_behavior() override;

private:
  scheduler_options options_;
  std::unique_ptr<protocols::dispatcher> dispatcher_;
  topology topology_;
};

} // namespace godwit::actors
