#pragma once

#include <godwit/gpu/executor.hpp>
#include <godwit/runtime/async/task.hpp>
#include <godwit/runtime/context.hpp>
#include <godwit/runtime/trace/recorder.hpp>

#include <cstdint>
#include <memory>

namespace godwit::actors {

/// Runs one step on one device, on the context of the actor that owns it. `stride`: layers between two returns of
/// control; 0: all. `span`: ends with the step. Whoever drops the task abandons the step between two layers. Throws
/// std::runtime_error with what the device said.
[[nodiscard]] runtime::async::task<protocols::step_output> run_step(runtime::actor_context context,
                                                                    std::shared_ptr<gpu::executor> on,
                                                                    protocols::step_input input, std::uint32_t stride,
                                                                    runtime::trace::span span = {});

} // namespace godwit::actors
