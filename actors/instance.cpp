#include <godwit/actors/instance.hpp>

#include "recorded_decisions.hpp"

#include <godwit/runtime/trace/recorder.hpp>

#include <algorithm>
#include <stdexcept>
#include <utility>

namespace godwit::actors {

using runtime::async::task;

instance::instance(runtime::actor_context context, instance_options options)
    : actor(context), options_(std::move(options)) {}

runtime::behavior_of<instance_interface> instance::make_behavior() {
  return {[this](load_model&) { return respond(load()); },
          [this](protocols::step_input& input) { return respond(execute(std::move(input))); }};
}

task<instance_facts> instance::load() {
  auto outcome = co_await callback<executor_outcome>([this](runtime::completer<executor_outcome> done) {
    options_.make_executor(options_.id, [done](executor_outcome made) { done(std::move(made)); });
  });
  if (!outcome) throw std::runtime_error(outcome.error().message);
  if (!outcome->made) throw std::runtime_error(outcome->error);
  executor_ = std::move(outcome->made);
  const auto& info = executor_->info();
  instance_facts facts;
  facts.device = info.device;
  facts.kv_layout = info.kv_layout;
  facts.blocks = info.blocks;
  facts.positions_max = info.positions_max;
  facts.vocabulary = info.vocabulary;
  facts.block_bytes = info.block_bytes;
  facts.weight_bytes = info.weight_bytes;
  facts.executor = executor_;
  co_return facts;
}

task<protocols::step_output> instance::execute(protocols::step_input input) {
  if (!executor_) throw std::runtime_error("the model is not loaded");
  if (busy_) throw std::logic_error("a step is in flight already");
  const struct claim {
    bool& held;
    explicit claim(bool& flag) : held(flag) { held = true; }
    ~claim() { held = false; }
  } one_at_a_time(busy_);
  auto span = begin_step_span(options_.id, input);
  const auto forward = executor_->begin(std::move(input));
  const auto layers = forward->layers();
  const auto stride = options_.layers_per_advance == 0 ? layers : options_.layers_per_advance;
  for (std::uint32_t done = 0; done < layers;) {
    done = std::min(layers, done + stride);
    auto error = co_await callback<std::string>([&forward, done](runtime::completer<std::string> finished) {
      forward->advance(done, [finished](std::string what) { finished(std::move(what)); });
    });
    if (!error) throw std::runtime_error(error.error().message);
    if (!error->empty()) {
      span.add("error", *error);
      span.end();
      throw std::runtime_error(*error);
    }
  }
  span.end();
  co_return runtime::trace::input<protocols::step_output>("device.output", [&] { return forward->take(); });
}

} // namespace godwit::actors
