#include <godwit/actors/llumlet.hpp>

#include <utility>

/// The llumlet's part in adapters: who is here holds what is computed for it.
namespace godwit::actors {

using runtime::async::task;

task<llumlet::adapter_answer> llumlet::hold(protocols::adapter_ref which, std::chrono::nanoseconds timeout) {
  adapter_answer answer;
  if (!which) co_return answer;
  if (!adapters_) {
    answer.reason = protocols::refusal::no_adapter;
    answer.why = "instance " + std::to_string(options_.id.value()) + " was started without adapters (--lora-dir)";
    co_return answer;
  }
  auto load = [this, &which](runtime::completer<gpu::adapter_outcome> done) {
    adapters_->load(which, [done](gpu::adapter_outcome outcome) { done(std::move(outcome)); });
  };
  auto outcome = co_await callback<gpu::adapter_outcome>(timeout, load);
  if (!outcome) {
    answer.reason = protocols::refusal::not_ready;
    co_return answer;
  }
  if (!outcome->held) {
    answer.reason = protocols::refusal::no_adapter;
    answer.why = "instance " + std::to_string(options_.id.value()) + ": " + outcome->error;
    co_return answer;
  }
  answer.adapter = {std::move(which), std::move(outcome->held)};
  co_return answer;
}

} // namespace godwit::actors
