#include "step_run.hpp"

#include <godwit/runtime/operations.hpp>

#include <algorithm>
#include <stdexcept>
#include <string>
#include <utility>

namespace godwit::actors {

runtime::async::task<protocols::step_output> run_step(runtime::actor_context context, std::shared_ptr<gpu::executor> on,
                                                      protocols::step_input input, std::uint32_t stride,
                                                      runtime::trace::span span) {
  const auto forward = on->begin(std::move(input));
  const auto layers = forward->layers();
  if (stride == 0) stride = layers;
  for (std::uint32_t done = 0; done < layers;) {
    done = std::min(layers, done + stride);
    const auto advance = [&forward, done](runtime::completer<std::string> finished) {
      forward->advance(done, [finished](std::string what) { finished(std::move(what)); });
    };
    auto error = co_await runtime::callback_operation<std::string, decltype(advance)>{
        context, std::chrono::nanoseconds{0}, advance};
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
