#include "shard.hpp"

#include "recorded_decisions.hpp"
#include "step_run.hpp"

#include <stdexcept>
#include <utility>

namespace godwit::actors {

using runtime::async::task;

shard::shard(runtime::actor_context context, std::shared_ptr<gpu::executor> device, std::uint32_t index,
             std::uint32_t layers_per_advance)
    : actor(context), device_(std::move(device)), index_(index), layers_per_advance_(layers_per_advance) {}

runtime::behavior_of<shard_interface> shard::make_behavior() {
  return {[this](protocols::step_input& input) { return respond(execute(std::move(input))); }};
}

task<protocols::step_output> shard::execute(protocols::step_input input) {
  if (busy_) throw std::logic_error("a step is in flight already");
  const struct claim {
    bool& held;
    explicit claim(bool& flag) : held(flag) { held = true; }
    ~claim() { held = false; }
  } one_at_a_time(busy_);
  auto span = begin_part_span(index_, input);
  co_return co_await run_step(context(), device_, std::move(input), layers_per_advance_, std::move(span));
}

} // namespace godwit::actors
